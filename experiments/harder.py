"""Harder questions: what the stages of harder.toml ask, and how our HeaRT generator compares.

    python experiments/harder.py --data-root FOLDER

writes experiments/results/heart.json: how many of HeaRT's released negatives our generator chooses,
as it is by default and with the released one's flaws, and what the files look like. FOLDER holds
the graphs and `heart-citeseer`, the released files. The stages themselves are run by ranking.py.
The tables of docs/harder-questions.md are written here, too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Literal

import torch
from numpy.lib import format as npy
from torch import Tensor

import cgcl
from cgcl.graph import Graph
from cgcl.graph.features import compact
from cgcl.methods.heuristics import AdamicAdar, CommonNeighbours, ResourceAllocation
from cgcl.methods.method import PairScorer
from cgcl.methods.table import METHODS, method_named
from cgcl.metrics import link_metrics
from cgcl.metrics.table import metric_title
from cgcl.split import Split, given_split, random_split
from cgcl.train.harder import HardNegatives, hard_negatives, heart_metrics, released_negatives
from run import RESULTS as FOLDER
from run import TITLES, Line, described, mean_sd, percent, runs_of, table

RESULTS, SEARCH, AGREEMENT = "harder", "harder_search", "heart.json"
SEARCHES = {"heart": "heart-search", "hits100": "hits100-search"}
STAGES = (*SEARCHES, *SEARCHES.values())
# By what a search chooses, on validation links. The test has twice as many unlinked pairs as
# validation: the 50th of validation's stands where the 100th of the test's does.
GOALS = {"heart-search": "heart_mrr", "hits100-search": "hits@50"}
PARTS = {"val": "valid", "test": "test"}
ASKED = described("harder")
FORMULAS = {
    "common-neighbours": CommonNeighbours,
    "adamic-adar": AdamicAdar,
    "resource-allocation": ResourceAllocation,
}


def choose_by(stage: str) -> str:
    """Return by what trained methods choose their epoch, unless they are told."""
    return "hits@100" if stage.startswith("hits100") else "node_mrr"


def split_of(job: Line, graph: Graph, data_root: str | None) -> Split:
    """Return the split that a stage asks for."""
    if job["stage"].startswith("hits100"):
        return random_split(graph, 0.10, 0.20, job["seed"])
    test, val = (read_links(data_root, part) for part in ("test", "valid"))
    return given_split(graph, test=test, val=val)[0]


def normalised(graph: Graph) -> Graph:
    """Return a graph with features that add up to 1 for every node that has any."""
    assert graph.x is not None
    x = torch.nn.functional.normalize(graph.x.to_dense(), p=1.0, dim=1)
    return replace(graph, x=compact(x))


def measure(
    job: Line, scorer: PairScorer, split: Split, data_root: str | None, found: dict[str, Line]
) -> None:
    """Add the measures of a stage on validation links and, if it is no search, on the test."""
    for part in ("val",) if job["stage"] in GOALS else ("val", "test"):
        if job["stage"].startswith("heart"):
            found[part] |= _means(scorer, *released(data_root, part))
        elif part == "val":
            pairs = (split.val, split.val_negatives)
            found[part] |= link_metrics(*(scorer.logits(own) for own in pairs))


def not_run(*stages: str) -> str:
    """Return how to make what is missing."""
    steps = (f"`python experiments/ranking.py {stage} --device cuda`" for stage in stages)
    return f"Not run yet: {', then '.join(steps)}."


def with_winner(job: Line, out: Path) -> Line:
    """Return a run with the settings that the search before it found best on its graph."""
    search = SEARCHES[job["stage"]]
    told, found = ASKED[search]["all"], runs_of(search, SEARCH, folder=out)
    own = {n: percent(found[job["graph"], n], GOALS[search], "val") for n in told["variants"]}
    if any(len(values) < len(told["seeds"][job["graph"]]) for values in own.values()):
        raise SystemExit(f"First: python experiments/ranking.py {search} --device cuda")
    best = max(own, key=lambda name: mean(own[name]))
    return {**job, "settings": {**job["settings"], **told["variants"][best]}, "variant": best}


def folder_of(data_root: str | None) -> Path:
    """Return where HeaRT's released files are."""
    folder = Path(data_root or ".") / "heart-citeseer"
    if not folder.is_dir():
        raise SystemExit(f"{folder} is not there: --data-root names the folder that holds it.")
    return folder


def read_links(data_root: str | None, part: str) -> Tensor:
    """Return the links of one of HeaRT's files, int64 [2, any], without self-links."""
    text = (folder_of(data_root) / f"{part}_pos.txt").read_text()
    links = torch.tensor([[int(word) for word in line.split()] for line in text.splitlines()]).T
    return links[:, links[0] != links[1]]


def released(data_root: str | None, part: str) -> tuple[Tensor, HardNegatives]:
    """Return the links of a part in the order of the files, and their released negatives."""
    links = read_links(data_root, PARTS[part])
    with (folder_of(data_root) / f"heart_{PARTS[part]}.npy").open("rb") as stream:
        pairs = torch.from_numpy(npy.read_array(stream, allow_pickle=False))  # [m, 500, 2]
    link = torch.arange(links.shape[1]).repeat_interleave(pairs.shape[1])
    return links, HardNegatives(pairs.view(-1, 2).T.contiguous(), link, ())


def _means(scorer: PairScorer, links: Tensor, negatives: HardNegatives) -> dict[str, float]:
    found = heart_metrics(scorer, links, negatives)
    return {name: float(values.mean()) for name, values in found.items()}


def agreement(data_root: str | None) -> Line:
    """Return how our generator's negatives compare with the released ones."""
    graph = cgcl.read("citeseer", data_root=data_root)
    train, val, test = (read_links(data_root, part) for part in ("train", "valid", "test"))
    # In the order of the files: the released generator's flaw depends on it.
    split = Split(graph.num_nodes, train, val, test, train[:, :0], train[:, :0])
    assert graph.x is not None
    x = torch.nn.functional.normalize(graph.x.to_dense())
    cosines = x @ x.T
    lines: Line = {}
    parts: tuple[Literal["val", "test"], ...] = ("val", "test")
    for part in parts:
        links, theirs = released(data_root, part)
        makers = {"as released": released_negatives, "default": hard_negatives}
        ways = {"released": theirs}
        ways |= {name: make(split, graph.x, part) for name, make in makers.items()}
        lines[part] = {
            name: _looks(links, ours, theirs, split, cosines) for name, ours in ways.items()
        }
    return lines


def _looks(
    links: Tensor, ours: HardNegatives, theirs: HardNegatives, split: Split, cosines: Tensor
) -> Line:
    """Return how many negatives are the released ones, and what they are like."""
    n = split.num_nodes

    def codes(chosen: HardNegatives) -> Tensor:
        return (chosen.link * n + chosen.pairs[0]) * n + chosen.pairs[1]

    same = torch.isin(codes(theirs), codes(ours)).double()
    every = torch.cat([split.train, split.val, split.test], dim=1)
    known, pairs = (x.amin(dim=0) * n + x.amax(dim=0) for x in (every, ours.pairs))
    cosine = cosines[ours.pairs[0], ours.pairs[1]]
    visit = _visits(links, ours, split)
    return {
        "agreement": float(same.mean()),
        "links_the_same": float((same.view(links.shape[1], -1).mean(dim=1) == 1).double().mean()),
        "true_links": float(torch.isin(pairs, known).double().mean()),
        "cosine_first_visit": float(cosine[visit == 0].mean()),
        "cosine_second_visit": float(cosine[visit == 1].mean()),
        "heart_mrr": {
            name: _means(formula(split.train, n), links, ours)["heart_mrr"]
            for name, formula in FORMULAS.items()
        },
    }


def _visits(links: Tensor, chosen: HardNegatives, split: Split) -> Tensor:
    """Return which visit of a node each negative belongs to, from 0, validation links first."""
    count = torch.zeros(split.num_nodes, dtype=torch.int64)
    if links.shape[1] == split.test.shape[1]:
        count += split.val.flatten().bincount(minlength=split.num_nodes)
    number = torch.zeros_like(links)
    for place, ends in enumerate(links.T.tolist()):
        for end, node in enumerate(ends):
            number[end, place] = count[node]
            count[node] += 1
    # The first half of a link's negatives keeps its first end.
    half = torch.arange(chosen.link.numel()) % 500 >= 250
    return number[half.long(), chosen.link]


def results_table(stage: str, corner: str, columns: Sequence[tuple[str, str, str]]) -> str:
    """Every method on the test links of a stage.

    Args:
        stage: What was run.
        corner: The title of the first column.
        columns: Title, graph and measure; for what others have published no measure, and the name
            that they have for the column in harder.toml.
    """
    found, published, asked = runs_of(stage, RESULTS), ASKED["published"][stage], ASKED[stage]
    ours = [name for name in METHODS if name in asked["splits"]]
    rows, missing = list[list[str]](), False
    for name in dict.fromkeys([*ours, *published["rows"]]):
        own = {graph: found.get((graph, name), []) for graph in asked["graphs"]}
        theirs, is_ours = published["rows"].get(name, {}), name in ours
        row = [method_named(name).title if is_ours else name]
        for _, place, measure in columns:
            if not measure:
                row.append(" ± ".join(f"{value:.2f}" for value in theirs.get(place, ())))
            else:
                words = mean_sd(percent(own[place], measure)) or "not run yet"
                row.append(words if is_ours else "")
        counts = [len(runs) for runs in own.values()]
        missing |= is_ours and min(counts) < asked["splits"][name]
        told = " / ".join(map(str, counts if len({*counts}) > 1 else counts[:1]))
        rows.append([*row, told if is_ours else ""])
    head = [corner, *(title for title, _, _ in columns)]
    head.append("seeds" if stage == "heart" else "our splits")
    more = ["", not_run(SEARCHES[stage], stage)] if missing else []
    return table(" | ".join(head), rows, f"Published: {published['source']}.", *more)


def search_table(stage: str) -> str:
    """What each variant of a search is worth on validation links."""
    found, told = runs_of(stage, SEARCH), ASKED[stage]["all"]
    if not found:
        return not_run(stage)
    of = {
        graph: {name: percent(found[graph, name], GOALS[stage], "val") for name in told["variants"]}
        for graph in told["seeds"]
    }
    missing = sum(
        max(0, len(seeds) - len(values))
        for graph, seeds in told["seeds"].items()
        for values in of[graph].values()
    )
    # Nothing is chosen before all of it has run.
    best: dict[str, str] = {}
    if not missing:
        best = {graph: max(own, key=lambda name: mean(own[name])) for graph, own in of.items()}
    rows = []
    for name in told["variants"]:
        words = {graph: mean_sd(own[name]) or "not run yet" for graph, own in of.items()}
        cells = (f"**{own}**" if best.get(g) == name else own for g, own in words.items())
        rows.append([name, *cells])
    head = [f"validation {metric_title(GOALS[stage])}", *(TITLES[graph] for graph in of)]
    more = [f"{missing} runs are missing; nothing is chosen yet."] if missing else []
    return table(" | ".join(head), rows, *more)


def agreement_table() -> str:
    """Our generator beside the released files."""
    rows = []
    for part, ways in json.loads((FOLDER / AGREEMENT).read_text(encoding="utf-8")).items():
        for way, looks in ways.items():
            shares = (looks[name] for name in ("agreement", "links_the_same", "true_links"))
            cosines = (looks[f"cosine_{visit}_visit"] for visit in ("first", "second"))
            mrr = " / ".join(f"{100 * value:.2f}" for value in looks["heart_mrr"].values())
            row = [f"{'validation' if part == 'val' else part}, {ASKED['ways'][way]}"]
            row += [f"{100 * share:.2f} %" for share in shares]
            rows.append([*row, *(f"{cosine:.3f}" for cosine in cosines), mrr])
    return table(
        "negatives of | of the released ones chosen | links with all 500 the same "
        "| true links among them | mean cosine, a node's first visit | second visit "
        "| MRR of CN / AA / RA",
        rows,
    )


_HEART: list[tuple[str, str, str]] = [
    *((metric_title(name), "citeseer", name) for name in ("heart_mrr", "heart_hits@10")),
    ("published MRR", "heart_mrr", ""),
]
_HITS: list[tuple[str, str, str]] = [
    column
    for graph in ASKED["hits100"]["graphs"]
    for column in ((TITLES[graph], graph, "hits@100"), ("published", graph, ""))
]
TABLES: dict[str, Callable[[], str]] = {
    "harder-agreement": agreement_table,
    "harder-heart-search": partial(search_table, "heart-search"),
    "harder-heart": partial(results_table, "heart", "CiteSeer", _HEART),
    "harder-hits100-search": partial(search_table, "hits100-search"),
    "harder-hits100": partial(results_table, "hits100", "Hits@100", _HITS),
}


def main() -> None:
    """Compare the generator with the released files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-root", default=None)
    parser.add_argument("--out", type=Path, default=FOLDER)
    chosen = parser.parse_args()
    text = json.dumps(agreement(chosen.data_root), indent=2)
    (chosen.out / AGREEMENT).write_text(f"{text}\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
