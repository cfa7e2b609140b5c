"""Promises about fit: what it returns, what it leaves alone, what it refuses."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from cgcl.errors import CGCLError, NotFittedError
from cgcl.testing.graphs import groups, unlinked_pairs
from cgcl.testing.predictor import Make, Predictor, expect

__all__ = [
    "check_fit_leaves_graph_alone",
    "check_fit_returns_self",
    "check_fit_twice_is_equal",
    "check_global_state_is_left_alone",
    "check_not_finite_features_are_refused",
    "check_unfitted_use_is_refused",
]


def check_fit_returns_self(make: Make) -> None:
    """Fit returns the predictor, and has the graph and the test in graph_ and test_."""
    predictor, graph = make(), groups()
    expect(predictor.fit(graph) is predictor, "fit to return the predictor", "something else")
    names = predictor.graph_.names
    expect(names == graph.names, "the names of the graph in graph_, in their order", names)
    test: Any = predictor.test_
    expect(
        isinstance(test, dict) and 0 <= test.get("auc", -1) <= 1,
        "an AUC between 0 and 1 in test_['auc']",
        test,
    )
    test = make(test=0.0).fit(graph).test_
    expect(test is None, "test_ to be None where no links are held out", test)


def check_fit_twice_is_equal(make: Make) -> None:
    """The same seed gives the same bits, whatever the state of the global generators."""
    graph = groups()
    pairs = unlinked_pairs(graph)
    with _global_generators_kept():
        first = make(seed=1).fit(graph)
        scores, test = first.score(pairs), first.test_
        _draw_from_global_generators()
        again = first.fit(graph)
        same = bool(np.array_equal(again.score(pairs), scores)) and again.test_ == test
        expect(same, "the same scores and test from fitting twice", "others")
        other = make(seed=1).fit(graph)
        same = bool(np.array_equal(other.score(pairs), scores)) and other.test_ == test
        expect(same, "the same scores and test from two predictors of one seed", "others")


def check_fit_leaves_graph_alone(make: Make) -> None:
    """Fit and predictions change nothing in the graph they are given, nor the settings."""
    graph, predictor = groups(), make()
    before = replace(graph).fingerprint, graph.notes, graph.title
    settings = predictor.get_params()
    _use(predictor, graph)
    after = replace(graph).fingerprint, graph.notes, graph.title
    expect(before == after, "the graph as it was before fit", "another")
    found = predictor.get_params()
    expect(found == settings, f"the settings {settings} after fit", found)


def check_global_state_is_left_alone(make: Make) -> None:
    """Fit and predictions leave the generators of torch, numpy and Python, and torch's threads."""
    with _global_generators_kept():
        before = _global_state()
        _use(make(), groups())
        after = _global_state()
    changed = [name for name in before if before[name] != after[name]]
    expect(not changed, "global state as it was before fit", f"changes in {', '.join(changed)}")


def check_unfitted_use_is_refused(make: Make) -> None:
    """Before fit every question raises NotFittedError."""
    with tempfile.TemporaryDirectory() as folder:
        questions: dict[str, Callable[[Any], object]] = {
            "score": lambda predictor: predictor.score([("n000", "n001")]),
            "top": lambda predictor: predictor.top(3),
            "links_of": lambda predictor: predictor.links_of("n000", 3),
            "save": lambda predictor: predictor.save(f"{folder}/unfitted"),
        }
        if hasattr(make(), "probability"):
            questions["probability"] = lambda predictor: predictor.probability([("n000", "n001")])
        for name, ask in questions.items():
            try:
                ask(make())
            except NotFittedError:
                continue
            except Exception as error:
                expect(False, f"{name} before fit to raise NotFittedError", repr(error))
            expect(False, f"{name} before fit to raise NotFittedError", "no error")


def check_not_finite_features_are_refused(make: Make) -> None:
    """A NaN or an infinity among the features is refused by fit with a CGCLError."""
    for value in (float("nan"), float("inf")):
        graph = groups()
        if graph.x is not None:
            graph.x[5, 1] = value  # Graph itself refuses it; a tensor can be written to later
        try:
            make().fit(graph)
        except CGCLError:
            continue
        expect(False, f"fit to refuse a feature that is {value} with a CGCLError", "no error")


def _use(predictor: Predictor, graph: Any) -> None:  # noqa: ANN401
    """Fit and ask every question once."""
    predictor.fit(graph)
    predictor.score(unlinked_pairs(graph)[:5])
    predictor.top(5)
    predictor.links_of(graph.names[0], 5)


def _global_state() -> dict[str, object]:
    numpys = np.random.get_state(legacy=False)  # noqa: NPY002
    return {
        "torch's generator": torch.get_rng_state().numpy().tobytes(),
        "numpy's generator": json.dumps(numpys, default=np.ndarray.tolist),
        "Python's generator": random.getstate(),
        "torch's threads": torch.get_num_threads(),
        "torch's default type": torch.get_default_dtype(),
        "torch's gradient mode": torch.is_grad_enabled(),
        "torch's deterministic mode": torch.are_deterministic_algorithms_enabled(),
    }


def _draw_from_global_generators() -> None:
    torch.rand(3)
    np.random.random(3)  # noqa: NPY002
    random.random()  # noqa: S311


@contextmanager
def _global_generators_kept() -> Iterator[None]:
    """Put the caller's generators back afterwards: a contract must not do what it forbids."""
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        random.setstate(states[2])
