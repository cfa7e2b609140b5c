"""Which features serve a graph best that brings none? Every candidate, graph and seed.

    python experiments/structure.py --workers 2 --data-root data
    python experiments/structure.py --summary

Every candidate sees the training links of its split and nothing else; `neighbours, seen` is made
anew in each step, of the links that the step sees. Results that are in structure.json or
structure.jsonl under experiments/results are not computed again.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from statistics import fmean
from typing import cast

import networkx as nx
import torch
from torch import Tensor

from cgcl.graph import Graph
from cgcl.graph.features import Structure
from cgcl.model import symmetric
from cgcl.readers.datasets import load_dataset
from cgcl.seeds import stream
from cgcl.split import random_split
from cgcl.train.config import RunConfig
from cgcl.train.trainer import Trainer, train
from run import Line, grouped, key_of, options, percent, results_of, run_missing, stamp

KEY = ("graph", "features", "seed")
SEEDS = (0, 1, 2)
# The largest graph is measured on one split only.
ONCE = ("pubmed",)
GRAPHS = ("pubmed", "cora", "citeseer", "groups", "hubs", "small world")
MADE: dict[str, Callable[[], nx.Graph[int]]] = {
    "groups": partial(nx.planted_partition_graph, 20, 50, 0.15, 0.002, seed=7),
    "hubs": partial(nx.barabasi_albert_graph, 2000, 4, seed=7),
    "small world": partial(nx.watts_strogatz_graph, 2000, 8, 0.1, seed=7),
}


def degree(links: Tensor, n: int) -> Tensor:
    """One of sixteen features per node: the magnitude of its degree in powers of two."""
    bucket = (_degrees(links, n) + 1).log2().floor().long().clamp(max=15)
    return torch.nn.functional.one_hot(bucket, 16).float()


def counts(links: Tensor, n: int) -> Tensor:
    """Degree, PageRank, core number and clustering, standardised, and a one."""
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(links.T.tolist())
    columns = [
        _degrees(links, n).log1p(),
        _column(nx.pagerank(graph)).log(),
        _column(nx.core_number(graph)).log1p(),
        _column(cast("dict[int, float]", nx.clustering(graph))),
    ]
    x = torch.stack(columns, dim=1)
    x = (x - x.mean(0)) / x.std(0).clamp(min=1e-9)
    return torch.cat([x.clamp(-9, 9), torch.ones(n, 1)], dim=1).float()


def spectral(links: Tensor, n: int, width: int, *, normalised: bool = True) -> Tensor:
    """Leading eigenvectors of the adjacency matrix by subspace iteration, signs fixed.

    Degrees are raised by their mean before they divide, or small components would take every
    eigenvector (each has an eigenvalue of 1).
    """
    matrix = _adjacency(links, n, normalised)
    basis = torch.randn(n, min(width + 8, n), dtype=torch.float64, generator=stream(0, "spectral"))
    for _ in range(12):
        basis = torch.linalg.qr(torch.sparse.mm(matrix, basis)).Q
    small = basis.T @ torch.sparse.mm(matrix, basis)
    values, vectors = torch.linalg.eigh((small + small.T) / 2)
    order = values.abs().argsort(descending=True)[:width]
    x = basis @ vectors[:, order]
    x = x * x.pow(3).sum(0).sign()
    return (x / x.pow(2).mean(0).sqrt().clamp(min=1e-12)).clamp(-9, 9).float()


def random(links: Tensor, n: int, width: int) -> Tensor:  # noqa: ARG001
    """Fixed random numbers: the identity, squeezed."""
    return torch.randn(n, width, generator=stream(0, "random"))


def propagated(links: Tensor, n: int, width: int) -> Tensor:
    """Random numbers, their mean over neighbours and over neighbours' neighbours, added up."""
    matrix = _adjacency(links, n, normalised=True)
    h = torch.randn(n, width, dtype=torch.float64, generator=stream(0, "random"))
    total = torch.zeros_like(h)
    for _ in range(3):
        total += torch.nn.functional.normalize(h, dim=1) * width**0.5 / 3
        h = torch.sparse.mm(matrix, h)
    return total.clamp(-9, 9).float()


def neighbours(links: Tensor, n: int, *, itself: bool = False, scaled: bool = False) -> Tensor:
    """One feature per node: who is linked to it, or is it; or over the root of their number."""
    nodes = torch.arange(n if itself else 0)
    entries = torch.cat([symmetric(links), nodes.expand(2, -1)], dim=1)
    if not scaled:
        return _sparse(entries, n)
    scale = (_degrees(links, n) + 1).rsqrt().float()
    return _sparse(entries, n, scale.index_select(0, entries[0]))


def folded(links: Tensor, n: int, width: int, way: str) -> Tensor:
    """Neighbours, but with fewer features than nodes.

    Nodes share features at random; or only the nodes with most links are features; or half of the
    features are for the nodes with most links, half for all others.
    """
    entries = symmetric(links)
    rank, half = torch.empty(n, dtype=torch.int64), width // 2
    rank[_degrees(links, n).argsort(descending=True, stable=True)] = torch.arange(n)
    if way == "shared":
        place = torch.randperm(n, generator=stream(0, "shared")) % width
    elif way == "landmarks":
        place = rank
    else:
        place = torch.where(rank < half, rank, half + rank % (width - half))
    entries[1] = place[entries[1]]
    return _sparse(entries[:, entries[1] < width], n, width=width)


Maker = Callable[[Tensor, int], Tensor]


def beside(*makers: Maker) -> Maker:
    """Put features of two kinds side by side."""

    def make(links: Tensor, n: int) -> Tensor:
        parts = [maker(links, n) for maker in makers]
        if any(part.is_sparse for part in parts):
            return torch.cat([part.to_sparse_coo() for part in parts], dim=1).coalesce()
        return torch.cat(parts, dim=1)

    return make


def identity(links: Tensor, n: int) -> Tensor:  # noqa: ARG001
    """One feature per node: itself."""
    return _sparse(torch.arange(n).expand(2, -1), n)


SPECTRAL, ITSELF = partial(spectral, width=64), partial(neighbours, itself=True)
SHARED = partial(folded, width=256, way="shared")
CANDIDATES: dict[str, Callable[[Tensor, int], Tensor | Structure]] = {
    "identity": identity,
    "identity + degree": beside(identity, degree),
    "identity + spectral 64": beside(identity, SPECTRAL),
    "degree": degree,
    "counts": counts,
    "spectral 64": SPECTRAL,
    "spectral 256": partial(spectral, width=256),
    "spectral 64 + degree": beside(SPECTRAL, degree),
    "adjacency 64": partial(spectral, width=64, normalised=False),
    "random 512": partial(random, width=512),
    "propagated 512": partial(propagated, width=512),
    "neighbours, seen": Structure.of,
    "neighbours": neighbours,
    "neighbours, itself": ITSELF,
    "neighbours, itself, scaled": partial(neighbours, itself=True, scaled=True),
    "neighbours, itself + degree": beside(ITSELF, degree),
    "neighbours, itself + spectral 64": beside(ITSELF, SPECTRAL),
    **{
        f"neighbours, {width} {way}": partial(folded, width=width, way=way)
        for width, way in product((1024, 256), ("shared", "landmarks", "half shared"))
    },
    "neighbours, 256 shared + spectral 64": beside(SHARED, SPECTRAL),
}


def graph_of(name: str, data_root: str | None) -> Graph:
    """Return a graph without features, from a data set or generated."""
    if name not in MADE:
        given = load_dataset(name, data_root, download=False)
        return Graph(given.title, given.names, given.edges)
    made = MADE[name]()
    names = [f"{node:04d}" for node in made.nodes]
    return Graph.from_pairs(name, names, torch.tensor(list(made.edges)).T)


def measure(job: Line, place: Line) -> Line:
    """Train and test once with one kind of features."""
    name, features, seed = key_of(job, KEY)
    torch.set_num_threads(1)
    graph = graph_of(name, place["data_root"])
    recipe = RunConfig.of("cgcl", {"seed": seed})
    split = random_split(graph, recipe.split.val, recipe.split.test, seed)
    start = time.perf_counter()
    x = CANDIDATES[features](split.train, graph.num_nodes)
    made = time.perf_counter()
    trainer = Trainer(x, split, recipe, torch.device(place["device"]))
    stopped = train(trainer)
    trainer.keep_best()
    test = trainer.measure() or {}
    return {
        **job,
        "val": trainer.best_val,
        "test": {metric: test[metric] for metric in ("auc", "ap")},
        "best_epoch": trainer.best_epoch,
        "stopped": stopped.reason if stopped else None,
        "width": x.num_features if isinstance(x, Structure) else x.shape[1],
        "making_seconds": round(made - start, 3),
        "training_seconds": round(time.perf_counter() - made, 2),
        "fingerprint": graph.fingerprint,
        **stamp(place, recipe.name),
    }


def summary(results: Sequence[Line]) -> str:
    """Return a table: mean AUC in percent, validation and test, per graph and over all."""
    of, rows = grouped(results, "graph", "features"), list[tuple[float, str]]()
    graphs = [graph for graph in GRAPHS if any(graph == own for own, _ in of)]
    shown = (("val", "auc"), ("test", "auc"), ("test", "ap"))
    for features in CANDIDATES:
        found = {graph: of[graph, features] for graph in graphs if (graph, features) in of}
        means = {g: [fmean(percent(own, m, part)) for part, m in shown] for g, own in found.items()}
        if means:
            cells = [" / ".join(f"{x:.1f}" for x in means.get(graph, ())[:2]) for graph in graphs]
            total = [fmean(column) for column in zip(*means.values(), strict=True)]
            cells += [f"{value:.2f}" for value in total]
            rows.append((total[0], f"| {features} | {' | '.join(cells)} |"))
    head = f"| features | {' | '.join(graphs)} | mean validation | mean test | mean test AP |"
    lines = [head, "|---" * (len(graphs) + 4) + "|"]
    return "\n".join([*lines, *(row for _, row in sorted(rows, reverse=True))])


TABLES: dict[str, Callable[[], str]] = {"structure": lambda: summary(results_of("structure"))}


def shown(result: Line) -> str:
    """Return a result in a line."""
    head = f"{result['graph']}, {result['features']}, seed {result['seed']}"
    figures = [result[part]["auc"] for part in ("val", "test")]
    return f"{head}: validation AUC {figures[0]:.4f}, test AUC {figures[1]:.4f}"


def _degrees(links: Tensor, n: int) -> Tensor:
    return torch.bincount(links.flatten(), minlength=n).double()


def _column(values: dict[int, float]) -> Tensor:
    return torch.tensor([values[node] for node in sorted(values)], dtype=torch.float64)


def _sparse(
    entries: Tensor, n: int, values: Tensor | None = None, width: int | None = None
) -> Tensor:
    """Return a matrix with n rows and, unless told otherwise, n columns; of ones or values."""
    values = torch.ones(entries.shape[1]) if values is None else values
    shape = (n, n if width is None else width)
    return torch.sparse_coo_tensor(entries, values, shape, check_invariants=True).coalesce()


def _adjacency(links: Tensor, n: int, normalised: bool) -> Tensor:
    entries, degrees = symmetric(links), _degrees(links, n)
    scale = (degrees + degrees.mean()).rsqrt() if normalised else torch.ones_like(degrees)
    matrix = _sparse(entries, n, scale[entries].prod(dim=0))
    with warnings.catch_warnings(action="ignore"):  # torch calls its compressed matrices unfinished
        return matrix.to_sparse_csr()


def main() -> None:
    """Run what is missing, or print what is there."""
    parser = options(__doc__)
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS), choices=GRAPHS)
    parser.add_argument("--features", nargs="+", default=list(CANDIDATES), choices=CANDIDATES)
    parser.add_argument("--summary", action="store_true")
    chosen = parser.parse_args()
    if chosen.summary:
        print(summary(results_of("structure", KEY, chosen.out)))
        return
    jobs = [
        {"graph": graph, "features": features, "seed": seed}
        for seed, graph, features in product(SEEDS, chosen.graphs, chosen.features)
        if not (graph in ONCE and seed)
    ]
    run_missing("structure", jobs, measure, shown, chosen, KEY)


if __name__ == "__main__":
    main()
