"""The table of methods: a line each, and what other packages bring.

A method's file is only opened when it is used.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import fields
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from cgcl.errors import ConfigError
from cgcl.methods.settings import CGCLSettings

if TYPE_CHECKING:
    from cgcl.methods.method import Method

METHODS: dict[str, str] = {
    "cgcl": "cgcl.methods.cgcl:METHOD",
    "cgcl-rank": "cgcl.methods.cgcl_rank:METHOD",
    "graphsage": "cgcl.methods.networks:GRAPHSAGE",
    "vgae": "cgcl.methods.autoencoders:VGAE",
    "seal": "cgcl.methods.seal:METHOD",
    "s3grl": "cgcl.methods.s3grl:METHOD",
    "s2gae": "cgcl.methods.autoencoders:S2GAE_METHOD",
    "maskgae": "cgcl.methods.autoencoders:MASKGAE",
    "ncn": "cgcl.methods.networks:NCN_METHOD",
    "gcn": "cgcl.methods.networks:GCN",
    "mlp": "cgcl.methods.networks:MLP",
    "common-neighbours": "cgcl.methods.heuristics:COMMON_NEIGHBOURS",
    "adamic-adar": "cgcl.methods.heuristics:ADAMIC_ADAR",
    "resource-allocation": "cgcl.methods.heuristics:RESOURCE_ALLOCATION",
    "preferential-attachment": "cgcl.methods.heuristics:PREFERENTIAL_ATTACHMENT",
    "katz": "cgcl.methods.heuristics:KATZ",
    "pagerank": "cgcl.methods.heuristics:PAGERANK",
    "three-step-paths": "cgcl.methods.heuristics:THREE_STEP_PATHS",
    "item-cosine": "cgcl.methods.heuristics:ITEM_COSINE",
}
"""Every method of this package by the name that users give it: where its `Method` is."""
GROUP = "cgcl.methods"
"""The entry points by which other packages bring methods: `name = "module:METHOD"`."""
PAPER_METHOD = "cgcl"
"""The paper's own method."""
DEFAULT_METHOD = "cgcl-rank"
"""What is trained where nobody names a method: this project's own, for the top of the list."""


def installed_methods() -> dict[str, str]:
    """Return `METHODS`, and after them those that other installed packages bring."""
    others = {point.name: point.value for point in entry_points(group=GROUP)}
    return METHODS | {name: where for name, where in others.items() if name not in METHODS}


def is_method(name: str) -> bool:
    """Say whether there is a method of that name."""
    return name in METHODS or name in installed_methods()


def method_named(name: str) -> Method:
    """Return the method of that name, ours or another package's.

    Raises:
        ConfigError: There is none.
    """
    if not is_method(name):
        known = installed_methods()
        nearest = difflib.get_close_matches(str(name), known, 1)
        remedy = f" Did you mean {nearest[0]}?" if nearest else ""
        raise ConfigError(f"method is {name!r}; it must be one of {', '.join(known)}.{remedy}")
    where = METHODS.get(name) or installed_methods()[name]
    method: Method = EntryPoint(name, where, GROUP).load()
    return method


def numbers_of(name: str) -> str:
    """Return which numbers a method gives: its name, and the version that is raised with them."""
    return f"{name} {method_named(name).version}"


def no_such_setting(method: str, names: Iterable[str], known: Iterable[str]) -> ConfigError:
    """Return what to say of settings that a method does not have.

    Args:
        method: Its name.
        names: What was given.
        known: What it has.
    """
    has, told = ", ".join(known), list(names)
    of_paper = {field.name for field in fields(CGCLSettings)}.issuperset(told)
    # Perhaps nobody named the method.
    is_other = method == DEFAULT_METHOD and of_paper
    remedy = f" The paper's model has: method {PAPER_METHOD}." if is_other else ""
    return ConfigError(
        f"{method} has no setting {', '.join(told)}.{remedy} "
        f"{f'It has {has}.' if has else 'It has none.'}"
    )
