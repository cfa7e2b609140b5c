"""Figures fit into a page: no foreign colours, no clashing ids, no addresses, same bytes."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from cgcl.experiments.statistics import Spread
from cgcl.predict.baselines import Compared
from cgcl.report.figures import (
    comparison_figure,
    consistency_figure,
    interval_chart,
    loss_figure,
    precision_recall_figure,
    reliability_figure,
    roc_figure,
    score_histogram,
    validation_figure,
)
from cgcl.report.results import reliability


@pytest.fixture(scope="module")
def drawn(history, scores, everything):
    return {
        "loss": loss_figure(history, 120),
        "validation": validation_figure(history, 120),
        "consistency": consistency_figure(history),
        "roc": roc_figure(*scores),
        "precision-recall": precision_recall_figure(*scores),
        "histogram": score_histogram(*scores),
        "reliability": reliability_figure(reliability(*scores)),
        "comparison": comparison_figure(everything["comparison"]),
    }


def test_every_figure_is_one_svg_in_the_colours_of_the_page_and_reaches_nowhere(drawn):
    """Black text would vanish in dark mode."""
    ids = [found for svg in drawn.values() for found in re.findall(r'\bid="([^"]+)"', svg)]
    assert len(ids) == len(set(ids))
    for name, svg in drawn.items():
        assert re.match(r'<svg viewBox="[\d. ]+" role="img" aria-label="[^"]+">', svg)
        assert svg.endswith("</svg>")
        assert svg.count("<svg") == 1
        outside_variables = re.sub(r"var\(--\w+, #[0-9a-f]{6}\)", "", svg)
        assert not re.search(r"#[0-9a-f]{6}\b", outside_variables)
        texts = re.findall(r"<text [^>]*>", svg)
        assert len(texts) > 5
        assert all("fill: var(--" in text for text in texts)
        for foreign in ("http", "<style", "<script", "<metadata", "<?xml", "<!DOCTYPE"):
            assert foreign not in svg
        references = re.findall(r'(?:href="#|url\(#)([^")]+)', svg)
        assert references
        assert all(reference.startswith(f"{name}-") for reference in references)
        assert set(references) <= set(ids)


def test_the_best_epoch_the_views_and_the_bounds_of_theorem_1_are_written_out(history):
    single = [{"epoch": entry["epoch"], "losses": entry["losses"][:1]} for entry in history]
    assert "best epoch 120" in loss_figure(history, 120)
    assert "best epoch 120" in validation_figure(history, 120)
    assert "best epoch" not in loss_figure(history)
    assert "view 2" in loss_figure(history)
    assert "view" not in loss_figure(single).replace("viewBox", "").replace("each view", "")
    assert "upper bound \N{MINUS SIGN}0.157" in consistency_figure(history)
    assert "lower bound \N{MINUS SIGN}0.507" in consistency_figure(history)


def test_what_was_recorded_and_is_finite_is_drawn():
    history = [
        {"epoch": 1, "losses": [1.4, 1.4], "val": {"auc": 0.6, "ap": 0.6}},
        {"epoch": 2, "losses": [float("nan"), None], "val": None},
    ]
    assert validation_figure(history).endswith("</svg>")
    assert "Validation AUC and AP over the epochs" in validation_figure(history)
    assert loss_figure([history[1]]) == validation_figure(history[1:]) == loss_figure([]) == ""
    assert consistency_figure(history) == ""
    # A line through one point would be invisible: it is a dot for each view.
    assert loss_figure(history).count("<circle") == 2
    assert loss_figure([history[0], history[0] | {"epoch": 3}]).count("<circle") == 0
    chosen = [{"epoch": 10 * k, "val": {"auc": 0.9, "node_mrr": 0.02 * k}} for k in (1, 2, 3)]
    assert "Validation node MRR over the epochs" in validation_figure(chosen, 30)
    assert "AUC" not in validation_figure(chosen, 30)


def test_what_no_axis_spans_is_not_drawn():
    sound = {"epoch": 1, "losses": [0.5], "val": {"auc": 0.5, "ap": 0.5}}
    endless = {"epoch": 2, "losses": [1e308], "val": {"auc": 0.5, "ap": -1e308}}
    for figure in (loss_figure, validation_figure):
        assert "nan" not in figure([sound, endless])


def test_a_long_run_stays_small():
    history = [{"epoch": epoch, "losses": [1 / epoch] * 2} for epoch in range(1, 20_001)]
    assert len(loss_figure(history)) < 100_000


def test_an_interval_of_a_share_ends_at_all_of_it():
    def chart(high: float) -> str:
        metrics = {"auc": Spread(3, 0.9, 0.1, 0.7, high)}
        row = SimpleNamespace(method="m", title="M", metrics=metrics)
        return interval_chart(SimpleNamespace(metric="auc", rows=[row], reference=None))

    assert chart(1.1) == chart(1.0) != chart(0.95)


def test_probabilities_are_shown_from_zero_to_one():
    svg = score_histogram(np.array([0.2, 0.4]), np.array([0.1, 0.3]))
    assert re.findall(r">([\d.]+)</text>", svg)[:6] == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]


def test_logits_constant_scores_and_probabilities_of_zero_and_one_can_be_drawn():
    svg = score_histogram(np.array([3.0, 12.0]), np.array([-8.0, -1.0]))
    assert ">10<" in svg or ">\N{MINUS SIGN}5<" in svg
    same = np.full(5, 0.5)
    for draw in (roc_figure, precision_recall_figure, score_histogram):
        assert draw(same, same).endswith("</svg>")
    assert score_histogram(same + 7, same + 7).endswith("</svg>")
    assert reliability_figure(reliability([1.0, 1.0], [0.0])).endswith("</svg>")


def test_the_reliability_diagram_has_a_point_for_every_bin(scores):
    """The legend shows one more."""
    svg = reliability_figure(reliability(*scores))
    assert svg.count("<circle ") == 10 + 1
    few = reliability_figure(reliability(scores[0][:1], scores[1][:1]))
    assert few.count("<circle ") == 2 + 1
    assert "observed, 95 % interval" in svg
    assert ">Pairs<" in svg


def compared(*results):
    return comparison_figure(Compared([{"method": m, "metrics": found} for m, found in results]))


def test_every_method_has_its_bars_and_numbers(everything):
    svg = comparison_figure(everything["comparison"])
    assert svg.count(">CGCL<") == svg.count(">Adamic-Adar<") == 3
    for words in ("AUC", "AP", "precision@100", "96.8", "72.2", "28.0", "31.0"):
        assert f">{words}<" in svg


def test_a_bar_that_was_not_measured_says_so_and_a_name_is_no_formula():
    svg = compared(("A", {"auc": 0.5, "ap": None}), ("$x$ <b>", {"ap": 0.25}))
    assert svg.count(">not measured<") == 2
    assert ">$x$ &lt;b&gt;<" in svg
    assert compared(("A", {"auc": None})) == ""
