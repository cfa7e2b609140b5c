"""`cgcl evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from cgcl.cli.terminal import say_fact
from cgcl.errors import RunFolderError

if TYPE_CHECKING:
    from cgcl.predict import LinkPredictor


def evaluate(
    run: Path,
    /,
    *,
    against: Literal["random", "heart", "heart-released", "degree"] = "random",
    device: str = "auto",
    threads: int = 0,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> None:
    """Test a finished run again on the links that were held out from it.

    Args:
        run: A run folder, or a folder written by LinkPredictor.save.
        against: What to set the links against: random pairs, after all nodes and all pairs; heart
            for hard negatives of each link's own as HeaRT has them; heart-released for the same
            with the flaws of its released generator; degree for pairs whose ends have as many
            links as those of links do.
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
    if against != "random":
        _evaluate_against(predictor, against, as_json=as_json)
        return
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


def _evaluate_against(
    predictor: LinkPredictor,
    against: Literal["heart", "heart-released", "degree"],
    *,
    as_json: bool,
) -> None:
    """Print how the test links fare against harder negatives."""
    from cgcl.predict import evaluate_against

    found = evaluate_against(predictor, against)
    if as_json:
        print(json.dumps(found.to_json(), indent=2))  # noqa: T201
        return
    links = predictor.split_.test.shape[1]
    some = "" if found.links is None else f"{found.links:,} of "
    each = ", each" if found.formulas else ""
    say_fact("Test", f"{some}{links:,} held-out links{each} against {found.words}")
    for name, value in found.metrics.items():
        error = f" ± {found.errors[name]:.6f}" if name in found.errors else ""
        print(f"{name:<16}{value:.6f}{error}")  # noqa: T201
