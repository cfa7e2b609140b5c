"""An HTML document from a template of this package: escaped, self-contained, no script but ours."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from inspect import getmembers, isfunction
from pathlib import Path

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from cgcl import wording
from cgcl.files import write_atomically
from cgcl.report import figures, words


def write_page(path: Path, page: str) -> Path:
    """Write a page to a file and return its path.

    Raises:
        ResourceError: The disk is full.
    """
    write_atomically(path, page.encode(errors="replace"))  # a command may hold undecodable bytes
    return path


def filled(template: str, *, script: str = "", **values: object) -> str:
    """Return the filled template.

    Args:
        template: The file's name in this package.
        script: The file in this package that the page runs; nothing else can run in it.
        values: What the template shows; all of it appears as text, never as markup.
    """
    policy, program = "default-src 'none'; style-src 'unsafe-inline'", script and _packaged(script)
    if program:
        # This script and no other: a browser refuses whatever has another hash.
        digest = base64.b64encode(hashlib.sha256(program.encode()).digest()).decode()
        policy += f"; script-src 'sha256-{digest}'"
    # S704: all three come from this package, where nothing unescaped goes in.
    about = {"style": _packaged("page.css"), "script": program, "policy": policy}
    trusted = {name: Markup(text) for name, text in about.items()}  # noqa: S704
    return _environment().get_template(template).render(trusted, **values)


@cache
def _packaged(name: str) -> str:
    """Return the text of a file of this package."""
    return resources.files("cgcl.report").joinpath(name).read_text("utf-8")


@cache
def _environment() -> Environment:
    """Return the template engine: everything escaped, nothing undefined.

    Templates call functions of `words` and `wording` as filters, those of `figures` by name.
    """
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(_packaged),
    )
    environment.filters.update(getmembers(wording, isfunction) + getmembers(words, isfunction))
    environment.globals.update(getmembers(figures, isfunction))
    return environment
