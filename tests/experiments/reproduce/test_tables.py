"""Tables as text, from hand-made cells."""

from dataclasses import replace

import pytest

from cgcl.experiments.statistics import Difference
from cgcl.experiments.study import CellId
from cgcl.experiments.tables import Cell, Paired, Table, csv, latex, markdown, markdown_table

from .conftest import row, toy

DASH = "\N{EN DASH}"
TITLES = {"cora": "Cora", "photo": "Photo"}
ROWS = {"cgcl": "CGCL", "vgae": "VGAE", "seal": "SEAL"}
TOY = toy(*(row(name, title=own) for name, own in ROWS.items()), title="Table I: a toy", runs=10)


def cell(name, mean, *, graph="cora", metric="auc", runs=10, published=97.0, **changes):
    given = {"values": (), "mean": mean, "sd": None, "published": None, "difference": None}
    if mean is not None:
        given |= {"values": (mean,) * runs, "sd": 0.514}
    if published is not None:
        given["published"] = (published, 0.15)
        given["difference"] = None if mean is None else round(round(mean, 2) - published, 2)
    place = CellId(name, graph, 10, "paper")
    return Cell(**{"place": place, "metric": metric, "asked": 10, **given, **changes})


def table(*cells, paired=(), of=TOY):
    return Table(of, cells, paired, TITLES)


def rows_of(text):
    """Return the rows of the Markdown tables as lists of cells, rules left out."""
    return [
        [own.strip() for own in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|") and not line.startswith("| -")
    ]


PHOTO = {"graph": "photo", "published": None}


@pytest.mark.parametrize(
    ("cells", "rows", "told"),
    [
        pytest.param(
            [cell("cgcl", 96.87, runs=1, sd=None, asked=1, published=None)],
            [["AUC", "Cora"], ["CGCL", "96.87"]],
            "Percent, one run.\n",
            id="a single run without published number",
        ),
        pytest.param(
            [
                cell("cgcl", None),
                cell("cgcl", 90.0, **PHOTO),
                cell("vgae", None, failed=2),
                cell("seal", 91.0, **PHOTO),
            ],
            [
                ["AUC", "Cora", "Photo"],
                ["CGCL", "not run (97.00)", "90.00 ± 0.51"],
                ["VGAE", "failed (97.00)", DASH],
                ["SEAL", DASH, "**91.00 ± 0.51**"],
            ],
            " A dash: not planned.\n",
            id="what is missing",
        ),
    ],
)
def test_what_stands_in_a_table_and_below_it(cells, rows, told):
    text = markdown(table(*cells))
    assert text.startswith("# Table I: a toy\n\n## One split for all runs")
    assert rows_of(text) == rows
    assert told in text


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"runs": 8, "failed": 2}, "8 of 10 runs so far, 2 failed."),
        (
            {"stopped": ("time limit", "time limit")},
            "2 of 10 runs ended before the last epoch: time limit. The best epoch counts.",
        ),
    ],
)
def test_runs_that_are_missing_or_cut_short_have_a_footnote(changes, note):
    text = markdown(table(cell("cgcl", 97.0), cell("vgae", 96.0, **changes)))
    assert rows_of(text)[2][0] == "VGAE ⁽¹⁾"
    assert text.endswith(f"- ⁽¹⁾ {note}\n")
    assert "⁽" not in markdown(table(cell("cgcl", 97.0), cell("vgae", 96.0)))


def test_columns_that_are_to_be_read_as_they_stand_are_as_wide_as_their_widest_cell():
    text = markdown_table(["row", "AUC"], [["the longest", "9"], ["b", "97.25"]], is_padded=True)
    assert text.splitlines() == [
        "| row         | AUC   |",
        "| ----------- | ----- |",
        "| the longest | 9     |",
        "| b           | 97.25 |",
    ]


def test_a_difference_stands_with_its_interval_and_its_p():
    found = Difference(10, 1.5, 0.3, 0.75, 2.25, 5.0, 0.01, 0.02)
    paired = Paired(CellId("vgae", "cora", 10, "splits"), "auc", found)
    text = markdown(table(cell("cgcl", 97.0), paired=[paired]))
    assert rows_of(text)[-1] == ["VGAE", "**+1.50** (+0.75 to +2.25), p = 0.020"]


def test_markdown_is_not_broken_by_what_rows_are_called():
    of = replace(TOY, rows=(row("cgcl", title="a|b *c* <i>"),))
    text = markdown(table(cell("cgcl", 97.0), of=of))
    assert r"| a\|b \*c\* \<i> | 97.00" in text


def test_latex_escapes_what_it_would_take_for_commands():
    odd = row("cgcl", title=r"[a]_b & {c} 5 % #1 $x \d ~ ^ < 2")
    of = replace(TOY, title="50 %\nof it", rows=(odd,))
    text = latex(table(cell("cgcl", 97.0, caps="10 % of a_b", published=None), of=of))
    assert text.startswith("% 50 \\% of it\n% In the preamble: \\usepackage{booktabs}\n")
    assert (
        r"{[}a]\_b \& \{c\} 5 \% \#1 \$x \textbackslash{}d \textasciitilde{} \textasciicircum{} "
        r"$<$ 2${}^{(1)}$ & $97.00_{\pm 0.51}$ \\"
    ) in text
    assert r"10 \% of a\_b." in text


def test_rows_of_which_nothing_was_run_are_named_below():
    some = table(cell("cgcl", 97.0), cell("vgae", None), cell("seal", None, failed=1))
    text = markdown(some)
    assert "| VGAE" not in text
    assert "| SEAL" in text  # it was tried
    assert "Not run: VGAE." in text
    assert "vgae" in csv(some)
    nothing = markdown(table(cell("cgcl", None), cell("vgae", None)))
    assert "| VGAE" in nothing
    assert "Not run:" not in nothing
