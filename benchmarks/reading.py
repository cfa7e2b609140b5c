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
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from pyarrow import parquet

RESULTS = Path(__file__).parent / "results" / "reading.json"
MEASURE = """
import gc, re, sys, time
import networkx, numpy, pyarrow.csv, pyarrow.parquet, torch
from cgcl.errors import CGCLError
from cgcl.memory import reading_at_most
from cgcl.readers.formats import read_features
from cgcl.readers import read
import cgcl.readers.xml_graph

path, what, limit = sys.argv[1:4]
status = lambda name: int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read())[1])
gc.collect()
open("/proc/self/clear_refs", "w").write("5")  # the peak so far counts no more
before, started, said = status("VmRSS"), time.perf_counter(), ""
try:
    with reading_at_most(limit):
        read(path) if what == "links" else read_features(path, [])
except CGCLError as error:
    said = str(error).partition(chr(10))[0]
print(1024 * (status("VmHWM") - before), time.perf_counter() - started, said, sep=chr(9))
"""


Writer = Callable[[BinaryIO, int], object]
"""Writes a file of about so many bytes."""


def rows(pattern: str, head: str = "", tail: str = "") -> Writer:
    """Return what writes a head, rows with numbers that go up, and a tail."""

    def write(file: BinaryIO, size: int) -> None:
        file.write(head.encode())
        for number in count(1):
            if file.tell() > size:
                break
            lines = (
                pattern.format(a=one, b=one + 1, c=one % 9, d=one % 7)
                for one in range(1000 * number, 1000 * (number + 1))
            )
            file.write("".join(lines).encode())
        file.write(tail.encode())

    return write


GRAPHML = ('<graphml><graph edgedefault="undirected">', "</graph></graphml>")
GEXF = '<gexf xmlns="http://www.gexf.net/1.2draft" version="1.2"><graph>'
NODES = (f"{GEXF}<nodes>", "</nodes></graph></gexf>")
EDGES = (f'{GEXF}<nodes><node id="1"/></nodes><edges>', "</edges></graph></gexf>")
MTX = "%%MatrixMarket matrix {} general\n"


def write_sparse(file: BinaryIO, size: int) -> None:
    """Write a Matrix Market file with as many rows and entries as fit, in the shortest form."""
    entries = size // 4
    file.write(f"{MTX.format('coordinate pattern')}{entries} 9 {entries}\n".encode())
    file.write(b"1 1\n" * entries)


def write_dense(file: BinaryIO, size: int) -> None:
    """Write a dense Matrix Market file of digits."""
    file.write(f"{MTX.format('array integer')}{size // 20} 10\n".encode())
    file.write(b"1\n" * (size // 20 * 10))


def write_parquet(file: BinaryIO, size: int) -> None:
    """Write links with names that are all different."""
    names = pa.array([f"{number:07}" for number in range(size // 16)])
    parquet.write_table(pa.table({"source": names, "target": names[::-1]}), file)


def write_npz(file: BinaryIO, size: int) -> None:
    """Write an edge_index of numbers that are all different."""
    np.savez(file, edge_index=np.arange(size // 16 * 2, dtype=np.int64).reshape(2, -1))


def write_repeated(file: BinaryIO, _: int) -> None:
    """Write a Parquet file of one row, repeated so often that nothing is left of it on disk."""
    zeros = pa.array(np.zeros(10**7, np.int32))
    columns = {n: pa.DictionaryArray.from_arrays(zeros, [n]) for n in ("source", "target")}
    block = pa.table(columns)
    with parquet.ParquetWriter(file, block.schema, compression="zstd") as writer:
        for _ in range(15):
            writer.write_table(block)


def constant(content: bytes) -> Writer:
    """Return what writes the same bytes, whatever the size."""
    return lambda file, _: file.write(content)


CASES: dict[str, tuple[str, str, Writer]] = {
    "CSV, every name another": ("a.csv", "links", rows("{a},a{b}\n", "source,target\n")),
    "CSV, shortest rows": ("a.csv", "links", rows("{c},{d}\n", "source,target\n")),
    "edge list, every name another": ("a.edges", "links", rows("{a}  a{b}\n")),
    "edge list, shortest rows": ("a.edges", "links", rows("{c} {d}\n")),
    "features as CSV": ("a.csv", "features", rows("{a},1,2,3\n", "node,a,b,c\n")),
    "GraphML, nodes alone": ("a.graphml", "links", rows('<node id="{a}"/>', *GRAPHML)),
    "GraphML, links": ("a.graphml", "links", rows('<edge source="{a}" target="{b}"/>', *GRAPHML)),
    "GEXF, nodes alone": ("a.gexf", "links", rows('<node id="{a}"/>', *NODES)),
    "GEXF, links": ("a.gexf", "links", rows('<edge id="{a}" source="1" target="1"/>', *EDGES)),
    "Matrix Market, entries": ("a.mtx", "features", write_sparse),
    "Matrix Market, dense": ("a.mtx", "features", write_dense),
    "Parquet, every name another": ("a.parquet", "links", write_parquet),
    "NPZ, every number another": ("a.npz", "links", write_npz),
}
CLAIMS: dict[str, tuple[str, str, Writer]] = {
    "Parquet, 150 million equal rows": ("a.parquet", "links", write_repeated),
    "Matrix Market, ten million rows claimed": (
        "a.mtx",
        "features",
        constant(f"{MTX.format('coordinate real')}10000000 1 1\n1 1 1\n".encode()),
    ),
    "Matrix Market, a number of 500,000 digits": (
        "a.mtx",
        "features",
        constant(f"{MTX.format('coordinate real')}9 9 1\n1 1 ".encode() + b"9" * 500_000 + b"\n"),
    ),
    "CSV, one line of 500 MB": (
        "a.csv",
        "links",
        constant(b"source,target\n" + b"a" * 500_000_000),
    ),
    "NPZ, 100 million zeros": (
        "a.npz",
        "links",
        lambda file, _: np.savez_compressed(file, edge_index=np.zeros((2, 50_000_000), np.int64)),
    ),
}


def measured(path: Path, what: str, limit: str) -> tuple[int, float, str]:
    """Return what reading took at its peak in bytes, how long, and why the file was refused."""
    command = [sys.executable, "-c", MEASURE, str(path), what, limit]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peak, seconds, said = done.stdout.rstrip("\n").split("\t")
    return int(peak), round(float(seconds), 2), said.replace(path.name, "it")


def main() -> None:
    """Make each case, read it, and write down what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=20, help="how large the files are")
    size = parser.parse_args().mib << 20
    found: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        for title, (name, what, write) in {**CASES, **CLAIMS}.items():
            path = Path(folder) / name
            with path.open("wb") as file:
                write(file, size)
            peak, seconds, said = measured(path, what, "1TB" if title in CASES else "")
            found.append(
                {
                    "case": title,
                    "claims": title in CLAIMS,
                    "file_bytes": path.stat().st_size,
                    "peak_bytes": peak,
                    "seconds": seconds,
                    "refused": said,
                }
            )
            if title in CASES:
                peak, _, said = measured(path, what, str(peak // 2))
                found[-1] |= {"half_peak_bytes": peak, "half_refused": said}
            print(json.dumps(found[-1]))
    RESULTS.write_text(json.dumps({"cases": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
