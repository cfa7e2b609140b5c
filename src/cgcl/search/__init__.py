"""Which pairs to look at, and which of them are best."""

from cgcl.search.found import Found
from cgcl.search.query import Query
from cgcl.search.search import Search, find
from cgcl.search.way import Asked

__all__ = ["Asked", "Found", "Query", "Search", "find"]
