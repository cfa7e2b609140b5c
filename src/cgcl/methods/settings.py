"""What every method can be told, CGCL and CGCL-rank above all, and the latter's rule.

Nothing heavy is imported, so that `cgcl train --help` answers at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from cgcl.errors import ConfigError
from cgcl.settings import Range, Settings, check_range

if TYPE_CHECKING:
    from cgcl.graph import Graph

# What settings that were added later used to be, before anyone could choose.
_CAME_LATER = {("choose_by", "auc"), ("patience", 0), ("encoder", "gcn"), ("batch", 0)}


@dataclass(frozen=True)
class MethodSettings(Settings):
    """The settings of a method that has nothing to train."""

    @property
    def caps(self) -> str:
        """What the method leaves out to stay affordable, for tables; empty for nothing."""
        return ""

    def to_json(self) -> dict[str, Any]:
        """Return every setting by name, but for what came later and is as it was before.

        So runs from before are recognised as the same runs.
        """
        return {
            name: value
            for name, value in asdict(self).items()
            if (name, value) not in _CAME_LATER or getattr(type(self), name) != value
        }


COMMON_RANGES: dict[str, Range] = {
    "hidden": Range(low=1, high=65536),
    "layers": Range(low=1, high=20),
    "batch": Range(low=1, high=2**31),
    "mask": Range(above=0, below=1),
    "hops": Range(low=1, high=16),
    "nodes_per_hop": Range(low=0, high=10_000_000),
    "share": Range(above=0, high=1),
}
"""The ranges of settings that several methods have; a method may have others."""


@dataclass(frozen=True)
class TrainedSettings(MethodSettings):
    """The settings of a method that is trained."""

    lr: float = 0.01
    """Learning rate of Adam."""
    epochs: int = 200
    """Number of epochs."""
    weight_decay: float = 0.0
    """Strength of the L2 penalty on the weights."""
    evaluate_every: int = 10
    """Epochs between two measurements on the validation links."""
    clip: float = 0.0
    """Longest gradient that a step may follow; longer ones are shortened. 0 for no limit."""
    choose_by: Literal["auc", "node_mrr", "hits@100"] = "auc"
    """By what the best epoch is chosen on the validation links: auc; node_mrr, where a link's other
    end stands among all nodes; hits@100, the links above the 100th unlinked pair, equal ones by
    auc. Where node_mrr takes too long for a look, or there are no 100 pairs, auc all the same."""
    patience: int = 0
    """Stop after so many epochs without a better one; 0 to train them all."""

    RANGES: ClassVar[Mapping[str, Range]] = {
        "lr": Range(above=0, high=10),
        "epochs": Range(low=1, high=10_000_000),
        "weight_decay": Range(low=0, high=10),
        "evaluate_every": Range(low=1, high=10_000_000),
        "clip": Range(low=0, high=1e9),
        "patience": Range(low=0, high=10_000_000),
    }

    def __post_init__(self) -> None:
        """Check types and ranges; whatever is dropped is dropped by a chance below 1.

        Raises:
            ConfigError: A setting has the wrong type or is out of range.
        """
        super().__post_init__()
        for name in (own.name for own in fields(self)):
            if name.endswith("dropout"):
                check_range(name, getattr(self, name), Range(low=0, below=1))
            elif name in COMMON_RANGES and name not in self.RANGES:
                check_range(name, getattr(self, name), COMMON_RANGES[name])


@dataclass(frozen=True)
class PaperSettings(TrainedSettings):
    """The settings of the paper's network, for all that train it or its likes."""

    weight_decay: float = 1e-5
    """Strength of the L2 penalty on the weights."""
    hidden: int = 128
    """Width of the node embeddings, the paper's d_v; the decoder's hidden layer has half of it."""
    input_dropout: float = 0.8
    """Chance of a node feature to be dropped in a training step."""
    decoder_dropout: float = 0.2
    """Chance of an entry of a pair's product to be dropped in a training step."""

    RANGES: ClassVar[Mapping[str, Range]] = {"hidden": Range(low=2, high=65536)}


@dataclass(frozen=True)
class CGCLSettings(PaperSettings):
    """The network and its training."""

    product: Literal["hadamard", "inner"] = "hadamard"
    """How a pair's embeddings are combined; inner is Eq. 6 by the letter."""
    last_layer: Literal["linear", "relu"] = "linear"
    """What ends the decoder; relu is the text below Eq. 7 by the letter."""
    targets: Literal["hard", "sigmoid"] = "hard"
    """What a link and a non-link should score; sigmoid is Eq. 8 by the letter."""
    views: Literal["disjoint", "shared", "directed", "own", "one", "all"] = "disjoint"
    """How the known links are divided into two views: disjoint puts each pair into one view, shared
    about half of the pairs into both, directed divides the two directions of each pair, as the
    authors' code does, own is disjoint but asks each view for itself, one is disjoint but trains on
    one view only, all hides nothing."""
    seen: float = 0.5
    """Chance of a link to be in the first view; the paper's coins are fair."""
    negatives: Literal["train", "view"] = "train"
    """Which links a counter-example must avoid: all links learned from (train), or only those that
    the step asks for (view), as the paper's text has it."""
    lr: float = 0.01
    """Learning rate of Adam, the paper's r."""
    epochs: int = 200
    """Number of epochs; each takes one optimizer step per view, or one per batch."""
    batch: int = 0
    """Links that a step asks for, in a random order that hides each link once an epoch; then a step
    looks at these, at as many counter-examples, and at the neighbours of both. 0 takes all links
    of a view at once, as the paper does."""

    RANGES: ClassVar[Mapping[str, Range]] = {
        "seen": Range(above=0, below=1),
        "batch": Range(low=0, high=2**31),
    }

    def __post_init__(self) -> None:
        """Check types and ranges, and that batches have views that they can be cut from.

        Raises:
            ConfigError: A setting has the wrong type or is out of range, or two do not go together.
        """
        super().__post_init__()
        for name, whole in (("views", "disjoint"), ("negatives", "train")):
            if self.batch and getattr(self, name) != whole:
                raise ConfigError(
                    f"`batch` {self.batch} goes with `{name}={whole}`, not with "
                    f"`{name}={getattr(self, name)}`.\nLeave one of the two out."
                )


PRESETS: dict[str, dict[str, Any]] = {
    "quick": {},
    "paper": {"hidden": 512, "lr": 0.005, "epochs": 800, "views": "directed"},
}
"""Named settings on top of the defaults above. The paper is silent on which width and learning
rate it used where, and its authors' code on more than one view scheme; docs/paper-to-code.md
says where each value comes from."""
CGCL_SEARCH: dict[str, tuple[Any, ...]] = {
    "lr": (0.001, 0.005, 0.01),
    "hidden": (64, 128, 256, 512),
    "input_dropout": (0.2, 0.5, 0.8),
    "weight_decay": (0.0, 1e-5, 1e-4),
}
"""What is worth trying of a network such as CGCL's."""

# Bags of words have a few of many words each: they must be dropped often, or they are learned by
# heart. Above this share of nonzeros, features are taken for something else.
_FEW_WORDS = 0.05
_FEW_LINKS = 3.0
# For a graph with bags of words, with other features, and without any.
_CHOSEN: dict[str, tuple[Any, Any, Any]] = {
    "hidden": (512, 512, 256),
    "layers": (2, 3, 2),
    "input_dropout": (0.8, 0.3, 0.5),
    "hidden_dropout": (0.5, 0.3, 0.2),
    "decoder_dropout": (0.4, 0.2, 0.2),
    "lr": (0.002, 0.004, 0.005),
    "epochs": (500, 900, 400),
    "weight_decay": (3e-4, 1e-5, 1e-5),
    "row_share": (0.3, 0.5, 0.5),
    "target_share": (0.5, 0.5, 0.25),
}
_WORDS, _, _NO_FEATURES = range(3)
# A narrow network needs less dropout, and few rows a step make many steps affordable.
_QUICK = {"hidden": 128, "layers": 2, "decoder_dropout": 0.1, "lr": 0.01, "epochs": 200}
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
    epochs: int = 200
    """Number of epochs; each takes one optimizer step per view."""
    weight_decay: float = 1e-5
    choose_by: Literal["auc", "node_mrr", "hits@100"] = "node_mrr"
    """By what the best epoch is chosen on the validation links."""

    RANGES: ClassVar[Mapping[str, Range]] = {
        "hidden": Range(low=2, high=65536),
        "negative_share": Range(low=0, high=1),
        "signatures": Range(low=0, high=65536),
        "row_share": Range(low=0, high=1),
        "target_share": Range(above=0, high=0.5),
        "sampled": Range(low=0, high=2**31),
        "average": Range(low=0, below=1),
    }


RULED = frozenset({*_CHOSEN, "evaluate_every", "sampled"})
"""What `chosen_for` chooses."""


def chosen_for(graph: Graph, preset: str) -> dict[str, Any]:
    """Return settings by properties of a graph; docs/ranking.md shows the search behind them.

    Args:
        graph: The graph to learn from.
        preset: `quick`, fit for two cores, or `best`.
    """
    from cgcl.graph.features import has_structural_features

    has_features = graph.x is not None and not has_structural_features(graph)
    density = graph.num_nonzeros / max(graph.num_nodes * graph.num_features, 1)
    features = int(density >= _FEW_WORDS) if has_features else _NO_FEATURES
    values = {name: chosen[features] for name, chosen in _CHOSEN.items()}
    rows = _MOST_ROWS
    if preset == "quick":
        values |= _QUICK
        rows = _QUICK_ROWS
        if features == _WORDS:
            values["lr"], rows = _QUICK_WORDS_LR, _QUICK_WORDS_ROWS
    # Where a node has hardly a neighbour's neighbour, these add more noise than its words lack.
    if features == _WORDS and 2 * graph.num_edges < _FEW_LINKS * graph.num_nodes:
        values["layers"] = 1
    # A look ranks up to 1,000 links among all nodes: on a GPU it takes as long as a few epochs.
    values["evaluate_every"] = 10 if preset == "quick" else 20
    values["sampled"] = rows if graph.num_nodes > rows else 0
    return values
