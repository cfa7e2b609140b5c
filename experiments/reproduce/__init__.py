"""The paper: what it claims, and what becomes of its claims and figures by the runs of a study.

`cgcl reproduce` loads this from a checkout, or from the copy that a wheel brings with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from cgcl.errors import ConfigError
from cgcl.experiments.study import Chosen, Record

from . import claims
from .page import Reproduced


def claims_markdown(found: Mapping[str, Record], chosen: Chosen) -> str:
    """Return what became of each claim.

    Args:
        found: What came out of all experiments, by key.
        chosen: The settings of each graph that runs were made with.
    """
    return claims.claims_markdown(Reproduced(found, chosen))


def drawing() -> ModuleType:
    """Return what draws figures.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        from . import figures
    except ImportError as error:
        raise ConfigError('Figures need matplotlib: pip install "cgcl[figures]"') from error
    return figures
