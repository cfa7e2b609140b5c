"""The predicted graph itself: the known links and the new ones, in one file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from cgcl.errors import ConfigError, GraphContentError
from cgcl.files import writing_atomically
from cgcl.graph import Graph
from cgcl.graph.wording import shown
from cgcl.predict.links import Links

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["COMPLETE_SUFFIXES", "write_completed"]

COMPLETE_SUFFIXES = (".graphml", ".csv", ".parquet")
_BLOCK = 2**16
# What XML 1.0 has no way to write, not even as a character reference.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


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
    counted = _Counted(new)
    with writing_atomically(path) as file:
        if suffix == ".graphml":
            _write_graphml(file, graph, counted)
        else:
            _write_table(file, suffix, graph, counted)
    return counted.count


class _Counted:
    """Blocks of links that are counted as they pass."""

    def __init__(self, blocks: Iterable[Links]) -> None:
        self._blocks = blocks
        self.count = 0

    def __iter__(self) -> Iterator[Links]:
        for block in self._blocks:
            self.count += len(block)
            yield block


def _write_table(file: BinaryIO, suffix: str, graph: Graph, new: Iterable[Links]) -> None:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    schema = pa.schema(
        [
            ("source", pa.string()),
            ("target", pa.string()),
            ("probability", pa.float64()),
            ("score", pa.float32()),
            ("known", pa.bool_()),
        ]
    )
    open_writer = parquet.ParquetWriter if suffix == ".parquet" else arrow_csv.CSVWriter
    with open_writer(file, schema) as writer:
        for links in _known(graph):
            writer.write_table(_rows(links, schema, known=True))
        for links in new:
            writer.write_table(_rows(links, schema, known=False))


def _rows(links: Links, schema: pa.Schema, *, known: bool) -> pa.Table:
    import pyarrow as pa

    nothing = [None] * len(links)
    probabilities = nothing if links.probabilities is None else links.probabilities
    columns = [
        list(links.sources),
        list(links.targets),
        probabilities,
        nothing if known else links.scores,
        [known] * len(links),
    ]
    arrays = [pa.array(cells, kind) for cells, kind in zip(columns, schema.types, strict=True)]
    return pa.table(arrays, schema=schema)


def _known(graph: Graph) -> Iterator[Links]:
    for block in graph.edges.split(_BLOCK, dim=1):
        sources, targets = (tuple(graph.names[node] for node in end) for end in block.tolist())
        yield Links(sources, targets, np.zeros(len(sources), dtype=np.float32))


def _write_graphml(file: BinaryIO, graph: Graph, new: Iterable[Links]) -> None:
    def put(text: str) -> None:
        file.write(text.encode())

    put(
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
        '<key id="known" for="edge" attr.name="known" attr.type="boolean"/>\n'
        '<key id="probability" for="edge" attr.name="probability" attr.type="double"/>\n'
        '<key id="score" for="edge" attr.name="score" attr.type="double"/>\n'
        f"<!-- {escape(graph.title).replace('--', '- -')} -->\n"
        '<graph edgedefault="undirected">\n'
    )
    for name in graph.names:
        put(f"<node id={quoteattr(name)}/>\n")
    for links in _known(graph):
        for source, target in zip(links.sources, links.targets, strict=True):
            put(
                f"<edge source={quoteattr(source)} target={quoteattr(target)}>"
                f'<data key="known">true</data></edge>\n'
            )
    for links in new:
        for link in links:
            probability = (
                ""
                if link.probability is None
                else f'<data key="probability">{link.probability:.8g}</data>'
            )
            put(
                f"<edge source={quoteattr(link.source)} target={quoteattr(link.target)}>"
                f'<data key="known">false</data>{probability}'
                f'<data key="score">{link.score:.8g}</data></edge>\n'
            )
    put("</graph>\n</graphml>\n")


def _check_xml(graph: Graph) -> None:
    for name in graph.names:
        if _NOT_XML.search(name):
            raise GraphContentError(
                f"The name '{shown(name)}' holds a control character, which XML cannot write.\n"
                f"Write the completed graph as .csv or .parquet instead."
            )
