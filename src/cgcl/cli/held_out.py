"""Which links are held out: drawn at random, the newest, or those in the user's own files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cgcl.cli.reading import Reading
from cgcl.cli.settings import given_settings
from cgcl.errors import ConfigError
from cgcl.train.config import SplitConfig

if TYPE_CHECKING:
    from torch import Tensor

    from cgcl.graph import Graph
    from cgcl.split import Split

__all__ = ["HeldOut"]


@dataclass(frozen=True)
class HeldOut:
    """The user's own files of links to test on and to choose the epoch by, if there are any."""

    test: Path | None = None
    val: Path | None = None

    def words(self) -> list[str]:
        """Return the options as a command line has them."""
        flags = (("--test-edges", self.test), ("--val-edges", self.val))
        return [f"{flag}={file}" for flag, file in flags if file]

    def read(self, graph: str, reading: Reading, config: SplitConfig) -> tuple[Graph, Split | None]:
        """Return the graph with all its links, and its split; None if it is to be drawn.

        Raises:
            GraphFormatError: A file cannot be read.
            SplitError: The split leaves too few links, or its parts overlap.
            ConfigError: The options contradict each other.
        """
        if self.val is not None and self.test is None:
            raise ConfigError(
                "--val-edges goes with --test-edges: give the links to test on, too.\n"
                "To have both drawn, leave both out and use --val and --test."
            )
        if self.test is not None and reading.time is not None:
            raise ConfigError(
                "--time and --test-edges both say which links to test on. Give one of them."
            )
        for name, file in (("test", self.test), ("val", self.val)):
            if file is not None and name in given_settings(by_flag=True):
                raise ConfigError(
                    f"--{name}-edges names the links, so --{name} has nothing to decide. "
                    f"Give one of them."
                )
        files = tuple(file for file in (self.test, self.val) if file is not None)
        found = reading.read(graph, also=files)
        if self.test is not None:
            return self._given(found, self.test, reading, config)
        if reading.time is not None:
            return _newest(found, config)
        return found, None

    def _given(
        self, graph: Graph, test: Path, reading: Reading, config: SplitConfig
    ) -> tuple[Graph, Split]:
        from cgcl.split import given_split

        split, notes = given_split(
            graph,
            test=_pairs(graph, test, reading),
            val=None if self.val is None else _pairs(graph, self.val, reading),
            val_share=config.val,
            seed=config.seed,
        )
        return replace(graph, notes=(*graph.notes, *notes)), split


def _pairs(graph: Graph, file: Path, reading: Reading) -> Tensor:
    """Return the links of a file as node numbers of the graph, [2, any]."""
    table = reading.read_links(file)
    return graph.nodes_named(table.names)[table.pairs]


def _newest(graph: Graph, config: SplitConfig) -> tuple[Graph, Split]:
    from cgcl.split import time_split

    split, notes = time_split(graph, config.val, config.test, config.seed)
    return replace(graph, notes=(*graph.notes, *notes)), split
