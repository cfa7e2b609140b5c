"""Room 1: a graph comes in."""

from cgcl.graph.datasets import DATASETS, load_dataset
from cgcl.graph.graph import Graph
from cgcl.graph.read import read

__all__ = ["DATASETS", "Graph", "load_dataset", "read"]
