from __future__ import annotations

import torch

from cgcl.graph import Graph
from cgcl.model import CGCL, View, Views, draw_views
from cgcl.seeds import stream
from cgcl.split import NegativeSampler


def test_each_loss_is_computed_after_the_step_before_it(two_cliques: Graph) -> None:
    """Two optimizer steps an epoch: the second view sees the weights the first one changed."""
    views = draw_views(two_cliques.edges, "disjoint", stream(0, "views"))
    unlinked, coins = NegativeSampler(two_cliques.edges, 20), stream(0, "negatives")
    negatives = [unlinked.draw(hidden.num_pairs, coins) for _, hidden in views.passes()]
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


def test_an_empty_view_is_passed_over(triangle: Graph) -> None:
    nothing = View(torch.empty(2, 0, dtype=torch.int64), torch.empty(2, 0, dtype=torch.int64))
    everything = View(triangle.edge_index, triangle.edges)
    model = CGCL(3, 4)
    some = torch.tensor([[0, 1, 0], [1, 2, 2]])
    losses = list(model.losses(triangle.x, Views(nothing, everything), [some, some[:, :0]]))
    assert len(losses) == 1
    assert torch.isfinite(losses[0])
