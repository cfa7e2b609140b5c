"""AUC by degree: on a star with a tail, by hand."""

from dataclasses import replace

import pytest
import torch

from cgcl.experiments.comparison import Stratum, by_degree, strata_of
from cgcl.split import Split


def pairs(*ends):
    return torch.tensor(ends, dtype=torch.int64).reshape(-1, 2).T


@pytest.fixture
def split():
    """Training links 0-1, 0-2, 0-3, 1-2, 4-5: degrees 3, 2, 2, 1, 1, 1, 0, 0."""
    return Split(
        num_nodes=8,
        train=pairs((0, 1), (0, 2), (0, 3), (1, 2), (4, 5)),
        val=pairs(),
        test=pairs((0, 6), (3, 4), (1, 3), (0, 5), (1, 2), (0, 1)),  # 0, 1, 1, 1, 2, 2
        val_negatives=pairs(),
        test_negatives=pairs((6, 7), (2, 6), (2, 3), (4, 7), (3, 5), (0, 7)),  # 0, 0, 1, 0, 1, 0
    )


def test_thirds_of_the_test_links_bound_the_parts(split):
    """Sorted degrees 0, 1, 1, 1, 2, 2: the second and the fourth are 1 and 1, so two parts."""
    assert strata_of(split) == (Stratum(0, 1), Stratum(2, None))
    same = replace(split, test=pairs((0, 6), (1, 7)))
    assert strata_of(same) == (Stratum(0, None),)


def test_auc_of_each_part_by_hand(split):
    parts = (Stratum(0, 0), Stratum(1, 1), Stratum(2, None))
    positive = torch.tensor([0.5, 0.9, 0.4, 0.2, 0.1, 0.2])
    negative = torch.tensor([0.6, 0.1, 0.3, 0.2, 0.8, 0.9])
    found = by_degree(parts, split, positive, negative)
    # Degree 0: 0.5 beats 0.1 and 0.2, not 0.6 and 0.9. Degree 1: 0.9 beats both, 0.4 one of two.
    assert [(part["links"], part["others"]) for part in found] == [(1, 4), (3, 2), (2, 0)]
    assert found[0]["auc"] == pytest.approx(2 / 4)
    assert found[1]["auc"] == pytest.approx(3 / 6)
    assert found[2]["auc"] is None
    assert (found[1]["low"], found[1]["high"], found[2]["high"]) == (1, 1, None)
