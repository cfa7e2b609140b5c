"""The page of results in a few lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from cgcl_paper.claims import summary
from cgcl_paper.page import Reproduced

from cgcl.experiments.study import NAMES, CellId, Job, Record, Selection, jobs_of, read_experiment

from .conftest import CHOSEN

Lines = Callable[[Sequence[str], Callable[[CellId, Job], float]], dict[str, str]]


@pytest.fixture
def lines(scored: Callable[..., Record]) -> Lines:
    """Return the answers by their question, with made-up AUC in percent."""

    def answers(names: Sequence[str], number: Callable[[CellId, Job], float]) -> dict[str, str]:
        found: dict[str, Record] = {}
        for name in names:
            for place, jobs in jobs_of(read_experiment(name), Selection(), CHOSEN).items():
                for job in jobs:
                    found.setdefault(job.key, scored(job, number(place, job)))
        text = summary(Reproduced(found, CHOSEN), NAMES)
        parts = [line.removeprefix("- **").split("** ", 1) for line in text.splitlines()]
        return dict(parts)

    return answers


def noise(job: Job) -> float:
    return 0.1 * (job.split_seed % 7)


def test_without_runs_it_says_so(lines: Lines) -> None:
    told = lines([], lambda *_: 0.0)
    assert told["Is it the best?"] == "No comparison has enough splits to be tested yet."
    assert told["Is it the second view?"] == told["Is it stable?"] == "Not run yet."
    assert "0 of 200 runs" in told["Does CGCL reach the printed numbers?"]
    assert "10 of 10 runs of `fig4`" in told["What is missing?"]


def test_who_is_ahead_and_who_is_behind(lines: Lines) -> None:
    def number(place: CellId, job: Job) -> float:
        better = {"cgcl": 1.0, "maskgae": 3.0 if place.graph == "citeseer" else 0.0}
        return 90 + better.get(place.row, 0.0) + noise(job) + 0.01 * (job.split_seed % 3)

    told = lines(["table1"], number)["Is it the best?"]
    # Six rows and five graphs, two shares and two metrics; eight cells have too few runs.
    assert told.startswith("Over splits CGCL is ahead in 100 of 104 comparisons")
    assert "behind in 4: MaskGAE on CiteSeer 10 % (AUC -2.00, AP -2.00) and " in told


def test_what_the_second_view_is_worth(lines: Lines) -> None:
    worth = {"one-equal": 0.25, "own": -1.5}
    told = lines(["table2"], lambda place, job: 90 + worth.get(place.row, 0) + noise(job))
    assert told["Is it the second view?"] == (
        "With as many optimizer steps, the AUC of two views minus that of one is -0.250 points on "
        "average (-0.25 to -0.25). To be asked for each other and not for themselves is worth "
        "+1.50 to +1.50."
    )


def test_which_rates_collapse(lines: Lines) -> None:
    def number(_: CellId, job: Job) -> float:
        return 50 if job.recipe.settings.lr == 0.05 else 95  # type: ignore[attr-defined]

    told = lines(["fig2", "fig3"], number)
    assert told["Is it stable?"] == (
        "48 of 192 runs over the grid of d_v and r collapsed: 48 with r = 0.05."
    )
    stable = lines(["fig2", "fig3"], lambda *_: 95)
    assert stable["Is it stable?"] == "None of 192 runs over the grid of d_v and r collapsed."
    assert "fig2" not in stable["What is missing?"]
    assert "644 of 644 runs of `table1 --protocol splits`" in stable["What is missing?"]
