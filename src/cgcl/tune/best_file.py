"""The best settings as a TOML file that `cgcl train` takes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from cgcl.methods.settings import CGCLSettings

__all__ = ["best_file"]

_FLAGS = frozenset(field.name for field in fields(CGCLSettings))
"""The settings that are options of `cgcl train`; any other is given by name, below `set`."""


def best_file(
    method: str, settings: Mapping[str, Any], shares: Mapping[str, Any], comments: Sequence[str]
) -> bytes:
    """Return the content of a settings file.

    Args:
        method: The method's name.
        settings: Its settings.
        shares: What else `cgcl train` is to be told, such as `seed`.
        comments: Lines to put on top.

    Example:
        >>> print(best_file("vgae", {"lr": 0.01, "latent": 16}, {"seed": 0}, ["Chosen."]).decode())
        # Chosen.
        [train]
        method = "vgae"
        seed = 0
        lr = 0.01
        <BLANKLINE>
        [train.set]
        latent = 16
        <BLANKLINE>
    """
    flags = {name: value for name, value in settings.items() if name in _FLAGS}
    others = {name: value for name, value in settings.items() if name not in _FLAGS}
    lines = [f"# {_printable(comment)}" for comment in comments]
    lines += ["[train]", *_assignments({"method": method, **shares, **flags})]
    if others:
        lines += ["", "[train.set]", *_assignments(others)]
    return ("\n".join(lines) + "\n").encode()


def _assignments(values: Mapping[str, Any]) -> list[str]:
    return [f"{name} = {_value(value)}" for name, value in values.items()]


def _value(value: bool | int | float | str) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # TOML escapes as JSON does, and the one control character more that JSON leaves alone.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def _printable(text: str) -> str:
    """Return text that stays on its line and that every file can hold."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
