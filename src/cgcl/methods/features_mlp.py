"""A network that sees features only: what is won by links shows against it."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from cgcl.errors import ModelFileError, TrainingError
from cgcl.metrics import auc
from cgcl.model import PairDecoder, consistency_loss
from cgcl.model.dropout import dropout
from cgcl.seeds import stream
from cgcl.split import Split, UnlinkedPairs

__all__ = ["FeaturesMLP", "train_features_mlp"]

# 2^16 pairs at a width of 512 take 128 MB; a fixed size also fixes the order of every sum.
_BLOCK_PAIRS = 2**16


class FeaturesMLP:
    r"""Scores a pair by the features of its two ends: $\mathrm{MLP}(z_u \odot z_v)$.

    $z = \mathrm{ELU}(x W + b)$: the encoder of CGCL without its links, under the same decoder. So
    no link is needed for a score, and none can leak into one.
    """

    def __init__(self, x: Tensor, weights: Mapping[str, Tensor]) -> None:
        """Encode all nodes.

        Args:
            x: Features, [n, d], dense or coalesced sparse COO, on the device to compute on.
            weights: What `train_features_mlp` returned.

        Raises:
            ModelFileError: The weights are not those of a network for such features.
        """
        width = weights["weight"].shape[1] if "weight" in weights else 2
        network = _build(x.shape[1], width, seed=0)
        wanted = {name: tuple(value.shape) for name, value in network.state_dict().items()}
        found = {name: tuple(value.shape) for name, value in weights.items()}
        if found != wanted:
            raise ModelFileError(
                f"The weights of the features-only network do not fit.\n"
                f"Found {found}, expected {wanted}."
            )
        network.load_state_dict(dict(weights))
        self._network = network.to(x.device).eval()
        self.num_nodes = x.shape[0]
        with torch.no_grad():
            self._z = self._network.encode(x)

    @property
    def cost_per_pair(self) -> float:
        """About how many operations one pair takes: two layers, and fetching two vectors.

        In the unit of `cgcl.search.scorer`: two ordinary CPU cores do 4e10 a second.
        """
        layer = self._network.decode.layer_1
        return 2.0 * layer.in_features * layer.out_features + 20.0 * layer.in_features

    def logits(self, pairs: Tensor) -> Tensor:
        """Return the logits of pairs of node numbers, float32 [p] on the CPU."""
        return _decode(self._network, self._z, pairs)

    def factors(self) -> None:
        """There are none to offer: every pair is scored by the network."""
        return


def train_features_mlp(
    x: Tensor,
    split: Split,
    *,
    hidden: int = 128,
    input_dropout: float = 0.8,
    decoder_dropout: float = 0.2,
    lr: float = 0.01,
    epochs: int = 200,
    weight_decay: float = 1e-5,
    evaluate_every: int = 10,
    seed: int = 0,
) -> dict[str, Tensor]:
    """Train a features-only network and return its weights at the best epoch, on the CPU.

    Args:
        x: Features, [n, d], dense or coalesced sparse COO, on the device to compute on.
        split: The links to learn from, and those to choose the epoch by; without the latter the
            last epoch is kept.
        hidden: Width of the embeddings; the decoder's hidden layer has half of it.
        input_dropout: Chance of a feature to be dropped in a training step.
        decoder_dropout: Chance of an entry of a pair's product to be dropped.
        lr: Learning rate of Adam.
        epochs: Number of steps, each over all training links and as many unlinked pairs.
        weight_decay: Strength of the L2 penalty on the weights.
        evaluate_every: Epochs between two looks at the validation links.
        seed: Decides the weights, the dropout and the counter-examples.

    Raises:
        TrainingError: The scores are not finite numbers.
        SplitError: There are no counter-examples to draw.
    """
    network = _build(x.shape[1], hidden, seed, input_dropout, decoder_dropout).to(x.device)
    optimizer = torch.optim.Adam(network.parameters(), lr=lr, weight_decay=weight_decay)
    links = split.train.to(x.device)
    unlinked = UnlinkedPairs(links, split.num_nodes, split.sides)
    best: dict[str, Tensor] = {}
    best_auc = -1.0
    for epoch in range(1, epochs + 1):
        negatives = unlinked.draw(links.shape[1], stream(seed, "mlp negatives", epoch, x.device))
        coins = stream(seed, "mlp dropout", epoch, x.device)
        network.train()
        z = network.encode(x, coins)
        loss = consistency_loss(
            network.decode(z, links, coins), network.decode(z, negatives, coins)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % evaluate_every == 0 or epoch == epochs:
            found = _validation_auc(network, x, split, epoch, lr)
            if found is None or found > best_auc:
                best_auc = -1.0 if found is None else found
                best = {k: v.detach().cpu().clone() for k, v in network.state_dict().items()}
    return best


class _Network(nn.Module):
    """A linear layer with ELU, then the pair decoder."""

    def __init__(
        self, in_channels: int, hidden: int, input_dropout: float, decoder_dropout: float
    ) -> None:
        super().__init__()
        self.input_dropout = input_dropout
        self.weight = nn.Parameter(torch.empty(in_channels, hidden))
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.decode = PairDecoder(hidden, decoder_dropout)

    def encode(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return one vector per node, [n, hidden]."""
        if self.training:
            x = dropout(x, self.input_dropout, generator)
        h = torch.sparse.mm(x, self.weight) if x.is_sparse else x @ self.weight
        return functional.elu(h + self.bias)


def _build(
    in_channels: int,
    hidden: int,
    seed: int,
    input_dropout: float = 0.0,
    decoder_dropout: float = 0.0,
) -> _Network:
    """Create the network with weights that follow from `seed` alone."""
    # Torch's layers draw from the global generator when they are built; put it back after.
    with torch.random.fork_rng(devices=[]):
        network = _Network(in_channels, hidden, input_dropout, decoder_dropout)
    generator = stream(seed, "mlp weights")
    nn.init.xavier_uniform_(network.weight, generator=generator)
    network.decode.reset_parameters(generator)
    return network


def _decode(network: _Network, z: Tensor, pairs: Tensor) -> Tensor:
    network.eval()
    with torch.no_grad():
        blocks = [
            network.decode(z, block.to(z.device)).cpu() for block in pairs.split(_BLOCK_PAIRS, 1)
        ]
    return torch.cat(blocks) if blocks else torch.empty(0)


def _validation_auc(
    network: _Network, x: Tensor, split: Split, epoch: int, lr: float
) -> float | None:
    """Return the AUC on the validation links, or None if there are none."""
    network.eval()
    with torch.no_grad():
        z = network.encode(x)
    positive, negative = (_decode(network, z, p) for p in (split.val, split.val_negatives))
    if not all(bool(torch.isfinite(tensor).all()) for tensor in (z, positive, negative)):
        raise TrainingError(
            f"The scores of the features-only network are not finite at epoch {epoch} (lr {lr}).\n"
            f"Lower --lr, and look for very large feature values."
        )
    return auc(positive, negative) if positive.numel() else None
