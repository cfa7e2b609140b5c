"""Link prediction by cross-view graph consistency learning.

`cgcl.read` gives a graph, `cgcl.LinkPredictor` learns from it and answers. The layers
underneath (`random_split`, `CGCL`, `draw_views`, ...) are here for those who want only them.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cgcl.graph import Graph
    from cgcl.model import CGCL, consistency_loss, draw_views
    from cgcl.predict import LinkPredictor, Links
    from cgcl.readers import read
    from cgcl.split import (
        NegativeSampler,
        Split,
        audit_split,
        given_split,
        random_split,
        time_split,
    )

__all__ = [
    "CGCL",
    "Graph",
    "LinkPredictor",
    "Links",
    "NegativeSampler",
    "Split",
    "__version__",
    "audit_split",
    "consistency_loss",
    "draw_views",
    "given_split",
    "load",
    "random_split",
    "read",
    "time_split",
]

# Imported on first use: `import cgcl` and `cgcl --help` must not wait for torch.
_HOME = {
    "audit_split": "cgcl.split",
    "given_split": "cgcl.split",
    "time_split": "cgcl.split",
    "CGCL": "cgcl.model",
    "Graph": "cgcl.graph",
    "LinkPredictor": "cgcl.predict",
    "Links": "cgcl.predict",
    "Split": "cgcl.split",
    "NegativeSampler": "cgcl.split",
    "consistency_loss": "cgcl.model",
    "draw_views": "cgcl.model",
    "random_split": "cgcl.split",
    "read": "cgcl.readers",
}

try:
    __version__ = version("cgcl")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+source"


def load(folder: str | Path, device: str = "auto") -> LinkPredictor:
    """Return the predictor that `save`, or `cgcl train`, wrote to a folder."""
    from cgcl.predict import LinkPredictor

    return LinkPredictor.load(Path(folder), device)


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in _HOME:
        raise AttributeError(f"module 'cgcl' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
