"""The contract notices: for every promise a predictor that breaks it, and no other way to pass."""

from __future__ import annotations

import io
import json
import pickle  # noqa: TID251
import random
from dataclasses import replace
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


class Simple(LinkPredictor):
    """Common neighbours: quick, and keeps every promise as it is.

    Each question goes its own way, so that who breaks one leaves the others whole.
    """

    def __init__(
        self,
        method="common-neighbours",
        *,
        val=0.05,
        test=0.1,
        seed=0,
        device="cpu",
        threads=1,
        time_limit="",
        engine="auto",
        precision="tf32",
        deterministic=False,
        track_consistency=False,
        **settings,
    ) -> None:
        super().__init__(
            method,
            val=val,
            test=test,
            seed=seed,
            device=device,
            threads=threads,
            time_limit=time_limit,
            engine=engine,
            precision=precision,
            deterministic=deterministic,
            track_consistency=track_consistency,
            **settings,
        )

    def top(self, count=10):
        return LinkPredictor.top(self, count)

    def links_of(self, name, count=10):
        return LinkPredictor.top(self, count, sources=[name])


BROKEN: list[tuple[str, type[Simple]]] = []


def breaks(*checks: str):
    """Enter a predictor into the table under the promises that it breaks."""

    def enter(kind: type[Simple]) -> type[Simple]:
        BROKEN.extend((f"check_{name}", kind) for name in checks)
        return kind

    return enter


def link(source: str, target: str, score: float) -> SimpleNamespace:
    return SimpleNamespace(source=source, target=target, score=score)


@breaks("constructor_stores_only")
class WorksInTheConstructor(Simple):
    def __init__(self, method="common-neighbours", *, val=0.05, test=0.1, seed=0) -> None:
        super().__init__(method, val=val, test=test, seed=seed)
        self.generator = torch.Generator()


@breaks("wrong_settings_are_refused_by_fit")
class TakesAnySetting(Simple):
    def fit(self, graph):
        self.val = min(self.val, 0.5)
        return super().fit(graph)


@breaks("settings_round_trip")
class SetsAndSaysNothing(Simple):
    def set_params(self, **params):
        for name, value in params.items():
            setattr(self, name, value)


@breaks("settings_round_trip")
class ChangesWhatItIsGiven(Simple):
    def __init__(self, method="common-neighbours", *, val=0.05, test=0.1, seed=0) -> None:
        super().__init__(method, val=val, test=test, seed=[seed])


@breaks("repr_round_trip")
class HidesItsSettings(Simple):
    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


@breaks("repr_round_trip")
class SpeaksFreely(Simple):
    def __repr__(self) -> str:
        return "<a predictor>"


@breaks("fit_returns_self")
class ReturnsNothing(Simple):
    def fit(self, graph):
        super().fit(graph)


@breaks("fit_returns_self")
class InventsATest(Simple):
    def fit(self, graph):
        super().fit(graph)
        self.test_ = self.test_ or {"auc": 0.99}
        return self


@breaks("fit_twice_is_equal")
class DependsOnTheHour(Simple):
    def fit(self, graph):
        super().fit(graph)
        self.noise = torch.rand(1).item() / 10
        return self

    def score(self, pairs):
        return super().score(pairs) * np.float32(1 - self.noise)


@breaks("fit_leaves_graph_alone")
class WritesIntoTheGraph(Simple):
    def fit(self, graph):
        if graph.x is not None:
            graph.x[0] += 1
        return super().fit(graph)


@breaks("fit_leaves_graph_alone")
class ChangesItsSettings(Simple):
    def fit(self, graph):
        super().fit(graph)
        self.val = 0.07
        return self


def touching(act) -> type[Simple]:
    class Touches(Simple):
        def top(self, count=10):
            act()
            return super().top(count)

    return Touches


for act in (
    lambda: torch.manual_seed(0),  # noqa: TID251
    lambda: torch.rand(1),
    lambda: np.random.random(),  # noqa: NPY002
    lambda: np.random.standard_normal(),  # noqa: NPY002
    lambda: random.random(),
):
    breaks("global_state_is_left_alone")(touching(act))


@breaks("unfitted_use_is_refused")
class StumblesWhenUnfitted(Simple):
    def _fitted(self):
        return self._learned


@breaks("unfitted_use_is_refused")
class AnswersUnfitted(Simple):
    def links_of(self, name, count=10):
        return super().links_of(name, count) if hasattr(self, "graph_") else []


@breaks("not_finite_features_are_refused")
class IgnoresFeatures(Simple):
    def fit(self, graph):
        return super().fit(replace(graph, x=None))


@breaks("scores_are_finite_float32")
class ScoresInDouble(Simple):
    def score(self, pairs):
        return super().score(pairs).astype(np.float64)


@breaks("scores_are_finite_float32", "works_on_two_components", "works_on_star")
class ScoresNaN(Simple):
    def score(self, pairs):
        scores = super().score(pairs)
        scores[:1] = np.nan
        return scores


@breaks("scores_lie_in_0_1")
class Counts(Simple):
    def score(self, pairs):
        return super().score(pairs) * 100


@breaks("scores_are_symmetric")
class CaresForDirection(Simple):
    def score(self, pairs):
        first = np.array([a < b for a, b in pairs], dtype=np.float32)
        return super().score(pairs) * (1 - first * np.float32(1e-6))


@breaks("scores_are_independent_of_company")
class ComparesWithTheOthers(Simple):
    def score(self, pairs):
        scores = super().score(pairs)
        return scores / scores.max() if len(scores) else scores


@breaks("scores_are_independent_of_company")
class LosesItsWayInLongLists(Simple):
    def score(self, pairs):
        scores = super().score(pairs)
        scores[2**16 :] = 0
        return scores


@breaks("unknown_names_are_refused")
class StumblesOverNames(Simple):
    def score(self, pairs):
        for pair in pairs:
            self.graph_.node_of[pair[1]]
        return super().score(pairs)


@breaks("unknown_names_are_refused")
class KnowsEverybody(Simple):
    def links_of(self, name, count=10):
        return super().links_of(name, count) if name in self.graph_.node_of else []


@breaks("probabilities_follow_scores")
class DoubtsItsScores(Simple):
    def probability(self, pairs):
        return 1 - self.score(pairs)


@breaks("probabilities_follow_scores")
class MoreThanSure(Simple):
    def probability(self, pairs):
        return 2 * self.score(pairs)


@breaks("suggestions_are_new")
class SuggestsWhatIsKnown(Simple):
    def top(self, count=10):
        a, b = (self.graph_.names[node] for node in self.split_.test[:, 0].tolist())
        return [link(a, b, 1.0), *super().top(count)]


@breaks("suggestions_are_new")
class SuggestsOneself(Simple):
    def links_of(self, name, count=10):
        return [link(name, name, 1.0), *super().links_of(name, count)]


@breaks("suggestions_are_new")
class RepeatsItself(Simple):
    def top(self, count=10):
        links = list(super().top(count))
        return [*links, link(links[0].target, links[0].source, links[0].score)]


@breaks("suggestions_are_new")
class TurnsPairsRound(Simple):
    def links_of(self, name, count=10):
        return [link(a.target, a.source, a.score) for a in super().links_of(name, count)]


@breaks("top_is_sorted_and_stable")
class WorstFirst(Simple):
    def top(self, count=10):
        return list(super().top(count))[::-1]


@breaks("top_is_sorted_and_stable")
class MissesTheBest(Simple):
    def top(self, count=10):
        return list(super().top(count + 5))[5:]


@breaks("top_is_sorted_and_stable")
class NeverSaysItTwice(Simple):
    def top(self, count=10):
        self.asked = getattr(self, "asked", 0) + 1
        links = super().top(10**6)
        tied = [a for a in links if a.score == links[count - 1].score]
        tied = tied[self.asked :] + tied[: self.asked]
        return [*(a for a in links if a.score > tied[0].score), *tied][:count]


@breaks("top_has_asked_length")
class FallsShort(Simple):
    def top(self, count=10):
        return super().top(count)[: max(1, min(count, 200))]


@breaks("ties_are_in_order_of_names")
class SortsTiesByNumber(Simple):
    def top(self, count=10):
        number = self.graph_.node_of
        return sorted(super().top(count), key=lambda a: (-a.score, number[a.source]))


@breaks("names_come_back")
class TidiesNames(Simple):
    def top(self, count=10):
        return [link(a.source.strip(), a.target.strip(), a.score) for a in super().top(count)]


@breaks("names_come_back")
class StoresTidyNames(Simple):
    @classmethod
    def load(cls, folder, device="auto"):
        loaded = super().load(folder, device)
        names = [name if name != "007" else "7.0" for name in loaded.graph_.names]
        loaded.graph_ = replace(loaded.graph_, names=tuple(names))
        loaded._learned = replace(loaded._learned, graph=loaded.graph_)
        return loaded


@breaks("sides_are_respected")
class KnowsNoSides(Simple):
    def fit(self, graph):
        return super().fit(replace(graph, sides=None))


@breaks("save_and_load_give_the_same_bits")
class RoundsWhatItSaves(Simple):
    @classmethod
    def load(cls, folder, device="auto"):
        loaded = super().load(folder, device)
        loaded.is_rounded = True
        return loaded

    def score(self, pairs):
        scores = super().score(pairs)
        return (
            scores.astype(np.float16).astype(np.float32) if hasattr(self, "is_rounded") else scores
        )


@breaks("save_and_load_give_the_same_bits")
class ForgetsItsSeed(Simple):
    @classmethod
    def load(cls, folder, device="auto"):
        return super().load(folder, device).set_params(seed=0)


@breaks("fresh_process_loads_the_same")
class SavesNothing(Simple):
    kept: ClassVar[dict[str, Simple]] = {}

    def save(self, folder) -> None:
        self.kept[str(folder)] = self
        Path(folder, "saved").touch()

    @classmethod
    def load(cls, folder):
        return cls.kept[str(folder)]


def also_saving(content: bytes) -> type[Simple]:
    class AlsoSaves(Simple):
        def save(self, folder) -> None:
            super().save(folder)
            Path(folder, "extra.bin").write_bytes(content)

    return AlsoSaves


def torch_file() -> bytes:
    file = io.BytesIO()
    torch.save({"weights": torch.ones(3)}, file)  # noqa: TID251
    return file.getvalue()


for content in (
    pickle.dumps({"weights": [1, 2, 3]}, protocol=0),
    pickle.dumps({"weights": [1, 2, 3]}, protocol=4),
    b"\x93NUMPY, say" + pickle.dumps(Path("x"), protocol=2),
    torch_file(),
):
    breaks("no_pickle_is_saved")(also_saving(content))


@breaks("works_on_two_nodes")
class StumblesOverTwoNodes(Simple):
    def fit(self, graph):
        _ = [][graph.num_nodes - 3 :][0] if graph.num_nodes == 2 else None
        return super().fit(graph)


@breaks("works_on_a_few_links")
class NeedsManyLinks(Simple):
    def fit(self, graph):
        return super().fit(graph) if graph.num_edges > 10 else 1 / 0


@breaks("works_on_star", "ties_are_in_order_of_names")
class NeedsNeighbours(Simple):
    def fit(self, graph):
        degree = torch.bincount(graph.edges.flatten())
        return super().fit(graph) if degree.max() < graph.num_nodes - 1 else 1 / 0


@breaks("works_on_matching")
class SuggestsSharedNeighboursOnly(Simple):
    def top(self, count=10):
        return [a for a in super().top(count) if a.score > 0.1]


@breaks("works_on_two_components")
class DividesByTheDegree(Simple):
    def fit(self, graph):
        if (torch.bincount(graph.edges.flatten(), minlength=graph.num_nodes) == 0).any():
            raise ZeroDivisionError("a node has no links")
        return super().fit(graph)


@breaks("works_without_features")
class NeedsFeatures(Simple):
    def fit(self, graph):
        _ = graph.x.shape
        return super().fit(graph)


@breaks("works_on_one_constant_feature")
class StandardisesFeatures(Simple):
    def fit(self, graph):
        super().fit(graph)
        self.scale = 1.0 if graph.x is None else float(graph.x.std())
        return self

    def score(self, pairs):
        with np.errstate(all="ignore"):
            return super().score(pairs) * np.float32(self.scale) / np.float32(self.scale)


@breaks("works_in_bounded_memory")
class BuildsATableOfAllPairs(Simple):
    def top(self, count=10):
        table = np.ones((self.graph_.num_nodes, self.graph_.num_nodes), dtype=np.float32)
        links = super().top(count)
        return links if table.any() else []


@breaks("learns_planted_partition")
class Guesses(Simple):
    """Says that it has learned, and has not."""

    def score(self, pairs):
        return np.array([hash(min(p)) % 97 / 97 for p in pairs], dtype=np.float32)


@breaks("learns_planted_partition", "learns_nothing_from_noise")
class SaysWhatItLikes(Simple):
    def fit(self, graph):
        super().fit(graph)
        self.test_ = {"auc": 0.75}
        return self


@breaks("learns_nothing_from_noise")
class Leaks(Simple):
    """Its test looks at all links, those to be found included."""

    def fit(self, graph: Graph):
        super().fit(graph)
        code = graph.edges[0] * graph.num_nodes + graph.edges[1]
        test, others = (
            CommonNeighbours(graph.edges, graph.num_nodes).logits(pairs)
            + 0.5 * torch.isin(pairs[0] * graph.num_nodes + pairs[1], code)
            for pairs in (self.split_.test, self.split_.test_negatives)
        )
        self.test_ = link_metrics(test, others) if test.numel() else None
        return self


@breaks("held_out_links_change_nothing")
class EncodesItsTest(Simple):
    """What it says about a test link depends on the other test links."""

    def test_scores(self):
        pairs = self.split_.test, self.split_.test_negatives
        found = [
            CommonNeighbours(self.graph_.edges, self.graph_.num_nodes).logits(p) for p in pairs
        ]
        return found[0], found[1]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch) -> None:
    """Keep small computations from waiting for each other's threads."""
    monkeypatch.setattr("cgcl.train.config.Resources.num_threads", 1)


@pytest.mark.parametrize(
    ("check", "kind"), BROKEN, ids=[f"{kind.__name__}-{check[6:]}" for check, kind in BROKEN]
)
def test_a_broken_promise_is_noticed_and_named(check: str, kind: type[Simple]) -> None:
    others = frozenset(CHECKS) - {check}
    with pytest.raises(ContractError, match=f"breaks 1 of 1 promises:\n- {check}: [A-Z`]"):
        check_link_predictor(kind, declared=others)


def test_whoever_breaks_one_promise_stems_from_one_who_keeps_them_all() -> None:
    check_link_predictor(Simple)


def test_every_promise_has_one_who_breaks_it() -> None:
    assert {check for check, _ in BROKEN} == set(CHECKS)


def test_a_message_says_what_was_promised_expected_and_found() -> None:
    others = frozenset(CHECKS) - {"check_scores_lie_in_0_1", "check_repr_round_trip"}
    with pytest.raises(ContractError) as raised:
        check_link_predictor(Counts, declared=others)
    head, promise, found = str(raised.value).splitlines()
    assert head == "Counts() breaks 1 of 2 promises:"
    assert promise == "- check_scores_lie_in_0_1: Scores lie between 0 and 1."
    assert found.startswith("    expected scores between 0 and 1; found ")


def test_all_broken_promises_are_collected() -> None:
    class Both(HidesItsSettings, Counts):
        pass

    kept = {"check_scores_lie_in_0_1", "check_repr_round_trip", "check_fit_returns_self"}
    with pytest.raises(ContractError, match="breaks 2 of 3 promises") as raised:
        check_link_predictor(Both, declared=frozenset(CHECKS) - kept)
    assert str(raised.value).count("\n- check_") == 2


def test_what_a_method_declares_is_left_out() -> None:
    class Heuristic(Counts):
        declared_exceptions = frozenset({"check_scores_lie_in_0_1"})

    names = [name for name, _ in checks_of(Heuristic)]
    assert names == [name for name in CHECKS if name != "check_scores_lie_in_0_1"]
    check_link_predictor(
        Heuristic, declared=frozenset(CHECKS) - {"check_scores_lie_in_0_1", "check_repr_round_trip"}
    )


def test_an_exception_must_be_the_name_of_a_check() -> None:
    class Mistaken(Simple):
        declared_exceptions = frozenset({"check_range"})

    for ask in (
        lambda: check_link_predictor(Mistaken),
        lambda: checks_of(Simple, declared=frozenset({"check_range"})),
    ):
        with pytest.raises(ContractError, match="are not checks: check_range"):
            ask()


def test_every_check_states_its_promise_in_one_line() -> None:
    for check in CHECKS.values():
        first = (check.__doc__ or "").splitlines()[0]
        assert first.endswith(".")
        assert len(first) > 20


def test_the_contract_leaves_the_callers_generators_alone() -> None:
    before = torch.get_rng_state(), json.dumps(random.getstate())
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    checks = dict(checks_of(Simple))
    checks["check_fit_twice_is_equal"]()
    checks["check_global_state_is_left_alone"]()
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == json.dumps(random.getstate())
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002
