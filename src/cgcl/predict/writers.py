"""Links, completed graphs and embeddings as files.

Answers are written block by block, so that a long one never has to fit into memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import numpy.typing as npt

from cgcl.errors import ConfigError, GraphContentError
from cgcl.files import writing_atomically
from cgcl.graph import Graph
from cgcl.predict.links import Links, schema_of
from cgcl.wording import counted, shown

LinkFormat: TypeAlias = Literal["csv", "json", "parquet"]
EmbeddingFormat: TypeAlias = Literal["parquet", "npz", "csv"]
Embeddings: TypeAlias = npt.NDArray[np.float32]
_Put: TypeAlias = Callable[[Links, bool], None]
"""Takes the next links of a completed graph, and whether they are known."""

COMPLETE_SUFFIXES = (".graphml", ".csv", ".parquet")
# How many known links, and how many embeddings, are written at once.
_BLOCK, _ROWS = 2**16, 2**14
# What XML 1.0 has no way to write, not even as a character reference.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")

# What a spreadsheet takes for the beginning of a formula; a number does no harm.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")


def write_links(
    stream: BinaryIO, blocks: Iterable[Links], form: LinkFormat, *, excel: bool = False
) -> None:
    """Write links to a binary stream, in as many blocks as come, all with the same columns.

    Without any block there is a valid file without rows. If a block fails to come, what was written
    is not finished as if it were whole.

    Args:
        stream: Where the bytes go; it is not closed.
        blocks: The links.
        form: The format, which is also the suffix of its files.
        excel: Put an apostrophe before names that a spreadsheet would take for a formula. Only
            CSV heeds it: the other formats keep text apart from formulas.
    """
    blocks = iter(blocks)
    first = next(blocks, Links((), (), np.empty(0, dtype=np.float32)))
    blocks = chain([first], blocks)
    if form == "csv":
        _write_csv(stream, map(_guarded, blocks) if excel else blocks)
    elif form == "json":
        _write_json(stream, blocks)
    else:
        _write_parquet(stream, blocks)


def _write_csv(stream: BinaryIO, blocks: Iterable[Links]) -> None:
    for number, links in enumerate(blocks):
        text = links.to_csv()
        text = text.partition("\n")[2] if number else text  # one header
        stream.write(text.encode(errors="backslashreplace"))


def _write_json(stream: BinaryIO, blocks: Iterable[Links]) -> None:
    before = b"[\n  "
    for links in blocks:
        columns = links.to_dict()
        for row in zip(*columns.values(), strict=True):
            record = dict(zip(columns, row, strict=True))
            stream.write(before + json.dumps(record, ensure_ascii=False).encode())
            before = b",\n  "
    stream.write(b"\n]\n" if before.startswith(b",") else b"[]\n")


def _write_parquet(stream: BinaryIO, blocks: Iterable[Links]) -> None:
    import pyarrow.parquet as pq

    writer = None
    for links in blocks:
        table = links.to_arrow()
        writer = writer or pq.ParquetWriter(stream, table.schema, compression="zstd")
        writer.write_table(table)
    if writer is not None:
        writer.close()


def _guarded(links: Links) -> Links:
    """Return links in which no name and no sentence begins like a formula."""
    return replace(
        links,
        sources=tuple(map(_guard, links.sources)),
        targets=tuple(map(_guard, links.targets)),
        evidence={name: list(map(_guard, column)) for name, column in links.evidence.items()},
    )


def _guard(cell: Any) -> Any:  # noqa: ANN401
    """Return a cell that no spreadsheet takes for a formula.

    Example:
        >>> _guard("=cmd()"), _guard("Anna")
        ("'=cmd()", 'Anna')
    """
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def guarded_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of which no spreadsheet takes one for a formula."""
    return tuple(map(_guard, names))


def formula_note(names: Sequence[str]) -> str | None:
    """Return a sentence about names that a spreadsheet takes for formulas; None without any.

    Example:
        >>> formula_note(["=cmd()", "Anna"])
        "A spreadsheet would take 1 name for a formula, such as '=cmd()'; `excel` prevents that."
    """
    risky = [name for name in names if name.startswith(_FORMULA) and not _NUMBER.fullmatch(name)]
    if not risky:
        return None
    count, such = counted(len(risky), "name"), shown(risky[0], 30)
    return (
        f"A spreadsheet would take {count} for a formula, such as '{such}'; `excel` prevents that."
    )


def write_completed(path: Path, graph: Graph, new: Iterable[Links]) -> int:
    """Write a graph with its known links and new ones; return how many are new.

    Every link says whether it was known. New links carry their probability and score; for known
    ones both are empty. Nodes without any link are kept in GraphML, which lists nodes; tables of
    links have no place for them.

    Args:
        path: The file to write: .graphml, .csv or .parquet.
        graph: The known links and the names.
        new: The new links, in blocks of any size.

    Raises:
        ConfigError: The suffix is none of these.
        GraphContentError: A name holds a character that XML has no way to write.
        ResourceError: The disk is full or the folder cannot be written; no half file is left.
    """
    suffix = path.suffix.lower()
    if suffix not in COMPLETE_SUFFIXES:
        raise ConfigError(
            f"The completed graph can be written as {', '.join(COMPLETE_SUFFIXES)}; "
            f"'{path.name}' is none of them.\nGive a file with one of these suffixes: "
            f"`out={path.stem or 'graph'}.graphml`"
        )
    if suffix == ".graphml":
        _check_xml(graph)
    count, write = 0, _write_graphml if suffix == ".graphml" else _write_table
    with writing_atomically(path) as file, write(file, suffix, graph) as put:
        for block in graph.edges.split(_BLOCK, dim=1):
            sources, targets = (tuple(graph.names[node] for node in end) for end in block.tolist())
            put(Links(sources, targets, np.zeros(len(sources), dtype=np.float32)), True)
        for links in new:
            put(links, False)
            count += len(links)
    return count


@contextmanager
def _write_table(file: BinaryIO, suffix: str, _: Graph) -> Iterator[_Put]:
    import pyarrow as pa
    from pyarrow import csv, parquet

    schema = schema_of(["source", "target", "probability", "score", "known"])
    open_writer = parquet.ParquetWriter if suffix == ".parquet" else csv.CSVWriter

    def put(links: Links, is_known: bool) -> None:
        columns = {**links.to_dict(), "known": [is_known] * len(links)}
        if is_known:
            columns["score"] = columns["probability"]  # neither is there
        writer.write_table(pa.table({name: columns[name] for name in schema.names}, schema))

    with open_writer(file, schema) as writer:
        yield put


_GRAPHML = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="known" for="edge" attr.name="known" attr.type="boolean"/>
<key id="probability" for="edge" attr.name="probability" attr.type="double"/>
<key id="score" for="edge" attr.name="score" attr.type="double"/>
<!-- {title} -->
<graph edgedefault="undirected">
"""


@contextmanager
def _write_graphml(file: BinaryIO, _: str, graph: Graph) -> Iterator[_Put]:
    def put(links: Links, is_known: bool) -> None:
        for link in links:
            data = {"known": str(is_known).lower()}
            if link.probability is not None:
                data["probability"] = f"{link.probability:.8g}"
            if not is_known:
                data["score"] = f"{link.score:.8g}"
            cells = "".join(f'<data key="{key}">{value}</data>' for key, value in data.items())
            ends = f"source={quoteattr(link.source)} target={quoteattr(link.target)}"
            file.write(f"<edge {ends}>{cells}</edge>\n".encode())

    file.write(_GRAPHML.format(title=escape(graph.title).replace("--", "- -")).encode())
    for name in graph.names:
        file.write(f"<node id={quoteattr(name)}/>\n".encode())
    yield put
    file.write(b"</graph>\n</graphml>\n")


def _check_xml(graph: Graph) -> None:
    for name in graph.names:
        if _NOT_XML.search(name):
            raise GraphContentError(
                f"The name '{shown(name)}' holds a control character, which XML cannot write.\n"
                f"Write the completed graph as .csv or .parquet instead."
            )


def write_embeddings(
    path: Path, names: Sequence[str], z: Embeddings, kind: EmbeddingFormat
) -> None:
    """Write embeddings to a file, whole or not at all; a file that is there is replaced.

    - parquet: the columns `node` and `embedding`, a list of fixed length.
    - npz: the arrays `names` (text, no objects) and `embeddings`.
    - csv: the columns `node`, `z0`, `z1` and so on, with as many digits as bring every number back.

    Args:
        path: The file.
        names: A name per node.
        z: An embedding per node, float32 [n, d_v].
        kind: The format.

    Raises:
        GraphContentError: NPZ cannot hold a name.
        ResourceError: The disk is full or the folder cannot be written.
    """
    if kind == "npz":
        _check_text(names)
    with writing_atomically(path) as file:
        if kind == "parquet":
            _write_vectors(file, names, z)
        elif kind == "npz":
            found = np.ascontiguousarray(z, dtype="<f4")
            np.savez(file, names=np.array(names, dtype=np.str_), embeddings=found)
        else:
            for text in csv_blocks(names, z):
                file.write(text.encode())


def csv_blocks(names: Sequence[str], z: Embeddings) -> Iterator[str]:
    """Yield the embeddings as CSV, piece by piece: the header, then some thousand rows each.

    Example:
        >>> print("".join(csv_blocks(["a,b"], np.array([[0.1, -1]], np.float32))), end="")
        node,z0,z1
        "a,b",0.1,-1
    """
    import pyarrow as pa
    from pyarrow import csv

    columns = ["node", *(f"z{number}" for number in range(z.shape[1]))]
    yield ",".join(columns) + "\n"
    options = csv.WriteOptions(include_header=False)
    for part, rows in _blocks(names, z):
        arrays = [pa.array(part, pa.string()), *(pa.array(column) for column in rows.T)]
        stream = pa.BufferOutputStream()
        csv.write_csv(pa.table(arrays, names=columns), stream, options)
        yield stream.getvalue().to_pybytes().decode()


def _blocks(names: Sequence[str], z: Embeddings) -> Iterator[tuple[Sequence[str], Embeddings]]:
    for start in range(0, len(names), _ROWS):
        yield names[start : start + _ROWS], z[start : start + _ROWS]


def _write_vectors(file: BinaryIO, names: Sequence[str], z: Embeddings) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    vector = pa.list_(pa.float32(), z.shape[1])
    schema = pa.schema([("node", pa.string()), ("embedding", vector)])
    # Embeddings hardly repeat: a dictionary would only cost time.
    with pq.ParquetWriter(file, schema, compression="zstd", use_dictionary=False) as writer:
        for part, rows in _blocks(names, z):
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), type=vector)
            arrays = [pa.array(part, pa.string()), vectors]
            writer.write_batch(pa.record_batch(arrays, schema=schema))


def _check_text(names: Sequence[str]) -> None:
    for name in names:
        if name.endswith("\0"):
            raise GraphContentError(
                f"NPZ drops the NUL at the end of the name '{shown(name)}'.\n"
                f"Choose another format: `format=parquet`"
            )
