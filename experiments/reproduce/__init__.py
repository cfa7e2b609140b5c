"""The paper: what it claims, and what becomes of its claims and figures by the runs of a study.

`cgcl reproduce` loads this from a checkout, or from the copy that a wheel brings with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cgcl.experiments.reproduction import TRACE
from cgcl.experiments.study import Chosen, Experiment, Record

from . import claims
from .figures import convergence_figure, sensitivity_figure, write_figure
from .page import Reproduced

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["claims_markdown", "figure_of", "write_figure"]


def claims_markdown(found: Mapping[str, Record], chosen: Chosen) -> str:
    """Return what became of each claim.

    Args:
        found: What came out of all experiments, by key.
        chosen: The settings of each graph that runs were made with.
    """
    return claims.claims_markdown(Reproduced(found, chosen))


def figure_of(experiment: Experiment, records: Sequence[Record], note: str = "") -> Figure:
    """Draw an experiment that is a figure of the paper.

    Args:
        experiment: What was run.
        records: What came out.
        note: A sentence that goes with all of it, such as that trainings were cut short.

    Raises:
        ConfigError: What draws is not installed.
    """
    if TRACE in {measure for row in experiment.rows for measure in row.measures}:
        return convergence_figure(records, note)
    return sensitivity_figure(records, note)
