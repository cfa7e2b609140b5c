"""Harder questions: what the stages of harder.toml ask, and how our HeaRT generator compares.

    python experiments/harder.py --data-root FOLDER

writes experiments/results/heart.json: how many of HeaRT's released negatives our generator chooses,
as it is by default and with the released one's flaws, and what the files look like. FOLDER holds
the graphs and `heart-citeseer`, the released files. The stages themselves are run by ranking.py.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from script import Job, results_of

if TYPE_CHECKING:
    from torch import Tensor

    from cgcl.graph import Graph
    from cgcl.split import Split
    from cgcl.train.hard_negatives import HardNegatives
    from cgcl.train.once import Trained

HERE = Path(__file__).parent
RESULTS, SEARCH, AGREEMENT = "harder", "harder_search", "heart.json"
SEARCHES = {"heart": "heart-search", "hits100": "hits100-search"}
STAGES = (*SEARCHES, *SEARCHES.values())
# By what a search chooses, on validation links. The test has twice as many unlinked pairs as
# validation: the 50th of validation's stands where the 100th of the test's does.
GOALS = {"heart-search": "heart_mrr", "hits100-search": "hits@50"}
FILES = {"val": "heart_valid.npy", "test": "heart_test.npy"}


def choose_by(stage: str) -> str:
    """Return by what trained methods choose their epoch, unless they are told."""
    return "hits@100" if stage.startswith("hits100") else "node_mrr"


def split_of(job: Job, graph: Graph, data_root: str | None) -> Split:
    """Return the split that a stage asks for."""
    from cgcl.split import given_split, random_split

    if job["stage"].startswith("hits100"):
        return random_split(graph, 0.10, 0.20, job["seed"])
    folder = _folder(data_root)
    test, val = (read_links(folder / f"{part}_pos.txt") for part in ("test", "valid"))
    return given_split(graph, test=test, val=val)[0]


def normalised(graph: Graph) -> Graph:
    """Return a graph with features that add up to 1 for every node that has any."""
    from dataclasses import replace

    import torch

    from cgcl.graph.features import compact

    assert graph.x is not None
    x = torch.nn.functional.normalize(graph.x.to_dense(), p=1.0, dim=1)
    return replace(graph, x=compact(x))


def measured(
    job: Job, trained: Trained, split: Split, data_root: str | None
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the measures of a stage on validation links and, if it is no search, on the test."""
    from cgcl.metrics import link_metrics

    scorer = trained.scorer(split.train)
    parts = ("val",) if job["stage"] in GOALS else ("val", "test")
    found = {"val": dict(trained.val or {}), "test": dict(trained.test or {})}
    for part in parts:
        if job["stage"].startswith("heart"):
            links, negatives = released(data_root, part)
            found[part] |= _means(scorer, links, negatives)
        elif part == "val":
            shown = link_metrics(scorer.logits(split.val), scorer.logits(split.val_negatives))
            found[part] |= shown
    return found["val"], found["test"]


def with_winner(job: Job, experiment: dict[str, Any], out: Path) -> Job:
    """Return a run with the settings that the search before it found best on its graph."""
    search = SEARCHES[job["stage"]]
    told = experiment[search]["all"]
    scores = by_variant(results_of(SEARCH, folder=out), search, job["graph"])
    asked = len(told["seeds"][job["graph"]])
    if any(len(scores.get(name, ())) < asked for name in told["variants"]):
        raise SystemExit(f"First: python experiments/ranking.py {search} --device cuda")
    best = max(told["variants"], key=lambda name: mean(scores[name]))
    return {**job, "settings": {**job["settings"], **told["variants"][best]}, "variant": best}


def by_variant(lines: Sequence[Job], search: str, graph: str) -> dict[str, list[float]]:
    """Return what each variant of a search reached on validation links, by seed."""
    found: dict[str, dict[int, float]] = {}
    for line in lines:
        if (line["stage"], line["graph"]) == (search, graph) and "failure" not in line:
            found.setdefault(line["name"], {})[line["seed"]] = line["val"][GOALS[search]]
    return {name: list(values.values()) for name, values in found.items()}


def _folder(data_root: str | None) -> Path:
    folder = Path(data_root or ".") / "heart-citeseer"
    if not folder.is_dir():
        raise SystemExit(f"{folder} is not there: --data-root names the folder that holds it.")
    return folder


def read_links(path: Path) -> Tensor:
    """Return the links of one of HeaRT's files, int64 [2, any], without self-links."""
    import torch

    rows = [line.split() for line in path.read_text().splitlines()]
    links = torch.tensor([[int(u), int(v)] for u, v in rows]).T
    return links[:, links[0] != links[1]]


def released(data_root: str | None, part: str) -> tuple[Tensor, HardNegatives]:
    """Return the links of a part in the order of the files, and their released negatives."""
    import torch
    from numpy.lib import format as npy

    from cgcl.train.hard_negatives import HardNegatives

    folder = _folder(data_root)
    links = read_links(folder / f"{'valid' if part == 'val' else 'test'}_pos.txt")
    with (folder / FILES[part]).open("rb") as stream:
        pairs = torch.from_numpy(npy.read_array(stream, allow_pickle=False))  # [m, 500, 2]
    link = torch.arange(links.shape[1]).repeat_interleave(pairs.shape[1])
    return links, HardNegatives(pairs.view(-1, 2).T.contiguous(), link, ())


def _means(scorer: Any, links: Tensor, negatives: HardNegatives) -> dict[str, float]:  # noqa: ANN401
    from cgcl.train.against import heart_metrics

    return {
        name: float(values.mean())
        for name, values in heart_metrics(scorer, links, negatives).items()
    }


def agreement(data_root: str | None) -> dict[str, Any]:
    """Return how our generator's negatives compare with the released ones."""
    import torch

    import cgcl
    from cgcl.split import Split
    from cgcl.train.hard_negatives import hard_negatives, released_negatives

    graph, folder = cgcl.read("citeseer", data_root=data_root), _folder(data_root)
    train, val, test = (
        read_links(folder / f"{part}_pos.txt") for part in ("train", "valid", "test")
    )
    none = train[:, :0]
    # In the order of the files: the released generator's flaw depends on it.
    split = Split(graph.num_nodes, train, val, test, none, none)
    assert graph.x is not None
    x = torch.nn.functional.normalize(graph.x.to_dense())
    cosines = x @ x.T
    lines: dict[str, Any] = {}
    for part in ("val", "test"):
        links, theirs = released(data_root, part)
        ways = {"released": theirs} | {
            name: make(split, graph.x, part)
            for name, make in (("as released", released_negatives), ("default", hard_negatives))
        }
        lines[part] = {
            name: _looks(links, ours, theirs, split, cosines) for name, ours in ways.items()
        }
    return lines


def _looks(
    links: Tensor, ours: HardNegatives, theirs: HardNegatives, split: Split, cosines: Tensor
) -> dict[str, Any]:
    """Return how many negatives are the released ones, and what they are like."""
    import torch

    from cgcl.methods.heuristics import AdamicAdar, CommonNeighbours, ResourceAllocation

    def codes(chosen: HardNegatives) -> Tensor:
        pairs = chosen.pairs
        return (chosen.link * split.num_nodes + pairs[0]) * split.num_nodes + pairs[1]

    same = torch.isin(codes(theirs), codes(ours)).double()
    every = torch.cat([split.train, split.val, split.test], dim=1)
    low, high = ours.pairs.amin(dim=0), ours.pairs.amax(dim=0)
    known = every.amin(dim=0) * split.num_nodes + every.amax(dim=0)
    cosine = cosines[ours.pairs[0], ours.pairs[1]]
    first, again = _visits(links, ours, split)
    formulas = {
        "common-neighbours": CommonNeighbours,
        "adamic-adar": AdamicAdar,
        "resource-allocation": ResourceAllocation,
    }
    return {
        "agreement": float(same.mean()),
        "links_the_same": float((same.view(links.shape[1], -1).mean(dim=1) == 1).double().mean()),
        "true_links": float(torch.isin(low * split.num_nodes + high, known).double().mean()),
        "cosine_first_visit": float(cosine[first].mean()),
        "cosine_second_visit": float(cosine[again].mean()),
        "heart_mrr": {
            name: _means(formula(split.train, split.num_nodes), links, ours)["heart_mrr"]
            for name, formula in formulas.items()
        },
    }


def _visits(links: Tensor, chosen: HardNegatives, split: Split) -> tuple[Tensor, Tensor]:
    """Return which negatives belong to a node's first and second visit, validation links first."""
    import torch

    is_test = links.shape[1] == split.test.shape[1]
    count = torch.zeros(split.num_nodes, dtype=torch.int64)
    if is_test:
        count += split.val.flatten().bincount(minlength=split.num_nodes)
    number = torch.zeros_like(links)
    for place, (one, other) in enumerate(links.T.tolist()):
        for end, node in enumerate((one, other)):
            number[end, place] = count[node]
            count[node] += 1
    # The first half of a link's negatives keeps its first end.
    half = torch.arange(chosen.link.numel()) % 500 >= 250
    visit = number[half.long(), chosen.link]
    return visit == 0, visit == 1


def main() -> None:
    """Compare the generator with the released files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-root", default=None)
    parser.add_argument("--out", type=Path, default=HERE / "results")
    chosen = parser.parse_args()
    found = agreement(chosen.data_root)
    (chosen.out / AGREEMENT).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
