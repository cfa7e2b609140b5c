"""Other ways to score pairs of nodes, to set beside the network."""

from cgcl.methods.adamic_adar import AdamicAdar
from cgcl.methods.common_neighbours import CommonNeighbours
from cgcl.methods.features_mlp import FeaturesMLP, train_features_mlp
from cgcl.methods.method import Known, Method, PairScorer
from cgcl.methods.table import METHODS, method_named

__all__ = [
    "METHODS",
    "AdamicAdar",
    "CommonNeighbours",
    "FeaturesMLP",
    "Known",
    "Method",
    "PairScorer",
    "method_named",
    "train_features_mlp",
]
