"""Measure how much memory each reader takes for the worst files that we could think of.

    python benchmarks/reading.py [--mib 20]

Each case is made so that a byte of it costs as much as possible: shortest rows, every name another,
nothing but nodes. A process of its own reads it; the peak of its resident memory less what it held
after the imports counts, as a multiple of the file. Files that claim what they do not hold must be
refused, and say how much they took until then. Results go to benchmarks/results/reading.json, from
where `make tables` takes them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from pyarrow import parquet

RESULTS = Path(__file__).parent / "results" / "reading.json"
MEASURE = """
import resource, sys, time
import networkx, numpy, pyarrow.csv, pyarrow.parquet, torch
from cgcl.errors import CGCLError
from cgcl.readers.formats import read_features
from cgcl.readers import read
import cgcl.readers.xml_graph

path, what = sys.argv[1:3]
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before, started, said = peak(), time.perf_counter(), ""
try:
    read(path) if what == "links" else read_features(path, [])
except CGCLError as error:
    said = str(error).partition(chr(10))[0]
print(1024 * (peak() - before), time.perf_counter() - started, said, sep=chr(9))
"""


def rows(pattern: str, head: str = "") -> Callable[[int], Iterator[bytes]]:
    """Return what makes a text of so many bytes: a head, then rows with two new numbers each."""

    def make(size: int) -> Iterator[bytes]:
        yield head.encode()
        left = size - len(head)
        for number in count(1):
            row = pattern.format(a=number, b=number + 1, c=number % 9, d=number % 7).encode()
            left -= len(row)
            if left < 0:
                return
            yield row

    return make


def between(head: str, pattern: str, tail: str) -> Callable[[int], Iterator[bytes]]:
    """Return what makes XML of so many bytes."""

    def make(size: int) -> Iterator[bytes]:
        yield from rows(pattern, head)(size)
        yield tail.encode()

    return make


GRAPHML = '<graphml><graph edgedefault="undirected">'
GEXF = '<gexf xmlns="http://www.gexf.net/1.2draft" version="1.2"><graph>'
MTX = "%%MatrixMarket matrix {} general\n"


def sparse(size: int) -> Iterator[bytes]:
    """Yield a Matrix Market file with as many rows and entries as fit, in the shortest form."""
    entries = size // 5
    yield f"{MTX.format('coordinate pattern')}{entries} 9 {entries}\n".encode()
    body = b"".join(islice(rows("{c} {d}\n")(2 * size), entries)).replace(b"0", b"1")
    yield body


def dense(size: int) -> Iterator[bytes]:
    """Yield a dense Matrix Market file of digits."""
    yield f"{MTX.format('array integer')}{size // 20} 10\n".encode()
    yield b"1\n" * (size // 20 * 10)


TEXT = {
    "CSV, every name another": ("a.csv", "links", rows("{a},a{b}\n", "source,target\n")),
    "CSV, shortest rows": ("a.csv", "links", rows("{c},{d}\n", "source,target\n")),
    "edge list, every name another": ("a.edges", "links", rows("{a}  a{b}\n")),
    "edge list, shortest rows": ("a.edges", "links", rows("{c} {d}\n")),
    "features as CSV": ("a.csv", "features", rows("{a},1,2,3\n", "node,a,b,c\n")),
    "GraphML, nodes alone": (
        "a.graphml",
        "links",
        between(GRAPHML, '<node id="{a}"/>', "</graph></graphml>"),
    ),
    "GraphML, links": (
        "a.graphml",
        "links",
        between(GRAPHML, '<edge source="{a}" target="{b}"/>', "</graph></graphml>"),
    ),
    "GEXF, nodes alone": (
        "a.gexf",
        "links",
        between(f"{GEXF}<nodes>", '<node id="{a}"/>', "</nodes></graph></gexf>"),
    ),
    "GEXF, links": (
        "a.gexf",
        "links",
        between(
            f'{GEXF}<nodes><node id="1"/></nodes><edges>',
            '<edge id="{a}" source="1" target="1"/>',
            "</edges></graph></gexf>",
        ),
    ),
    "Matrix Market, entries": ("a.mtx", "features", sparse),
    "Matrix Market, dense": ("a.mtx", "features", dense),
}


def write_parquet(file: BinaryIO, size: int) -> None:
    """Write links with names that are all different."""
    numbers = range(size // 16)
    names = pa.array([f"{number:07}" for number in numbers])
    parquet.write_table(pa.table({"source": names, "target": names[::-1]}), file)


def write_npz(file: BinaryIO, size: int) -> None:
    """Write an edge_index of numbers that are all different."""
    np.savez(file, edge_index=np.arange(size // 8, dtype=np.int64).reshape(2, -1))


def write_repeated(file: BinaryIO, rows_: int) -> None:
    """Write a Parquet file of one row, repeated so often that nothing is left of it on disk."""
    block = pa.table(
        {
            name: pa.DictionaryArray.from_arrays(pa.array(np.zeros(10**7, np.int32)), [name])
            for name in ("source", "target")
        }
    )
    with parquet.ParquetWriter(file, block.schema, compression="zstd") as writer:
        for _ in range(rows_ // 10**7):
            writer.write_table(block)


BINARY = {
    "Parquet, every name another": ("a.parquet", "links", write_parquet),
    "NPZ, every number another": ("a.npz", "links", write_npz),
}
CLAIMS: dict[str, tuple[str, str, Callable[[BinaryIO], object]]] = {
    "Parquet, 150 million equal rows": (
        "a.parquet",
        "links",
        lambda file: write_repeated(file, 150_000_000),
    ),
    "Matrix Market, ten million rows claimed": (
        "a.mtx",
        "features",
        lambda file: file.write(f"{MTX.format('coordinate real')}10000000 1 1\n1 1 1\n".encode()),
    ),
    "Matrix Market, a number of 500,000 digits": (
        "a.mtx",
        "features",
        lambda file: file.write(
            f"{MTX.format('coordinate real')}9 9 1\n1 1 ".encode() + b"9" * 500_000 + b"\n"
        ),
    ),
    "CSV, one line of 500 MB": (
        "a.csv",
        "links",
        lambda file: file.write(b"source,target\n" + b"a" * 500_000_000),
    ),
    "NPZ, 100 million zeros": (
        "a.npz",
        "links",
        lambda file: np.savez_compressed(file, edge_index=np.zeros((2, 50_000_000), np.int64)),
    ),
}


def main() -> None:
    """Make each case, read it, and write down what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=20, help="how large the files are")
    size = parser.parse_args().mib << 20
    found: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        for title, (name, what, make) in {**TEXT, **BINARY, **CLAIMS}.items():
            path = Path(folder) / name
            with path.open("wb") as file:
                if title in TEXT:
                    file.writelines(make(size))
                elif title in BINARY:
                    make(file, size)
                else:
                    make(file)
            command = [sys.executable, "-c", MEASURE, str(path), what]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            peak, seconds, said = done.stdout.rstrip("\n").split("\t")
            found.append(
                {
                    "case": title,
                    "claims": title in CLAIMS,
                    "file_bytes": path.stat().st_size,
                    "peak_bytes": int(peak),
                    "seconds": round(float(seconds), 2),
                    "refused": said.replace(str(path.name), "it"),
                }
            )
            print(json.dumps(found[-1]))
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
