"""Make large graphs, and measure what it takes to store them and to open the store.

    python benchmarks/scale.py generate NODES LINKS FEATURES DIR
    python benchmarks/scale.py measure LINKS [LINKS ...] [--nodes N] [--max-memory 4GB]

`generate` writes links.csv and, with features, features.parquet, block by block: four of five links
stay within a planted group, and the features tell of it with noise. The same numbers give the same
files. `measure` makes such files in a temporary folder, stores them and opens the store, each step
in a process of its own, and adds a line for each to benchmarks/results/store.json: seconds of
processors and of the clock, and the peak of anonymous memory, of children, too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from pyarrow import compute, csv, parquet

RESULTS = Path(__file__).parent / "results" / "store.json"
_BLOCK = 1 << 20
_GROUP_SIZE = 1000
_WITHIN = 0.8
_NOISE = 1.0
# Places of the nodes in the order of their names are mixed, as in files from anywhere.
_MIXER = 2_654_435_761


def _names(numbers: np.ndarray, nodes: int) -> pa.Array:
    mixed = numbers.astype(np.uint64) * _MIXER % _coprime(nodes)
    return compute.call_function(
        "binary_join_element_wise", [pa.scalar("u"), pa.array(mixed).cast(pa.string()), ""]
    )


def _coprime(nodes: int) -> int:
    """Return a prime above the nodes: below it, products with the mixer are all different."""
    number = max(nodes, 2) | 1
    while any(number % k == 0 for k in range(3, int(number**0.5) + 1, 2)):
        number += 2
    return number


def link_blocks(nodes: int, links: int, seed: int = 0) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a graph with planted groups: some repeat, a few link a node to itself."""
    for start in range(0, links, _BLOCK):
        chance = np.random.default_rng([seed, 1, start])
        count = min(_BLOCK, links - start)
        one = chance.integers(nodes, size=count)
        first = one // _GROUP_SIZE * _GROUP_SIZE
        near = first + chance.integers(np.minimum(_GROUP_SIZE, nodes - first))
        other = np.where(chance.random(count) < _WITHIN, near, chance.integers(nodes, size=count))
        columns = [_names(end, nodes) for end in (one, other)]
        yield pa.RecordBatch.from_arrays(columns, ["source", "target"])


def feature_blocks(nodes: int, features: int, seed: int = 0) -> Iterator[pa.RecordBatch]:
    """Yield a row for each node: the place of its group, known by random directions, and noise."""
    groups = -(-nodes // _GROUP_SIZE)
    centres = np.random.default_rng([seed, 2]).standard_normal((groups, features), np.float32)
    for start in range(0, nodes, _BLOCK // 8):
        node = np.arange(start, min(nodes, start + _BLOCK // 8))
        noise = np.random.default_rng([seed, 3, start])
        x = centres[node // _GROUP_SIZE] + _NOISE * noise.standard_normal(
            (node.size, features), np.float32
        )
        columns = [_names(node, nodes), *(pa.array(np.ascontiguousarray(column)) for column in x.T)]
        yield pa.RecordBatch.from_arrays(columns, ["node", *(f"x{k}" for k in range(features))])


def generate(nodes: int, links: int, features: int, folder: Path) -> None:
    """Write links.csv and features.parquet."""
    folder.mkdir(parents=True, exist_ok=True)
    text = pa.schema([("source", pa.string()), ("target", pa.string())])
    options = csv.WriteOptions(quoting_style="none")
    with csv.CSVWriter(folder / "links.csv", text, write_options=options) as writer:
        for block in link_blocks(nodes, links):
            writer.write_batch(block)
    if features:
        blocks = feature_blocks(nodes, features)
        first = next(blocks)
        with parquet.ParquetWriter(folder / "features.parquet", first.schema) as writer:
            for block in (first, *blocks) if nodes < _BLOCK else _chained(first, blocks):
                writer.write_batch(block)


def _chained(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others


# --- Measuring ---


def measured(command: list[str], folder: Path) -> dict[str, Any]:
    """Run a program and return seconds and the peak of anonymous memory, children included."""
    before = os.times()
    started = time.perf_counter()
    with (folder / "out.txt").open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        peak, disk = 0, 0
        while process.poll() is None:
            peak = max(peak, anonymous(process.pid))
            disk = max(disk, *(size_of(path) for path in folder.glob("store*")), 0)
            time.sleep(0.02)
    after = os.times()
    if process.returncode:
        raise SystemExit((folder / "out.txt").read_text()[-2000:])
    return {
        "user_seconds": after.children_user - before.children_user,
        "system_seconds": after.children_system - before.children_system,
        "wall_seconds": time.perf_counter() - started,
        "peak_anonymous_bytes": peak,
        "peak_disk_bytes": disk,
    }


def anonymous(pid: int) -> int:
    """Return the bytes of memory of a process and its children that no file is behind."""
    total = 0
    try:
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            status = Path(f"/proc/{one.pid}/status").read_text()
            total += sum(
                int(line.split()[1]) * 1024
                for line in status.splitlines()
                if line.startswith("RssAnon")
            )
    except (psutil.Error, OSError):
        return total
    return total


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder, or of a file."""
    total = 0
    for path in (folder, *folder.rglob("*")):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
    return total


SPLIT = """
import sys
from cgcl.readers import read
from cgcl.split import audit_split, random_split
graph = read(sys.argv[1])
assert audit_split(random_split(graph), graph).is_clean
"""
OPEN = "import sys; from cgcl.readers import read; print(read(sys.argv[1]))"


def measure(
    nodes: int, links: int, features: int, max_memory: str, place: Path, only: Sequence[str]
) -> None:
    """Store a graph and open the store, each in a process of its own; keep what it took."""
    with tempfile.TemporaryDirectory(dir=place) as name:
        folder = Path(name)
        generate(nodes, links, features, folder)
        source, out = str(folder / "links.csv"), str(folder / "store")
        given = ["--features", str(folder / "features.parquet")] if features else []
        program = [sys.executable, "-m", "cgcl"]
        limit = ["--max-memory", max_memory]
        steps = {
            "store": [*program, "store", source, out, *given, *limit, "--quiet"],
            "open": [sys.executable, "-c", OPEN, out],
            "audit": [*program, "audit", out],
            "split": [sys.executable, "-c", SPLIT, out],
            "inspect": [*program, "inspect", out],
        }
        files = [folder / "links.csv", *([folder / "features.parquet"] if features else [])]
        size = sum(path.stat().st_size for path in files)
        for step, command in steps.items():
            if step not in (only or steps):
                continue
            took = measured(command, folder)
            about = {"nodes": nodes, "links": links, "features": features, "step": step}
            sizes = {"file_bytes": size, "store_bytes": size_of(folder / "store")}
            keep({**about, "max_memory": max_memory, **sizes, **took})


def keep(line: dict[str, Any]) -> None:
    """Put a line in the place of an earlier one for the same."""
    key = ("nodes", "links", "features", "step")
    found = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    known = found.get("steps", [])
    lines = [own for own in known if any(own[name] != line[name] for name in key)]
    lines = sorted([*lines, line], key=lambda own: own["links"])
    RESULTS.write_text(json.dumps({**found, "steps": lines}, indent=1) + "\n")
    print(line, flush=True)


def main() -> None:
    """Generate, or measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("generate")
    for name in ("nodes", "links", "features"):
        make.add_argument(name, type=int)
    make.add_argument("folder", type=Path)
    look = commands.add_parser("measure")
    look.add_argument("links", type=int, nargs="+")
    look.add_argument("--nodes", type=int, help="a tenth of the links if not given")
    look.add_argument("--features", type=int, default=64)
    look.add_argument("--max-memory", default="4GB")
    look.add_argument("--only", nargs="+", default=(), help="these steps; all if not given")
    look.add_argument("--place", type=Path, default=Path(tempfile.gettempdir()))
    told = parser.parse_args()
    if told.command == "generate":
        generate(told.nodes, told.links, told.features, told.folder)
        return
    for links in told.links:
        nodes = told.nodes or links // 10
        measure(nodes, links, told.features, told.max_memory, told.place, told.only)


if __name__ == "__main__":
    main()
