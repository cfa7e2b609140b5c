"""Readers say what they take before they read, and refuse what is too much."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import cgcl
from cgcl.cli.main import main
from cgcl.errors import CGCLError, ConfigError, GraphFormatError, ResourceError
from cgcl.memory import readable_memory, reading_at_most
from cgcl.readers.formats import FORMATS, read_features

RUN = Path(__file__).parents[1] / "fixtures" / "0.1" / "run"
PAIRS = [(f"n{one}", f"n{one + 1}") for one in range(3000)]
NAMES = [one for one, _ in PAIRS]


@pytest.fixture
def files(tmp_path):
    """A file of each kind, with 3,000 links or rows."""
    rows = "".join(f"{a},{b}\n" for a, b in PAIRS)
    for suffix in ("csv", "tsv", "tab", "txt", "edges", "edgelist"):
        separator = "\t" if suffix in ("tsv", "tab") else ","
        text = ("source,target\n" + rows).replace(",", separator)
        (tmp_path / f"g.{suffix}").write_text(text)
    table = pa.table({"source": NAMES, "target": [b for _, b in PAIRS]})
    for suffix in ("parquet", "pq"):
        parquet.write_table(table, tmp_path / f"g.{suffix}")
    links = "".join(f'<edge source="{a}" target="{b}"/>' for a, b in PAIRS)
    (tmp_path / "g.graphml").write_text(
        f'<graphml><graph edgedefault="undirected">{links}</graph></graphml>'
    )
    nodes = "".join(f'<node id="{a}"/>' for a in {*NAMES, "n3000"})
    (tmp_path / "g.gexf").write_text(
        f'<gexf xmlns="http://www.gexf.net/1.2draft" version="1.2"><graph><nodes>{nodes}</nodes>'
        f"<edges>{links}</edges></graph></gexf>"
    )
    np.savez(tmp_path / "g.npz", edge_index=np.arange(6000).reshape(2, -1))
    (tmp_path / "x.csv").write_text("node,a\n" + "".join(f"{name},1\n" for name in NAMES))
    (tmp_path / "x.mtx").write_text(
        "%%MatrixMarket matrix coordinate pattern general\n3000 1 3000\n"
        + "".join(f"{row} 1\n" for row in range(1, 3001))
    )
    return tmp_path


@pytest.mark.parametrize("suffix", [s for kind in FORMATS if kind.links for s in kind.suffixes])
def test_links_that_take_more_than_is_allowed_are_refused_in_every_format(files, suffix) -> None:
    path = files / f"g{suffix}"
    assert cgcl.read(path, max_memory="20MB").num_edges == 3000
    with pytest.raises(ResourceError, match=r"takes up to .* may be taken\.\n.*`max_memory`"):
        cgcl.read(path, max_memory="300kB")
    with pytest.raises(ResourceError, match=rf"Reading g{suffix} takes up to 0 MB"):
        cgcl.read(path, max_memory=path.stat().st_size - 1)


@pytest.mark.parametrize("name", ["x.csv", "x.mtx"])
def test_features_that_take_more_than_is_allowed_are_refused(files, name) -> None:
    assert len(read_features(files / name, []).names) == 3000
    with reading_at_most("200kB"), pytest.raises(ResourceError, match="may be taken"):
        read_features(files / name, [])


def test_files_that_claim_what_they_cannot_hold_are_refused(tmp_path) -> None:
    rows = tmp_path / "rows.mtx"
    rows.write_text("%%MatrixMarket matrix coordinate real general\n10000000 1 1\n1 1 1\n")
    block = pa.table(
        {n: pa.DictionaryArray.from_arrays(np.zeros(10**7, np.int32), [n]) for n in "ab"}
    )
    parquet.write_table(block, tmp_path / "rle.parquet", compression="zstd")
    for read, name in ((lambda p: read_features(p, []), "rows.mtx"), (cgcl.read, "rle.parquet")):
        with pytest.raises(GraphFormatError, match="that are made to fill a memory"):
            read(tmp_path / name)


def test_a_line_without_end_is_refused_before_anyone_splits_it(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("cgcl.readers.regular_file.MAX_LINE_BYTES", 1000)
    path = tmp_path / "g.csv"
    for end in ("\n", "\r"):
        path.write_text(f"source,target{end}a,b{end}" + 300 * f"c,d{end}" + 2000 * "x", newline="")
        with pytest.raises(GraphFormatError, match=r"g\.csv, line 303: more than 1,000 bytes\."):
            cgcl.read(path)
        path.write_text(f"source,target{end}a,b{end}" + 300 * f"c,d{end}", newline="")
        assert cgcl.read(path).num_edges == 2


def test_the_flag_of_the_command_holds_for_every_file(files, capsys) -> None:
    for words in (
        ["inspect", files / "g.csv"],
        ["train", files / "g.csv", "--features", files / "x.csv"],
        ["train", files / "g.csv", "--test-edges", files / "g.tsv"],
        ["audit", "--train", files / "g.csv", "--test", files / "g.csv"],
        ["predict", RUN, "--pairs", files / "g.csv"],
        ["predict", RUN, "--exclude", files / "g.csv"],
        ["predict", RUN, "--new-links", files / "g.csv"],
        ["predict", RUN, "--new-features", files / "x.csv"],
    ):
        with pytest.raises(SystemExit, match="1"):
            main([*map(str, words), "--max-memory", "300kB"])
        assert "or allow more with --max-memory." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("limit", "found"), [("2GB", 2e9), ("1.5 g", 1.5e9), (7, 7.0), ("900kB", 9e5), ("12", 12.0)]
)
def test_amounts_of_memory_are_read_as_people_write_them(limit, found: float) -> None:
    before = readable_memory()
    with reading_at_most(limit):
        assert readable_memory() == found
        with reading_at_most(None):
            assert readable_memory() == found
    assert readable_memory() == pytest.approx(before, rel=0.5)


@pytest.mark.parametrize("limit", ["much", "0", "-1", "1.2.3GB", "8GiBs", "inf"])
def test_what_is_no_amount_of_memory_is_refused(limit) -> None:
    with pytest.raises(ConfigError, match=r"max_memory is '.*'; it must be an amount such as 8GB"):
        cgcl.read("x.csv", max_memory=limit)
    assert issubclass(ConfigError, CGCLError)
