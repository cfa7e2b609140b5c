"""PyTorch Geometric's splitter beside ours: same sizes, and the flaws we leave behind."""

from __future__ import annotations

import torch
from torch_geometric.data import Data
from torch_geometric.transforms import RandomLinkSplit

from cgcl.graph import Graph
from cgcl.split import random_split


def pyg_split(edge_index: torch.Tensor, num_nodes: int) -> tuple[Data, Data, Data]:
    transform = RandomLinkSplit(0.05, 0.10, is_undirected=True, add_negative_train_samples=False)
    return transform(Data(edge_index=edge_index, num_nodes=num_nodes))


def test_both_hide_the_same_number_of_links(cora: Graph) -> None:
    train, val, test = pyg_split(cora.edge_index, cora.num_nodes)
    ours = random_split(cora, 0.05, 0.10).sizes
    assert train.edge_index.shape[1] == 2 * ours["train"]
    assert int(val.edge_label.sum()) == ours["val"]
    assert int(test.edge_label.sum()) == ours["test"]


def test_links_written_in_one_direction_are_lost_there_and_kept_here() -> None:
    star = torch.stack([torch.arange(1, 101), torch.zeros(100, dtype=torch.int64)])
    star[:, :50] = star[:, :50].flip(0)  # half of the links outwards, half inwards
    train, val, test = pyg_split(star, 101)
    theirs = train.edge_index.shape[1] // 2 + int(val.edge_label.sum() + test.edge_label.sum())
    graph = Graph.from_pairs("star", [str(i) for i in range(101)], star)
    assert theirs == 50
    assert sum(random_split(graph).sizes.values()) == 100
