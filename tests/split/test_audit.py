from __future__ import annotations

import json

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cgcl.errors import GraphContentError, SplitError
from cgcl.graph import Graph
from cgcl.split import Audit, Finding, NegativeSampler, audit_split, random_split

NAMES = ["Anna", "Bob", "Cem", "Dora", "Eve", "Finn", "Gita", "Hugo", "Ida", "Jon"]
# Every one of Anna to Hugo has a link to learn from.
TRAIN = [(0, 1), (2, 3), (4, 5), (6, 7), (0, 7)]


def pairs(*listed: tuple[int, int]) -> torch.Tensor:
    return torch.tensor(listed, dtype=torch.int64).reshape(-1, 2).T


def sound(**changed: torch.Tensor) -> dict[str, torch.Tensor]:
    """A split without fault, or with the parts that a test breaks."""
    return {
        "train": pairs(*TRAIN),
        "val": pairs((0, 2), (1, 3)),
        "test": pairs((4, 6), (5, 7)),
        "val_negatives": pairs((0, 3), (1, 2)),
        "test_negatives": pairs((4, 7), (5, 6)),
    } | changed


def only(audit: Audit) -> Finding:
    assert [finding.kind for finding in audit.findings] == [audit.findings[0].kind]
    return audit.findings[0]


def test_a_sound_split_has_no_findings() -> None:
    audit = audit_split(sound(), NAMES)
    assert audit.findings == ()
    assert audit.is_clean
    audit.raise_for_leaks()
    assert audit.text() == (
        "Links: 5 to learn from, 2 for validation, 2 for the test; 4 counter-examples.\n"
        "No leak found."
    )


ALSO = "also among the links to learn from"
CHOOSES = "also for validation: what chooses the epoch cannot test it."
ALONE = "no link to learn from: only features speak for"
# The parts that are broken, and the findings: how bad, the pairs by their first letters, in words.
BROKEN = [
    (
        {"train": pairs(*TRAIN, (4, 6), (1, 3))},
        [
            ("leak", "BD", f"1 validation link is {ALSO}."),
            ("leak", "EG", f"1 test link is {ALSO}."),
        ],
    ),
    (
        {"train": pairs(*TRAIN, (6, 4), (7, 5))},
        [("leak", "EG FH", f"2 test links are {ALSO}, in the other direction.")],
    ),
    (
        # Both directions of one target: it is the same link, and told once.
        {"train": pairs(*TRAIN, (6, 4), (4, 6))},
        [
            ("leak", "EG", f"1 test link is {ALSO}."),
            ("note", "EG", "1 training link is listed in both directions, which is fine."),
        ],
    ),
    ({"test": pairs((4, 6), (5, 7), (2, 0))}, [("leak", "AC", f"1 test link is {CHOOSES}")]),
    (
        {"test_negatives": pairs((7, 4), (7, 6), (2, 0), (6, 4))},
        [
            (
                "leak",
                "AC EG GH",
                "3 test counter-examples are linked after all (1 in train, 1 in val, 1 in test).",
            )
        ],
    ),
    (
        {"val_negatives": pairs((5, 4), (1, 2))},
        [("leak", "EF", "1 validation counter-example is linked after all (1 in train).")],
    ),
    (
        {"test_negatives": pairs((4, 7), (2, 1))},
        [("leak", "BC", f"1 test counter-example is {CHOOSES}")],
    ),
    (
        {"test": pairs((4, 6), (4, 6), (5, 7), (4, 6))},
        [("warning", "EG", "2 test links repeat an earlier one.")],
    ),
    ({"train": pairs(*TRAIN, (0, 1))}, [("note", "AB", "1 training link repeats an earlier one.")]),
    (
        {"val": pairs((0, 2), (1, 3), (3, 1))},
        [("warning", "BD", "1 validation link is listed in both directions: each counts twice.")],
    ),
    (
        {"val_negatives": pairs((0, 3), (1, 2), (2, 2), (2, 2))},
        [("warning", "CC", "2 validation counter-examples join a node to itself.")],
    ),
    (
        {"train": pairs(*TRAIN, (8, 8))},
        [("note", "II", "1 training link joins a node to itself.")],
    ),
    (
        {"test": pairs((4, 6), (5, 7), (0, 10), (-1, 3), (10**15, 10**15))},
        [("warning", "-D A1 11", "3 test links have a node outside the graph.")],
    ),
    (
        {"test": pairs((4, 6), (8, 7), (9, 8)), "val": pairs((0, 2), (9, 1))},
        [
            ("note", "BJ", f"1 node of validation links has {ALONE} it."),
            ("note", "HI IJ", f"2 nodes of test links have {ALONE} them."),
        ],
    ),
]


@pytest.mark.parametrize(("changed", "expected"), BROKEN, ids=lambda case: str(case)[:40])
def test_each_fault_is_found_with_its_pairs(changed, expected) -> None:
    audit = audit_split(sound(**changed), NAMES)
    found = [
        (f.severity, " ".join(a[0] + b[0] for a, b in f.named_pairs), f.sentence)
        for f in audit.findings
    ]
    assert found == expected
    assert audit.is_clean == all(severity != "leak" for severity, *_ in expected)


def test_a_counter_example_may_not_be_a_link_that_no_part_holds() -> None:
    listed = torch.cat([*sound().values()][:3], dim=1)
    graph = Graph.from_pairs("g", NAMES, torch.cat([listed, pairs((5, 6))], dim=1))
    finding = only(audit_split(sound(), graph))
    assert (finding.kind, finding.named_pairs) == (
        "counter-example is a link", (("Finn", "Gita"),),
    )  # fmt: skip
    assert finding.sentence.endswith("is linked after all (1 elsewhere in the graph).")
    several = audit_split(sound(test_negatives=pairs((5, 6), (0, 1))), graph)
    assert only(several).sentence.endswith("all (1 in train, 1 elsewhere in the graph).")


def test_counter_examples_within_one_side_are_told() -> None:
    sides = torch.arange(10) % 2 == 1
    parts = {"train": pairs((0, 1), (2, 3)), "test_negatives": pairs((0, 3), (1, 3), (2, 0))}
    finding = only(audit_split(parts, NAMES, sides=sides))
    assert (finding.kind, finding.severity, finding.count) == (
        "counter-example within one side", "warning", 2,
    )  # fmt: skip
    assert finding.named_pairs == (("Anna", "Cem"), ("Bob", "Dora"))
    graph = Graph.from_pairs("g", NAMES, pairs((0, 1), (2, 3)), sides=sides)
    assert only(audit_split(parts, graph)).count == 2
    with pytest.raises(GraphContentError, match="one bool per node"):
        audit_split(parts, NAMES, sides=sides[:9])


@settings(max_examples=100, deadline=None)
@given(st.integers(20, 40), st.integers(60, 150), st.integers(0, 10**6), st.booleans())
def test_our_own_splits_never_leak(nodes: int, links: int, seed: int, bipartite: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    listed = torch.randint(nodes, (2, links), generator=generator)
    sides = torch.arange(nodes) % 2 == 1 if bipartite else None
    if bipartite:
        listed = torch.stack([listed[0] // 2 * 2, listed[1] // 2 * 2 + 1]).clamp(max=nodes - 1)
        listed = listed[:, (listed[0] + listed[1]) % 2 == 1]
    graph = Graph.from_pairs("g", [str(i) for i in range(nodes)], listed, sides=sides)
    # Where hardly any pair is unlinked there is no split to audit.
    assume(NegativeSampler(graph.edges, nodes, sides).count >= graph.num_edges)
    split = random_split(graph, 0.1, 0.2, seed)
    audit = audit_split(split, graph)
    assert {finding.kind for finding in audit.findings} <= {"isolated by the split"}
    assert audit.is_clean


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_the_audit_agrees_with_sets_on_any_pairs(data: st.DataObject) -> None:
    ends = st.integers(0, 6)
    listed = {
        part: data.draw(st.lists(st.tuples(ends, ends), max_size=12), part)
        for part in ("train", "val", "test", "val_negatives", "test_negatives")
    }
    audit = audit_split({part: pairs(*rows) for part, rows in listed.items()}, 7)
    sets = {part: {frozenset(row) for row in rows if row[0] != row[1]}
            for part, rows in listed.items()}  # fmt: skip

    def found(part: str, *kinds: str) -> set[frozenset[int]]:
        matching = [f for f in audit.findings if f.part == part and f.kind in kinds]
        listed = [frozenset(pair) for f in matching for pair in f.pairs.T.tolist()]
        assert len(set(listed)) == len(listed), "a pair is told twice"
        return set(listed)

    for part in ("val", "test"):
        kinds = ("held-out link in training", "reverse of a held-out link in training")
        assert found(part, *kinds) == sets[part] & sets["train"]
        known = sets["train"] | sets["val"] | sets["test"]
        negatives = f"{part}_negatives"
        assert found(negatives, "counter-example is a link") == sets[negatives] & known
    assert found("test", "validation link in the test") == sets["test"] & sets["val"]
    both = sets["test_negatives"] & sets["val_negatives"]
    assert found("test_negatives", "counter-example in two parts") == both
    for part, rows in listed.items():
        kinds = ("repeated pair", "both directions")
        surplus = [f.count for f in audit.findings
                   if f.part == part and f.kind in kinds]  # fmt: skip
        assert sum(surplus) == sum(a != b for a, b in rows) - len(sets[part])


def test_a_leak_can_be_raised_with_its_pairs() -> None:
    broken = sound(train=pairs(*TRAIN, (6, 4)), test_negatives=pairs((0, 1), (5, 6)))
    with pytest.raises(SplitError) as error:
        audit_split(broken, NAMES).raise_for_leaks()
    assert str(error.value) == (
        "The split leaks. 1 test link is also among the links to learn from, in the other "
        "direction.\n  'Eve' - 'Gita'\nThere is 1 other leak."
    )


def test_the_text_shows_some_pairs_and_the_object_has_all() -> None:
    nodes = torch.arange(1, 10)
    train = torch.stack([torch.zeros_like(nodes), nodes])
    audit = audit_split({"train": train, "test": train}, ["=<b>\n", *NAMES[1:]])
    assert audit.text(limit=2) == (
        "Links: 9 to learn from, 0 for validation, 9 for the test; 0 counter-examples.\n"
        "  leak      9 test links are also among the links to learn from.\n"
        "            '=<b>\\n' - 'Bob', '=<b>\\n' - 'Cem' and 7 more\n"
        "1 leak found: figures measured on this split cannot be trusted."
    )
    assert "- 'Bob' and 8 more\n" in audit.text(limit=1)
    assert len(audit.text(limit=0).splitlines()) == 3
    assert audit.text() == audit.text(limit=5) != audit.text(limit=6)
    assert audit.findings[0].shown_pairs().endswith("- 'Finn' and 4 more")
    written = json.loads(json.dumps(audit.to_json()))
    assert written["is_clean"] is False
    assert written["sizes"]["test"] == 9
    assert written["findings"][0]["kind"] == "held-out link in training"
    assert written["findings"][0]["pairs"] == [["=<b>\n", name] for name in NAMES[1:]]


def test_the_worst_comes_first_and_warnings_without_a_leak_are_told_at_the_end() -> None:
    broken = sound(train=pairs(*TRAIN, (8, 8)), test=pairs((4, 6), (4, 4), (0, 2)))
    severities = [finding.severity for finding in audit_split(broken, NAMES).findings]
    assert severities == ["leak", "warning", "note"]
    text = audit_split(sound(test=pairs((4, 4))), NAMES).text()
    assert text.endswith("No leak found, but there is 1 warning.")


def test_parts_that_are_no_pairs_are_refused() -> None:
    with pytest.raises(SplitError, match=r"A split has no part 'tset'\. Its parts are train, val"):
        audit_split({"tset": pairs((0, 1))}, 3)
    with pytest.raises(GraphContentError, match=r"Part 'test' must hold node numbers"):
        audit_split({"test": pairs((0, 1)).T}, 3)
    with pytest.raises(GraphContentError, match=r"torch.float64 \[2, 1\]"):
        audit_split({"test": pairs((0, 1)).double()}, 3)
    assert audit_split({"test": pairs((0, 1)).int(), "train": pairs((0, 1))}, 2).leaks


def test_a_split_of_no_nodes_is_audited_too() -> None:
    assert only(audit_split({"train": pairs((0, 1))}, 0)).kind == "node outside the graph"
