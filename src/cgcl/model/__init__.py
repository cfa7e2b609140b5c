"""The paper, in plain torch."""

from cgcl.model.cgcl import CGCL
from cgcl.model.decoder import PairDecoder, consistency_loss
from cgcl.model.encoder import GCNEncoder, propagate
from cgcl.model.views import View, Views, divide, draw_views, symmetric

__all__ = [
    "CGCL",
    "GCNEncoder",
    "PairDecoder",
    "View",
    "Views",
    "consistency_loss",
    "divide",
    "draw_views",
    "propagate",
    "symmetric",
]
