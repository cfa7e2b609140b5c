"""What CGCL that ranks can be told, and the rule that chooses for a graph. Nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from cgcl.methods.settings import TrainedSettings
from cgcl.settings import Range

if TYPE_CHECKING:
    from cgcl.graph import Graph

__all__ = ["RULED", "RankSettings", "chosen_for"]

# Bags of words have a few of many words each: they must be dropped often, or they are learned by
# heart. Above this share of nonzeros, features are taken for something else.
_FEW_WORDS = 0.05
_FEW_LINKS = 3.0
_WORDS: dict[str, Any] = {
    "hidden": 512,
    "layers": 2,
    "input_dropout": 0.8,
    "hidden_dropout": 0.5,
    "decoder_dropout": 0.4,
    "lr": 0.002,
    "epochs": 500,
    "weight_decay": 3e-4,
    "row_share": 0.3,
    "target_share": 0.5,
}
_RICH: dict[str, Any] = {
    "hidden": 512,
    "layers": 3,
    "input_dropout": 0.3,
    "hidden_dropout": 0.3,
    "decoder_dropout": 0.2,
    "lr": 0.004,
    "epochs": 900,
    "weight_decay": 1e-5,
    "row_share": 0.5,
    "target_share": 0.5,
}
_NO_FEATURES: dict[str, Any] = {
    "hidden": 256,
    "layers": 2,
    "input_dropout": 0.5,
    "hidden_dropout": 0.2,
    "decoder_dropout": 0.2,
    "lr": 0.005,
    "epochs": 400,
    "weight_decay": 1e-5,
    "row_share": 0.5,
    "target_share": 0.25,
}
# A narrow network needs less dropout, and few rows a step make many steps affordable.
_QUICK: dict[str, Any] = {
    "hidden": 128,
    "layers": 2,
    "decoder_dropout": 0.1,
    "lr": 0.01,
    "epochs": 200,
}
_QUICK_WORDS_LR = 0.005
# Rows that a step looks at: on two cores, there with words, and where all are too many.
_QUICK_ROWS, _QUICK_WORDS_ROWS, _MOST_ROWS = 1024, 512, 32768


@dataclass(frozen=True)
class RankSettings(TrainedSettings):
    """The network and its training."""

    preset: Literal["quick", "best"] = "quick"
    """For which purse the rule chooses what is not given: quick is fit for two cores."""
    hidden: int = 128
    """Width of the node embeddings, the paper's d_v."""
    layers: int = 2
    """Number of graph convolutions; each beyond the first is added to what was there."""
    self_term: bool = True
    """Whether a node's own features count beside those of its neighbours."""
    norm: bool = True
    """Whether embeddings are normalised before they are compared."""
    popularity: bool = True
    """Whether a term says how sought-after each node is."""
    negative_share: float = 0.125
    """Share of the decoder's weights that begin negative: there it counts what differs between two
    nodes, not what is alike."""
    signatures: int = 0
    """Random numbers per node that estimate resource allocation in the seen view; 0 for none."""
    input_dropout: float = 0.5
    """Chance of a node feature to be dropped in a training step."""
    hidden_dropout: float = 0.5
    """Chance of an entry between two layers to be dropped in a training step."""
    decoder_dropout: float = 0.2
    """Chance of an entry of a normalised embedding to be dropped in a training step."""
    row_share: float = 0.5
    """How much a link's place in its two nodes' lists counts; the rest is its place among all
    pairs."""
    target_share: float = 0.5
    """Share of the links that a step hides and asks for: half of them make the paper's two views,
    fewer leave more to see."""
    sampled: int = 0
    """Nodes whose lists a step looks at, drawn anew in every step; 0 for all nodes."""
    average: float = 0.99
    """How much of the moving average of the weights each step keeps; 0 for the weights as they
    are."""
    lr: float = 0.005
    """Learning rate of Adam."""
    epochs: int = 200
    """Number of epochs; each takes one optimizer step per view."""
    weight_decay: float = 1e-5
    """Strength of the L2 penalty on the weights."""
    choose_by: Literal["auc", "node_mrr", "hits@100"] = "node_mrr"
    """By what the best epoch is chosen on the validation links."""

    RANGES: ClassVar[Mapping[str, Range]] = {
        "hidden": Range(low=2, high=65536),
        "layers": Range(low=1, high=16),
        "negative_share": Range(low=0, high=1),
        "signatures": Range(low=0, high=65536),
        "input_dropout": Range(low=0, below=1),
        "hidden_dropout": Range(low=0, below=1),
        "decoder_dropout": Range(low=0, below=1),
        "row_share": Range(low=0, high=1),
        "target_share": Range(above=0, high=0.5),
        "sampled": Range(low=0, high=2**31),
        "average": Range(low=0, below=1),
    }


RULED = frozenset(
    {
        "hidden",
        "layers",
        "input_dropout",
        "hidden_dropout",
        "decoder_dropout",
        "sampled",
        "lr",
        "epochs",
        "evaluate_every",
        "weight_decay",
        "row_share",
        "target_share",
    }
)
"""What `chosen_for` chooses."""


def chosen_for(graph: Graph, preset: str) -> dict[str, Any]:
    """Return settings by properties of a graph; docs/ranking.md shows the search behind them.

    Args:
        graph: The graph to learn from.
        preset: `quick`, fit for two cores, or `best`.
    """
    from cgcl.graph.structure import has_structural_features

    has_features = graph.x is not None and not has_structural_features(graph)
    density = graph.num_nonzeros / max(graph.num_nodes * graph.num_features, 1)
    if not has_features:
        chosen = _NO_FEATURES
    elif density < _FEW_WORDS:
        chosen = _WORDS
    else:
        chosen = _RICH
    values = {**chosen, **_QUICK} if preset == "quick" else dict(chosen)
    rows = _QUICK_ROWS if preset == "quick" else _MOST_ROWS
    if preset == "quick" and chosen is _WORDS:
        values["lr"], rows = _QUICK_WORDS_LR, _QUICK_WORDS_ROWS
    # Where a node has hardly a neighbour's neighbour, these add more noise than its words lack.
    if chosen is _WORDS and 2 * graph.num_edges < _FEW_LINKS * graph.num_nodes:
        values["layers"] = 1
    # A look ranks up to 1,000 links among all nodes: on a GPU it takes as long as a few epochs.
    values["evaluate_every"] = 10 if preset == "quick" else 20
    values["sampled"] = rows if graph.num_nodes > rows else 0
    return values
