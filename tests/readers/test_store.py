"""A store holds the graph that `read` makes of the same files, however they are cut into blocks."""

import json
import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from cgcl.errors import (
    CGCLError,
    ConfigError,
    FeatureError,
    GraphFormatError,
    ResourceError,
    SplitError,
)
from cgcl.graph import Graph
from cgcl.readers import blocks, read, store_build
from cgcl.readers.store import MANIFEST, open_store, signature
from cgcl.readers.store_build import StoreOptions, build_store
from cgcl.split import audit_split, random_split

FIVE = "source,target\nb,a\na,b\nc,a\nc,c\nd,b\nb,d\n"
OTHER = torch.combinations(torch.arange(8), 2).T[:, :20]
FILES = ["indices.npy", "indptr.npy", "links.npy", "names.arrow"]
few = settings(
    deadline=None, max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def stored(folder, **options):
    """Return the graph by way of a store, or the error."""
    graph = options.pop("graph", folder / "a.csv")
    out = folder / f"store-{len(list(folder.iterdir()))}"
    build_store(graph, out, StoreOptions(**options))
    return read(str(out))


def same(one, other):
    assert tuple(one.names) == tuple(other.names)
    assert torch.equal(one.edges, other.edges)
    assert (one.sides is None) == (other.sides is None)
    assert one.sides is None or torch.equal(one.sides, other.sides)
    assert one.feature_names == other.feature_names
    assert one.fingerprint == other.fingerprint


def outcome(make):
    """Return a graph, or what was said instead."""
    try:
        return make()
    except CGCLError as error:
        return f"{type(error).__name__}: {error}"


def test_arrays_by_hand(tmp_path):
    """a-b and b-d are listed both ways, c-c is a self-link: a-b, a-c, b-d are left."""
    (tmp_path / "a.csv").write_text(FIVE)
    made, _ = build_store(tmp_path / "a.csv", tmp_path / "s")
    assert [*made.names()] == ["a", "b", "c", "d"]
    assert made.array("links.npy").tolist() == [[0, 0, 1], [1, 2, 3]]
    assert made.array("indptr.npy").tolist() == [0, 2, 4, 5, 6]
    assert made.array("indices.npy").tolist() == [1, 2, 0, 3, 0, 1]
    assert made.array("indices.npy").dtype == np.int32
    assert made.about["notes"] == list(read(tmp_path / "a.csv").notes)
    assert not (tmp_path / "s.building").exists()


def test_what_takes_several_blocks_of_an_answer_is_written_one_after_the_other(
    tmp_path, monkeypatch
):
    """DuckDB answers in blocks of 2,048 rows at least: here are three times as many."""
    generator = np.random.default_rng(0)
    pairs = generator.integers(0, 5000, size=(7000, 2))
    text = "source,target\n" + "".join(f"n{a},n{b}\n" for a, b in pairs.tolist())
    (tmp_path / "a.csv").write_text(text)
    monkeypatch.setattr(store_build, "_ROWS", 2048)
    same(stored(tmp_path), read(tmp_path / "a.csv"))


NAMES = st.sampled_from(
    [
        "NA",
        "null",
        "007",
        "7",
        "1e3",
        "True",
        "a",
        "b",
        "é",
        "e\u0301",
        "😀",
        "~",
        " a",
        "x,y",
        'q"q',
        "l\nl",
    ]
)
ROWS = st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=30)


def quoted(cell):
    return f'"{cell.replace(chr(34), chr(34) * 2)}"' if set(cell) & set(',"\n') else cell


@few
@given(rows=ROWS, block=st.integers(30, 200), words=st.sampled_from(["auto", "no", "columns"]))
def test_a_table_of_text_is_the_graph_that_read_makes(
    tmp_path_factory, monkeypatch, rows, block, words
):
    folder = tmp_path_factory.mktemp("s")
    text = "source,target\n" + "".join(f"{quoted(a)},{quoted(b)}\n" for a, b in rows)
    (folder / "a.csv").write_text(text, encoding="utf-8", newline="")
    with monkeypatch.context() as patch:
        patch.setattr(blocks, "BLOCK_BYTES", block)
        found = stored(folder, bipartite=words)
    same(found, read(folder / "a.csv", bipartite=words))


@few
@given(rows=ROWS, cut=st.integers(0, 30), kind=st.sampled_from([".csv", ".parquet"]))
def test_parts_in_a_folder_are_one_table(tmp_path_factory, rows, cut, kind):
    folder = tmp_path_factory.mktemp("s")
    rows = [(a, b) for a, b in rows if not set(a + b) & set(',"\n')] or [("a", "b")]
    table = pa.table({"source": [a for a, _ in rows], "target": [b for _, b in rows]})
    (folder / "parts").mkdir()
    (folder / "parts" / "_SUCCESS").touch()
    parts = [part for part in (table[:cut], table[cut:]) if len(part)]
    for number, part in enumerate(parts):
        path = folder / "parts" / f"part-{number}{kind}"
        if kind == ".parquet":
            parquet.write_table(part, path)
        else:
            lines = (f"{a},{b}\n" for a, b in zip(*part.to_pydict().values(), strict=True))
            path.write_text("source,target\n" + "".join(lines), encoding="utf-8")
    parquet.write_table(table, folder / "whole.parquet")
    same(stored(folder, graph=folder / "parts"), read(folder / "whole.parquet"))


@few
@given(data=st.data(), share=st.sampled_from([0.1, 0.9]))
def test_features_are_those_that_read_finds(tmp_path_factory, data, share):
    folder = tmp_path_factory.mktemp("s")
    chance = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    names = [f"n{k}" for k in chance.permutation(20)]
    x = np.where(chance.random((20, 6)) < share, chance.normal(size=(20, 6)).round(3), 0)
    rows = "".join(f"{n},{','.join(map(str, own))}\n" for n, own in zip(names, x, strict=True))
    (folder / "x.csv").write_text("node," + ",".join("uvwxyz") + "\n" + rows)
    ends = chance.choice(names[:15], (40, 2))
    (folder / "a.csv").write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in ends))
    found = stored(folder, features=folder / "x.csv")
    whole = read(folder / "a.csv", features=folder / "x.csv")
    same(found, whole)
    assert found.is_sparse == whole.is_sparse == (share < 0.25)
    assert sorted(found.notes) == sorted(whole.notes)


def test_two_kinds_of_nodes_are_found_as_read_finds_them(tmp_path):
    films = "".join(f"p{k % 7},f{k % 5}\n" for k in range(35))
    (tmp_path / "a.csv").write_text("person,film\n" + films)
    found, whole = stored(tmp_path), read(tmp_path / "a.csv")
    same(found, whole)
    assert found.sides is not None
    assert found.notes == whole.notes
    assert stored(tmp_path, bipartite="no").sides is None
    (tmp_path / "a.csv").write_text(FIVE)
    with pytest.raises(CGCLError, match="4 names are in both columns"):
        stored(tmp_path, bipartite="yes")


HOSTILE = {
    "empty": b"",
    "header only": b"source,target\n",
    "ragged": b"source,target\na,b\nc\n",
    "too many": b"source,target\na,b\nc,d,e\n",
    "NUL": b"source,target\na,b\nc,\0\n",
    "not UTF-8": b"source,target\na,b\n\xff,c\n",
    "UTF-16": "source,target\na,b\n".encode("utf-16"),
    "a ZIP archive": b"PK\x03\x04",
    "open quote": b'source,target\na,b\n"c,d\n',
    "text behind a quote": b'source,target\na,b\n"c"d,e\n',
    "empty name": b"source,target\na,b\n,c\n",
    "long name": b"source,target\na,b\n" + 1001 * b"x" + b",c\n",
    "one column": b"source\na\nb\n",
    "wrong columns": b"from,to,weight\na,b,1\n",
    "twice": b"source,target,source\na,b,c\n",
    "a row for a header": b"1,2\n2,3\n",
    "a node for a header": b"x,y\na,x\n",
    "separator": b"source;target\na;b\n",
}
FINE = {
    "BOM": b"\xef\xbb\xbfsource,target\na,b\n",
    "CR": b"source,target\ra,b\rb,c\r",
    "CRLF": b"source,target\r\na,b\r\n\r\nb,c",
    "stray quote": b'source,target\na"b,c\nd,e\n',
    "quoted break": b'source,target\n"a\nb","c"\nd,"e""f"\n',
    "other columns": b"weight,target,source\n1,a,b\n2,b,c\n",
    "other names": b"from,to\na,b\nb,c\n",
}


@pytest.mark.parametrize("block", [45, 1 << 25])
@pytest.mark.parametrize("case", [*HOSTILE, *FINE])
def test_hostile_files_are_read_or_refused_in_the_same_words(tmp_path, monkeypatch, case, block):
    (tmp_path / "a.csv").write_bytes((HOSTILE | FINE)[case])
    whole = outcome(lambda: read(tmp_path / "a.csv"))
    longest = max(map(len, (HOSTILE | FINE)[case].splitlines()), default=0)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", max(block, longest + 20))
    found = outcome(lambda: stored(tmp_path))
    assert isinstance(found, str) == (case in HOSTILE)
    if case in FINE:
        same(found, whole)
    else:
        assert found == whole.replace("cgcl train a.csv", "cgcl store a.csv DIR")


@pytest.mark.parametrize("block", [16, 1 << 25])
def test_an_edge_list_is_read_with_its_comments(tmp_path, monkeypatch, block):
    text = "# of SNAP\n# FromNodeId\n1  2\n2\t3\n\n% more\n 3 4 \n4 1 {'w': 1}\n"
    (tmp_path / "a.txt").write_text(text)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", block)
    found, whole = stored(tmp_path, graph=tmp_path / "a.txt"), read(tmp_path / "a.txt")
    same(found, whole)
    assert found.notes == whole.notes


def test_an_error_names_the_line_of_the_whole_file(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 40)
    (tmp_path / "a.csv").write_text("source,target\n" + 50 * "a,b\n" + "c\n")
    with pytest.raises(GraphFormatError, match=r"a\.csv, line 52: 1 column"):
        stored(tmp_path)
    (tmp_path / "a.csv").write_text("source,target\n" + 50 * "a,b\n" + ",b\n")
    with pytest.raises(GraphFormatError, match=r"a\.csv, line 52: the node name"):
        stored(tmp_path)


def test_features_that_do_not_fit_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text(FIVE)
    for text, words in (
        ("node,u\na,1\nb,2\nc,3\n", "no row for 1 node with links: 'd'"),
        ("node,u\na,1\nb,2\nc,3\nd,4\na,1\n", "more than one row for node 'a'"),
        ("node,u\na,1\nb,x\nc,3\nd,4\n", "feature 'u' of node 'b' is 'x', not a number"),
        ("node,u\na,1\nb,inf\nc,3\nd,4\n", "not a finite number"),
    ):
        (tmp_path / "x.csv").write_text(text)
        with pytest.raises(FeatureError, match=words):
            stored(tmp_path, features=tmp_path / "x.csv")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    chance = np.random.default_rng(0)
    (folder / "a.csv").write_text(
        "source,target\n" + "".join(f"n{a},n{b}\n" for a, b in chance.integers(200, size=(2000, 2)))
    )
    return build_store(folder / "a.csv", folder / "s")[0]


@pytest.fixture
def own(made, tmp_path):
    """A copy of a store to damage."""
    folder = tmp_path / "s"
    folder.mkdir()
    for name in (MANIFEST, *FILES):
        (folder / name).write_bytes((made.path / name).read_bytes())
    return folder


def test_tensors_are_mapped_and_the_files_stay_as_they_are(own):
    graph = read(str(own))
    maps = Path("/proc/self/maps").read_text()
    assert all(f"{own}/{name}" in maps for name in ("links.npy", "names.arrow"))
    graph.edges[0, 0] = 77
    assert read(str(own)).edges[0, 0] == 0
    assert graph.node_of["n7"] == [*graph.names].index("n7") == graph.nodes_named(["n7"]).item()
    assert "nobody" not in graph.node_of


def test_a_store_is_split_and_audited(made):
    graph = read(str(made.path))
    split = random_split(graph)
    assert audit_split(split, graph).is_clean
    whole = read(str(made.path.parent / "a.csv"))
    assert split.fingerprint == random_split(whole).fingerprint
    split.require_parts_of(graph)
    with pytest.raises(SplitError, match="or they are others"):
        random_split(Graph.from_pairs("other", "abcdefgh", OTHER), 0.1, 0.3).require_parts_of(graph)


@pytest.mark.parametrize("name", [MANIFEST, *FILES])
def test_a_flipped_byte_is_found(own, name):
    content = bytearray((own / name).read_bytes())
    content[len(content) // 2] ^= 1
    (own / name).write_bytes(content)
    with pytest.raises(GraphFormatError, match=rf"The store .* is damaged: {name}") as told:
        read(str(own))
    assert str(told.value).count("\n") == 1


def test_a_large_store_is_opened_without_reading_all_of_it(own, monkeypatch):
    monkeypatch.setattr(sys.modules["cgcl.readers.read"], "READ_WHOLE", 0)
    content = bytearray((own / "links.npy").read_bytes())
    content[-1] ^= 1
    (own / "links.npy").write_bytes(content)
    assert read(str(own)).num_nodes == 200
    with pytest.raises(GraphFormatError, match=r"links\.npy has other bytes"):
        open_store(own).verify()


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_or_missing_array_is_found_by_opening(own, name):
    content = (own / name).read_bytes()
    (own / name).write_bytes(content[:-9])
    with pytest.raises(GraphFormatError, match=f"{name} has .* bytes, expected"):
        open_store(own)
    (own / name).unlink()
    with pytest.raises(GraphFormatError, match=f"not whole: {name} is missing"):
        open_store(own)


def test_a_manifest_of_something_else_is_refused(own):
    told = json.loads((own / MANIFEST).read_text())
    for other, words in (
        ("[]", "is no store"),
        ('{"name": "an app"}', "is no store"),
        ("{", "cannot be read"),
        (json.dumps(told | {"kind": "cgcl store 2"}), "of another version: 'cgcl store 2'"),
        (json.dumps(told | {"nodes": 1}), "was changed"),
    ):
        (own / MANIFEST).write_text(other)
        with pytest.raises(GraphFormatError, match=words):
            read(str(own))
    # Another store's manifest, whole in itself, does not speak of these files.
    files = told["files"] | {"links.npy": told["files"]["links.npy"] | {"bytes": 1}}
    told |= {"files": files}
    (own / MANIFEST).write_text(json.dumps(told | {"sha256": signature(told)}))
    with pytest.raises(GraphFormatError, match="expected 1"):
        read(str(own))
    (own / MANIFEST).unlink()
    with pytest.raises(GraphFormatError, match=r"manifest\.json is missing"):
        read(str(own))


def test_options_of_files_are_not_for_stores(own):
    with pytest.raises(ConfigError, match="`source` is for files"):
        read(str(own), source="a")


KILLED = """
import os, signal, sys
from pathlib import Path
from cgcl.readers import store_build

source, folder, at, calls = Path(sys.argv[1]), Path(sys.argv[2]), 0, 0

def counted():
    global calls
    calls += 1
    if calls == at:
        os.kill(os.getpid(), signal.SIGKILL)

def stage(self, name, work, real=store_build._Builder._stage):
    def both():
        counted()          # before a stage
        told = work()
        counted()          # before what it did is kept
        return told
    return real(self, name, both)

def write(*given, real=store_build.write_atomically):
    counted()              # before the plan, or the manifest
    real(*given)
    counted()

store_build._Builder._stage, store_build.write_atomically = stage, write
status = 1
while status:
    at += 1
    if os.fork() == 0:
        store_build.build_store(source, folder / f"s{at}")
        os._exit(0)
    status = os.wait()[1]
    print(at, os.WTERMSIG(status), flush=True)
"""


def _note(stages: list[tuple[object, ...]], *told: object) -> None:
    stages.append(told)


def test_killed_anywhere_the_same_call_goes_on(made, tmp_path):
    """At every stage, before it and before what it did is kept; and around the manifest."""
    source = made.path.parent / "a.csv"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, source, tmp_path], capture_output=True, text=True, check=True
    )
    *killed, last = (line.split() for line in done.stdout.splitlines())
    assert len(killed) > 15
    assert last[1] == "0"
    left: list[int] = []
    for at, number in killed:
        assert int(number) == signal.SIGKILL
        assert not (tmp_path / f"s{at}").exists()
        stages: list[tuple[object, ...]] = []
        found, _ = build_store(source, tmp_path / f"s{at}", tell=partial(_note, stages))
        assert found.about["files"] == made.about["files"]
        found.verify()
        left.append(len({name for name, *_ in stages}))
    # What was finished is not done again: the later the kill, the less is left.
    assert left == sorted(left, reverse=True)
    assert left[-1] <= 1 < left[0]


def test_another_source_begins_again(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text(FIVE)

    def fail(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store_build._Builder, "_write_links", fail)
        with pytest.raises(KeyboardInterrupt):
            build_store(tmp_path / "a.csv", tmp_path / "s")
    assert not (tmp_path / "s").exists()
    with pytest.raises(GraphFormatError):
        read(str(tmp_path / "s.building"))
    (tmp_path / "a.csv").write_text("source,target\nx,y\n")
    found, notes = build_store(tmp_path / "a.csv", tmp_path / "s")
    assert "Began again" in notes[0]
    assert [*found.names()] == ["x", "y"]
    assert "made before" in build_store(tmp_path / "a.csv", tmp_path / "s")[1][0]
    (tmp_path / "b.csv").write_text(FIVE)
    with pytest.raises(ConfigError, match="is there already"):
        build_store(tmp_path / "b.csv", tmp_path / "s")


def test_two_cannot_make_one_store(tmp_path):
    (tmp_path / "a.csv").write_text(FIVE)
    refused: list[str] = []

    def meanwhile(*_):
        if not refused:
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()

    def other():
        refused.append(outcome(lambda: build_store(tmp_path / "a.csv", tmp_path / "s")))

    build_store(tmp_path / "a.csv", tmp_path / "s", tell=meanwhile)
    assert "Another process is making" in refused[0]


FULL = """
import resource, signal, sys
from pathlib import Path
from cgcl.errors import ResourceError
from cgcl.readers.store_build import build_store
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for limit in (20_000, 300_000, 900_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        build_store(Path(sys.argv[1]), Path(sys.argv[2]))
    except ResourceError as error:
        print(error)
"""


def test_no_space_left_is_told_and_nothing_is_lost(tmp_path):
    """A limit on the size of a file stands in for a full disk."""
    chance = np.random.default_rng(0)
    rows = "".join(f"n{a},n{b}\n" for a, b in chance.integers(30_000, size=(60_000, 2)))
    (tmp_path / "a.csv").write_text("source,target\n" + rows)
    told = subprocess.run(
        [sys.executable, "-c", FULL, tmp_path / "a.csv", tmp_path / "s"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout.count("No space left in") == 3, told
    assert not (tmp_path / "s").exists()
    build_store(tmp_path / "a.csv", tmp_path / "s")
    same(read(str(tmp_path / "s")), read(tmp_path / "a.csv"))


def test_too_little_of_anything_is_refused_before(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text(FIVE)
    with pytest.raises(ResourceError, match="at least 500 MB of memory to make; 100 MB may"):
        build_store(tmp_path / "a.csv", tmp_path / "s", max_memory="100MB")
    monkeypatch.setattr(store_build.shutil, "disk_usage", lambda _: os.stat_result)
    monkeypatch.setattr(os.stat_result, "free", 3, raising=False)
    with pytest.raises(ResourceError, match="0 MB are free"):
        build_store(tmp_path / "a.csv", tmp_path / "s")
    monkeypatch.setattr(store_build, "find_spec", lambda _: None)
    with pytest.raises(ResourceError, match=r"pip install 'cgcl\[store\]'"):
        build_store(tmp_path / "a.csv", tmp_path / "s")
