"""The graph, and what is done to it before anyone learns from it."""

from cgcl.graph.graph import Graph

__all__ = ["Graph"]
