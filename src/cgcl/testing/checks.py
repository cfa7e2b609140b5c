"""The contract of a link predictor, as a program.

Each promise is a function, and the first line of its docstring. What is asked of a predictor is
at the beginning, how the promises are gone through at the end.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import pickletools
import random
import re
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import combinations, pairwise
from operator import methodcaller
from pathlib import Path
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgcl.errors import CGCLError, NotFittedError
from cgcl.graph import Graph
from cgcl.metrics import auc
from cgcl.seeds import stream
from cgcl.split import NegativeSampler, Split
from cgcl.testing import graphs

_ALL = 10**6
_CLOSE = 1e-6
# More pairs than anyone scores in one block.
_MANY = 300_000
# A table of all pairs of 10,000 nodes takes 400 MB as float32, 100 MB as bytes.
_MAX_GROWTH_MB = 256
_LEARNED = 0.8
# With 900 test links the standard error of an AUC by chance is 0.014.
_CHANCE = (0.45, 0.55)
# Where to compute need not be remembered.
_OF_THE_MACHINE = ("device", "threads")
_IN_A_FRESH_PROCESS = """
import importlib, sys
from cgcl.testing.checks import answers
module, kind, folder = sys.argv[1:]
sys.stdout.buffer.write(answers(getattr(importlib.import_module(module), kind).load(folder)))
"""
# What a pickle needs to reach a function or a class.
_CODE = {"GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "REDUCE", "BUILD"}


class ContractError(AssertionError):
    """A predictor does not keep a promise."""


def expect(kept: bool | np.bool_, expected: str, found: object) -> None:
    """Raise unless a promise is kept.

    Args:
        kept: Whether it is.
        expected: What was promised, after "expected".
        found: What there was instead.

    Raises:
        ContractError: It is not kept.
    """
    if not kept:
        raise ContractError(f"expected {expected}; found {found}")


def expect_same(found: object, promised: object, expected: str) -> None:
    """Raise unless what was found is what was promised, and say what it was.

    Raises:
        ContractError: It is not.
    """
    expect(found == promised, expected, found)


class Suggestion(Protocol):
    """One pair of a list of suggested links."""

    @property
    def source(self) -> str:
        """The name of the one end."""

    @property
    def target(self) -> str:
        """The name of the other end."""

    @property
    def score(self) -> float:
        """Higher for a likelier link."""


class Predictor(Protocol):
    """Anything that is fitted on a graph and answers with links.

    After `fit` it has `graph_`, the graph with its names, and `test_`, metrics on links that it
    held out itself ("auc" among them), or None if it was told to hold out none.
    """

    graph_: Graph
    test_: dict[str, float] | None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name."""

    def set_params(self, **params: Any) -> Self:  # noqa: ANN401
        """Change settings by name."""

    def fit(self, graph: Graph) -> Self:
        """Learn from a graph."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float32]:
        """Return a score for each pair of names."""

    def top(self, count: int = 10) -> Sequence[Suggestion]:
        """Return the best new links."""

    def links_of(self, name: str, count: int = 10) -> Sequence[Suggestion]:
        """Return the best new links of one node, which comes first in each."""

    def save(self, folder: str | Path) -> None:
        """Write all that was learned to a folder."""

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Return what `save` wrote."""


Make: TypeAlias = Callable[..., Predictor]
"""Returns an unfitted predictor with its own settings; takes `val`, `test` and `seed` by name."""


def _expect_refusal(what: str, ask: Callable[[], object], *kinds: type[Exception]) -> None:
    """Raise unless a question is refused with an error of one of some kinds."""
    found = "no error"
    try:
        ask()
    except kinds:
        return
    except Exception as error:
        found = repr(error)
    expected = " or ".join(kind.__name__ for kind in kinds)
    raise ContractError(f"expected {what} to raise {expected}; found {found}")


def _expect_finite(scores: npt.NDArray[np.float32]) -> None:
    broken = int((~np.isfinite(scores)).sum())
    expect(broken == 0, "finite scores", f"{broken} of {len(scores)} that are not")


def _on_groups(make: Make, seed: int = 0) -> tuple[Any, Graph]:
    """Return a predictor that is fitted on three groups, and these."""
    graph = graphs.groups()
    return make(seed=seed).fit(graph), graph


def _all_scores(make: Make) -> tuple[Any, list[tuple[str, str]], Any]:
    """Return a predictor that is fitted on three groups, all pairs of these, and their scores."""
    predictor, graph = _on_groups(make)
    pairs = list(combinations(graph.names, 2))
    return predictor, pairs, predictor.score(pairs)


# Promises about settings.


def check_constructor_stores_only(make: Make) -> None:
    """The constructor stores its settings under their names, unchanged, and does nothing else."""
    predictor = make(seed=7, val=0.25)
    settings, own = predictor.get_params(), vars(predictor)
    expect(own == settings, f"no attributes but the settings {sorted(settings)}", sorted(own))
    told = settings.get("seed"), settings.get("val")
    expect_same(told, (7, 0.25), "seed 7 and val 0.25 as they were given")


def check_wrong_settings_are_refused_by_fit(make: Make) -> None:
    """A setting that makes no sense is stored, and refused by fit with a CGCLError."""
    predictor = make(val=2.0)
    _expect_refusal("fit with val=2.0", lambda: predictor.fit(graphs.groups()), CGCLError)


def check_settings_round_trip(make: Make) -> None:
    """Settings travel by get_params, set_params and sklearn's clone, none lost or changed."""
    from sklearn.base import clone

    predictor: Any = make(seed=3)
    settings = predictor.get_params()
    kind: Any = type(predictor)
    for how, copy in (
        ("a new one with get_params()", kind(**settings)),
        ("sklearn.base.clone", clone(predictor)),
    ):
        expect(copy is not predictor, f"{how} to be another object", "the same one")
        expect(copy.get_params() == settings, f"the settings {settings} by {how}", copy)
    expect(predictor.set_params(seed=4) is predictor, "set_params to return self", "another object")
    expect_same(predictor.get_params()["seed"], 4, "seed 4 after set_params(seed=4)")
    ask = partial(predictor.set_params, no_such_setting=1)
    _expect_refusal("set_params with a setting that does not exist", ask, CGCLError, ValueError)


def check_repr_round_trip(make: Make) -> None:
    """The repr is a call that builds the same predictor: its class and its changed settings."""
    predictor = make(seed=7)
    text = repr(predictor)
    kind: Any = type(predictor)
    named, settings = False, dict[str, Any]()
    with suppress(SyntaxError, ValueError):
        call = ast.parse(text, mode="eval").body
        if isinstance(call, ast.Call):
            settings = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
            named = ast.unparse(call.func) == kind.__name__
    expect(named, f"a repr such as {kind.__name__}(seed=7)", text)
    rebuilt = kind(**settings).get_params()
    expect(rebuilt == predictor.get_params(), "a repr that names every changed setting", text)


# Promises about fit.


def check_fit_returns_self(make: Make) -> None:
    """Fit returns the predictor, and has the graph and the test in graph_ and test_."""
    predictor, graph = make(), graphs.groups()
    expect(predictor.fit(graph) is predictor, "fit to return the predictor", "something else")
    names = "the names of the graph in graph_, in their order"
    expect_same(predictor.graph_.names, graph.names, names)
    test: Any = predictor.test_
    has_auc = isinstance(test, dict) and 0 <= test.get("auc", -1) <= 1
    expect(has_auc, "an AUC between 0 and 1 in test_['auc']", test)
    test = make(test=0.0).fit(graph).test_
    expect(test is None, "test_ to be None where no links are held out", test)


def check_fit_twice_is_equal(make: Make) -> None:
    """The same seed gives the same bits, whatever the state of the global generators."""
    graph = graphs.groups()
    pairs = graphs.unlinked_pairs(graph)
    with _global_generators_kept():
        first = make(seed=1).fit(graph)
        scores, test = first.score(pairs), first.test_
        for how, predictor in (
            ("fitting twice", first),
            ("two predictors of one seed", make(seed=1)),
        ):
            torch.rand(3)
            np.random.random(3)  # noqa: NPY002
            random.random()  # noqa: S311
            again = predictor.fit(graph)
            same = bool(np.array_equal(again.score(pairs), scores)) and again.test_ == test
            expect(same, f"the same scores and test from {how}", "others")


def check_fit_leaves_graph_alone(make: Make) -> None:
    """Fit and predictions change nothing in the graph they are given, nor the settings."""
    graph, predictor = graphs.groups(), make()
    before = replace(graph).fingerprint, graph.notes, graph.title
    settings = predictor.get_params()
    _use(predictor, graph)
    after = replace(graph).fingerprint, graph.notes, graph.title
    expect(before == after, "the graph as it was before fit", "another")
    expect_same(predictor.get_params(), settings, f"the settings {settings} after fit")


def check_global_state_is_left_alone(make: Make) -> None:
    """Fit and predictions leave the generators of torch, numpy and Python, and torch's threads."""
    with _global_generators_kept():
        before = _global_state()
        _use(make(), graphs.groups())
        after = _global_state()
    changed = [name for name in before if before[name] != after[name]]
    expect(not changed, "global state as it was before fit", f"changes in {', '.join(changed)}")


def check_unfitted_use_is_refused(make: Make) -> None:
    """Before fit every question raises NotFittedError."""
    pairs = [("n000", "n001")]
    with tempfile.TemporaryDirectory() as folder:
        asked: list[tuple[Any, ...]] = [("score", pairs), ("top", 3), ("links_of", "n000", 3)]
        asked += [("save", f"{folder}/unfitted"), ("probability", pairs)]
        for name, *what in asked:
            if name != "probability" or hasattr(make(), name):
                ask = partial(methodcaller(name, *what), make())
                _expect_refusal(f"{name} before fit", ask, NotFittedError)


def check_not_finite_features_are_refused(make: Make) -> None:
    """A NaN or an infinity among the features is refused by fit with a CGCLError."""
    for value in (float("nan"), float("inf")):
        graph = graphs.groups()
        if graph.x is not None:
            graph.x[5, 1] = value  # Graph itself refuses it; a tensor can be written to later
        fit = partial(make().fit, graph)
        _expect_refusal(f"fit with a feature that is {value}", fit, CGCLError)


def _use(predictor: Predictor, graph: Any) -> None:  # noqa: ANN401
    """Fit and ask every question once, whatever the answers: other checks look at these."""
    predictor.fit(graph)
    predictor.score(graphs.unlinked_pairs(graph)[:5])
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


# Promises about scores.


def check_scores_are_finite_float32(make: Make) -> None:
    """Every pair has a score, a finite float32, in the order asked; no pairs have no scores."""
    predictor, pairs, scores = _all_scores(make)
    dtype, shape = getattr(scores, "dtype", type(scores)), getattr(scores, "shape", None)
    is_kept = (dtype, shape) == (np.float32, (len(pairs),))
    expect(is_kept, f"a float32 array of shape ({len(pairs)},)", f"{dtype} {shape}")
    _expect_finite(scores)
    empty = predictor.score([]).shape
    expect(empty == (0,), "no scores for no pairs", f"shape {empty}")


def check_scores_lie_in_0_1(make: Make) -> None:
    """Scores lie between 0 and 1."""
    _, _, scores = _all_scores(make)
    inside = bool(((scores >= 0) & (scores <= 1)).all())
    expect(inside, "scores between 0 and 1", f"{scores.min():.6g} to {scores.max():.6g}")


def check_scores_are_symmetric(make: Make) -> None:
    """The order of a pair does not matter: (a, b) and (b, a) have the same bits."""
    predictor, pairs, scores = _all_scores(make)
    differ = int((scores != predictor.score([(b, a) for a, b in pairs])).sum())
    expect(differ == 0, "the same bits for (a, b) and (b, a)", f"{differ} pairs that differ")


def check_scores_are_independent_of_company(make: Make) -> None:
    """A pair's score does not depend on which other pairs are asked, their order or number."""
    predictor, pairs, scores = _all_scores(make)
    order = np.random.default_rng(0).permutation(len(pairs))
    times = _MANY // len(pairs)
    for what, found, wanted in (
        ("in another order", predictor.score([pairs[i] for i in order]), scores[order]),
        ("as a part of it", predictor.score([pairs[i] for i in order[:9]]), scores[order[:9]]),
        ("alone", predictor.score([pairs[order[0]]]), scores[order[:1]]),
        ("in a very long list", predictor.score(pairs * times), np.tile(scores, times)),
        ("again", predictor.score(pairs), scores),
    ):
        gap = float(np.abs(found - wanted).max())
        expect(gap <= _CLOSE, f"the same scores when pairs are asked {what}", f"a gap of {gap:.2g}")


def check_unknown_names_are_refused(make: Make) -> None:
    """A name that is not in the graph, or what is not a pair, is refused with a CGCLError."""
    predictor, graph = _on_groups(make)
    known = graph.names[0]
    for what, ask in (
        ("score of an unknown name", lambda: predictor.score([(known, "nobody")])),
        ("links_of an unknown name", lambda: predictor.links_of("nobody", 3)),
        ("score of one name", lambda: predictor.score([(known,)])),
        ("score of three names", lambda: predictor.score([(known, known, known)])),
    ):
        _expect_refusal(what, ask, CGCLError)


def check_probabilities_follow_scores(make: Make) -> None:
    """Where there is a `probability`, it lies between 0 and 1 and never falls as scores rise."""
    predictor, graph = _on_groups(make)
    if not hasattr(predictor, "probability"):
        return
    pairs = graphs.unlinked_pairs(graph)
    scores, chances = predictor.score(pairs), np.asarray(predictor.probability(pairs))
    expect(chances.shape == scores.shape, f"{len(scores)} probabilities", chances.shape)
    inside = bool((np.isfinite(chances) & (chances >= 0) & (chances <= 1)).all())
    expect(inside, "probabilities between 0 and 1", f"{chances.min():.6g} to {chances.max():.6g}")
    fall = -float(np.diff(chances[np.argsort(scores, kind="stable")]).min())
    expect(fall <= _CLOSE, "probabilities that rise with scores", f"a fall of {fall:.2g}")


# Promises about suggested links.


def check_suggestions_are_new(make: Make) -> None:
    """Known links (held-out ones too) and self-pairs are never suggested, and no pair twice."""
    predictor, graph = _on_groups(make)
    expect_new(predictor.top(_ALL), graph, "top")
    for name in graph.names[:6]:
        links = predictor.links_of(name, _ALL)
        expect_new(links, graph, f"links_of({name!r})")
        first = sorted({link.source for link in links})
        expect(first == [name], f"{name!r} as the source of each of its links", first[:5])


def check_top_is_sorted_and_stable(make: Make) -> None:
    """Lists are sorted, best first; the best are the best of all pairs; asking again repeats."""
    predictor, graph = _on_groups(make)
    pairs = graphs.unlinked_pairs(graph)
    best = np.sort(predictor.score(pairs))[::-1]
    mine = graph.names[4]
    own = np.sort(predictor.score([pair for pair in pairs if mine in pair]))[::-1]
    for what, links, scores in (
        ("top(25)", predictor.top(25), best),
        (f"links_of({mine!r}, 10)", predictor.links_of(mine, 10), own),
    ):
        found = np.array([link.score for link in links])
        expect(bool((np.diff(found) <= 0).all()), f"{what} to be sorted, best first", found)
        wanted = scores[: len(found)]
        gap = float(np.abs(found - wanted).max())
        expect(gap <= _CLOSE, f"{what} to hold the best of all pairs", f"a gap of {gap:.2g}")
        asked = predictor.score([(link.source, link.target) for link in links])
        gap = float(np.abs(found - asked).max())
        expect(gap <= _CLOSE, f"{what} to give the scores of score()", f"a gap of {gap:.2g}")
    once, again = _names(predictor.top(25)), _names(predictor.top(25))
    expect(once == again, "the same list when asked again", "another")
    expect_same(_names(predictor.top(10)), once[:10], "top(10) to be the head of top(25)")


def check_top_has_asked_length(make: Make) -> None:
    """As many links come back as were asked for, or all there are."""
    predictor, graph = _on_groups(make)
    everything = len(graphs.unlinked_pairs(graph))
    for count, wanted in ((1, 1), (25, 25), (_ALL, everything)):
        expect_same(len(predictor.top(count)), wanted, f"{wanted} links from top({count})")
    name = graph.names[0]
    partners = sum(name in pair for pair in graphs.unlinked_pairs(graph))
    for count, wanted in ((1, 1), (3, 3), (_ALL, partners)):
        asked = f"links_of({name!r}, {count})"
        expect_same(len(predictor.links_of(name, count)), wanted, f"{wanted} links from {asked}")


def check_ties_are_in_order_of_names(make: Make) -> None:
    """Links with the same score are in the order of their names, not of their numbers."""
    # In a star with one constant feature all leaves are alike. Names run against numbers.
    names = ["hub", *(f"leaf {i:02d}" for i in range(15, 0, -1))]
    predictor = make(val=0.0, test=0.0).fit(graphs.star(15, names))
    for what, links in (
        ("top", predictor.top(_ALL)),
        ("links_of", predictor.links_of("leaf 07", _ALL)),
    ):
        keys = [(-link.score, link.source, link.target) for link in links]
        wrong = [after[1:] for before, after in pairwise(keys) if before > after]
        expect(not wrong, f"equal scores of {what} in the order of names", f"{wrong[:1]} too late")


def check_names_come_back(make: Make) -> None:
    """Names are kept to the last character in every answer, in files too."""
    graph = graphs.groups(graphs.AWKWARD_NAMES)
    unlinked = {frozenset(pair) for pair in graphs.unlinked_pairs(graph)}
    predictor = make().fit(graph)
    scores = predictor.score([(name, "n035") for name in graphs.AWKWARD_NAMES])
    expect_same(len(scores), len(graphs.AWKWARD_NAMES), f"{len(graphs.AWKWARD_NAMES)} scores")
    with tempfile.TemporaryDirectory() as folder:
        predictor.save(folder)
        loaded = type(predictor).load(folder)
    for what, asked in (("fitted", predictor), ("loaded", loaded)):
        same = f"the same names in graph_ of a {what} predictor"
        expect_same(asked.graph_.names, graph.names, same)
        strange = {frozenset(pair) for pair in _names(asked.top(_ALL))} ^ unlinked
        shown = [sorted(pair) for pair in strange][:2]
        expect(not strange, "exactly the unlinked pairs of names from top", f"others: {shown}")
        for name in graphs.AWKWARD_NAMES:
            sources = {link.source for link in asked.links_of(name, 2)}
            expect_same(sources, {name}, f"links of {name!r} from links_of")


def check_sides_are_respected(make: Make) -> None:
    """In a bipartite graph only pairs across the two sides are suggested."""
    graph = graphs.two_sides()
    predictor = make().fit(graph)
    left = set(graph.names[:20])
    for what, links in (
        ("top", predictor.top(_ALL)),
        ("links_of a left node", predictor.links_of(graph.names[3], _ALL)),
        ("links_of a right node", predictor.links_of(graph.names[33], _ALL)),
    ):
        expect_new(links, graph, what)
        same = [pair for pair in _names(links) if (pair[0] in left) == (pair[1] in left)]
        expect(not same, f"{what} to join the two sides", f"{len(same)} pairs such as {same[:1]}")


def expect_new(links: Sequence[Suggestion], graph: Graph, what: str) -> None:
    """Raise unless the links are new, between two nodes of the graph, and each there once.

    Raises:
        ContractError: They are not.
    """
    pairs = [frozenset(pair) for pair in _names(links)]
    loops = [sorted(pair) for pair in pairs if len(pair) == 1]
    expect(not loops, f"{what} without self-pairs", loops[:1])
    known = [sorted(pair) for pair in set(pairs) & graphs.known_pairs(graph)]
    expect(not known, f"{what} without known links", f"{len(known)}, such as {known[:1]}")
    repeats = len(pairs) - len(set(pairs))
    expect(repeats == 0, f"{what} to hold each pair once", f"{repeats} repeated")


def _names(links: Sequence[Suggestion]) -> list[tuple[str, str]]:
    return [(link.source, link.target) for link in links]


# Promises about what is on disk.


def check_save_and_load_give_the_same_bits(make: Make) -> None:
    """A predictor that was saved and loaded gives the same bits, settings and test."""
    predictor, graph = _on_groups(make, seed=2)
    with tempfile.TemporaryDirectory() as parent:
        predictor.save(Path(parent) / "new" / "folder")
        loaded: Any = type(predictor).load(Path(parent) / "new" / "folder")
        outside = sorted(path.name for path in Path(parent).iterdir())
    expect(outside == ["new"], "nothing written outside the folder", outside)
    expect(answers(loaded) == answers(predictor), "the same answers from a loaded one", "others")
    pairs = graphs.unlinked_pairs(graph)
    same = np.array_equal(loaded.score(pairs), predictor.score(pairs))
    expect(same, "the same bits in the scores of a loaded one", "others")
    expect(loaded.test_ == predictor.test_, f"the test {predictor.test_}", loaded.test_)
    before, after = (
        {k: v for k, v in asked.get_params().items() if k not in _OF_THE_MACHINE}
        for asked in (predictor, loaded)
    )
    # What was left open comes back as what was chosen.
    after |= {name: None for name, value in before.items() if value is None}
    expect(before == after, f"the settings {before}", after)


def check_fresh_process_loads_the_same(make: Make) -> None:
    """Another process loads the folder and gives the same bits: nothing was left in memory."""
    predictor = make().fit(graphs.groups(graphs.AWKWARD_NAMES))
    kind = type(predictor)
    with tempfile.TemporaryDirectory() as folder:
        predictor.save(folder)
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", _IN_A_FRESH_PROCESS, kind.__module__, kind.__name__, folder],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            check=False,
        )
    said = done.stderr.decode(errors="replace").strip()[-300:]
    expect(done.returncode == 0, "a fresh process to load it", said)
    expect(done.stdout == answers(predictor), "the same answers in a fresh process", "others")


def check_no_pickle_is_saved(make: Make) -> None:
    """Nothing that is saved is a pickle, nor a zip file, which may hold one."""
    with tempfile.TemporaryDirectory() as folder:
        make().fit(graphs.groups()).save(folder)
        files = [path for path in Path(folder).rglob("*") if path.is_file()]
        expect(bool(files), "files in the saved folder", "none")
        for path in files:
            expect(not zipfile.is_zipfile(path), "no zip files", path.name)
            expect(not _holds_pickle(path.read_bytes()), "no pickles", path.name)


def answers(predictor: Predictor) -> bytes:
    """Return the best links with their scores to the last bit, as bytes to compare."""
    links = predictor.top(30)
    names = "\n".join(repr((link.source, link.target)) for link in links)
    scores = np.array([link.score for link in links], dtype=np.float32)
    return names.encode() + b"\n" + scores.tobytes()


def _holds_pickle(content: bytes) -> bool:
    """Say whether all of the content is a pickle, or some of it is one that can run code."""
    places = (found.start() for found in re.finditer(rb"\x80[\x02-\x05]", content))
    return len(_opcodes(content)) > 1 or any(_opcodes(content[at:]) & _CODE for at in places)


def _opcodes(content: bytes) -> set[str]:
    """Return the instructions of the pickle that the content begins with; none if it does not."""
    try:
        return {opcode.name for opcode, _, _ in pickletools.genops(content)}
    except Exception:  # whatever is not a pickle fails in its own way
        return set()


# Promises about graphs.


def check_works_on_two_nodes(make: Make) -> None:
    """Two linked nodes without a test set: answers, or a CGCLError that says what is missing."""
    graph = graphs.links_graph([(0, 1)], 2, torch.eye(2))
    try:
        predictor = make(val=0.0, test=0.0).fit(graph)
    except CGCLError as error:
        lines = str(error).splitlines()
        expect(1 <= len(lines) <= 4, "a message of one to four lines", lines)
        return
    expect_same(len(predictor.top(5)), 0, "no new links where the only pair is linked")


def check_works_on_a_few_links(make: Make) -> None:
    """Four nodes in a row, without a validation or a test set."""
    _expect_answers(
        make(val=0.0, test=0.0), graphs.links_graph([(0, 1), (1, 2), (2, 3)], 4, torch.eye(4))
    )


def check_works_on_star(make: Make) -> None:
    """One hub and sixty leaves: hiding a link isolates a leaf."""
    _expect_answers(make(), graphs.star(60))


def check_works_on_matching(make: Make) -> None:
    """Sixty links that share no node: hiding a link isolates both ends."""
    links = [(2 * i, 2 * i + 1) for i in range(60)]
    x = torch.nn.functional.one_hot(torch.arange(120) // 2 % 5, 5).float()
    _expect_answers(make(), graphs.links_graph(links, 120, x))


def check_works_on_two_components(make: Make) -> None:
    """Two groups without a link between them, each almost complete, and an isolated node."""
    pairs = [*combinations(range(12), 2), *combinations(range(12, 24), 2)]
    links = [pair for pair in pairs if sum(pair) % 7]
    _expect_answers(make(), graphs.links_graph(links, 25, torch.eye(25)))


def check_works_without_features(make: Make) -> None:
    """A graph that has links only."""
    _expect_answers(make(), replace(graphs.groups(), x=None))


def check_works_on_one_constant_feature(make: Make) -> None:
    """Features that say nothing: one, the same for all nodes."""
    _expect_answers(make(), replace(graphs.groups(), x=torch.ones(36, 1)))


def check_works_in_bounded_memory(make: Make) -> None:
    """Ten thousand nodes, without a table of all pairs in memory."""
    graph = graphs.large()
    with _watched_memory() as seen:
        _expect_answers(make(), graph)
    grown = (max(seen) - seen[0]) / 1e6
    most = f"at most {_MAX_GROWTH_MB} MB more memory for 10,000 nodes"
    expect(grown < _MAX_GROWTH_MB, most, f"{grown:.0f} MB")


def _expect_answers(predictor: Predictor, graph: Graph) -> None:
    """Fit and ask every question once."""
    predictor.fit(graph)
    nodes = np.random.default_rng(0).integers(graph.num_nodes, size=(200, 2))
    pairs = graphs.named_pairs(graph, torch.as_tensor(nodes).T)
    _expect_finite(predictor.score([(a, b) for a, b in pairs if a != b]))
    suggested = predictor.top(5)
    expect(len(suggested) > 0, "new links from top", "none")
    expect_new(suggested, graph, "top")
    for name in (graph.names[0], graph.names[-1]):
        expect_new(predictor.links_of(name, 5), graph, f"links_of({name!r})")


@contextmanager
def _watched_memory() -> Iterator[list[int]]:
    """Note again and again how many bytes this process takes; the first is from before."""
    import psutil

    process, done = psutil.Process(), threading.Event()
    seen = [process.memory_info().rss]

    def watch() -> None:
        while not done.wait(0.005):
            seen.append(process.memory_info().rss)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        done.set()
        watcher.join()


# Promises about what is learned.


def check_learns_planted_partition(make: Make) -> None:
    """Where groups are planted, links that fit never saw are told from unlinked pairs."""
    graph = graphs.planted_partition()
    order = torch.randperm(graph.num_edges, generator=stream(0, "contract hidden"))
    hidden, kept = order[: graph.num_edges // 10], order[graph.num_edges // 10 :]
    seen = graph.edges.index_select(1, kept.sort().values)
    predictor = make().fit(replace(graph, edges=seen))
    others = NegativeSampler(graph.edges, graph.num_nodes).draw_distinct(
        500, stream(0, "contract unlinked")
    )
    links = graph.edges.index_select(1, hidden)
    found = auc(*(predictor.score(graphs.named_pairs(graph, pairs)) for pairs in (links, others)))
    expect(found > _LEARNED, f"an AUC above {_LEARNED} on links it never saw", f"{found:.3f}")
    said = (predictor.test_ or {}).get("auc", 0.0)
    expect(said > _LEARNED, f"an AUC above {_LEARNED} in test_", f"{said:.3f}")


def check_learns_nothing_from_noise(make: Make) -> None:
    """Where links are pure chance the test says so: a better result would be a leak."""
    graph, (low, high) = graphs.noise(), _CHANCE
    for what, given in (("random features", graph), ("no features", replace(graph, x=None))):
        found = (make().fit(given).test_ or {}).get("auc", 0.0)
        wanted = f"an AUC from {low} to {high} on a random graph with {what}"
        expect(low <= found <= high, wanted, f"{found:.3f}")


def check_held_out_links_change_nothing(make: Make) -> None:
    """Other links to test on change no bit of what the test says about the rest.

    Asked of predictors whose `fit` takes a split and that have `test_scores`.
    """
    predictor: Any = make()
    takes_splits = "split" in inspect.signature(predictor.fit).parameters
    if not takes_splits or not hasattr(predictor, "test_scores"):
        return
    graph = graphs.groups()
    for what, x in (("features", graph.x), ("no features", None)):
        here = replace(graph, x=x)
        first, second = (_scores_of_the_rest(make(), here, world) for world in (0, 1))
        same = all(map(torch.equal, first, second))
        expect(same, f"the same test scores on a graph with {what} beside other links", "others")


def _scores_of_the_rest(predictor: Any, graph: Graph, world: int) -> tuple[Tensor, Tensor]:  # noqa: ANN401
    """Return the test scores of links and pairs that are the same in both worlds.

    A tenth of the links is tested in both; another tenth is in the one world only, and another in
    the other. No link chooses an epoch: what is chosen would depend on it, and rightly so.
    """
    tenth = graph.num_edges // 10
    order = torch.randperm(graph.num_edges, generator=stream(0, "contract worlds"))
    rest, *own, train = (
        graph.edges.index_select(1, part.sort().values)
        for part in order.split([tenth, tenth, tenth, graph.num_edges - 3 * tenth])
    )
    pairs = NegativeSampler(graph.edges, graph.num_nodes)
    others = pairs.draw_distinct(2 * tenth, stream(0, "contract unlinked"))
    test, none = torch.cat([rest, own[world]], dim=1), train.new_empty(2, 0)
    split = Split(graph.num_nodes, train, none, test, none, others)
    here = Graph.from_pairs(graph.title, graph.names, torch.cat([train, test], dim=1), graph.x)
    positive, negative = predictor.fit(here, split).test_scores()
    return positive[:tenth], negative


CHECKS: dict[str, Callable[[Make], None]] = {
    name: check for name, check in list(globals().items()) if name.startswith("check_")
}
"""Every check by its name; the first line of its docstring is the promise."""


def checks_of(
    make: Make, *, declared: frozenset[str] = frozenset()
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the name of each check and a function that runs it, for a test case each.

    Args:
        make: Returns an unfitted predictor; takes `val`, `test` and `seed` by name.
        declared: Checks that this predictor by its nature cannot keep, besides those that it
            names itself in `declared_exceptions`. They are left out.

    Raises:
        ContractError: A declared exception is not the name of a check.

    Example:
        >>> from cgcl.predict import LinkPredictor
        >>> dict(checks_of(LinkPredictor))["check_constructor_stores_only"]()
    """
    exceptions = declared | frozenset(getattr(make(), "declared_exceptions", ()))
    unknown = sorted(exceptions - CHECKS.keys())
    if unknown:
        raise ContractError(
            f"Declared exceptions that are not checks: {', '.join(unknown)}.\n"
            f"The checks are: {', '.join(CHECKS)}."
        )
    return ((name, partial(CHECKS[name], make)) for name in CHECKS if name not in exceptions)


def check_link_predictor(make: Make, *, declared: frozenset[str] = frozenset()) -> None:
    """Run all checks and say which promises are not kept.

    Args:
        make: Returns an unfitted predictor; takes `val`, `test` and `seed` by name, such as
            `lambda **settings: LinkPredictor(epochs=30, hidden=16, **settings)`.
        declared: Checks that this predictor by its nature cannot keep, besides those that it
            names itself in `declared_exceptions`.

    Raises:
        ContractError: A promise is not kept, or a declared exception is not a check.
    """
    broken: list[str] = []
    asked = list(checks_of(make, declared=declared))
    for name, check in asked:
        try:
            check()
        except Exception as error:
            is_ours = isinstance(error, ContractError)
            found = f"{error}." if is_ours else f"raised {type(error).__name__}: {error}"
            promise = (CHECKS[name].__doc__ or "").splitlines()[0]
            broken.append(f"- {name}: {promise}\n    {found}")
    if broken:
        head = f"{make()!r} breaks {len(broken)} of {len(asked)} promises:"
        raise ContractError("\n".join([head, *broken]))
