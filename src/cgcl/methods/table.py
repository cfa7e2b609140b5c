"""The table of methods: a line each. A method's file is only opened when it is used."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING

from cgcl.errors import ConfigError

if TYPE_CHECKING:
    from cgcl.methods.method import Method

__all__ = ["DEFAULT_METHOD", "METHODS", "PAPER_METHOD", "method_named", "no_such_setting"]

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
DEFAULT_METHOD = "cgcl-rank"
"""What is trained where nobody names a method: this project's own, for the top of the list."""


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


def no_such_setting(method: str, names: Iterable[str], known: Iterable[str]) -> ConfigError:
    """Return what to say of settings that a method does not have.

    Args:
        method: Its name.
        names: What was given.
        known: What it has.
    """
    from cgcl.methods.cgcl_settings import CGCLSettings

    has, told = ", ".join(known), list(names)
    of_paper = {field.name for field in fields(CGCLSettings)}.issuperset(told)
    # Perhaps nobody named the method.
    is_other = method == DEFAULT_METHOD and of_paper
    remedy = f" The paper's model has: method {PAPER_METHOD}." if is_other else ""
    return ConfigError(
        f"{method} has no setting {', '.join(told)}.{remedy} "
        f"{f'It has {has}.' if has else 'It has none.'}"
    )
