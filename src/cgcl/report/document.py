"""An HTML document from a template of this package: escaped, self-contained, no script but ours."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from cgcl.report.words import FILTERS


def filled(template: str, drawn: Mapping[str, str], *, script: str = "", **values: object) -> str:
    """Return the filled template.

    Args:
        template: The file's name in this package.
        drawn: The figures by name; an empty string where there is nothing to draw.
        script: What the page runs; nothing else can run in it.
        values: What the template shows; all of it appears as text, never as markup.
    """
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    if script:
        # This script and no other: a browser refuses whatever has another hash.
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy += f"; script-src 'sha256-{digest}'"
    # S704: all four come from this package, where nothing unescaped goes in.
    return (
        _environment()
        .get_template(template)
        .render(
            style=Markup(packaged("page.css")),  # noqa: S704
            script=Markup(script),  # noqa: S704
            figures={name: Markup(svg) for name, svg in drawn.items()},  # noqa: S704
            policy=Markup(policy),  # noqa: S704
            **values,
        )
    )


@cache
def packaged(name: str) -> str:
    """Return the text of a file of this package."""
    return resources.files("cgcl.report").joinpath(name).read_text("utf-8")


@cache
def _environment() -> Environment:
    """Return the template engine: everything escaped, nothing undefined."""
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(packaged),
    )
    environment.filters.update(FILTERS)
    return environment
