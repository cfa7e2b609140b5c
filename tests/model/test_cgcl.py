from __future__ import annotations

import torch

from cgcl.graph import Graph
from cgcl.model import CGCL, View, Views, consistency_loss, draw_views
from cgcl.seeds import stream
from cgcl.split import NegativeSampler


def one_epoch(graph: Graph, kind: str = "disjoint") -> tuple[Views, list[torch.Tensor]]:
    views = draw_views(graph.edges, kind, stream(0, "views"))
    unlinked = NegativeSampler(graph.edges, graph.num_nodes)
    generator = stream(0, "negatives")
    return views, [unlinked.draw(hidden.num_pairs, generator) for _, hidden in views.passes()]


def test_each_loss_is_computed_after_the_step_before_it(two_cliques: Graph) -> None:
    """Two optimizer steps an epoch: the second view sees the weights the first one changed."""
    views, negatives = one_epoch(two_cliques)
    model = CGCL(20, 8, input_dropout=0.0, decoder_dropout=0.0)
    untouched = [loss.item() for loss in model.losses(two_cliques.x, views, negatives)]
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    stepped = []
    for loss in model.losses(two_cliques.x, views, negatives):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        stepped.append(loss.item())
    assert stepped[0] == untouched[0]
    assert stepped[1] != untouched[1]


def test_a_view_is_reconstructed_from_the_other_one(two_cliques: Graph) -> None:
    """Eq. 4: the first loss encodes view 1 and scores the links of view 2."""
    (views, negatives) = one_epoch(two_cliques)
    model = CGCL(20, 8).eval()
    first = next(iter(model.losses(two_cliques.x, views, negatives)))
    z = model.encode(two_cliques.x, views.view_1.edge_index)
    by_hand = consistency_loss(model.decode(z, views.view_2.pairs), model.decode(z, negatives[0]))
    torch.testing.assert_close(first, by_hand)


def test_an_empty_view_is_passed_over(triangle: Graph) -> None:
    nothing = View(torch.empty(2, 0, dtype=torch.int64), torch.empty(2, 0, dtype=torch.int64))
    everything = View(triangle.edge_index, triangle.edges)
    model = CGCL(3, 4)
    some = torch.tensor([[0, 1, 0], [1, 2, 2]])
    losses = list(model.losses(triangle.x, Views(nothing, everything), [some, some[:, :0]]))
    assert len(losses) == 1
    assert torch.isfinite(losses[0])


def test_forward_scores_pairs_from_all_known_links(two_cliques: Graph) -> None:
    model = CGCL(20, 8).eval()
    pairs = torch.tensor([[0, 3], [12, 4]])
    direct = model.decode(model.encode(two_cliques.x, two_cliques.edge_index), pairs)
    assert torch.equal(model(two_cliques.x, two_cliques.edge_index, pairs), direct)
