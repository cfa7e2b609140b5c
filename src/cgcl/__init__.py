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
    from cgcl.graph import Graph as Graph
    from cgcl.model import CGCL as CGCL
    from cgcl.model import consistency_loss as consistency_loss
    from cgcl.model import draw_views as draw_views
    from cgcl.predict import LinkPredictor as LinkPredictor
    from cgcl.predict import Links as Links
    from cgcl.readers import read as read
    from cgcl.split import NegativeSampler as NegativeSampler
    from cgcl.split import Split as Split
    from cgcl.split import audit_split as audit_split
    from cgcl.split import given_split as given_split
    from cgcl.split import random_split as random_split
    from cgcl.split import time_split as time_split

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

__all__ = ["__version__", "load", *_HOME]

try:
    __version__ = version("cgcl")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+source"


def load(folder: str | Path, device: str = "auto") -> LinkPredictor:
    """Return the predictor that `save`, or `cgcl train`, wrote to a folder."""
    from cgcl.predict import LinkPredictor

    return LinkPredictor.load(folder, device)


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in _HOME:
        raise AttributeError(f"module 'cgcl' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
