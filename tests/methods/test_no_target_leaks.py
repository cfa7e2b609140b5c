"""No link is predicted from itself: an audit of every method, and of the audit.

A step of training asks a network to call some links positive. None of them may be among the
links along which that step passes messages, in either direction: at test time the links in
question are not there either. Excepted by name are two ways of CGCL to draw its views and one
setting of VGAE, all of which follow published code, and two ways more whose targets are seen on
purpose: views that are asked for themselves, and no augmentation, with which others are compared.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

import pytest
import torch
from torch import Tensor, nn

from cgcl.graph.adjacency import Adjacency
from cgcl.graph.features import Structure
from cgcl.methods import cgcl_rank
from cgcl.methods import subgraphs as extraction
from cgcl.methods.method import EVERY_GRAPH, Epoch, Learner, TrainingGraph, masked_batches
from cgcl.methods.networks import MaskedGCN, MaskedGCNSettings
from cgcl.methods.settings import TrainedSettings
from cgcl.methods.subgraphs import Subgraphs
from cgcl.methods.table import METHODS, method_named
from cgcl.model import consistency_loss, symmetric
from cgcl.seeds import seeded, stream
from cgcl.train.config import RunConfig
from cgcl.train.trainer import build_learner

PROMISES = Path(__file__).parents[2] / "docs" / "reliability.md"
NODES = 60
# Widths and batches that are quick, and so many steps that not all links are predicted at once.
SMALL = {"hidden": 8, "batch": 40, "nodes_per_hop": 10}

EXCEPTED: dict[str, dict[str, tuple[Any, ...]]] = {
    "cgcl": {"views": ("shared", "directed", "own", "all")},
    "vgae": {"visible_targets": (True,)},
}
"""Settings with which a target may be seen: by method and by name."""

ASKED_AS_COUNTER_EXAMPLES = {"negatives": "view"}
"""With this setting CGCL calls links of the view that it sees unlinked, as the paper's text has it.
They are asked about, but not as links."""

FEATURES_ONLY = {"mlp"}
"""Methods that pass no messages at all."""

PER_PAIR = {"seal", "s3grl"}
"""Methods that cut out the surroundings of each pair: all links but the pair's own are seen."""

BY_NEIGHBOURS = "ncn"
"""Looks at the neighbours of each node, too."""

BY_MATRIX = "cgcl-rank"
"""Sees links as sparse matrices, and asks about them in its loss."""

UNSEEN = {"hidden", "epochs", "batch", "lr", "weight_decay", "clip", "evaluate_every", "choose_by"}
"""Settings of the size of a network and of its training."""

NUMBERS: dict[str, list[dict[str, Any]]] = {BY_MATRIX: [{"signatures": 8}]}
"""Settings that let a method look at links in one more way, by method."""

TRAINED = [name for name in METHODS if issubclass(method_named(name).settings, TrainedSettings)]
WITH_MESSAGES = [name for name in TRAINED if name not in PER_PAIR | FEATURES_ONLY]
BY_STEPS = [name for name in TRAINED if name not in PER_PAIR]


def known_graph(seed: int = 0, *, structural: bool = False) -> TrainingGraph:
    """Random links and features among 60 nodes, 180 links; or features made of these links."""
    generator = stream(seed, "audited graph")
    pairs = torch.combinations(torch.arange(NODES), 2)
    chosen = torch.randperm(len(pairs), generator=generator)[:180].sort().values
    links = pairs[chosen].T.contiguous()
    x = torch.rand(NODES, 6, generator=stream(0, "audited features"))
    return TrainingGraph(NODES, links, Structure.of(links, NODES) if structural else x)


def entries(matrix: Tensor) -> Tensor:
    """Return the pairs of different nodes that a sparse matrix joins, int64 [2, e]."""
    pairs = matrix.detach().to_dense().nonzero().T
    return pairs[:, pairs[0] != pairs[1]]


def codes(pairs: Tensor) -> set[int]:
    """Return a number for each pair, the same in either direction."""
    low, high = pairs.amin(dim=0), pairs.amax(dim=0)
    return set((low * NODES + high).tolist())


def is_pairs(tensor: Tensor) -> bool:
    return tensor.dtype == torch.int64 and tensor.shape[:-1] == (2,)


def listen(patched: pytest.MonkeyPatch, owner: Any, name: str, note: Callable[..., None]) -> None:
    """Tell `note` what a function is given, whenever it is called."""
    original = getattr(owner, name)

    def spied(*args: Any) -> Any:
        note(*args)
        return original(*args)

    patched.setattr(owner, name, spied)


@dataclass
class Step:
    """What one step of training looked at, and what it was asked."""

    seen: set[int] = field(default_factory=set)
    """Links along which messages were passed."""
    targets: set[int] = field(default_factory=set)
    """Links that a network was asked about: unlinked pairs are none."""
    featured: set[int] = field(default_factory=set)
    """Links that structural features were made of."""
    encodings: int = 0

    @property
    def leaks(self) -> set[int]:
        return (self.seen | self.featured) & self.targets


class Watch:
    """Notes what goes into `encode`, and which pairs go into any other part of a learner.

    Whatever holds links or an edge index and goes into `encode`, or into anything that is called
    meanwhile, counts as seen. Pairs that go elsewhere are asked about; those of them that are
    training links are targets, because no counter-example is one.
    """

    def __init__(self, learner: Learner, known: TrainingGraph) -> None:
        self.learner, self.links = learner, codes(known.links)
        self.step = Step()
        self._inside = 0

    def note(self, *things: object) -> None:
        for thing in things:
            if isinstance(thing, TrainingGraph):
                self.step.seen |= codes(thing.links)
            elif isinstance(thing, Tensor) and thing.layout == torch.sparse_csr:
                self.step.seen |= codes(entries(thing))
            elif isinstance(thing, Tensor) and is_pairs(thing):
                found = codes(thing)
                if self._inside:
                    self.step.seen |= found
                else:
                    self.step.targets |= found & self.links

    def note_neighbours(self, links: Tensor, *_: object) -> None:
        self.step.seen |= codes(links)

    @contextmanager
    def on_features(self) -> Iterator[None]:
        """Note which links features are made of, whenever anyone asks for some."""

        def note(_: Structure, edge_index: Tensor) -> None:
            self.step.featured |= codes(edge_index)

        with pytest.MonkeyPatch.context() as patched:
            listen(patched, Structure, "features", note)
            # Not only when they are made: to look at kept ones is to see their links, too.
            asked = property(lambda known: known.features_along(symmetric(known.links)))
            patched.setattr(TrainingGraph, "features", asked)
            yield

    @contextmanager
    def on(self) -> Iterator[None]:
        owner, name = self.learner, "encode"
        if isinstance(owner.encode, nn.Module):
            owner, name = owner.encode, "forward"
        encode = getattr(owner, name)

        def spied(*args: object, **kwargs: object) -> object:
            self._inside += 1
            self.step.encodings += 1
            self.note(*args, *kwargs.values())
            try:
                return encode(*args, **kwargs)
            finally:
                self._inside -= 1

        def called(_: nn.Module, args: tuple, kwargs: dict) -> None:
            self.note(*args, *kwargs.values())

        others = (own for own in self.learner.modules() if own not in (self.learner, owner))
        handles = [own.register_forward_pre_hook(called, with_kwargs=True) for own in others]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(owner, name, spied)
            yield
        for handle in handles:
            handle.remove()


def watch_matrices(watch: Watch, patched: pytest.MonkeyPatch) -> None:
    """Note what goes into features and signatures as a matrix, and what the loss asks."""

    def encoded(linked: Tensor, _: Tensor, adjacency: Tensor) -> None:
        watch.step.encodings += 1
        watch.step.featured |= codes(entries(linked))
        watch.note(linked, adjacency)

    listen(patched, watch.learner.encode, "of_links", encoded)
    listen(patched, cgcl_rank, "signatures", lambda counted, _: watch.note(counted))
    listen(patched, cgcl_rank, "softmax_loss", lambda _, pairs, *__: watch.note(pairs))


def audited(learner: Learner, known: TrainingGraph, name: str = "", epochs: int = 2) -> list[Step]:
    """Take the steps of some epochs and return what each looked at."""
    found: list[Step] = []
    watch = Watch(learner, known)
    with watch.on(), watch.on_features(), pytest.MonkeyPatch.context() as patched:
        if name == BY_NEIGHBOURS:
            listen(patched, Adjacency, "from_pairs", watch.note_neighbours)
        if name == BY_MATRIX:
            watch_matrices(watch, patched)
        learner.train()
        for number in range(1, epochs + 1):
            with seeded(0, "epoch", number):
                watch.step = Step()
                for loss in learner.steps(known, Epoch(number, 0)):
                    loss.backward()
                    found.append(watch.step)
                    watch.step = Step()
    return found


def small(name: str, told: dict[str, Any]) -> dict[str, Any]:
    own = method_named(name).settings  # whose batch is 0 takes whole views
    return {key: value for key, value in SMALL.items() if getattr(own, key, 0)} | told


def learner_of(name: str, known: TrainingGraph, **told: Any) -> Learner:
    return build_learner(known.num_features, RunConfig.of(name, small(name, told)))


def variants(name: str) -> list[dict[str, Any]]:
    """The defaults, what the authors use on each graph, and each choice of any setting."""
    method = method_named(name)
    found = [{}, *(method.authors_settings(graph) for graph in (EVERY_GRAPH, *method.authors))]
    found += [{key: choice} for key, choices in method.search.items() for choice in choices]
    found += NUMBERS.get(name, [])
    for key, hint in get_type_hints(method.settings).items():
        choices = (True, False) if hint is bool else get_args(hint)
        found += [{key: choice} for choice in choices if get_origin(hint) is not ClassVar]
    # How wide and how long plays no part in what is seen.
    kept = [{k: v for k, v in told.items() if k not in UNSEEN} for told in found]
    return [told for at, told in enumerate(kept) if told not in kept[:at]]


def is_excepted(name: str, told: dict[str, Any]) -> bool:
    if told == ASKED_AS_COUNTER_EXAMPLES:
        return True
    return any(
        told.get(key) in values for key, values in EXCEPTED.get(name, {}).items() if key in told
    )


def test_every_trained_method_is_audited() -> None:
    by_messages = {"cgcl", "cgcl-rank", "graphsage", "vgae", "s2gae", "maskgae", "ncn", "gcn"}
    assert by_messages | PER_PAIR | FEATURES_ONLY <= set(TRAINED)


def require_no_leaks(steps: list[Step]) -> None:
    for step in steps:
        assert step.targets
        assert not step.leaks, len(step.leaks)
    # Whatever is hidden by chance, every epoch predicts some links, and none alone for ever.
    assert len(set.union(*(step.targets for step in steps))) > 30


@pytest.mark.parametrize("name", WITH_MESSAGES)
def test_no_target_is_among_the_links_that_its_step_passes_messages_along(name: str) -> None:
    known = known_graph()
    told_apart = [told for told in variants(name) if not is_excepted(name, told)]
    assert len(told_apart) > 1
    for told in told_apart:
        steps = audited(learner_of(name, known, **told), known, name)
        require_no_leaks(steps)
        for step in steps:
            assert step.encodings, "a step without messages shows nothing"
            assert step.seen
            assert step.seen <= codes(known.links)


@pytest.mark.parametrize("name", BY_STEPS)
def test_no_target_is_in_features_that_are_made_of_links(name: str) -> None:
    known = known_graph(structural=True)
    steps = audited(learner_of(name, known), known, name)
    require_no_leaks(steps)
    assert all(step.featured for step in steps)


@pytest.mark.parametrize("name", sorted(PER_PAIR))
def test_no_example_is_in_features_that_are_made_of_links(name: str) -> None:
    known = known_graph(structural=True)
    learner = learner_of(name, known)
    watch = Watch(learner, known)
    with cutting_noted() as cuts, watch.on_features():
        trained_on(learner, known)
    targets = set.union(*(codes(pairs) for pairs, _ in cuts)) & codes(known.links)
    assert len(targets) == 90  # half of the links
    assert watch.step.featured == codes(known.links) - targets


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (name, {key: value})
        for name, settings in EXCEPTED.items()
        for key, values in settings.items()
        for value in values
    ],
    ids=str,
)
def test_what_is_excepted_by_name_does_show_targets(name: str, told: dict[str, Any]) -> None:
    """Otherwise the exception would be needless, or the audit blind."""
    known = known_graph()
    assert any(step.leaks for step in audited(learner_of(name, known, **told), known, name))


def test_the_page_of_promises_names_every_exception() -> None:
    lines = PROMISES.read_text(encoding="utf-8").splitlines()
    [promise] = [line for line in lines if "excepted by name" in line]
    for key, values in (own for settings in EXCEPTED.values() for own in settings.items()):
        for name in values if key == "views" else [key]:
            assert f"`{name}`" in promise
    [(key, value)] = ASKED_AS_COUNTER_EXAMPLES.items()
    assert f'`{key} = "{value}"`' in promise


def test_nobody_is_trained_with_an_exception_unless_asked_but_for_cgcl_as_published() -> None:
    for name in TRAINED:
        method = method_named(name)
        assert not is_excepted(name, vars(method.settings()))
        assert not EXCEPTED.get(name, {}).keys() & method.search.keys()
        for graph in (EVERY_GRAPH, *method.authors):
            assert is_excepted(name, method.authors_settings(graph)) == (name == "cgcl")


@pytest.mark.parametrize("name", sorted(FEATURES_ONLY))
def test_a_method_that_sees_features_only_passes_no_messages(name: str) -> None:
    known = known_graph()
    for step in audited(learner_of(name, known), known, name):
        assert step.encodings == 1
        assert step.targets == codes(known.links)
        assert not step.seen


def trained_on(learner: Learner, known: TrainingGraph) -> Learner:
    """Take an epoch's steps on some links, then put the weights back: only memories are left."""
    state = {key: value.clone() for key, value in learner.state_dict().items()}
    learner.train()
    with seeded(0, "epoch", 1):
        for loss in learner.steps(known, Epoch(1, 0)):
            loss.backward()
    learner.zero_grad()
    learner.load_state_dict(state)
    return learner


PAIRS = torch.combinations(torch.arange(NODES), 2).T[:, ::20]


def given_links() -> TrainingGraph:
    return known_graph(0).with_links(known_graph(0).links[:, ::3])


def require_no_memory_of_links(learner: Learner) -> None:
    """Assert that scores depend on the links they are given and on no other."""
    given = given_links()
    first, second = (
        trained_on(learner, known_graph(seed)).scorer(given).logits(PAIRS) for seed in (0, 1)
    )
    assert torch.equal(first, second)


@pytest.mark.parametrize("name", METHODS)
def test_a_score_depends_on_the_links_it_is_given_and_on_no_other(name: str) -> None:
    learner = learner_of(name, known_graph())
    require_no_memory_of_links(learner)
    # And it does depend on those that it is given.
    some, all_of_them = given_links(), known_graph()
    same = torch.equal(*(learner.scorer(known).logits(PAIRS) for known in (some, all_of_them)))
    assert same == (name in FEATURES_ONLY)


def without(known: TrainingGraph, pair: Tensor) -> TrainingGraph:
    """Return the graph without one of its links."""
    return known.with_links(known.links[:, (known.links != pair[:, None]).any(dim=0)])


def require_scores_without_the_link_itself(learner: Learner, known: TrainingGraph) -> None:
    """Assert that the score of a link is the same whether that link is known or not."""
    links = known.links[:, ::9]
    there = learner.scorer(known).logits(links)
    for place, pair in enumerate(links.T):
        gone = learner.scorer(without(known, pair)).logits(pair[:, None])
        assert gone.item() == pytest.approx(there[place].item(), abs=1e-6)


@pytest.mark.parametrize("name", sorted(PER_PAIR))
def test_the_score_of_a_link_does_not_depend_on_that_link(name: str) -> None:
    known = known_graph()
    require_scores_without_the_link_itself(trained_on(learner_of(name, known), known), known)


@contextmanager
def cutting_noted() -> Iterator[list[tuple[Tensor, Subgraphs]]]:
    """Note the pairs whose surroundings any method cuts out, and what it finds."""
    noted: list[tuple[Tensor, Subgraphs]] = []
    original = extraction.extract

    def spied(adjacency: Adjacency, pairs: Tensor, rule: Any) -> Subgraphs:
        noted.append((pairs, original(adjacency, pairs, rule)))
        return noted[-1][1]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(extraction, "extract", spied)
        yield noted


@pytest.mark.parametrize("name", sorted(PER_PAIR))
def test_in_training_the_surroundings_of_a_link_are_those_without_it(name: str) -> None:
    known, targets = known_graph(), set[int]()
    with cutting_noted() as cuts:
        trained_on(learner_of(name, known), known)
    for pairs, found in cuts:
        targets |= codes(pairs)
        joined = {(min(link), max(link)) for link in found.edge_index.T.tolist()}
        assert not joined & {(source, source + 1) for source in found.start[:-1].tolist()}
    # Every training link is a target, and the surroundings of each were looked at.
    assert targets >= codes(known.links)


# Whether the audit can fail: learners that are broken on purpose.


class SeesTheOtherDirection(MaskedGCN):
    """Hides a target in one direction and passes messages along the other."""

    def steps(self, known: TrainingGraph, epoch: Epoch) -> Iterator[Tensor]:
        for batch in masked_batches(known, epoch, 40):
            leaking = torch.cat([batch.seen, batch.targets[:, :1].flip(0)], dim=1)
            z = self.encode(known.with_links(leaking))
            yield consistency_loss(self.decode(z, batch.targets), self.decode(z, batch.negatives))


class RemembersLinks(MaskedGCN):
    """Scores by the links that it was trained on besides those that it is given."""

    def steps(self, known: TrainingGraph, epoch: Epoch) -> Iterator[Tensor]:
        self._remembered = known.links
        yield from super().steps(known, epoch)

    def encode(self, known: TrainingGraph) -> Tensor:
        if self.training:
            return super().encode(known)
        return super().encode(known.with_links(torch.cat([known.links, self._remembered], dim=1)))


def toy(kind: type[MaskedGCN]) -> MaskedGCN:
    with seeded(0, "weights"):
        return kind(6, MaskedGCNSettings(hidden=8, batch=40))


def test_the_audit_finds_a_learner_that_sees_the_other_direction() -> None:
    assert not any(step.leaks for step in audited(toy(MaskedGCN), known_graph()))
    assert all(step.leaks for step in audited(toy(SeesTheOtherDirection), known_graph()))


def test_the_audit_finds_a_learner_that_remembers_links() -> None:
    require_no_memory_of_links(toy(MaskedGCN))
    with pytest.raises(AssertionError):
        require_no_memory_of_links(toy(RemembersLinks))


@pytest.mark.parametrize("name", [name for name in BY_STEPS if name != BY_MATRIX])
def test_the_audit_finds_targets_in_the_features_of_any_method(name: str, monkeypatch) -> None:
    known = known_graph(structural=True)
    all_links, structure = symmetric(known.links), known.structure
    monkeypatch.setattr(TrainingGraph, "features_along", lambda *_: structure.features(all_links))
    assert all(step.leaks for step in audited(learner_of(name, known), known, name))


@pytest.mark.parametrize("structural", [False, True])
@pytest.mark.parametrize(
    "name", [name for name in WITH_MESSAGES if name not in ("cgcl", BY_MATRIX)]
)
def test_the_audit_finds_targets_among_the_messages_of_any_method(
    name: str, structural: bool, monkeypatch
) -> None:
    monkeypatch.setattr(TrainingGraph, "with_links", lambda known, _: known)
    known = known_graph(structural=structural)
    assert all(step.leaks for step in audited(learner_of(name, known), known, name))


@pytest.mark.parametrize("name", sorted(PER_PAIR))
def test_the_audit_finds_examples_in_the_features(name: str, monkeypatch) -> None:
    monkeypatch.setattr(TrainingGraph, "without", lambda known, _: known.links)
    with pytest.raises(AssertionError):
        test_no_example_is_in_features_that_are_made_of_links(name)


@pytest.mark.parametrize(
    ("made", "told", "structural"),
    [("adjacency", {}, False), ("linked", {}, True), ("counted", {"signatures": 8}, False)],
)
def test_the_audit_finds_a_ranker_one_of_whose_matrices_holds_all_links(
    made: str, told: dict[str, Any], structural: bool, monkeypatch
) -> None:
    original, known = getattr(cgcl_rank.Prepared, made), known_graph(structural=structural)
    monkeypatch.setattr(cgcl_rank.Prepared, made, lambda own, _, *more: original(own, None, *more))
    assert all(s.leaks for s in audited(learner_of(BY_MATRIX, known, **told), known, BY_MATRIX))


def test_the_audit_finds_a_score_that_depends_on_the_link_itself() -> None:
    """Any method whose messages pass along the link in question, such as a plain GCN."""
    with pytest.raises(AssertionError):
        require_scores_without_the_link_itself(toy(MaskedGCN), known_graph())


def test_the_audit_finds_surroundings_that_hold_the_link_itself(monkeypatch) -> None:
    original = extraction.extract

    def leaking(*asked: Any) -> Subgraphs:
        found = original(*asked)
        ends = torch.stack([found.start[:-1], found.start[:-1] + 1])
        return replace(found, edge_index=torch.cat([found.edge_index, symmetric(ends)], dim=1))

    monkeypatch.setattr(extraction, "extract", leaking)
    with pytest.raises(AssertionError):
        test_in_training_the_surroundings_of_a_link_are_those_without_it("s3grl")
