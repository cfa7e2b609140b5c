"""`cgcl methods`."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import fields
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from cgcl.methods.table import installed_methods, method_named

if TYPE_CHECKING:
    from cgcl.methods.settings import MethodSettings


def methods(name: str | None = None, /) -> None:
    """List the methods that --method can name, or the settings of one.

    Args:
        name: A method; its settings are printed with their defaults.
    """
    if name is None:
        known = installed_methods()
        width = max(map(len, known)) + 2
        for method, where in known.items():
            print(f"{method:<{width}}{_first_line(where)}")  # noqa: T201
        return
    method = method_named(name)
    line = _first_line(installed_methods()[name])
    print(line if line.startswith(method.title) else f"{method.title}: {line}")  # noqa: T201
    told = _explained(method.settings)
    for field in fields(method.settings):
        value = "chosen for the graph" if field.name in method.ruled else field.default
        print(f"\n  {field.name} = {value}\n    {told[field.name]}")  # noqa: T201
    for graph, values in method.authors.items():
        where = "on every graph" if graph == "*" else f"on {graph}"
        settings = ", ".join(f"{key} {value}" for key, value in values.items())
        print(f"\n  Its authors use {where}: {settings} (--preset paper)")  # noqa: T201


def _first_line(where: str) -> str:
    """Return what the text below a method says of it, else its file, without running that."""
    module, _, attribute = where.partition(":")
    tree = _parsed(module)
    text = _texts_below(tree.body).get(attribute) or ast.get_docstring(tree) or ""
    return text.split("\n", maxsplit=1)[0]


def _explained(kind: type[MethodSettings]) -> dict[str, str]:
    """Return the text below each field of a class of settings and of its bases."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        for node in ast.walk(_parsed(base.__module__)):
            if isinstance(node, ast.ClassDef) and node.name == base.__name__:
                found |= _texts_below(node.body)
    return {name: " ".join(text.split()) for name, text in found.items()}


def _parsed(module: str) -> ast.Module:
    spec = find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return ast.Module([], [])
    return ast.parse(Path(spec.origin).read_text(encoding="utf-8"))


def _texts_below(body: Iterable[ast.stmt]) -> dict[str, str]:
    """Return the text below each name that is assigned to, where there is one."""
    found: dict[str, str] = {}
    for node, below in pairwise(body):
        text = below.value if isinstance(below, ast.Expr) else None
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(text, ast.Constant):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            found[ast.unparse(target)] = str(text.value)
    return found
