"""The tables of docs/harder-questions.md, from the results of ranking.py and harder.py."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import harder
from cgcl.experiments.statistics import spread_of
from cgcl.methods.table import METHODS, method_named
from cgcl.metrics.table import metric_title
from script import results_of

__all__ = ["TABLES"]

HERE = Path(__file__).parent
EXPERIMENT = tomllib.loads((HERE / "harder.toml").read_text(encoding="utf-8"))
TITLES = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}
MEASURES = ("heart_mrr", "heart_hits@10")
WAYS = {
    "released": "the released files",
    "as released": "ours, `heart-released`",
    "default": "ours, `heart`",
}
PARTS = {"val": "validation", "test": "test"}

Runs = dict[tuple[str, str], list[dict[str, Any]]]


def _runs(stage: str) -> Runs:
    """Return the runs of a stage by graph and name; of two lines about one run the later counts."""
    name = harder.SEARCH if stage in harder.GOALS else harder.RESULTS
    last = {
        (line["graph"], line["name"], line["seed"]): line
        for line in results_of(name)
        if line["stage"] == stage and "failure" not in line
    }
    found: Runs = {}
    for (graph, name, _), line in sorted(last.items()):
        found.setdefault((graph, name), []).append(line)
    return found


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _cell(runs: Sequence[dict[str, Any]], part: str, measure: str, digits: int = 2) -> str:
    if not runs:
        return "not run yet"
    spread = spread_of([100 * run[part][measure] for run in runs])
    sd = "" if spread.sd is None else f" ± {spread.sd:.{digits}f}"
    return f"{spread.mean:.{digits}f}{sd}"


def _published(stage: str, name: str, column: str) -> str:
    rows = EXPERIMENT["published"][stage]["rows"]
    figures = [f"{value:.2f}" for value in rows.get(name, {}).get(column, ())]
    return " ± ".join(figures)


def _names(stage: str) -> tuple[list[str], list[str]]:
    """Return our methods, in the order of the harness, and what only others have published."""
    ours = [name for name in METHODS if name in EXPERIMENT[stage]["splits"]]
    return ours, [name for name in EXPERIMENT["published"][stage]["rows"] if name not in ours]


def _still_missing(stage: str, found: Runs) -> list[str]:
    """Return how to make what is missing."""
    asked = EXPERIMENT[stage]
    some = any(
        len(found.get((graph, name), ())) < splits
        for graph in asked["graphs"]
        for name, splits in asked["splits"].items()
    )
    if not some:
        return []
    steps = (harder.SEARCHES[stage], stage)
    told = ", then ".join(f"`python experiments/ranking.py {s} --device cuda`" for s in steps)
    return ["", f"What is not run yet: {told}."]


def heart_table() -> str:
    """Every method against HeaRT's released negatives."""
    found, (ours, others) = _runs("heart"), _names("heart")
    rows = []
    for name in (*ours, *others):
        runs = found.get(("citeseer", name), [])
        own = [_cell(runs, "test", m) if name in ours else "" for m in MEASURES]
        theirs = _published("heart", name, "heart_mrr")
        title = method_named(name).title if name in ours else name
        rows.append([title, *own, theirs, str(len(runs)) if runs else ""])
    head = ["CiteSeer", *(metric_title(m) for m in MEASURES), "published MRR", "seeds"]
    source = f"Published: {EXPERIMENT['published']['heart']['source']}."
    return "\n".join([_table(head, rows), "", source, *_still_missing("heart", found)])


def hits100_table() -> str:
    """Every method with a fifth of the links to test on."""
    found, (ours, others) = _runs("hits100"), _names("hits100")
    graphs = EXPERIMENT["hits100"]["graphs"]
    rows = []
    for name in (*ours, *others):
        cells = []
        for graph in graphs:
            runs = found.get((graph, name), [])
            cells.append(_cell(runs, "test", "hits@100") if name in ours else "")
            cells.append(_published("hits100", name, graph))
        splits = [str(len(found.get((graph, name), ()))) for graph in graphs]
        told = (splits[0] if len(set(splits)) == 1 else " / ".join(splits)) if name in ours else ""
        rows.append([method_named(name).title if name in ours else name, *cells, told])
    head = ["Hits@100", *(x for g in graphs for x in (TITLES[g], "published")), "our splits"]
    source = f"Published: {EXPERIMENT['published']['hits100']['source']}."
    return "\n".join([_table(head, rows), "", source, *_still_missing("hits100", found)])


def search_table(stage: str) -> str:
    """What each variant of a search is worth on validation links."""
    found, told, goal = _runs(stage), EXPERIMENT[stage]["all"], harder.GOALS[stage]
    graphs = list(told["seeds"])
    if not found:
        return f"Not run yet: `python experiments/ranking.py {stage} --device cuda`."
    missing = sum(
        max(0, len(seeds) - len(found.get((graph, name), ())))
        for graph, seeds in told["seeds"].items()
        for name in told["variants"]
    )
    best = {
        graph: max(
            (name for name in told["variants"] if (graph, name) in found),
            key=lambda name: mean(run["val"][goal] for run in found[graph, name]),
        )
        for graph in graphs
        if not missing  # nothing is chosen before all of it has run
    }
    rows = []
    for name in told["variants"]:
        cells = [_cell(found.get((graph, name), []), "val", goal) for graph in graphs]
        marked = (
            f"**{cell}**" if best.get(graph) == name else cell
            for graph, cell in zip(graphs, cells, strict=True)
        )
        rows.append([name, *marked])
    head = [f"validation {metric_title(goal)}", *(TITLES[graph] for graph in graphs)]
    more = f"\n\n{missing} runs are missing; nothing is chosen yet." if missing else ""
    return _table(head, rows) + more


def agreement_table() -> str:
    """Our generator beside the released files."""
    path = HERE / "results" / harder.AGREEMENT
    found = json.loads(path.read_text(encoding="utf-8"))
    rows = []
    for part, ways in found.items():
        for way, looks in ways.items():
            shares = [looks["agreement"], looks["links_the_same"], looks["true_links"]]
            cosines = [looks["cosine_first_visit"], looks["cosine_second_visit"]]
            mrr = " / ".join(f"{100 * value:.2f}" for value in looks["heart_mrr"].values())
            rows.append(
                [
                    f"{PARTS[part]}, {WAYS[way]}",
                    *(f"{100 * share:.2f} %" for share in shares),
                    *(f"{value:.3f}" for value in cosines),
                    mrr,
                ]
            )
    head = [
        "negatives of",
        "of the released ones chosen",
        "links with all 500 the same",
        "true links among them",
        "mean cosine, a node's first visit",
        "second visit",
        "MRR of CN / AA / RA",
    ]
    return _table(head, rows)


TABLES: dict[str, Callable[[], str]] = {
    "harder-agreement": agreement_table,
    "harder-heart-search": lambda: search_table("heart-search"),
    "harder-heart": heart_table,
    "harder-hits100-search": lambda: search_table("hits100-search"),
    "harder-hits100": hits100_table,
}
