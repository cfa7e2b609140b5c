"""Where settings come from: flags over the environment over a file over a preset."""

from __future__ import annotations

import difflib
import shlex
import tomllib
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from cyclopts import App, ArgumentCollection, Parameter, Token
from cyclopts.config import Toml

from cgcl.errors import ConfigError
from cgcl.methods.settings import PRESETS

__all__ = [
    "COMMANDS",
    "FLAT",
    "OPTIONS",
    "command_of",
    "flags_of",
    "given_settings",
    "settings_file",
    "settings_preset",
]

OPTIONS = Parameter(show_env_var=False)
"""How all options behave; the environment is explained once, below the list of commands."""

FLAT = Parameter(name="*")
"""The fields of a settings class become options of their own."""

COMMANDS = (
    "inspect",
    "train",
    "predict",
    "evaluate",
    "compare",
    "tune",
    "report",
    "audit",
    "embed",
    "reproduce",
    "methods",
    "doctor",
)
"""The tables that a settings file may hold."""

_DEFAULT_FILE = "cgcl.toml"
_sources: dict[str, str] = {}


def given_settings(*, by_flag: bool = False) -> frozenset[str]:
    """Return the names of the settings that the user gave.

    Args:
        by_flag: Only those on the command line, not those in the environment or a file.
    """
    return frozenset(name for name, source in _sources.items() if source == "cli" or not by_flag)


def settings_file(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Read the file given by --config, or cgcl.toml in the current folder if it is there."""
    given = [a.tokens[0].value for a in arguments if a.name == "--config" and a.tokens]
    path = Path(given[0] if given else _DEFAULT_FILE)
    if given and not path.is_file():
        raise ConfigError(f"There is no settings file {path}. Check the name after --config.")
    if path.is_file():
        _check_tables(path)
    Toml(path, must_exist=False, search_parents=False)(app, commands, arguments)


def settings_preset(
    app: App,  # noqa: ARG001
    commands: tuple[str, ...],  # noqa: ARG001
    arguments: ArgumentCollection,
) -> None:
    """Note what the user gave, then let the preset fill in what is left."""
    _sources.clear()
    _sources.update({_setting(a.name): a.tokens[0].source for a in arguments if a.tokens})
    chosen = [a.tokens[0].value for a in arguments if a.name == "--preset" and a.tokens]
    values = PRESETS.get(chosen[0], {}) if chosen else {}
    for argument in arguments:
        name = _setting(argument.name)
        if name in values and not argument.tokens:
            argument.append(Token(value=str(values[name]), source=f"preset {chosen[0]}"))


def _check_tables(path: Path) -> None:
    """Refuse a file that is not TOML, or whose settings belong to no command."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # also what is not UTF-8
        raise ConfigError(f"The settings file {path} is not valid TOML: {error}.") from error
    for name, value in content.items():
        if name not in COMMANDS or not isinstance(value, dict):
            nearest = difflib.get_close_matches(name, COMMANDS, 1)
            remedy = f"Did you mean [{nearest[0]}]? " if nearest else ""
            raise ConfigError(
                f"The settings file {path} has '{name}' outside the table of a command.\n"
                f"{remedy}Put settings below [train], [predict] or another command's name."
            )


def _setting(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def command_of(name: str, graph: str, options: object) -> str:
    """Return a command line that repeats a command.

    Args:
        name: The command.
        graph: What it is about.
        options: A dataclass of its options; those that differ from their defaults are named.
    """
    return shlex.join(["cgcl", name, graph, *flags_of(options)])


def flags_of(options: Any) -> list[str]:  # noqa: ANN401
    """Return the options that differ from their defaults, as a command line has them."""
    words: list[str] = []
    for field in fields(options):
        value, flag = getattr(options, field.name), f"--{field.name.replace('_', '-')}"
        # Always named: what is taken where none is may change.
        is_given = value != field.default or field.name == "method"
        if is_dataclass(value):
            words += flags_of(value)
        elif is_given and isinstance(value, bool):
            words.append(flag if value else flag.replace("--", "--no-", 1))
        elif is_given:
            for part in map(str, value if isinstance(value, tuple) else (value,)):
                # A value that begins with a dash would be taken for an option.
                words += [f"{flag}={part}"] if part.startswith("-") else [flag, part]
    return words
