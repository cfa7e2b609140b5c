"""One test per equation of the method, with numbers worked out by hand."""

import math

import pytest
import torch

from cgcl.model import CGCL, GCNEncoder, PairDecoder, View, Views, consistency_loss, propagate

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
"""The path 0 - 1 - 2, both directions of its two links."""


def fill(parameter: torch.Tensor, values: list) -> None:
    with torch.no_grad():
        parameter.copy_(torch.tensor(values))


def test_equation_1_graph_convolution() -> None:
    r"""With self-links the path's degrees are 2, 3, 2. For H = (1, 2, 3):

    node 0:  1/2 * 1 + 1/sqrt(6) * 2                     = 0.5 + 0.8164966 = 1.3164966
    node 1:  1/3 * 2 + 1/sqrt(6) * 1 + 1/sqrt(6) * 3     = 0.6666667 + 1.6329932 = 2.2996598
    node 2:  1/2 * 3 + 1/sqrt(6) * 2                     = 1.5 + 0.8164966 = 2.3164966
    """
    out = propagate(torch.tensor([[1.0], [2.0], [3.0]]), PATH)
    assert out.squeeze(1).tolist() == pytest.approx([1.3164966, 2.2996598, 2.3164966])


def test_equation_1_counts_what_arrives_where_a_view_is_directed() -> None:
    """Only 0 -> 1. Degrees with self-links: node 0 has 1, node 1 has 2. For H = (1, 2):

    node 0:  1 * 1                       = 1
    node 1:  1/2 * 2 + 1/sqrt(2) * 1     = 1.7071068
    """
    out = propagate(torch.tensor([[1.0], [2.0]]), torch.tensor([[0], [1]]))
    assert out.squeeze(1).tolist() == pytest.approx([1.0, 1.7071068])


def test_equation_5_encoder() -> None:
    """X = (1, 2, 3), W = (1, -1), b = (0, 0.5). The rows of A^ X are those of Eq. 1, so

    column 0:  ELU( 1.3164966,  2.2996598,  2.3164966) unchanged, because positive
    column 1:  ELU(-0.8164966, -1.7996598, -1.8164966) = exp(.) - 1
             = -0.5580236, -0.8346447, -0.8374057
    """
    encoder = GCNEncoder(1, 2).eval()
    fill(encoder.weight, [[1.0, -1.0]])
    fill(encoder.bias, [0.0, 0.5])
    z = encoder(torch.tensor([[1.0], [2.0], [3.0]]), PATH)
    assert z[:, 0].tolist() == pytest.approx([1.3164966, 2.2996598, 2.3164966])
    assert z[:, 1].tolist() == pytest.approx(
        [math.exp(-0.8164966) - 1, math.exp(-1.7996598) - 1, math.exp(-1.8164966) - 1]
    )


Z = torch.tensor([[1.0, 2.0], [3.0, -1.0]])


def test_equation_6_as_the_authors_code_has_it_and_by_the_letter() -> None:
    """z_0 = (1, 2), z_1 = (3, -1): Hadamard product (3, -2), inner product 3 - 2 = 1."""
    pair = torch.tensor([[0], [1]])
    assert PairDecoder(2).pair_features(Z, pair).tolist() == [[3.0, -2.0]]
    assert PairDecoder(2, product="inner").pair_features(Z, pair).tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("b_1", "last_layer", "expected"),
    [(0.5, "linear", -0.5), (0.5, "relu", 0.0), (-2.0, "linear", 1.0)],
)
def test_equation_7_two_layers(b_1: float, last_layer, expected: float) -> None:
    """h = (3, -2), W_1 = (1, 1), b_1 = 0.5: ReLU(1.5) = 1.5; W_2 = -1, b_2 = 1: -1.5 + 1 = -0.5.

    With a ReLU on the last layer too, as the text has it, 0. With b_1 = -2 the first layer gives
    ReLU(1 - 2) = 0, and only b_2 = 1 is left.
    """
    decoder = PairDecoder(2, last_layer=last_layer).eval()
    for layer, w, b in ((decoder.layer_1, [[1.0, 1.0]], b_1), (decoder.layer_2, [[-1.0]], 1.0)):
        fill(layer.weight, w)
        fill(layer.bias, [b])
    assert decoder(Z, torch.tensor([[0], [1]])).tolist() == pytest.approx([expected])


def test_equation_8_with_hard_targets() -> None:
    """Links at logits 0 and 2, non-links at 0 and -1; log(1 + e^x) =: s(x).

    links:      (s(0) + s(-2)) / 2 = (0.6931472 + 0.1269280) / 2 = 0.4100376
    non-links:  (s(0) + s(-1)) / 2 = (0.6931472 + 0.3132617) / 2 = 0.5032044
    """
    loss = consistency_loss(torch.tensor([0.0, 2.0]), torch.tensor([0.0, -1.0]))
    assert loss.item() == pytest.approx(0.4100376 + 0.5032044)


def test_equation_8_by_the_letter_asks_for_sigmoids() -> None:
    """A link's target is sigmoid(1) = 0.7310586, a non-link's is sigmoid(0) = 0.5.

    link at logit 2:       0.7310586 * s(-2) + 0.2689414 * s(2)
                         = 0.7310586 * 0.1269280 + 0.2689414 * 2.1269280 = 0.6648108
    non-link at logit -1:  0.5 * s(1) + 0.5 * s(-1) = 0.5 * (1.3132617 + 0.3132617) = 0.8132617
    """
    loss = consistency_loss(torch.tensor([2.0]), torch.tensor([-1.0]), targets="sigmoid")
    assert loss.item() == pytest.approx(0.6648108 + 0.8132617)


def plain_model() -> CGCL:
    """A model whose embedding is A^ X and whose logit is the product of two embeddings."""
    model = CGCL(1, 2, input_dropout=0.0, decoder_dropout=0.0)
    fill(model.encode.weight, [[1.0, 0.0]])
    fill(model.encode.bias, [0.0, 0.0])
    fill(model.decode.layer_1.weight, [[1.0, 0.0]])
    fill(model.decode.layer_1.bias, [0.0])
    fill(model.decode.layer_2.weight, [[1.0]])
    fill(model.decode.layer_2.bias, [0.0])
    return model


def test_equation_4_and_algorithm_1_on_a_path() -> None:
    """View 1 holds 0 - 1, view 2 holds 1 - 2; X = (1, 2, 3), W = 1, so Z = A^ X.

    Encoding view 1, the degrees are 2, 2, 1: Z = (1.5, 1.5, 3). Reconstructing view 2: pair
    (1, 2) has the product 4.5, the non-link (0, 2) has 4.5. With W_1 = W_2 = 1 and no biases the
    logits are 4.5 and 4.5: L_1 = s(-4.5) + s(4.5) = 0.0110478 + 4.5110478 = 4.5220956.
    Encoding view 2, the degrees are 1, 2, 2: Z = (1, 2.5, 2.5). Reconstructing view 1: pair
    (0, 1) has 2.5, the non-link (0, 2) has 2.5: L_2 = 0.0788897 + 2.5788897 = 2.6577794.
    """
    model = plain_model()
    view_1 = View(torch.tensor([[0, 1], [1, 0]]), torch.tensor([[0], [1]]))
    view_2 = View(torch.tensor([[1, 2], [2, 1]]), torch.tensor([[1], [2]]))
    non_link = torch.tensor([[0], [2]])
    x = torch.tensor([[1.0], [2.0], [3.0]])
    losses = model.losses(x, Views(view_1, view_2), [non_link, non_link])
    assert [loss.item() for loss in losses] == pytest.approx([4.5220956, 2.6577794], rel=1e-6)


def test_lines_12_to_14_score_with_all_known_links() -> None:
    """On the whole path Z = A^ X as in Eq. 1, so the pair (0, 2) scores
    1.3164966 * 2.3164966 = 3.0496599.
    """
    model = plain_model().eval()
    logits = model(torch.tensor([[1.0], [2.0], [3.0]]), PATH, torch.tensor([[0], [2]]))
    assert logits.tolist() == pytest.approx([3.0496599])
