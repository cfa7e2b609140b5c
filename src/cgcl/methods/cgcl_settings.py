"""What CGCL can be told. Nothing heavy is imported, so that `cgcl train --help` answers at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from cgcl.methods.settings import TrainedSettings
from cgcl.settings import Range

__all__ = ["PRESETS", "CGCLSettings"]


@dataclass(frozen=True)
class CGCLSettings(TrainedSettings):
    """The network and its training."""

    hidden: int = 128
    """Width of the node embeddings, the paper's d_v; the decoder's hidden layer has half of it."""
    input_dropout: float = 0.8
    """Chance of a node feature to be dropped in a training step."""
    decoder_dropout: float = 0.2
    """Chance of an entry of a pair's product to be dropped in a training step."""
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
    """Number of epochs; each takes one optimizer step per view."""
    weight_decay: float = 1e-5
    """Strength of the L2 penalty on the weights."""

    RANGES: ClassVar[Mapping[str, Range]] = {
        "hidden": Range(low=2, high=65536),
        "input_dropout": Range(low=0, below=1),
        "decoder_dropout": Range(low=0, below=1),
        "seen": Range(above=0, below=1),
    }


PRESETS: dict[str, dict[str, Any]] = {
    "quick": {},
    "paper": {"hidden": 512, "lr": 0.005, "epochs": 800, "views": "directed"},
}
"""Named settings on top of the defaults above. The paper is silent on which width and learning
rate it used where, and its authors' code on more than one view scheme; docs/paper-to-code.md
says where each value comes from."""
