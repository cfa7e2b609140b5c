from __future__ import annotations

import csv
from dataclasses import replace

from cgcl.experiments.search import Trial, best_of, table_of


def trial(number: int, auc: float | None, ap: float | None = 0.5, **settings: object) -> Trial:
    failure = "" if auc is not None else 'The loss, "L",\nis gone.'
    return Trial(number, "search", settings, auc, None if auc is None else ap, 3, 1.5, failure)


def test_the_best_trial_has_the_best_auc_then_the_best_ap_then_came_first() -> None:
    trials = [trial(1, None), trial(2, 0.8, 0.9), trial(3, 0.9, 0.7), trial(4, 0.9, 0.8)]
    assert best_of(trials) is trials[3]
    assert best_of([*trials, trial(5, 0.9, 0.8)]) is trials[3]
    assert best_of(reversed([*trials, trial(5, 0.9, 0.8)])) is trials[3]
    assert best_of(trials[:1]) is None


def test_another_goal_has_another_best() -> None:
    trials = [trial(1, 0.9, 0.7), trial(2, 0.8, 0.9), trial(3, 0.7, 0.6)]
    assert best_of(trials, "ap") is trials[1]
    ranked = [replace(one, node_mrr=one.number / 10) for one in trials]
    assert best_of(ranked, "node_mrr") is ranked[2]
    assert ranked[2].in_words(", ") == "node MRR 0.3000, AUC 0.7000, AP 0.6000"
    assert b"node_mrr" in ranked[0].to_line()
    assert b"node_mrr" not in trials[0].to_line()  # as searches from before have it
    assert Trial.from_line(ranked[0].to_line()) == ranked[0]
    assert table_of(ranked).startswith(b"trial,origin,node_mrr,auc,ap,")


def test_the_table_has_a_row_per_trial_and_a_column_per_setting() -> None:
    trials = [trial(1, 0.75, lr=1e-5, views="a,b"), trial(2, None, lr=0.1, views="c")]
    rows = list(csv.DictReader(table_of(trials).decode().splitlines(keepends=True)))
    assert [row["trial"] for row in rows] == ["1", "2"]
    assert (rows[0]["auc"], rows[0]["lr"], rows[0]["views"]) == ("0.75", "1e-05", "a,b")
    assert (rows[1]["auc"], rows[1]["failure"]) == ("", trials[1].failure)
