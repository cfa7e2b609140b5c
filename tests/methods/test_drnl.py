from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path
from torch import Tensor

from cgcl.methods.drnl import LARGEST_LABEL, drnl_labels
from cgcl.methods.subgraphs import Adjacency, Subgraphs, extract


def labels_around(
    links: list[tuple[int, int]], hops: int, pair: tuple[int, int] = (0, 1)
) -> dict[int, int]:
    known = torch.tensor(links).T
    num_nodes = int(known.max()) + 2
    subgraphs = extract(Adjacency(known, num_nodes), torch.tensor([pair]).T, hops, 0, 0)
    return dict(zip(subgraphs.nodes.tolist(), drnl_labels(subgraphs).tolist(), strict=True))


# 2 is a neighbour of both ends, 3 of 0 only and 4 of 1 only; 5 hangs on 3 and 6 on 5, 7 on 2;
# a tail of 8, 9, 10 and 11 hangs on 1.
LINKS = [(0, 2), (0, 3), (1, 2), (1, 4), (3, 4), (3, 5), (5, 6), (2, 7)]
LINKS += [(1, 8), (8, 9), (9, 10), (10, 11)]


def test_labels_by_hand() -> None:
    """f = 1 + min(dx, dy) + (d // 2) (d // 2 + d % 2 - 1), ways to one end avoid the other."""
    labels = labels_around([(0, 1), *LINKS], 4)
    assert labels == {
        0: 1,
        1: 1,
        2: 2,  # dx 1, dy 1, d 2: 1 + 1 + 1 (1 + 0 - 1)
        3: 3,  # dx 1, dy 2 by way of 4, d 3: 1 + 1 + 1 (1 + 1 - 1)
        4: 3,  # dx 2, dy 1
        5: 7,  # dx 2, dy 3, d 5: 1 + 2 + 2 (2 + 1 - 1)
        6: 13,  # dx 3, dy 4, d 7: 1 + 3 + 3 (3 + 1 - 1)
        7: 5,  # dx 2, dy 2, d 4: 1 + 2 + 2 (2 + 0 - 1)
        **dict.fromkeys([8, 9, 10, 11], 0),  # their only way to 0 leads through 1
    }
    assert labels_around(LINKS, 4) == labels  # the link of the pair itself plays no part
    assert labels_around(LINKS, 1) == {0: 1, 1: 1, 2: 2, 3: 3, 4: 3, 8: 0}


@pytest.mark.parametrize(
    ("to_source", "to_target", "label"),
    [(1, 1, 2), (1, 2, 3), (1, 3, 4), (2, 2, 5), (1, 4, 6), (2, 3, 7), (1, 5, 8), (2, 4, 9)],
)
def test_the_labels_number_the_distances_as_in_the_paper(
    to_source: int, to_target: int, label: int
) -> None:
    """A node at the end of a chain to each end of the pair has both distances."""
    chains = [(2, 100)] if to_source > 1 else [(2, 0)]
    chains += [(99 + at, 100 + at) for at in range(1, to_source - 1)]
    chains += [(100 + to_source - 2, 0)] if to_source > 1 else []
    chains += [(2, 200)] if to_target > 1 else [(2, 1)]
    chains += [(199 + at, 200 + at) for at in range(1, to_target - 1)]
    chains += [(200 + to_target - 2, 1)] if to_target > 1 else []
    assert labels_around(chains, 8)[2] == label


def test_far_nodes_share_the_largest_label() -> None:
    rails, rungs = [(at, at + 2) for at in range(140)], [(at, at + 1) for at in range(2, 140, 2)]
    labels = labels_around(rails + rungs, 200)
    assert labels[2] == labels[3] == 3
    assert labels[140] == labels[120] == max(labels.values()) == LARGEST_LABEL


def by_scipy(subgraphs: Subgraphs, which: int) -> Tensor:
    first, last = subgraphs.start[which : which + 2].tolist()
    size = last - first
    edges = subgraphs.edge_index[:, (subgraphs.edge_index[0] >= first)]
    edges = edges[:, edges[0] < last] - first
    dense = np.zeros((size, size))
    dense[edges[0], edges[1]] = 1
    distances = []
    for end, other in ((0, 1), (1, 0)):
        cut = dense.copy()
        cut[other], cut[:, other] = 0, 0
        distances.append(shortest_path(csr_array(cut), unweighted=True, indices=end))
    is_far = ~np.isfinite(np.add(*distances))
    to_source, to_target = (np.where(is_far, 0, distance) for distance in distances)
    near, both = np.minimum(to_source, to_target), to_source + to_target
    label = 1 + near + (both // 2) * (both // 2 + both % 2 - 1)
    label[is_far] = 0
    label[:2] = 1
    return torch.from_numpy(label).long()


@given(
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30),
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), min_size=1, max_size=6),
    st.integers(1, 3),
)
@settings(deadline=None, max_examples=60)
def test_labels_are_what_scipys_shortest_paths_give(
    links: list[tuple[int, int]], pairs: list[tuple[int, int]], hops: int
) -> None:
    kept = sorted({(min(link), max(link)) for link in links if link[0] != link[1]})
    known = torch.tensor(kept, dtype=torch.int64).reshape(-1, 2).T
    asked = [pair for pair in pairs if pair[0] != pair[1]]
    subgraphs = extract(
        Adjacency(known, 12), torch.tensor(asked, dtype=torch.int64).reshape(-1, 2).T, hops, 0, 0
    )
    labels = drnl_labels(subgraphs)
    for which in range(len(asked)):
        first, last = subgraphs.start[which : which + 2].tolist()
        assert torch.equal(labels[first:last], by_scipy(subgraphs, which))
