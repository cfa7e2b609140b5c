from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.transforms import RandomLinkSplit

from cgcl.errors import GraphContentError, ModelFileError, SplitError
from cgcl.graph import Graph
from cgcl.split import audit_split, given_split, random_split
from cgcl.split.split import PARTS, read_split, write_split
from cgcl.tensors import write_tensors


def as_set(pairs: torch.Tensor) -> set[tuple[int, int]]:
    """Unordered pairs; fails if one occurs twice, in whatever direction."""
    listed = [tuple(sorted(pair)) for pair in pairs.T.tolist()]
    assert len(set(listed)) == len(listed), "a pair occurs twice"
    return set(listed)


@st.composite
def random_graphs(draw: st.DrawFn) -> Graph:
    """Graphs of 50 to some 600 links, listed in any order and direction, some of them twice."""
    num_nodes = draw(st.integers(20, 40))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    pairs = torch.combinations(torch.arange(num_nodes), 2).T
    density = draw(st.floats(0.35, 0.75))
    links = pairs[:, torch.rand(pairs.shape[1], generator=generator) < density]
    links = torch.cat([links.flip(0), links[:, ::7]], dim=1)
    return Graph.from_pairs("g", [str(i) for i in range(num_nodes)], links)


shares = st.one_of(st.just(0.0), st.floats(0.1, 0.3))


@settings(max_examples=100, deadline=None)
@given(random_graphs(), shares, shares, st.integers(0, 10))
def test_no_pair_is_in_two_places(graph: Graph, val: float, test: float, seed: int) -> None:
    unlinked = graph.num_nodes * (graph.num_nodes - 1) // 2 - graph.num_edges
    assume(graph.num_edges >= 50 and (val + test) * graph.num_edges <= unlinked)
    split = random_split(graph, val, test, seed)
    assert split.sizes["val"] == pytest.approx(val * graph.num_edges, abs=1)
    assert split.sizes["test"] == pytest.approx(test * graph.num_edges, abs=1)
    known = as_set(graph.edges)
    train, validation, tested = as_set(split.train), as_set(split.val), as_set(split.test)
    val_negatives, test_negatives = as_set(split.val_negatives), as_set(split.test_negatives)
    assert not train & validation
    assert not train & tested
    assert not validation & tested
    assert train | validation | tested == known
    assert not val_negatives & known
    assert not test_negatives & known
    assert not val_negatives & test_negatives
    assert len(val_negatives) == len(validation)
    assert len(test_negatives) == len(tested)
    assert all(a < b for a, b in val_negatives | test_negatives)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(2, 12),
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=40),
    st.floats(0, 0.99),
    st.floats(0, 0.99),
)
def test_any_small_graph_is_split_or_refused_with_an_error_of_ours(n, pairs, val, test) -> None:
    pairs = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T % n
    graph = Graph.from_pairs("g", [str(i) for i in range(n)], pairs)
    try:
        split = random_split(graph, val, test)
    except (SplitError, GraphContentError):
        return
    assert sum(split.sizes.values()) == graph.num_edges


def test_cora_is_divided_as_in_the_paper(cora: Graph) -> None:
    assert random_split(cora, 0.05, 0.10).sizes == {"train": 4488, "val": 263, "test": 527}
    assert random_split(cora, 0.10, 0.20).sizes == {"train": 3696, "val": 527, "test": 1055}


def test_a_share_that_rounding_would_cut_short_is_kept() -> None:
    assert 0.29 * 100 < 29
    assert random_split(star(100), val=0.0, test=0.29).sizes["test"] == 29


def test_the_seed_decides_and_nothing_else_does(cora: Graph) -> None:
    torch.rand(7)  # the global generator must not matter, and is left alone
    before = torch.get_rng_state()
    first, again, other = (random_split(cora, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(before, torch.get_rng_state())
    assert first.fingerprint == again.fingerprint
    assert not torch.equal(first.test, other.test)
    assert not torch.equal(first.test_negatives, other.test_negatives)


def star(num_links: int) -> Graph:
    pairs = torch.tensor([[0] * num_links, list(range(1, num_links + 1))], dtype=torch.int64)
    return Graph.from_pairs("star", [str(i) for i in range(num_links + 1)], pairs)


COMPLETE = Graph.from_pairs("k", list(map(str, range(20))), torch.combinations(torch.arange(20)).T)


@pytest.mark.parametrize(
    ("graph", "val", "test", "words"),
    [
        (
            star(12),
            0.0,
            0.1,
            r"^The graph has 12 links; a 10 % test set would hold 1 link, which cannot be "
            r"measured\.\nUse at least 50 links, or train without a test set: `test=0`\.$",
        ),
        (star(12), 0.05, 0.0, r"Use at least 20 links, or train without a validation set: `val=0`"),
        (star(12), 0.05, 0.1, r"least 50 links, .* test and validation sets: `test=0` `val=0`\.$"),
        (star(12), 0.5, 0.45, r"so 1 would be left .*\.\nAt least 2 are needed: use smaller `val`"),
        (star(6), 0.0, 0.9, r"At least 2 are needed: use smaller `val` and `test`\.$"),
        (star(1), 0.0, 0.0, r"At least 2 are needed\.$"),
        (star(0), 0.05, 0.1, "1 nodes and no links"),
        # Almost complete graphs are refused, not shortchanged.
        (COMPLETE, 0.05, 0.1, "Only 0 pairs are not linked; 28 are needed"),
        (COMPLETE, 0.0, 0.0, "Only 0 pairs are not linked; 1 are needed"),
        *(
            (COMPLETE, val, test, "both must be at least 0 and together below 1")
            for val, test in ((-0.1, 0.1), (0.5, 0.5), (0.0, float("nan")), (1.0, 0))
        ),
    ],
)
def test_what_cannot_be_split_is_refused(graph: Graph, val: float, test: float, words: str) -> None:
    with pytest.raises((SplitError, GraphContentError), match=words):
        random_split(graph, val, test)


def test_a_split_is_stored_and_read_back(tmp_path, cora: Graph) -> None:
    split = random_split(cora)
    write_split(tmp_path / "split.safetensors", split)
    again = read_split(tmp_path / "split.safetensors")
    assert again.fingerprint == split.fingerprint


def two_sided() -> Graph:
    """All links between 6 nodes and 6 others, but for the last."""
    links = torch.cartesian_prod(torch.arange(6), torch.arange(6, 12)).T[:, :30]
    return Graph.from_pairs("g", list("abcdefghijkl"), links, sides=torch.arange(12) > 5)


def test_a_split_of_two_sides_has_them_and_so_has_its_file(tmp_path) -> None:
    graph = two_sided()
    split = random_split(graph, 0.0, 0.2)
    assert torch.equal(split.sides, graph.sides)
    write_split(tmp_path / "split.safetensors", split)
    again = read_split(tmp_path / "split.safetensors")
    assert torch.equal(again.sides, graph.sides)
    assert again.fingerprint == split.fingerprint != replace(split, sides=~split.sides).fingerprint
    assert len(split.fingerprint) == 64


def test_whatever_is_in_another_part_has_another_fingerprint() -> None:
    split = random_split(ring(20), 0.1, 0.3)
    others = [
        replace(split, num_nodes=21),
        replace(split, train=split.val, val=split.train),
        replace(split, test_negatives=split.test_negatives.flip(1)),
    ]
    assert len({found.fingerprint for found in (split, *others)}) == 4


def test_one_unlinked_pair_is_enough_to_learn_from() -> None:
    almost = Graph.from_pairs("g", COMPLETE.names, COMPLETE.edges[:, 1:])
    assert random_split(almost, 0.0, 0.0).sizes["train"] == almost.num_edges


WRONG: list[tuple[dict[str, torch.Tensor], object]] = [
    ({}, "12"),
    ({}, 12.0),
    ({}, True),
    ({}, None),
    ({}, 10**30),
    ({"sides": torch.zeros(11, dtype=torch.bool)}, 12),
    ({"val": torch.tensor([[0], [12]])}, 12),
    ({"test_negatives": torch.tensor([[0.0], [1.0]])}, 12),
]


@pytest.mark.parametrize(("changed", "nodes"), WRONG)
def test_a_file_that_holds_no_split_is_refused(tmp_path, changed, nodes) -> None:
    split = random_split(two_sided(), 0.0, 0.2)
    tensors = {part: getattr(split, part) for part in PARTS} | changed
    write_tensors(tmp_path / "split", "cgcl split 1", tensors, {"num_nodes": nodes})
    with pytest.raises(ModelFileError, match="does not hold a split"):
        read_split(tmp_path / "split")


def test_a_file_without_a_part_is_refused(tmp_path) -> None:
    split = random_split(two_sided(), 0.0, 0.2)
    tensors = {part: getattr(split, part) for part in PARTS[:-1]}
    write_tensors(tmp_path / "split", "cgcl split 1", tensors, {"num_nodes": 12})
    with pytest.raises(ModelFileError, match=r"split lacks test_negatives\."):
        read_split(tmp_path / "split")


def test_a_twentieth_and_a_tenth_are_hidden_by_seed_zero_unless_told() -> None:
    graph = ring(60)
    assert random_split(graph).fingerprint == random_split(graph, 0.05, 0.1, 0).fingerprint
    by_hand = [given_split(graph, test=graph.edges[:, :9], **told)[0].fingerprint
               for told in ({}, {"val_share": 0.05, "seed": 0})]  # fmt: skip
    assert by_hand[0] == by_hand[1]


def test_a_split_is_of_the_graph_with_its_links_and_nodes_alone() -> None:
    graph = ring(20)
    split = random_split(graph, 0.1, 0.3)
    split.require_parts_of(graph)
    moved = graph.edges.clone()
    moved[1, -1] = 15  # one link leads elsewhere
    others = [
        ring(21),
        Graph.from_pairs("one node more", [*graph.names, "alone"], graph.edges),
        Graph.from_pairs("another link", graph.names, moved),
        Graph.from_pairs("a link less", graph.names, graph.edges[:, 1:]),
    ]
    for other in others:
        with pytest.raises(SplitError, match=r"20 links among 20 nodes.*\n.*that you train on"):
            split.require_parts_of(other)
    with pytest.raises(SplitError):
        replace(split, val=split.train[:, :2]).require_parts_of(graph)


# --- PyTorch Geometric's splitter: the same sizes, and a flaw we leave behind ---


def test_links_written_in_one_direction_are_lost_there_and_kept_here() -> None:
    pairs = torch.stack([torch.arange(1, 101), torch.zeros(100, dtype=torch.int64)])
    pairs[:, :50] = pairs[:, :50].flip(0)  # half of the links outwards, half inwards
    transform = RandomLinkSplit(0.05, 0.10, is_undirected=True, add_negative_train_samples=False)

    def sizes(edge_index: torch.Tensor) -> list[int]:
        train, val, test = transform(Data(edge_index=edge_index, num_nodes=101))
        held_out = (int(part.edge_label.sum()) for part in (val, test))
        return [train.edge_index.shape[1] // 2, *held_out]

    ours = list(
        random_split(Graph.from_pairs("star", list(map(str, range(101))), pairs)).sizes.values()
    )
    assert sum(sizes(pairs)) == 50
    assert sizes(star(100).edge_index) == ours == [85, 5, 10]


# --- As the user chose ---


def ring(count: int) -> Graph:
    """Nodes in a ring: `count` links, the last one from the end to the start."""
    nodes = torch.arange(count)
    return Graph.from_pairs(
        "ring", [f"n{i:02d}" for i in range(count)], torch.stack([nodes, (nodes + 1) % count])
    )


def unordered(pairs: torch.Tensor) -> set[frozenset[int]]:
    return {frozenset(pair) for pair in pairs.T.tolist()}


@st.composite
def own_splits(draw: st.DrawFn) -> tuple[Graph, torch.Tensor, torch.Tensor]:
    """A graph, and disjoint sets of its links in any direction and order, some of them twice."""
    n = draw(st.integers(15, 25))  # across two sides 56 pairs: enough are left unlinked
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    pairs = torch.combinations(torch.arange(n), 2).T
    sides = torch.arange(n) % 2 == 1 if draw(st.booleans()) else None
    if sides is not None:
        pairs = pairs[:, sides[pairs[0]] != sides[pairs[1]]]
    chosen = torch.randperm(pairs.shape[1], generator=generator)[: draw(st.integers(20, 40))]
    graph = Graph.from_pairs("g", list(map(str, range(n))), pairs[:, chosen], sides=sides)
    links = graph.edges[:, torch.randperm(graph.num_edges, generator=generator)]
    test, val = links[:, :6], links[:, 6 : 6 + draw(st.integers(1, 4))]
    flipped = torch.cat([test[:, :3].flip(0), test, test[:, -2:]], dim=1)
    return graph, flipped, torch.cat([val.flip(0), val[:, :1]], dim=1)


@settings(max_examples=100, deadline=None)
@given(own_splits(), st.integers(0, 3))
def test_the_chosen_links_are_hidden_and_nothing_else_is(case, seed: int) -> None:
    graph, test, val = case
    split, _ = given_split(graph, test=test, val=val, seed=seed)
    assert unordered(split.test) == unordered(test)
    assert unordered(split.val) == unordered(val)
    assert unordered(split.train) == unordered(graph.edges) - unordered(test) - unordered(val)
    assert split.test_negatives.shape == split.test.shape
    assert split.val_negatives.shape == split.val.shape
    known = unordered(graph.edges)
    assert not unordered(split.test_negatives) & known
    assert not unordered(split.val_negatives) & known
    audit = audit_split(split, graph)
    assert {finding.kind for finding in audit.findings} <= {"isolated by the split"}


def test_order_direction_and_repetition_do_not_matter() -> None:
    graph = ring(20)
    test, val = graph.edges[:, 3:9], graph.edges[:, 12:14]
    first, notes = given_split(graph, test=test, val=val)
    assert notes == ()
    tangled = torch.cat([test.flip(0).flip(1), test[:, :2], torch.tensor([[4], [4]])], dim=1)
    again, notes = given_split(graph, test=tangled, val=val.flip(0))
    assert again.fingerprint == first.fingerprint
    assert notes == (
        "1 self-link dropped among the test links.",
        "2 repeated links merged among the test links.",
    )


def test_the_validation_links_have_notes_of_their_own() -> None:
    graph = ring(20)
    val = torch.tensor([[1, 2, 5, 6], [2, 1, 5, 6]])
    split, notes = given_split(graph, test=graph.edges[:, 8:14], val=val)
    assert split.sizes == {"train": 13, "val": 1, "test": 6}
    assert notes == (
        "2 self-links dropped among the validation links.",
        "1 repeated link merged among the validation links.",
    )


def test_without_validation_links_a_share_of_the_rest_is_drawn_by_the_seed() -> None:
    graph = ring(30)
    test = graph.edges[:, :10]
    splits = [given_split(graph, test=test, val_share=0.2, seed=seed)[0] for seed in (0, 0, 1)]
    assert splits[0].sizes == {"train": 16, "val": 4, "test": 10}
    assert torch.equal(splits[0].val, splits[1].val)
    assert not torch.equal(splits[0].val, splits[2].val)
    assert not unordered(splits[0].val) & unordered(test)
    assert given_split(graph, test=test, val_share=0.0)[0].sizes["val"] == 0


RING = ring(10)
LINKS = RING.edges
NO_LINKS = torch.tensor([[0, 0, 0, 0, 0, 0, 0, 1], [2, 3, 4, 5, 6, 7, 8, 0]])
ODD = {
    r"7 of the test links are no links .* 'n00 - n06' and 2": {"test": NO_LINKS},
    r"^2 links are both for validation and for the test: 'n02 - n03', 'n03 - n04'\.\n"
    r"What chooses the epoch cannot test it\.": {"val": LINKS[:, 3:6].flip(0)},
    "There are 4 test links; at least 5 are needed to be": {"test": LINKS[:, :4]},
    "There are 0 validation links; at least 1 is needed": {"val": LINKS[:, :0]},
    "8 for the test, so 1 would be left": {"test": LINKS[:, :8], "val": LINKS[:, 8:9]},
    "val is nan; it must be at least 0 and below 1": {"val_share": float("nan")},
    r"val is 1\.0; it must be at least 0 and below 1": {"val_share": 1.0},
    "5 links are left beside the test; 5 % of them": {},
    r"must lie in 0\.\.9, found 0\.\.10": {"test": torch.tensor([[0], [10]])},
    r"must lie in 0\.\.9, found -1\.\.3": {"test": torch.tensor([[-1], [3]])},
    r"int64 tensor of shape \[2, any\]": {"test": LINKS.T},
    r"torch\.float32": {"test": LINKS.float()},
}


@pytest.mark.parametrize("message", ODD)
def test_what_cannot_be_hidden_is_refused(message: str) -> None:
    with pytest.raises((SplitError, GraphContentError), match=message):
        given_split(RING, **{"test": LINKS[:, :5], **ODD[message]})


def test_as_few_links_as_are_needed_are_taken() -> None:
    split, _ = given_split(RING, test=LINKS[:, :5], val=LINKS[:, 5:8])
    assert split.sizes == {"train": 2, "val": 3, "test": 5}
    drawn, _ = given_split(RING, test=LINKS[:, :5], val_share=0.2)
    assert drawn.sizes == {"train": 4, "val": 1, "test": 5}
