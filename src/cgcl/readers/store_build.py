"""Makes a store of files larger than memory: DuckDB sorts and joins, within a limit, on the disk.

Each stage ends with a transaction in a database beside the store. Whoever is killed goes on after
the last stage that is in it; the folder takes the store's name when all of it is on the disk.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from filelock import FileLock, Timeout
from pyarrow import compute

from cgcl.errors import (
    ConfigError,
    FeatureError,
    GraphContentError,
    GraphFormatError,
    ResourceError,
)
from cgcl.files import make_folder, sync_folder, write_atomically
from cgcl.graph.features import SPARSE_UP_TO
from cgcl.graph.graph import left_out
from cgcl.graph.names import MappedNames
from cgcl.memory import in_words, readable_memory, reading_at_most
from cgcl.readers.blocks import parts_of, table_blocks
from cgcl.readers.edge_table import (
    Bipartite,
    Directed,
    LinkOptions,
    are_apart,
    check_word,
    direction_notes,
    has_direction,
    sides_note,
)
from cgcl.readers.features import constant_notes, index_first, number_columns
from cgcl.readers.node_names import EncodedNames
from cgcl.readers.store import (
    KIND,
    LINKS,
    MANIFEST,
    NAMES,
    Store,
    checksum,
    is_store,
    open_store,
    signature,
)
from cgcl.readers.tables import (
    TEXT_FIRST,
    Table,
    columns_of_links,
    encoded,
    no_rows,
    note_of_others,
    note_of_place,
    refuse_twice,
)
from cgcl.readers.text import DelimitedFile
from cgcl.wording import counted, listed

Tell = Callable[[str, int, int], object]
"""Is told what is being done, how much of it is done, and of how much."""
_Put = Callable[..., None]  # writes numbers to an array, behind those before; the row may be told
_ROWS = 1 << 18  # so many names of 1,000 characters still fit into one array of Arrow
# Rows with names, sorted names, numbered rows and links on the disk, next to the store itself.
_DISK = 4
_THREADS = min(4, os.cpu_count() or 1)
LEAST_MEMORY = 5e8
"""What the engine needs at least, in bytes."""
_USAGE = "cgcl store {file} DIR"
_MOST_NODES = 3_000_000_000  # the code of a pair is a whole number of 64 bits


@dataclass(frozen=True)
class StoreOptions:
    """How the files are written that a store is made of."""

    source: str | None = None
    target: str | None = None
    separator: str | None = None
    header: bool | None = None
    directed: Directed = "drop"
    bipartite: Bipartite = "auto"
    features: Path | None = None
    feature_separator: str | None = None


def build_store(
    graph: Path,
    out: Path,
    options: StoreOptions = StoreOptions(),  # noqa: B008
    *,
    title: str = "graph",
    max_memory: str | float | None = None,
    tell: Tell = lambda *_: None,
) -> tuple[Store, tuple[str, ...]]:
    """Make a store of a file of links, or go on where an earlier call for the same was stopped.

    It holds the graph that `cgcl.read` makes of the same file with the same options.

    Args:
        graph: CSV, TSV, an edge list or Parquet, or a folder with the parts of one table.
        out: The folder to make. What is needed meanwhile lies beside it, in `out.building`.
        options: How the files are written.
        title: What the graph is called.
        max_memory: What may be taken, such as "4GB"; four fifths of what is free if None.
        tell: Hears of progress.

    Returns:
        The store, and what is worth knowing about how it was made.

    Raises:
        CGCLError: A file, an option or the data is not right, another process makes the same store,
            or disk or memory do not suffice; the subclass says which.
    """
    check_word("directed", options.directed, Directed)
    check_word("bipartite", options.bipartite, Bipartite)
    if find_spec("duckdb") is None:
        raise ResourceError("Making a store needs duckdb: pip install 'cgcl[store]'")
    plan = _plan(graph, options, title)
    if out.exists():
        return _made_before(out, plan)
    folder = out.with_name(f"{out.name}.building")
    make_folder(folder)
    lock = FileLock(folder / "lock", blocking=False)
    try:
        held = lock.acquire()
    except Timeout as error:
        raise ResourceError(
            f"Another process is making {out}. Wait for it, or choose another folder."
        ) from error
    with held, reading_at_most(max_memory):
        notes = _prepare(folder, plan)
        _Builder(folder, plan, options, tell).run()
        (folder / "store").rename(out)
        sync_folder(out.absolute().parent)
        shutil.rmtree(folder, ignore_errors=True)
    return open_store(out), notes


def _plan(graph: Path, options: StoreOptions, title: str) -> dict[str, Any]:
    """Return what the store is made of, which tells whether it is the same another time."""

    def described(path: Path) -> list[Any]:
        try:
            about = path.stat()
        except (OSError, ValueError) as error:
            raise GraphFormatError(
                f"No such file: {path}\nCheck the spelling and the folder you are in."
            ) from error
        return [str(path.absolute()), about.st_size, about.st_mtime_ns]

    features = parts_of(options.features) if options.features else list[Path]()
    told = {name: own for name, own in asdict(options).items() if name != "features"}
    parts = [described(part) for part in parts_of(graph)]
    return {
        "kind": KIND,
        "title": title,
        "links": parts,
        "features": [described(part) for part in features],
        "options": told,
    }


def _made_before(out: Path, plan: dict[str, Any]) -> tuple[Store, tuple[str, ...]]:
    if is_store(out) and (store := open_store(out)).about["source"] == plan:
        shutil.rmtree(out.with_name(f"{out.name}.building"), ignore_errors=True)
        return store, ("It was made before, of the same files.",)
    raise ConfigError(f"{out} is there already. Choose another folder, or delete it.")


def _prepare(folder: Path, plan: dict[str, Any]) -> tuple[str, ...]:
    """Make room for another plan, look at the disk, and return what happened."""
    if (allowed := readable_memory()) < LEAST_MEMORY:
        raise ResourceError(
            f"A store takes at least {in_words(LEAST_MEMORY)} of memory to make; "
            f"{in_words(allowed)} may be taken.\nAllow more with `max_memory`."
        )
    told, notes = folder / "plan.json", ()
    text = json.dumps(plan).encode()
    if told.is_file() and told.read_bytes() == text:
        return ("Went on where an earlier call was stopped.",)
    if told.is_file():
        notes = ("Began again: the files or the options are others than those of an earlier call.",)
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != "lock":
            path.unlink()
    needed = _DISK * sum(part[1] for part in (*plan["links"], *plan["features"]))
    free = shutil.disk_usage(folder).free
    if needed > free:
        shutil.rmtree(folder, ignore_errors=True)
        raise ResourceError(
            f"Making the store takes up to {in_words(needed)} in {folder.parent}; "
            f"{in_words(free)} are free.\nFree some space, or choose a folder on another disk."
        )
    write_atomically(told, text)
    return notes


@contextlib.contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Turn what the engine or the disk refuses into an error of ours."""
    import duckdb

    try:
        yield
    except (duckdb.OperationalError, duckdb.FatalException, OSError) as error:
        text = str(error)
        signs = ("No space left", "File too large", "quota", "max_temp_directory_size")
        if any(sign in text for sign in signs):
            raise ResourceError(
                f"No space left in {folder}.\n"
                f"Nothing is lost: free some space, and the same command goes on from there."
            ) from error
        if isinstance(error, duckdb.OutOfMemoryException):
            raise ResourceError(
                f"The store cannot be made with {in_words(readable_memory())} of memory.\n"
                f"Allow more with `max_memory`; the same command goes on from there."
            ) from error
        reason = text.splitlines()[0][:200]
        raise ResourceError(
            f"The store cannot be made: {reason}\n"
            f"Look at the disk; to begin from scratch delete {folder}."
        ) from error


class _Builder:
    """The stages, each of which is done once."""

    def __init__(
        self, folder: Path, plan: dict[str, Any], options: StoreOptions, tell: Tell
    ) -> None:
        self.folder, self.plan, self.options, self.tell = folder, plan, options, tell
        self.out = folder / "store"
        self.out.mkdir(exist_ok=True)
        self.by_column = options.bipartite == "columns"

    def run(self) -> None:
        """Do what is left to do."""
        import duckdb

        config: dict[str, Any] = {
            "memory_limit": f"{int(readable_memory() / 2)}B",
            "threads": _THREADS,
            "temp_directory": str(self.folder / "tmp"),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        with _told(self.folder), duckdb.connect(str(self.folder / "db"), config=config) as self.sql:
            self.sql.execute("CREATE TABLE IF NOT EXISTS done (stage VARCHAR, told VARCHAR)")
            self.sql.execute("CREATE TABLE IF NOT EXISTS rows (name VARCHAR, row BIGINT)")
            parts = [Path(part[0]) for part in self.plan["links"]]
            read = [
                self._stage(
                    f"Reading {part.name} ({number})",
                    lambda part=part, number=number: self._read(part, self._cells(number)),
                )
                for number, part in enumerate(parts)
            ]
            # Mapped, so that the engine reads rows where they are.
            self.sql.register(
                "raw", pa.concat_tables(_mapped(self._cells(n)) for n, _ in enumerate(parts))
            )
            features = self._stage("Reading features", self._read_features)
            linked = self._stage("Finding names", self._find_names)
            names = self._stage("Writing names", self._write_names)
            self._check_head(read[0])
            found = self._stage("Sorting links", lambda: self._sort_links(names["nodes"]))
            self._stage("Writing links", lambda: self._write_links(names["nodes"], found["links"]))
            self._stage(
                "Writing neighbours", lambda: self._write_neighbours(names["nodes"], found["links"])
            )
            sides = self._stage("Looking for sides", lambda: self._sides(read[0]["ends"], linked))
            if features:
                self._stage("Writing features", lambda: self._write_features(features))
            notes = [note for part in read for note in part["notes"]]
            notes += [*found["direction"], *sides, *linked["notes"]]
            notes += [*(features or {}).get("notes", ()), *names["notes"], *found["notes"]]
            notes = list(dict.fromkeys(notes))
            self._write_manifest(names["nodes"], found["links"], features or {}, notes)

    def _stage(self, name: str, work: Callable[[], Any]) -> Any:  # noqa: ANN401, what JSON can hold
        """Do a stage, unless it is done, and return what it told."""
        found = self.sql.execute("SELECT told FROM done WHERE stage = ?", [name]).fetchall()
        if found:
            return json.loads(found[0][0])
        self.tell(name.partition(" (")[0], 0, 1)
        self.sql.begin()
        told = work()
        self.sql.execute("INSERT INTO done VALUES (?, ?)", [name, json.dumps(told)])
        self.sql.commit()
        return told

    def _number(self, query: str) -> list[Any]:
        """Return the only row of an answer."""
        [row] = self.sql.execute(query).fetchall()
        return list(row)

    def _insert(self, table: str, rows: pa.Table) -> None:
        self.sql.register("block", rows)
        self.sql.execute(f"INSERT INTO {table} SELECT * FROM block")
        self.sql.unregister("block")

    def _answers(self, query: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of an answer in blocks, without holding them all."""
        yield from self.sql.sql(query).to_arrow_reader(_ROWS)

    # --- What is read ---

    def _cells(self, part: int) -> Path:
        return self.folder / f"cells-{part}.arrow"

    def _read(self, path: Path, cells: Path) -> dict[str, Any]:
        """Read a file of links as `links_of` does a whole one; write its two columns of names."""
        own = self.options
        options = LinkOptions(own.source, own.target, own.separator, own.header, usage=_USAGE)
        about: dict[str, Any] = {}
        notes: list[str] = []

        def choose(table: Table) -> tuple[Sequence[str], tuple[()]]:
            settled, wanted, is_by_place = columns_of_links(table, options)
            notes.extend(note_of_others(table, wanted))
            ends = [table.end_called(end) for end in settled.ends]
            head = list(table.columns) if is_by_place else []
            about.update(ends=ends, columns=settled.ends, head=head)
            about.update(place=table.place, is_text=table.is_text)
            return wanted, ()

        rows, read, size = 0, 0, max(path.stat().st_size, 1)
        with _arrow(cells, ["source", "target"]) as put:
            for table, data in table_blocks(path, options, choose, notes):
                if data.num_rows == 0:
                    continue
                found = encoded(table, data, about["columns"], TEXT_FIRST)
                names = _texts(found, data.num_rows)
                if self.by_column:
                    names = [
                        compute.call_function("binary_join_element_wise", [f"{end}:", own, ""])
                        for end, own in zip(about["ends"], names, strict=True)
                    ]
                put(*names)
                rows += data.num_rows
                read += len(table.content) if isinstance(table, DelimitedFile) else 0
                self.tell(f"Reading {path.name}", min(read, size), size)
        if rows == 0:
            raise no_rows(path.name)
        return about | {"notes": notes}

    def _check_head(self, about: dict[str, Any]) -> None:
        """Refuse two columns whose names are names of nodes, as `note_of_place` does."""
        if not about["head"]:
            return
        query = "SELECT name FROM names WHERE name IN (?, ?)"
        known = {name for (name,) in self.sql.execute(query, about["head"]).fetchall()}
        table = Table()
        table.place, table.is_text = about["place"], about["is_text"]
        table.columns = tuple(about["head"])
        about["notes"].insert(0, note_of_place(table, known, LinkOptions(usage=_USAGE)))

    def _read_features(self) -> dict[str, Any] | None:
        """Read rows of numbers as they come, and whose they are."""
        if self.options.features is None:
            return None
        own = self.options
        options = LinkOptions(separator=own.feature_separator, header=own.header)
        labels: list[str] = []
        low = high = np.empty(0, dtype=np.float32)
        rows = nonzeros = 0

        def choose(table: Table) -> tuple[Sequence[str], Sequence[str]]:
            refuse_twice(table.place, table.columns)
            return table.columns, table.columns[1:]

        with (self.folder / "features.f32").open("wb") as file:
            for path in (Path(part[0]) for part in self.plan["features"]):
                needed = "a node name and at least one feature"
                for table, data in table_blocks(
                    path, options, choose, [], lists=False, needed=needed
                ):
                    node, *numeric = index_first(table.place, table.columns, data)
                    if labels and numeric != labels:
                        raise FeatureError(
                            f"{table.place} has other columns than the first part.\n"
                            f"All parts of a table need the same columns, in the same order."
                        )
                    nodes = encoded(table, data, [node], "Put the column of names first.")
                    [names] = _texts(nodes, data.num_rows)
                    x = number_columns(table, data, numeric, MappedNames(pa.chunked_array([names])))
                    if not labels:
                        labels = numeric
                        low, high = x[:1].min(axis=0), x[:1].max(axis=0)
                    file.write(x.tobytes())
                    low, high = np.minimum(low, x.min(axis=0)), np.maximum(high, x.max(axis=0))
                    nonzeros += int(np.count_nonzero(x))
                    places = pa.array(np.arange(rows, rows + len(x)))
                    self._insert("rows", pa.table([names, places], ["name", "row"]))
                    rows += len(x)
                    self.tell("Reading features", 0, 1)
            os.fsync(file.fileno())
        if not rows or not labels:
            raise GraphFormatError(
                f"{own.features} has no row of features.\n"
                f"Expected a column of node names, at least one feature, and a row per node."
            )
        notes = constant_notes(torch.from_numpy(low), torch.from_numpy(high), labels)
        told = {"labels": labels, "rows": rows, "nonzeros": nonzeros}
        return told | {"notes": notes if rows > 1 else []}

    # --- Nodes ---

    def _find_names(self) -> dict[str, Any]:
        """Make the sorted table of nodes; the place of a row is the number of the node."""
        # Two threads that collect names, and an order that means nothing, take more than the limit.
        self.sql.execute("SET threads = 1")
        self.sql.execute("SET preserve_insertion_order = false")
        self.sql.execute(
            "CREATE OR REPLACE TABLE linked AS SELECT name, bool_or(NOT second) AS is_source, "
            "bool_or(second) AS is_target FROM (SELECT source AS name, false AS second FROM raw "
            "UNION ALL SELECT target, true FROM raw) GROUP BY name"
        )
        self.sql.execute("SET preserve_insertion_order = true")
        self.sql.execute(f"SET threads = {_THREADS}")
        both, second = self._number(
            "SELECT count(*) FILTER (is_source AND is_target), count(*) FILTER (is_target) "
            "FROM linked"
        )
        nodes, notes = "linked", list[str]()
        if self.options.features is not None:
            notes = self._match_features()
            nodes = "(SELECT * FROM rows LEFT JOIN linked USING (name))"
        row = "NULL::BIGINT" if self.options.features is None else "row"
        self.sql.execute(
            f"CREATE OR REPLACE TABLE names AS SELECT name, "
            f"coalesce(is_target, false) AS is_target, {row} AS row FROM {nodes} ORDER BY name"
        )
        unlinked = "SELECT (SELECT count(*) FROM names) - (SELECT count(*) FROM linked)"
        told = {"both": both, "second": second, "notes": notes}
        return told | {"unlinked": self._number(unlinked)[0]}

    def _match_features(self) -> list[str]:
        """Refuse features that do not fit the nodes; return a note about further nodes."""
        place = Path(self.plan["features"][0][0]).name
        [more] = self._number("SELECT count(*) - count(DISTINCT name) FROM rows")
        if more:
            query = "SELECT name FROM rows GROUP BY name HAVING count(*) > 1 ORDER BY name LIMIT 5"
            twice = [name for (name,) in self.sql.execute(query).fetchall()]
            raise FeatureError(
                f"{place}: more than one row for node {listed(twice)}.\n"
                f"Keep one row per node; {more:,} too many."
            )
        query = "FROM linked ANTI JOIN rows USING (name)"
        if missing := self._number(f"SELECT count(*) {query}")[0]:
            first = self.sql.execute(f"SELECT name {query} ORDER BY name LIMIT 5").fetchall()
            raise FeatureError(
                f"{place} has no row for {counted(missing, 'node')} with links: "
                f"{listed([name for (name,) in first])}{' and more' if missing > 5 else ''}.\n"
                f"Add a row for each, or leave their links out."
            )
        [extra] = self._number("SELECT (SELECT count(*) FROM rows) - (SELECT count(*) FROM linked)")
        isolated = f"{counted(extra, 'node')} of {place} without links kept as isolated."
        return [isolated] if extra else []

    def _write_names(self) -> dict[str, Any]:
        """Write names, one array after another; their order is that of the numbers."""
        count = blank = 0
        last = ""
        with _arrow(self.out / NAMES, ["name"]) as put:
            for batch in self._answers("SELECT name FROM names"):
                names = batch.column(0).cast(pa.string())
                if len(names) == 0:
                    continue
                put(names)
                rises = compute.call_function("greater", [names[1:], names[:-1]])
                if names[0].as_py() <= last or rises.false_count:
                    raise AssertionError("names are out of order")
                last, count = names[-1].as_py(), count + len(names)
                trimmed = compute.call_function("utf8_trim_whitespace", [names])
                blank += compute.call_function("not_equal", [names, trimmed]).true_count
        if count > _MOST_NODES:
            raise ResourceError(f"The graph has {count:,} nodes; a store holds {_MOST_NODES:,}.")
        begin = counted(blank, "name begins or ends", "names begin or end")
        notes = [f"{begin} with a blank: blanks belong to a name."] if blank else []
        return {"nodes": count, "notes": notes}

    # --- Links ---

    def _sort_links(self, nodes: int) -> dict[str, Any]:
        """Make the sorted table of links, each once: the code of a pair is `low * n + high`."""
        self.sql.execute(
            f"CREATE OR REPLACE TABLE links AS "
            f"SELECT code, bool_or(ahead) AND bool_or(NOT ahead) AS mutual FROM ("
            f"SELECT least(a.rowid, b.rowid) * {nodes} + greatest(a.rowid, b.rowid) AS code, "
            f"a.rowid < b.rowid AS ahead FROM raw JOIN names a ON a.name = source "
            f"JOIN names b ON b.name = target WHERE a.rowid <> b.rowid) GROUP BY code ORDER BY code"
        )
        links, both = self._number("SELECT count(*), count(*) FILTER (mutual) FROM links")
        rows, loops = self._number("SELECT count(*), count(*) FILTER (source = target) FROM raw")
        direction = direction_notes(both, links - both)
        if direction and self.options.directed == "error":
            raise has_direction(direction[0])
        told = left_out(loops, rows - loops - links)
        return {"links": links, "direction": direction, "notes": [f"{note}." for note in told]}

    def _write_links(self, nodes: int, links: int) -> None:
        with _array(self.out / LINKS, (2, links), np.int64) as put:
            for codes in self._codes("SELECT code FROM links"):
                put(codes // nodes)
                put(codes % nodes, row=1)

    def _write_neighbours(self, nodes: int, links: int) -> None:
        """Write both directions of all links, sorted, and where each node's begin."""
        kind = np.int32 if nodes < 2**31 else np.int64
        degree = np.zeros(nodes, dtype=np.int64)
        with _array(self.out / "indices.npy", (2 * links,), kind) as put:
            for codes in self._codes(
                f"SELECT code FROM links UNION ALL "
                f"SELECT code % {nodes} * {nodes} + code // {nodes} FROM links ORDER BY 1"
            ):
                rows = codes // nodes
                start = int(rows[0])
                counts = np.bincount(rows - start)
                degree[start : start + counts.size] += counts
                put(codes % nodes)
        with _array(self.out / "indptr.npy", (nodes + 1,), np.int64) as put:
            put(np.zeros(1))
            put(np.cumsum(degree, out=degree))

    def _codes(self, query: str) -> Iterator[npt.NDArray[np.int64]]:
        """Yield rising codes in blocks."""
        last = -1
        for batch in self._answers(query):
            codes = batch.column(0).to_numpy()
            if codes.size == 0:
                continue
            if codes[0] <= last or not (np.diff(codes) > 0).all():
                raise AssertionError("links are out of order")
            last = int(codes[-1])
            yield codes

    def _sides(self, ends: list[str], linked: dict[str, Any]) -> list[str]:
        """Write the sides of a graph whose columns share no name; see `find_sides`."""
        bipartite, shared = self.options.bipartite, linked["both"]
        if bipartite == "no" or (bipartite == "auto" and shared):
            return []
        if shared:
            raise GraphContentError(
                f"{counted(shared, 'name is', 'names are')} in both columns, so these are not the "
                f"two sides.\nA store takes sides from columns only: if equal names are different "
                f"things, use `bipartite=columns`; else leave out `bipartite=yes`."
            )
        degree = np.diff(Store(self.out, self._about(["indptr.npy"])).array("indptr.npy"))
        second = np.empty(degree.size, dtype=bool)
        start = 0
        for batch in self._answers("SELECT is_target FROM names"):
            second[start : start + len(batch)] = batch.column(0).to_numpy(zero_copy_only=False)
            start += len(batch)
        is_apart = are_apart(torch.from_numpy(degree), torch.from_numpy(second))
        if bipartite == "auto" and not is_apart:
            return []
        with _array(self.out / "sides.npy", second.shape, np.bool_) as put:
            put(second)
        unlinked, nodes = linked["unlinked"], degree.size
        note = sides_note(nodes - unlinked, linked["second"], (ends[0], ends[1]))
        more = f"{counted(unlinked, 'node')} without links counted with 'side 0'."
        return [note, more] if unlinked else [note]

    # --- Features ---

    def _write_features(self, about: dict[str, Any]) -> None:
        """Write features in the order of the names; sparse, where few are not zero."""
        shape = (about["rows"], len(about["labels"]))
        x = np.memmap(self.folder / "features.f32", np.float32, "r", shape=shape)
        if about["nonzeros"] > SPARSE_UP_TO * shape[0] * shape[1]:
            with _array(self.out / "x.npy", shape, np.float32) as put:
                for rows in self._rows():
                    put(x[rows])
            return
        entries, start = about["nonzeros"], 0
        with (
            _array(self.out / "x_indices.npy", (2, entries), np.int64) as put_place,
            _array(self.out / "x_values.npy", (entries,), np.float32) as put_value,
        ):
            for rows in self._rows():
                block = x[rows]
                row, column = block.nonzero()
                put_place(row + start)
                put_place(column, row=1)
                put_value(block[row, column])
                start += len(rows)

    def _rows(self) -> Iterator[npt.NDArray[np.int64]]:
        for batch in self._answers("SELECT row FROM names"):
            rows = batch.column(0).to_numpy()
            for start in range(0, rows.size, 1 << 14):
                yield rows[start : start + (1 << 14)]

    # --- The end ---

    def _about(self, names: Sequence[str]) -> dict[str, Any]:
        """Return what a manifest says about arrays, but for checksums."""
        files: dict[str, Any] = {}
        for name in names:
            path = self.out / name
            told: dict[str, Any] = {"dtype": "", "shape": []}
            if path.suffix == ".npy":
                with path.open("rb") as file:
                    np.lib.format.read_magic(file)
                    shape, _, kind = np.lib.format.read_array_header_1_0(file)
                told = {"dtype": kind.str, "shape": list(shape)}
            files[name] = told | {"bytes": path.stat().st_size}
        return {"files": files}

    def _write_manifest(
        self, nodes: int, links: int, features: dict[str, Any], notes: Sequence[str]
    ) -> None:
        written = sorted(path.name for path in self.out.iterdir() if path.name != MANIFEST)
        files = self._about(written)["files"]
        for number, name in enumerate(written):
            self.tell("Checksums", number, len(written))
            files[name]["sha256"] = checksum(self.out / name)
        labels = features.get("labels", [])
        about = {
            "kind": KIND,
            "title": self.plan["title"],
            "nodes": nodes,
            "links": links,
            "features": len(labels),
            "feature_names": labels,
            "notes": list(notes),
            "source": self.plan,
            "files": files,
        }
        about["sha256"] = signature(about)
        write_atomically(self.out / MANIFEST, json.dumps(about, indent=1).encode())


def _texts(found: EncodedNames, rows: int) -> list[pa.Array]:
    """Return the texts of each column that was encoded."""
    texts = found.distinct.take(pa.array(found.codes))
    return [texts[start : start + rows] for start in range(0, len(texts), rows)]


@contextlib.contextmanager
def _arrow(path: Path, columns: Sequence[str]) -> Iterator[_Put]:
    """Open a file of Arrow to write columns of texts, block by block."""
    schema = pa.schema([(name, pa.string()) for name in columns])
    with path.open("wb") as file:
        with pa.ipc.new_file(file, schema) as writer:

            def put(*texts: pa.Array) -> None:
                writer.write_batch(pa.record_batch(list(texts), schema=schema))

            yield put
        file.flush()
        os.fsync(file.fileno())


def _mapped(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


@contextlib.contextmanager
def _array(path: Path, shape: tuple[int, ...], kind: npt.DTypeLike) -> Iterator[_Put]:
    """Open a new array to write its numbers one after the other; its room on the disk is taken.

    A disk that fills up is told so at once: written through a map, it would kill the process.
    """
    dtype = np.dtype(kind)
    with path.open("wb") as file:
        about = {"descr": dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, about)
        start, size = file.tell(), int(np.prod(shape)) * dtype.itemsize
        if size:
            os.posix_fallocate(file.fileno(), start, size)
        places = [start, start + size // 2]

        def put(numbers: npt.NDArray[Any], row: int = 0) -> None:
            file.seek(places[row])
            file.write(numbers.astype(dtype, copy=False).tobytes())
            places[row] = file.tell()

        yield put
        file.flush()
        os.fsync(file.fileno())
