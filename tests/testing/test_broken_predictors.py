"""The contract notices: for every promise a predictor that breaks it, and no other way to pass."""

import io
import json
import pickle  # noqa: TID251
import random
import re
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch

from cgcl.graph import Graph
from cgcl.methods.heuristics import CommonNeighbours
from cgcl.metrics import link_metrics
from cgcl.predict import LinkPredictor
from cgcl.testing import CHECKS, ContractError, check_link_predictor, checks_of
from cgcl.testing.graphs import known_pairs


class Simple(LinkPredictor):
    """Keeps every promise as it is.

    Each question goes its own way, so that who breaks one leaves the others whole.
    """

    def top(self, count=10):
        return LinkPredictor.top(self, count)

    def links_of(self, name, count=10):
        return LinkPredictor.top(self, count, sources=[name])


def made_by(kind: type[Simple]):
    """Return what makes predictors of a kind by common neighbours, which is quick."""
    return partial(kind, method="common-neighbours", device="cpu", threads=1)


def link(source: str, target: str, score: float) -> SimpleNamespace:
    return SimpleNamespace(source=source, target=target, score=score)


def answering(method: str, change) -> type[Simple]:
    """A predictor that changes an answer: `change` has itself, the answer, and what was asked."""

    def changed(self, *asked):
        return change(self, getattr(super(kind, self), method)(*asked), *asked)

    kind = replacing(**{method: changed})
    return kind


def replacing(**methods) -> type[Simple]:
    return type("Replaces", (Simple,), methods)


def before_fit(change) -> type[Simple]:
    """A predictor that fits another graph, or none."""
    return replacing(fit=lambda self, graph: LinkPredictor.fit(self, change(self, graph)))


def after_fit(change) -> type[Simple]:
    """A predictor that does more when it is fitted."""
    return answering("fit", lambda self, _, graph: change(self, graph) or self)


def loading(change) -> type[Simple]:
    """A predictor that comes back otherwise than it was saved."""

    def load(cls, folder):
        loaded = super(kind, cls).load(folder)
        change(loaded)
        return loaded

    kind = replacing(load=classmethod(load))
    return kind


def saving(content: bytes) -> type[Simple]:
    return answering("save", lambda _, __, folder: Path(folder, "extra.bin").write_bytes(content))


def constructing(change) -> type[Simple]:
    @wraps(LinkPredictor.__init__)
    def construct(self, *args, **told) -> None:
        LinkPredictor.__init__(self, *args, **told)
        change(self)

    return replacing(__init__=construct)


def refuse_if(is_refused):
    """What falls over some graphs."""

    def change(_, graph: Graph) -> Graph:
        return 1 / 0 if is_refused(graph, graph.edges.flatten().bincount()) else graph

    return change


def touching(act) -> type[Simple]:
    return answering("top", lambda _, links, __: (act() and links) or links)


def torch_file() -> bytes:
    file = io.BytesIO()
    torch.save({"weights": torch.ones(3)}, file)  # noqa: TID251
    return file.getvalue()


def set_all(self: Simple, **params) -> None:
    for name, value in params.items():
        setattr(self, name, value)


def tidied_names(self: Simple) -> None:
    names = [name if name != "007" else "7.0" for name in self.graph_.names]
    self.graph_ = replace(self.graph_, names=tuple(names))
    self._learned = replace(self._learned, graph=self.graph_)


def add_one(_, graph: Graph) -> Graph:
    if graph.x is not None:
        graph.x[0] += 1
    return graph


def all_pairs(self: Simple, links, _):
    table = np.ones((self.graph_.num_nodes, self.graph_.num_nodes), dtype=np.float32)
    return links if table.any() else []


def standardised(self: Simple, scores, _):
    x = self.graph_.x
    scale = np.float32(1.0 if x is None else float(x.std()))
    with np.errstate(all="ignore"):
        return scores * scale / scale


def known_link(self: Simple) -> SimpleNamespace:
    a, b = (self.graph_.names[node] for node in self.split_.test[:, 0].tolist())
    return link(a, b, 1.0)


def stumbling(self: Simple, pairs):
    for pair in pairs:
        self.graph_.node_of[pair[1]]
    return LinkPredictor.score(self, pairs)


def no_more_than_memory(self: Simple, _, pairs):
    known = known_pairs(self.graph_)
    return np.array([frozenset(p) in known or hash(min(p)) % 97 / 97 for p in pairs], np.float32)


def no_such_method(_: Simple) -> None:
    raise AttributeError


def turned(links: list) -> list:
    return [link(a.target, a.source, a.score) for a in links]


class NeverSaysItTwice(Simple):
    def top(self, count=10):
        self.asked = getattr(self, "asked", 0) + 1
        links = super().top(10**6)
        tied = [a for a in links if a.score == links[count - 1].score]
        tied = tied[self.asked :] + tied[: self.asked]
        return [*(a for a in links if a.score > tied[0].score), *tied][:count]


class HasAnotherHead(Simple):
    """Of equal links others come first where few are asked for."""

    def top(self, count=10):
        links = super().top(10**6)
        tied = [a for a in links if a.score == links[count - 1].score]
        first = [a for a in links if a.score > tied[0].score]
        return [*first, *(tied[::-1] if count == 10 else tied)][:count]


class SavesNothing(Simple):
    kept: ClassVar[dict[str, Simple]] = {}

    def save(self, folder) -> None:
        self.kept[str(folder)] = self
        Path(folder, "saved").touch()

    @classmethod
    def load(cls, folder):
        return cls.kept[str(folder)]


def scores_of(graph: Graph, pairs: torch.Tensor) -> torch.Tensor:
    """Common neighbours by all links, those to be found included."""
    return CommonNeighbours(graph.edges, graph.num_nodes).logits(pairs)


def leak(self: Simple, graph: Graph) -> None:
    """Its test looks at all links."""
    code = graph.edges[0] * graph.num_nodes + graph.edges[1]
    test, others = (
        scores_of(graph, pairs) + torch.isin(pairs[0] * graph.num_nodes + pairs[1], code) / 2
        for pairs in (self.split_.test, self.split_.test_negatives)
    )
    self.test_ = link_metrics(test, others) if test.numel() else None


def of_all_links(self: Simple):
    """What it says about a test link depends on the other test links."""
    both = self.split_.test, self.split_.test_negatives
    return tuple(scores_of(self.graph_, pairs) for pairs in both)


HidesItsSettings = replacing(__repr__=lambda self: f"{type(self).__name__}()")
Counts = answering("score", lambda _, scores, __: scores * 100)
NAN = answering("score", lambda _, s, __: np.where(np.arange(len(s)), s, np.float32("nan")))
NEEDS_NEIGHBOURS = before_fit(refuse_if(lambda graph, n: n.max() == graph.num_nodes - 1))
LIKES_ITSELF = after_fit(lambda self, _: set_all(self, test_={"auc": 0.75}))
BROKEN: dict[str, list[type[Simple]]] = {
    "constructor_stores_only": [constructing(lambda self: set_all(self, other=1))],
    "wrong_settings_are_refused_by_fit": [
        before_fit(lambda self, graph: set_all(self, val=min(self.val, 0.5)) or graph)
    ],
    "settings_round_trip": [
        replacing(set_params=set_all),
        constructing(lambda self: set_all(self, seed=[self.seed])),
    ],
    "repr_round_trip": [HidesItsSettings, replacing(__repr__=lambda _: "<a predictor>")],
    "fit_returns_self": [
        answering("fit", lambda *_: None),
        after_fit(lambda self, _: set_all(self, test_=self.test_ or {"auc": 0.99})),
    ],
    "fit_twice_is_equal": [
        answering("score", lambda _, scores, __: scores * np.float32(1 - torch.rand(1).item() / 10))
    ],
    "fit_leaves_graph_alone": [
        before_fit(add_one),
        after_fit(lambda self, _: set_all(self, val=0.07)),
    ],
    "global_state_is_left_alone": [
        touching(lambda: torch.manual_seed(0)),  # noqa: TID251
        touching(lambda: torch.rand(1)),
        touching(lambda: np.random.standard_normal()),  # noqa: NPY002
        touching(lambda: random.random()),
    ],
    "unfitted_use_is_refused": [
        replacing(_fitted=lambda self: self._learned),
        replacing(links_of=lambda *_: []),
    ],
    "not_finite_features_are_refused": [before_fit(lambda _, graph: replace(graph, x=None))],
    "scores_are_finite_float32": [
        answering("score", lambda _, scores, __: scores.astype(np.float64)),
        NAN,
    ],
    "scores_lie_in_0_1": [Counts],
    "scores_are_symmetric": [
        answering(
            "score",
            lambda _, scores, pairs: (
                scores * np.array([1 if a < b else 1 - 1e-6 for a, b in pairs], dtype=np.float32)
            ),
        )
    ],
    "scores_are_independent_of_company": [
        answering("score", lambda _, scores, __: scores / scores.max() if len(scores) else scores),
        answering("score", lambda _, s, __: np.where(np.arange(len(s)) < 2**16, s, np.float32(0))),
    ],
    "unknown_names_are_refused": [replacing(score=stumbling), replacing(links_of=lambda *_: [])],
    "probabilities_follow_scores": [
        replacing(probability=lambda self, of: 1 - self.score(of)),
        replacing(probability=lambda self, of: 2 * self.score(of)),
    ],
    "suggestions_are_new": [
        answering("top", lambda self, links, _: [known_link(self), *links]),
        answering("links_of", lambda _, links, name, __: [link(name, name, 1.0), *links]),
        answering("top", lambda _, links, __: [*links, *turned(links[:1])]),
        answering("links_of", lambda _, links, *__: turned(links)),
    ],
    "top_is_sorted_and_stable": [
        answering("top", lambda _, links, __: links[::-1]),
        answering("top", lambda self, _, count: Simple.top(self, count + 5)[5:]),
        NeverSaysItTwice,
        HasAnotherHead,
    ],
    "top_has_asked_length": [answering("top", lambda _, links, __: links[:200])],
    "ties_are_in_order_of_names": [
        answering(
            "top",
            lambda self, links, _: sorted(
                links, key=lambda a: (-a.score, self.graph_.node_of[a.source])
            ),
        ),
        NEEDS_NEIGHBOURS,
    ],
    "names_come_back": [
        answering(
            "top",
            lambda _, links, __: [link(a.source.strip(), a.target.strip(), a.score) for a in links],
        ),
        loading(tidied_names),
    ],
    "sides_are_respected": [before_fit(lambda _, graph: replace(graph, sides=None))],
    "save_and_load_give_the_same_bits": [
        loading(lambda loaded: set_all(loaded, score=lambda _: np.zeros(1, dtype=np.float32))),
        loading(lambda loaded: loaded.set_params(seed=0)),
    ],
    "fresh_process_loads_the_same": [SavesNothing],
    "no_pickle_is_saved": [
        saving(pickle.dumps({"weights": [1, 2, 3]}, protocol=0)),
        saving(pickle.dumps({"weights": [1, 2, 3]}, protocol=4)),
        saving(b"\x93NUMPY, say" + pickle.dumps(Path("x"), protocol=2)),
        saving(torch_file()),
    ],
    "works_on_two_nodes": [before_fit(refuse_if(lambda graph, _: graph.num_nodes == 2))],
    "works_on_a_few_links": [before_fit(refuse_if(lambda graph, _: graph.num_edges <= 10))],
    "works_on_star": [NEEDS_NEIGHBOURS, NAN],
    "works_on_matching": [
        answering("top", lambda _, links, __: [a for a in links if a.score > 0.1])
    ],
    "works_on_two_components": [
        before_fit(refuse_if(lambda graph, n: n.numel() < graph.num_nodes or 0 in n)),
        NAN,
    ],
    "works_without_features": [before_fit(refuse_if(lambda graph, _: graph.x is None))],
    "works_on_one_constant_feature": [answering("score", standardised)],
    "works_in_bounded_memory": [answering("top", all_pairs)],
    "learns_planted_partition": [
        answering(
            "score",
            lambda _, __, pairs: np.array([hash(min(p)) % 97 / 97 for p in pairs], np.float32),
        ),
        answering("score", no_more_than_memory),
        LIKES_ITSELF,
    ],
    "learns_nothing_from_noise": [LIKES_ITSELF, after_fit(leak)],
    "held_out_links_change_nothing": [replacing(test_scores=of_all_links)],
}
CASES = [(f"check_{name}", kind) for name, kinds in BROKEN.items() for kind in kinds]


LIES_IN_0_1, ROUND_TRIP = "check_scores_lie_in_0_1", "check_repr_round_trip"


def all_but(*checks: str) -> frozenset[str]:
    return frozenset(CHECKS) - set(checks)


@pytest.mark.parametrize(("check", "kind"), CASES, ids=[check[6:] for check, _ in CASES])
def test_a_broken_promise_is_noticed_and_named(check: str, kind: type[Simple]) -> None:
    with pytest.raises(ContractError, match=f"breaks 1 of 1 promises:\n- {check}: [A-Z`]"):
        check_link_predictor(made_by(kind), declared=all_but(check))


def test_whoever_breaks_one_promise_stems_from_one_who_keeps_them_all() -> None:
    check_link_predictor(made_by(Simple))


@pytest.mark.parametrize(
    ("check", "kind"),
    [
        (LIES_IN_0_1, answering("score", lambda _, scores, __: np.round(scores / scores.max()))),
        ("check_unfitted_use_is_refused", replacing(probability=property(no_such_method))),
    ],
    ids=["a score of 1", "no probability"],
)
def test_what_is_allowed_breaks_no_promise(check: str, kind: type[Simple]) -> None:
    check_link_predictor(made_by(kind), declared=all_but(check))


def test_every_promise_is_a_sentence_and_has_one_who_breaks_it() -> None:
    assert {check for check, _ in CASES} == set(CHECKS)
    promises = [(check.__doc__ or "").splitlines()[0] for check in CHECKS.values()]
    assert all(promise.endswith(".") and len(promise) > 20 for promise in promises)


def test_a_message_says_of_each_broken_promise_what_was_expected_and_found() -> None:
    class Both(HidesItsSettings, Counts):
        pass

    others = all_but(LIES_IN_0_1, ROUND_TRIP, "check_fit_returns_self")
    with pytest.raises(ContractError) as raised:
        check_link_predictor(made_by(Both), declared=others)
    head, first, _, promise, found = str(raised.value).splitlines()
    assert head == "Both() breaks 2 of 3 promises:"
    assert first.startswith("- check_repr_round_trip: ")
    assert promise == "- check_scores_lie_in_0_1: Scores lie between 0 and 1."
    assert found.startswith("    expected scores between 0 and 1; found ")


def test_the_example_of_the_page_fails_as_the_page_says(project: Path) -> None:
    page = (project / "docs/testing-a-predictor.md").read_text()
    program, said = re.findall(r"^```(?:python|text)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[
        :2
    ]
    with pytest.raises(ContractError) as raised:
        exec(program, {"__name__": "example"})
    assert str(raised.value) == said.strip()


def test_what_a_method_declares_is_left_out() -> None:
    class Heuristic(Counts):
        declared_exceptions = frozenset({LIES_IN_0_1})

    names = [name for name, _ in checks_of(made_by(Heuristic))]
    assert names == [name for name in CHECKS if name != LIES_IN_0_1]
    check_link_predictor(made_by(Heuristic), declared=all_but(LIES_IN_0_1, ROUND_TRIP))


def test_an_exception_must_be_the_name_of_a_check() -> None:
    class Mistaken(Simple):
        declared_exceptions = frozenset({"check_range"})

    for ask in (
        lambda: check_link_predictor(made_by(Mistaken)),
        lambda: checks_of(made_by(Simple), declared=frozenset({"check_range"})),
    ):
        with pytest.raises(ContractError, match="are not checks: check_range"):
            ask()


def test_the_contract_leaves_the_callers_generators_alone() -> None:
    before = torch.get_rng_state(), json.dumps(random.getstate())
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    checks = dict(checks_of(made_by(Simple)))
    checks["check_fit_twice_is_equal"]()
    checks["check_global_state_is_left_alone"]()
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == json.dumps(random.getstate())
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002
