"""`cgcl methods`."""

from __future__ import annotations

import ast
from dataclasses import fields
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from cgcl.methods.table import installed_methods, method_named

if TYPE_CHECKING:
    from cgcl.methods.settings import MethodSettings

__all__ = ["methods"]


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
    text = ast.get_docstring(tree) or ""
    for node, below in pairwise(tree.body):
        is_method = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == attribute
        if is_method and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            text = str(below.value.value)
    return text.split("\n", maxsplit=1)[0]


def _parsed(module: str) -> ast.Module:
    spec = find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return ast.Module([], [])
    return ast.parse(Path(spec.origin).read_text(encoding="utf-8"))


def _explained(kind: type[MethodSettings]) -> dict[str, str]:
    """Return the text below each field of a class of settings and of its bases."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        for node in ast.walk(_parsed(base.__module__)):
            if isinstance(node, ast.ClassDef) and node.name == base.__name__:
                found |= _texts(node)
    return found


def _texts(body: ast.ClassDef) -> dict[str, str]:
    found: dict[str, str] = {}
    for field, after in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = after.value if isinstance(after, ast.Expr) else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                found[field.target.id] = " ".join(text.value.split())
    return found
