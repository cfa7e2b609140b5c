"""How fast an epoch could be at best: its arithmetic and its memory traffic against a machine.

Only what cannot be avoided is counted: every pair is scored once, each product of the decoder is
computed once forward and twice backward, and every tensor that no cache can be asked to keep is
read or written once. Gathered rows count once per node, as if the cache held all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Machine", "Work", "floor_ms", "work_of"]

_STEPS = 2  # an epoch takes one for each view
_FLOAT = 4
_KEPT = 0.2  # of the features, after the input dropout of the paper preset
_ENTRY = 12  # bytes of a stored feature: its value and its column


@dataclass(frozen=True)
class Machine:
    """What a machine can do at best."""

    tflops: float
    """Matrix products, in 10^12 operations a second."""
    tb_per_s: float
    """Reading and writing memory, in 10^12 bytes a second."""


@dataclass(frozen=True)
class Work:
    """What one part of an epoch must do."""

    flops: float
    bytes: float

    def ms(self, machine: Machine) -> float:
        """Return the milliseconds it takes at best: the longer of computing and moving."""
        return 1e3 * max(
            self.flops / (machine.tflops * 1e12), self.bytes / (machine.tb_per_s * 1e12)
        )


def work_of(
    nodes: int, features: int, nonzeros: int, links: int, hidden: int, views: str
) -> dict[str, Work]:
    """Return the work of each part of an epoch.

    Args:
        nodes: Number of nodes, n.
        features: Number of features per node, d.
        nonzeros: How many entries of the features are not zero; dropout leaves a fifth of them.
        links: Number of links to learn from, m.
        hidden: Width of the embeddings, d_v.
        views: `disjoint` scores each link once an epoch, `directed` each of its two directions;
            either with as many counter-examples.
    """
    pairs = (4 if views == "directed" else 2) * links
    entries = 2 * links + nodes  # both directions and the self-links, over both views
    z = nodes * hidden * _FLOAT
    weights = features * hidden + hidden + hidden * hidden // 2 + hidden + 1
    kept = _KEPT * nonzeros
    x = min(kept * _ENTRY, nodes * features * _FLOAT)
    return {
        # X W, and the gradient of W.
        "features": Work(
            _STEPS * 2 * 2 * kept * hidden, _STEPS * 2 * (x + z + features * hidden * _FLOAT)
        ),
        # Forward from H to Z and back: each of the four is read or written once.
        "propagation": Work(2 * 2 * entries * hidden, _STEPS * 4 * z),
        # Three products of [pairs, d_v] with [d_v, d_v / 2]; Z is read and its gradient written.
        "decoder": Work(3 * pairs * hidden * hidden, _STEPS * 2 * z),
        # Weight, two moments: read and written; the gradient: read.
        "optimizer": Work(0, _STEPS * 7 * weights * _FLOAT),
        "draws": Work(0, 16 * pairs),
    }


def floor_ms(work: dict[str, Work], machine: Machine) -> dict[str, float]:
    """Return the milliseconds of each part at best; the parts follow each other."""
    return {part: each.ms(machine) for part, each in work.items()}
