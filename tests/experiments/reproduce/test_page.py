"""Parts of the page of results."""

import pytest
from cgcl_paper import page
from cgcl_paper.claims import summary
from cgcl_paper.page import Reproduced

from cgcl.experiments import study
from cgcl.experiments.study import NAMES, CellId
from cgcl.experiments.tables import Cell


def cell(mean: float | None, sd: float | None = None, published: float = 97.0) -> Cell:
    difference = None if mean is None else round(mean - published, 2)
    values = () if mean is None else (mean,) * 10
    place = CellId("cgcl", "cora", 10, "paper")
    return Cell(place, "auc", values, 10, mean, sd, (published, 0.1), difference)


@pytest.mark.parametrize(
    ("own", "splits", "expected"),
    [
        (cell(None), None, "not run"),
        (cell(97.0), None, "above"),
        (cell(96.5), None, "within 0.5"),
        (cell(96.49), None, "below by more than 0.5"),
        (cell(96.0), cell(96.4, 0.3), "within 2 sd over splits"),  # 96.4 + 0.6 = 97.0
        (cell(96.0), cell(96.4, 0.2), "below by more than 0.5"),
        (cell(96.0), cell(96.4), "below by more than 0.5"),  # one run has no deviation
    ],
)
def test_when_a_cell_counts_as_reproduced(own: Cell, splits: Cell | None, expected: str) -> None:
    assert page.verdict_on(own, splits) == expected


def test_the_papers_own_grid_is_its_16_settings_and_validation_links_choose(scored) -> None:
    """97.00 and 97.34 are printed: 97.0 is reached, 96.9 is 0.44 below."""
    places = study.jobs_of(study.read_experiment("grid"), study.Selection(), {})
    found = {}
    for place, jobs in places.items():
        own = jobs[0].recipe.settings if place.row.startswith("cgcl") else None
        if own is None or (place.graph, place.test) != ("cora", 10):
            continue
        best = (own.hidden, own.lr, own.input_dropout) == (256, 0.005, 0.8)
        val = 0.98 if best else 0.97 + 0.02 * (own.input_dropout != 0.8)  # the others do not count
        metrics = {"auc": 0.97, "ap": 0.969} if best else {"auc": 0.99, "ap": 0.99}
        found[jobs[0].key] = scored(jobs[0], 0, val={"auc": val}, metrics=metrics)
    assert len(found) == 48
    text = page.level_of_paper_grid(Reproduced(found, {}))
    assert "| Cora | 10 % | AUC | 97.00 | 97.00 | 0.00 | above | d_v = 256, r = 0.005 |" in text
    assert "| Cora | 10 % | AP | 97.34 | 96.90 | -0.44 | within 0.5 | d_v" in text
    assert "of 2 cells 1 above, 1 within 0.5; one run for each graph and share" in text
    asked = {key: own for key, own in found.items() if own.settings["input_dropout"] == 0.8}
    del found[next(iter(asked))]
    assert page.of_paper_grid(Reproduced(found, {})) == "The paper's own grid has not been run."


def test_without_runs_the_page_says_so() -> None:
    nothing = Reproduced({}, {})
    assert page.table(nothing, "table2") == "Not run yet."
    # Table I has two protocols.
    assert page.progress(nothing).count("| 0 |") == len(NAMES) + 1
    assert "`cgcl reproduce table1 --protocol splits`: Table I" in page.progress(nothing)
    assert page.level(nothing).endswith("Of 0 cells, nothing has been run.")
    assert page.devices(nothing) == ""
    assert page.choices(nothing).count("\n") == 1  # a head and no row
    assert page.repeats(nothing) == "No training was made twice."
    told = summary(nothing)
    assert "No comparison has enough splits to be tested yet." in told
    assert "10 of 10 runs of `fig4`" in told
