"""The table of methods: a line each. A method's file is only opened when it is used."""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import TYPE_CHECKING

from cgcl.errors import ConfigError

if TYPE_CHECKING:
    from cgcl.methods.method import Method

__all__ = ["DEFAULT_METHOD", "METHODS", "PAPER_METHOD", "method_named"]

METHODS: dict[str, str] = {
    "cgcl": "cgcl.methods.cgcl",
    "cgcl-rank": "cgcl.methods.cgcl_rank",
    "graphsage": "cgcl.methods.graphsage",
    "vgae": "cgcl.methods.vgae",
    "seal": "cgcl.methods.seal",
    "s3grl": "cgcl.methods.s3grl",
    "s2gae": "cgcl.methods.s2gae",
    "maskgae": "cgcl.methods.maskgae",
    "ncn": "cgcl.methods.ncn",
    "gcn": "cgcl.methods.gcn",
    "mlp": "cgcl.methods.mlp",
    "common-neighbours": "cgcl.methods.common_neighbours",
    "adamic-adar": "cgcl.methods.adamic_adar",
    "resource-allocation": "cgcl.methods.resource_allocation",
    "preferential-attachment": "cgcl.methods.preferential_attachment",
    "katz": "cgcl.methods.katz",
    "pagerank": "cgcl.methods.pagerank",
}
"""Every method by the name that users give it: the module that holds it as `METHOD`."""


PAPER_METHOD = "cgcl"
"""The paper's own method."""
DEFAULT_METHOD = "cgcl"
"""What is trained where nobody names a method."""


def method_named(name: str) -> Method:
    """Return the method of that name.

    Raises:
        ConfigError: There is none.
    """
    if name not in METHODS:
        nearest = difflib.get_close_matches(str(name), METHODS, 1)
        remedy = f" Did you mean {nearest[0]}?" if nearest else ""
        raise ConfigError(f"method is {name!r}; it must be one of {', '.join(METHODS)}.{remedy}")
    method: Method = import_module(METHODS[name]).METHOD
    return method
