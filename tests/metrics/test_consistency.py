"""What the consistency functions refuse and return; the theory itself is in tests/paper."""

import pytest
import torch

from cgcl.metrics import (
    consistency,
    consistency_terms,
    is_consistent,
    loses_information,
    supervision_gap,
)


@pytest.mark.parametrize("function", [consistency, is_consistent])
@pytest.mark.parametrize(
    ("r1", "r2", "words"),
    [
        ([0.0, 1.0], [-1.0, 5.0], r"Theorem 1 needs r in \[0, 1\].*Found values in \[-1, 5\]"),
        ([float("nan")], [0.5], "Theorem 1 needs r"),
        ([0.5, 0.5], [0.5, 1.5], "Theorem 1 needs r"),
        ([[0.5, 0.5], [0.5, 0.5]], [0.0] * 3, r"same pairs, found shapes \[2, 2\] and \[3\]"),
        ([], [], "there are no pairs"),
    ],
)
def test_what_theorem_1_does_not_speak_about_is_refused(function, r1, r2, words):
    with pytest.raises(ValueError, match=words):
        function(torch.tensor(r1), torch.tensor(r2))


def test_terms_are_plain_floats_and_match_the_single_functions():
    generator = torch.Generator().manual_seed(0)
    a1, a2 = torch.randint(0, 2, (2, 50), generator=generator)
    b1, b2 = torch.rand(2, 50, generator=generator).requires_grad_()
    terms = consistency_terms(a1, a2, b1, b2)
    assert list(terms) == ["views", "reconstructions", "view_1", "view_2", "gap"]
    assert all(type(value) is float for value in terms.values())
    assert terms["views"] == consistency(a1, a2)
    assert terms["reconstructions"] == consistency(b1, b2)
    assert terms["view_1"] == consistency(a1, b1)
    assert terms["view_2"] == consistency(a2, b2)
    assert terms["gap"] == supervision_gap(a1, a2, b1, b2)
    assert loses_information(a1, a2, b1, b2) == (terms["views"] >= terms["reconstructions"])
