"""Promises about graphs: small, strange and large ones are answered, or refused in words."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations

import numpy as np
import torch

from cgcl.errors import CGCLError
from cgcl.graph import Graph
from cgcl.testing.graphs import groups, large, links_graph, star
from cgcl.testing.predictor import Make, Predictor, expect
from cgcl.testing.suggestion_checks import expect_new

__all__ = [
    "check_works_in_bounded_memory",
    "check_works_on_a_few_links",
    "check_works_on_matching",
    "check_works_on_one_constant_feature",
    "check_works_on_star",
    "check_works_on_two_components",
    "check_works_on_two_nodes",
    "check_works_without_features",
]

# A table of all pairs of 10,000 nodes takes 400 MB as float32, 100 MB as bytes.
_MAX_GROWTH_MB = 256


def check_works_on_two_nodes(make: Make) -> None:
    """Two linked nodes without a test set: answers, or a CGCLError that says what is missing."""
    graph = links_graph([(0, 1)], 2, torch.eye(2))
    try:
        predictor = make(val=0.0, test=0.0).fit(graph)
    except CGCLError as error:
        lines = str(error).splitlines()
        expect(1 <= len(lines) <= 4, "a message of one to four lines", lines)
        return
    found = len(predictor.top(5))
    expect(found == 0, "no new links where the only pair is linked", found)


def check_works_on_a_few_links(make: Make) -> None:
    """Four nodes in a row, without a validation or a test set."""
    _expect_answers(make(val=0.0, test=0.0), links_graph([(0, 1), (1, 2), (2, 3)], 4, torch.eye(4)))


def check_works_on_star(make: Make) -> None:
    """One hub and sixty leaves: hiding a link isolates a leaf."""
    _expect_answers(make(), star(60))


def check_works_on_matching(make: Make) -> None:
    """Sixty links that share no node: hiding a link isolates both ends."""
    links = [(2 * i, 2 * i + 1) for i in range(60)]
    x = torch.nn.functional.one_hot(torch.arange(120) // 2 % 5, 5).float()
    _expect_answers(make(), links_graph(links, 120, x))


def check_works_on_two_components(make: Make) -> None:
    """Two groups without a link between them, each almost complete, and an isolated node."""
    links = [
        pair
        for nodes in (range(12), range(12, 24))
        for pair in combinations(nodes, 2)
        if sum(pair) % 7
    ]
    _expect_answers(make(), links_graph(links, 25, torch.eye(25)))


def check_works_without_features(make: Make) -> None:
    """A graph that has links only."""
    graph = groups()
    _expect_answers(make(), Graph(graph.title, graph.names, graph.edges))


def check_works_on_one_constant_feature(make: Make) -> None:
    """Features that say nothing: one, the same for all nodes."""
    graph = groups()
    _expect_answers(make(), Graph(graph.title, graph.names, graph.edges, torch.ones(36, 1)))


def check_works_in_bounded_memory(make: Make) -> None:
    """Ten thousand nodes, without a table of all pairs in memory."""
    graph = large()
    with _peak_memory() as grown:
        _expect_answers(make(), graph)
    expect(
        grown[0] < _MAX_GROWTH_MB,
        f"at most {_MAX_GROWTH_MB} MB more memory for 10,000 nodes",
        f"{grown[0]:.0f} MB",
    )


def _expect_answers(predictor: Predictor, graph: Graph) -> None:
    """Fit and ask every question once."""
    predictor.fit(graph)
    nodes = np.random.default_rng(0).integers(graph.num_nodes, size=(200, 2))
    pairs = [(graph.names[a], graph.names[b]) for a, b in nodes.tolist() if a != b]
    scores = predictor.score(pairs)
    broken = int((~np.isfinite(scores)).sum())
    expect(broken == 0, "finite scores", f"{broken} of {len(scores)} that are not")
    suggested = predictor.top(5)
    expect(len(suggested) > 0, "new links from top", "none")
    expect_new(suggested, graph, "top")
    for name in (graph.names[0], graph.names[-1]):
        expect_new(predictor.links_of(name, 5), graph, f"links_of({name!r})")


@contextmanager
def _peak_memory() -> Iterator[list[float]]:
    """Measure by how many MB this process grows at most; the list holds it afterwards."""
    import psutil

    process = psutil.Process()
    before = process.memory_info().rss
    peak, done = [before], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            peak[0] = max(peak[0], process.memory_info().rss)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    grown = [0.0]
    try:
        yield grown
    finally:
        done.set()
        watcher.join()
        grown[0] = (peak[0] - before) / 1e6
