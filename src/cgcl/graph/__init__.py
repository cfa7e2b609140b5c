"""Room 1: a graph comes in."""

from cgcl.graph.graph import Graph

__all__ = ["Graph"]
