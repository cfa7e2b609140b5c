"""`cgcl store`."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from cgcl.cli.settings import FLAT
from cgcl.cli.terminal import StepLine, print_path, say_fact
from cgcl.wording import counted


@dataclass(frozen=True)
class Storing:
    """The files."""

    source: str | None = None
    """The column with one end of each link; by default source, or the first of two columns."""
    target: str | None = None
    """The column with the other end; by default target, or the second of two columns."""
    separator: str | None = None
    """What separates the columns of links."""
    header: bool | None = None
    """Whether the first row holds column names; by default yes, in edge lists only if it does."""
    directed: Literal["drop", "error"] = "drop"
    """What to do with directed links: drop the direction, or refuse them."""
    bipartite: Literal["auto", "yes", "no", "columns"] = "auto"
    """Whether the two columns hold two kinds of nodes; auto looks whether they share names. With
    columns, equal names in the two columns are different nodes."""
    features: Path | None = None
    """A table of numbers (CSV, TSV, Parquet) whose first column names the node, or a folder with
    its parts."""
    feature_separator: str | None = None
    """What separates the columns of features, if not the same as that of links."""


def store(
    graph: Path,
    out: Path,
    /,
    *,
    files: Annotated[Storing, FLAT] = Storing(),  # noqa: B008
    max_memory: str | None = None,
    quiet: bool = False,
) -> None:
    """Make a store of a graph that is larger than memory: a folder that other commands read.

    The store holds the same graph that other commands read from the file. If it is stopped, the
    same command goes on after the last step that was finished. Prints the folder.

    Args:
        graph: A file of links (CSV, TSV, an edge list, Parquet), or a folder with its parts.
        out: The folder to make; as long as it is not whole, it is called so with .building.
        files: The files.
        max_memory: How much memory may be taken, such as 4GB; by default four fifths of what is
            free.
        quiet: Show no progress.
    """
    make_store(graph, out, files, max_memory, quiet=quiet)
    if not quiet:
        say_fact("Next", shlex.join(["cgcl", "train", str(out)]))
    print_path(out)


def make_store(
    graph: Path, out: Path, files: Storing, max_memory: str | None, *, quiet: bool = False
) -> None:
    """Make a store, and tell how it goes and what is in it.

    Raises:
        CGCLError: It cannot be made; the subclass says why.
    """
    from cgcl.readers.read import title_of
    from cgcl.readers.store_build import StoreOptions, build_store

    options, title = StoreOptions(**asdict(files)), title_of(graph)
    with StepLine(quiet) as line:
        made, notes = build_store(
            graph, out, options, title=title, max_memory=max_memory, tell=line.show
        )
    if quiet:
        return
    about = made.about
    features = f", {about['features']:,} features" if about["features"] else ""
    counts = f"{about['nodes']:,} nodes, {counted(about['links'], 'link')}{features}"
    facts = (*(("Store", note) for note in notes), ("Graph", f"{about['title']}: {counts}"))
    for what, text in (*facts, *(("", note) for note in about["notes"])):
        say_fact(what, text)
