"""`cgcl evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cgcl.cli.terminal import say_fact
from cgcl.errors import RunFolderError

__all__ = ["evaluate"]


def evaluate(
    run: Path,
    /,
    *,
    device: str = "auto",
    threads: int = 0,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> None:
    """Test a finished run again on the links that were held out from it.

    Args:
        run: A run folder, or a folder written by LinkPredictor.save.
        device: auto, cpu, cuda or cuda:N.
        threads: CPU threads; 0 takes the cores, at most 4.
        as_json: Print the figures as JSON instead of a table.
    """
    from cgcl.metrics import link_metrics
    from cgcl.predict import LinkPredictor
    from cgcl.settings import pick
    from cgcl.train.config import Resources
    from cgcl.train.execution import computing_with
    from cgcl.train.top_of_list import ranking_metrics

    predictor = LinkPredictor.load(run, device).set_params(threads=threads)
    if predictor.split_.test.shape[1] == 0:
        raise RunFolderError(
            f"{run} was trained without a test set (--test 0), so there is nothing to evaluate.\n"
            f"Train again with a share of links to test on, such as --test 0.1."
        )
    with computing_with(pick(Resources, predictor.get_params())):
        top = ranking_metrics(predictor.test_scorer(), predictor.split_, seed=predictor.seed)
    metrics, sampled = top.metrics | link_metrics(*predictor.test_scores()), top.sampling
    if as_json:
        more = {"sampled": sampled} if sampled else {}
        print(json.dumps(metrics | more, indent=2))  # noqa: T201
        return
    links = predictor.split_.test.shape[1]
    among = "among all nodes and all pairs, then " if top.metrics else ""
    say_fact("Test", f"{links:,} held-out links {among}against as many unlinked pairs")
    if sampled:
        say_fact("", f"{sampled['links']:,} of them, drawn at random, among all nodes")
    for name, value in metrics.items():
        error = f" ± {top.errors[name]:.6f}" if name in top.errors else ""
        print(f"{name:<16}{value:.6f}{error}")  # noqa: T201
