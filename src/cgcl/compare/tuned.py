"""The settings that `cgcl tune` chose, one TOML file per method."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from cgcl.errors import ConfigError
from cgcl.methods.table import method_named
from cgcl.tune.study_folder import BEST

__all__ = ["TunedSettings", "read_tuned"]


@dataclass(frozen=True)
class TunedSettings:
    """What a search chose for a method."""

    values: Mapping[str, Any]
    trials: int | None = None
    """How many settings were tried; None if the file does not say."""

    @property
    def words(self) -> str:
        """Where the settings come from.

        Example:
            >>> TunedSettings({}, 20).words, TunedSettings({}).words
            ('tuned, 20 trials', 'tuned')
        """
        return "tuned" if self.trials is None else f"tuned, {self.trials:,} trials"


def read_tuned(folder: Path, graph: str) -> dict[str, TunedSettings]:
    """Return the settings by method that searches left in a folder.

    The files are `*.toml` in the folder itself, and what `cgcl tune` wrote about this graph below
    it, `tune-GRAPH-METHOD/best.toml`. A file names its method below `[train]`; the method's
    settings stand beside it or below `[train.set]`. What is no setting of the method, such as the
    shares to hold out, is left to the comparison.

    Args:
        folder: The folder with the files, or with the folders of searches.
        graph: The title of the graph.

    Raises:
        ConfigError: There is no such folder or no file in it, a file cannot be read or names no
            method, or two name the same.
    """
    if not folder.is_dir():
        raise ConfigError(
            f"There is no folder {folder}. Give one with what cgcl tune wrote to --tuned."
        )
    start, end = f"tune-{graph}-", f"/{BEST}"
    below = [path for path in folder.glob(f"*{end}") if path.parent.name.startswith(start)]
    found: dict[str, TunedSettings] = {}
    whose: dict[str, Path] = {}
    for path in sorted([*folder.glob("*.toml"), *below]):
        name, settings = _read(path)
        if name in found:
            raise ConfigError(
                f"{path} and {whose[name]} both hold settings for {name}. Keep one of them."
            )
        found[name], whose[name] = settings, path
    if not found:
        raise ConfigError(
            f"{folder} holds no settings for '{graph}': neither TOML files nor folders "
            f"{start}METHOD with a {BEST}.\nMake them with cgcl tune, or name another --tuned."
        )
    return found


def _read(path: Path) -> tuple[str, TunedSettings]:
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text)
    except ValueError as error:  # also what is not UTF-8
        raise ConfigError(f"The settings file {path} is not valid TOML: {error}.") from error
    except OSError as error:
        raise ConfigError(f"Cannot read the settings file {path}: {error.strerror}.") from error
    table = content.get("train")
    name = table.get("method") if isinstance(table, dict) else None
    if not isinstance(table, dict) or not isinstance(name, str):
        raise ConfigError(
            f"{path} names no method. A file for --tuned has a table [train] with "
            f'method = "vgae" or another one, as cgcl tune writes it.'
        )
    own = {field.name for field in fields(method_named(name).settings)}
    beside = {key: value for key, value in table.items() if key in own}
    below = table.get("set", {})
    if not isinstance(below, dict):
        raise ConfigError(f"{path} has 'set' as a value; it must be a table [train.set].")
    # The number of trials is no setting, so the search leaves it in a comment.
    trials = re.search(r"^# Trials: (\d+)", text, re.MULTILINE)
    return name, TunedSettings({**beside, **below}, int(trials[1]) if trials else None)
