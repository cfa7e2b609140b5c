"""`cgcl evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from cgcl.cli.terminal import loaded, say_fact
from cgcl.errors import RunFolderError


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
    from cgcl.predict import evaluate_against
    from cgcl.settings import pick
    from cgcl.train.config import Resources
    from cgcl.train.execution import computing_with
    from cgcl.train.top_of_list import ranking_metrics

    predictor = loaded(run, device, threads)
    if predictor.split_.test.shape[1] == 0:
        raise RunFolderError(
            f"{run} was trained without a test set (--test 0), so there is nothing to evaluate.\n"
            f"Train again with a share of links to test on, such as --test 0.1."
        )
    held_out = f"{predictor.split_.test.shape[1]:,} held-out links"
    if against == "random":
        with computing_with(pick(Resources, predictor.get_params())):
            top = ranking_metrics(predictor.test_scorer(), predictor.split_, seed=predictor.seed)
        metrics, errors = top.metrics | link_metrics(*predictor.test_scores()), top.errors
        among = "among all nodes and all pairs, then " if top.metrics else ""
        facts = {"Test": f"{held_out} {among}against as many unlinked pairs"}
        if top.links is not None:
            facts[""] = f"{top.links:,} of them, drawn at random, among all nodes"
        found = metrics | ({"sampled": top.sampling} if top.sampling else {})
    else:
        harder = evaluate_against(predictor, against)
        metrics, errors, found = harder.metrics, harder.errors, harder.to_json()
        some = "" if harder.links is None else f"{harder.links:,} of "
        each = ", each" if harder.formulas else ""
        facts = {"Test": f"{some}{held_out}{each} against {harder.words}"}
    if as_json:
        print(json.dumps(found, indent=2))  # noqa: T201
        return
    for what, text in facts.items():
        say_fact(what, text)
    for name, value in metrics.items():
        error = f" ± {errors[name]:.6f}" if name in errors else ""
        print(f"{name:<16}{value:.6f}{error}")  # noqa: T201
