"""`cgcl audit`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from cgcl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cgcl.readers.edge_table import LinkOptions
    from cgcl.split import Audit


def audit(
    run: Path | None = None,
    /,
    *,
    train: Path | None = None,
    val: Path | None = None,
    test: Path | None = None,
    val_negatives: Path | None = None,
    test_negatives: Path | None = None,
    source: str | None = None,
    target: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
    bipartite: Literal["auto", "columns"] = "auto",
    max_memory: str | None = None,
    pairs: int = 5,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> int:
    """Look for leaks in the split of a run, or in files of links that were split elsewhere.

    Prints what is found, and ends with code 1 if there is a leak. Of a store, bytes are compared.

    Args:
        run: A run folder, a folder written by LinkPredictor.save, or a store.
        train: A file of the links to learn from.
        val: A file of the links for validation.
        test: A file of the links for the test.
        val_negatives: A file of the unlinked pairs for validation.
        test_negatives: The same for the test.
        source: The column with one end of each pair; by default source, or the first of two.
        target: The column with the other end; by default target, or the second of two.
        separator: What separates the columns.
        header: Whether the first row holds column names; by default yes, in edge lists (.txt,
            .edges) only if it does.
        bipartite: With columns, equal names in the two columns are different nodes.
        max_memory: How much memory reading a file may take, such as 8GB.
        pairs: How many pairs to show for each finding; --json has them all.
        as_json: Print the findings as JSON instead of text.
    """
    parts = ("train", "val", "test", "val_negatives", "test_negatives")
    paths = (train, val, test, val_negatives, test_negatives)
    given = {part: path for part, path in zip(parts, paths, strict=True) if path is not None}
    if (run is None) == (not given):
        raise ConfigError(
            "Give either a run folder or files of links, such as:\n"
            "  cgcl audit runs/cora-1\n  cgcl audit --train train.csv --test test.csv"
        )
    if pairs < 0:
        raise ConfigError(f"pairs is {pairs}; it must be at least 0.")
    from cgcl.memory import reading_at_most
    from cgcl.readers.edge_table import LinkOptions

    if run is not None and _is_whole_store(run, as_json):
        return 0
    options = LinkOptions(source, target, separator, header)
    with reading_at_most(max_memory):
        found = _audit_files(given, options, bipartite) if run is None else _audit_run(run)
    answer = json.dumps(found.to_json(), indent=2, ensure_ascii=False) if as_json else ""
    print(answer or found.text(pairs))  # noqa: T201
    return 0 if found.is_clean else 1


def _is_whole_store(path: Path, as_json: bool) -> bool:
    """Compare all bytes of a store, and say so; return False of what is none."""
    from cgcl.memory import in_words
    from cgcl.readers.store import is_store, open_store

    if not is_store(path):
        return False
    store = open_store(path)
    store.verify()
    answer = {"store": str(path), "bytes": store.size, "is_whole": True}
    told = f"The store is whole: its {in_words(store.size)} are those that were written."
    print(json.dumps(answer, indent=2) if as_json else told)  # noqa: T201
    return True


def _audit_run(run: Path) -> Audit:
    from cgcl.errors import RunFolderError
    from cgcl.graph.graph import read_stored_graph
    from cgcl.split import audit_split
    from cgcl.split.split import read_split
    from cgcl.train.run_folder import GRAPH, SPLIT

    if not (run / SPLIT).is_file():
        raise RunFolderError(
            f"There is no split in {run}: it is no run folder.\n"
            f"Make one with cgcl train, or give files: cgcl audit --train F --test F"
        )
    return audit_split(read_split(run / SPLIT), read_stored_graph(run / GRAPH))


def _audit_files(files: Mapping[str, Path], options: LinkOptions, bipartite: str) -> Audit:
    from cgcl.readers.edge_table import prefix_names_by_column
    from cgcl.readers.text import read_text_links
    from cgcl.split import audit_split

    if "train" not in files or len(files) == 1:
        raise ConfigError(
            "An audit of files compares the links to learn from with others.\n"
            "Give at least: cgcl audit --train train.csv --test test.csv"
        )
    tables = {}
    for part, path in files.items():
        usage = f"cgcl audit --{part.replace('_', '-')} {{file}}"
        table = read_text_links(path, replace(options, usage=usage))
        tables[part] = prefix_names_by_column(table) if bipartite == "columns" else table
    names = sorted({name for table in tables.values() for name in table.names})
    parts = {part: table.numbers_among(names)[table.pairs] for part, table in tables.items()}
    return audit_split(parts, names)
