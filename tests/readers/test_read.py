import os
import subprocess
import sys
import threading
import warnings

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest

from cgcl.errors import ConfigError, GraphFormatError
from cgcl.readers import DATASETS, formats, read, tables
from cgcl.readers.regular_file import told

GRAPH_SUFFIXES = formats.suffixes("links")


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        ("coar", "'coar' is neither a file nor a data set. Did you mean 'cora'?"),
        ("data/friends.csv", "No such file: 'data/friends.csv'."),
    ],
)
def test_a_missing_file_lists_what_is_accepted(typed, problem):
    with pytest.raises(GraphFormatError) as caught:
        read(typed)
    assert str(caught.value) == (
        f"{problem}\n"
        f"Give a file of links ({' '.join(GRAPH_SUFFIXES)}),\n"
        "or one of the data sets: cora, citeseer, pubmed, photo, computers."
    )


@pytest.mark.parametrize("name", ["", "x" * 5000, "a\0b", "cora\n"])
def test_impossible_names_are_refused(name):
    with pytest.raises(GraphFormatError):
        read(name)


@pytest.mark.parametrize("suffix", [".xlsx", ".gml", ".npy", ".gz", ".pt", ".JSON"])
def test_other_kinds_of_files_are_refused_by_name(write, suffix):
    path = write(f"friends{suffix}", b"source,target\na,b\n")
    with pytest.raises(GraphFormatError) as caught:
        read(path)
    assert str(caught.value) == (
        f"friends{suffix}: files of the kind '{suffix.lower()}' are not read.\n"
        f"Save it as one of {' '.join(GRAPH_SUFFIXES)}."
    )


def test_a_path_is_a_file_even_if_a_data_set_is_called_so(tmp_path, write, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("cora", "source,target\na,b\n")
    assert read("cora").num_nodes == DATASETS["cora"].num_nodes
    assert read("./cora").num_nodes == 2


@pytest.mark.parametrize(
    ("stem", "title"),
    [("...", "graph"), ("<script>", "script"), ("größe_1", "größe_1"), ("x" * 200, "x" * 60)],
)
def test_the_title_is_safe_as_a_folder_name(write, stem, title):
    assert read(write(f"{stem}.csv", "source,target\na,b\n")).title == title


def test_reading_leaves_merged_and_dropped_links_in_the_notes(write):
    graph = read(write("friends.csv", "source,target\na,b\nb,a\na,a\na,b\n"))
    assert graph.num_edges == 1
    assert graph.notes == ("1 self-link dropped.", "2 repeated links merged.")


def test_what_is_read_is_what_the_message_lists():
    listed = ".csv .tsv .tab .txt .edges .edgelist .parquet .pq .graphml .gexf .npz"
    assert " ".join(GRAPH_SUFFIXES) == listed
    assert " ".join(formats.suffixes("features")) == ".csv .tsv .tab .txt .parquet .pq .npz .mtx"


def test_a_reader_is_added_by_one_line_of_the_table(tmp_path, write, monkeypatch):
    def table(path, _):
        lines = [line.split(" -- ") for line in path.read_text().splitlines()]
        return tables.frame_table(pa.table(lines, names=["source", "target"]), path.name)

    def links(path, options):
        return tables.links_of(table(path, options), options)

    line = formats.Format((".dashes",), "names with dashes between", links, table)
    monkeypatch.setattr(formats, "FORMATS", [*formats.FORMATS, line])
    write("a.dashes", "Anna -- Bob\nBob -- Eve\n")
    write("x.dashes", "Anna -- Bob -- Eve\nred -- red -- blue\n")
    graph = read(tmp_path / "a.dashes", features=tmp_path / "x.dashes", one_hot=["target"])
    assert (graph.names, graph.num_edges) == (("Anna", "Bob", "Eve"), 2)
    assert graph.feature_names == ("target=blue", "target=red")
    with pytest.raises(GraphFormatError, match=r"\.npz \.dashes"):
        read(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("file", "options", "message"),
    [
        ("cora", {"features": "nodes.csv"}, "The data set cora has its own features"),
        ("a.npz", {"features": "nodes.csv"}, "The graph has its own features"),
        ("a.gexf", {"source": "from"}, r"a\.gexf has no columns"),
        ("a.gexf", {"target": "to"}, r"a\.gexf has no columns"),
        *(
            ("a.csv", {option: value}, "Options about features need features")
            for option, value in (
                ("one_hot", ["a"]),
                ("words", "a"),
                ("feature_separator", ";"),
                ("row_names", "a.txt"),
            )
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(write, file, options, message):
    path = write("a.csv", "source,target\na,b\n").with_name(file) if "." in file else file
    if file == "a.npz":
        np.savez(path, edge_index=np.array([[0], [1]]), x=np.eye(2))
    if file == "a.gexf":
        path.write_text("<gexf/>")
    with pytest.raises(ConfigError, match=message):
        read(path, **options)


def test_features_bring_more_nodes_and_times_stay_with_their_links(write):
    nodes = write("nodes.csv", "name,v\na,0\nb,1\nc,2\nd,3\n")
    graph = read(write("a.csv", "source,target,t\nb,d,5\nd,c,3\n"), features=nodes, time="t")
    assert graph.names == ("a", "b", "c", "d")
    assert graph.edges.tolist() == [[1, 2], [3, 3]]
    assert graph.times.tolist() == [5.0, 3.0]
    assert graph.x.to_dense().tolist() == [[0.0], [1.0], [2.0], [3.0]]


@pytest.mark.parametrize(
    ("file", "mark", "options"),
    [
        ("nodes.csv", "|", {"feature_separator": "|"}),
        ("nodes.csv", ";", {}),  # the same kind of file, the same separator
        ("nodes.tsv", "\t", {}),
    ],
)
def test_links_and_features_may_have_different_separators(write, file, mark, options):
    nodes = write(file, "name,v\nb,1\nc,2\n".replace(",", mark))
    links = write("a.csv", "source;target\nb;c\n")
    assert read(links, features=nodes, separator=";", **options).num_features == 1


def test_reading_a_table_imports_neither_networkx_nor_scipy(tmp_path, write):
    write("a.csv", "source,target\na,b\n")
    code = (
        "import sys, cgcl; cgcl.read('a.csv'); "
        "print(sorted({'networkx', 'scipy', 'pandas', 'torch_geometric'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True)
    assert done.stdout.strip() == b"[]", done.stderr


def test_a_node_that_only_the_features_know_joins_the_first_side(write):
    graph = nx.Graph([("b", "x"), ("c", "x")])
    nx.set_node_attributes(graph, {"b": 1, "c": 1, "x": 0}, "bipartite")
    ours = read(graph, features=write("nodes.csv", "name,v\na,0\nb,1\nc,2\nx,3\n"))
    assert ours.sides.tolist() == [False, True, True, False]
    assert "1 node without links counted with 'side 0'." in ours.notes


@pytest.mark.parametrize("suffix", GRAPH_SUFFIXES)
def test_only_regular_files_are_opened(tmp_path, suffix):
    (tmp_path / f"folder{suffix}").mkdir()
    os.mkfifo(tmp_path / f"pipe{suffix}")
    (tmp_path / f"zero{suffix}").symlink_to("/dev/zero")
    for name in ("folder", "pipe", "zero"):
        with pytest.raises(GraphFormatError, match="not a regular file"):
            read(tmp_path / f"{name}{suffix}")
    (tmp_path / f"link{suffix}").symlink_to(tmp_path / "nowhere")
    with pytest.raises(GraphFormatError, match="No such file"):
        read(tmp_path / f"link{suffix}")


def test_two_readers_at_once_do_not_silence_warnings_for_good() -> None:
    """One begins while the other is at work, and ends after it."""
    before, inside, ended = list(warnings.filters), threading.Event(), threading.Event()

    def second() -> None:
        with told("a file", "try again"):
            inside.set()
            ended.wait(5)

    thread = threading.Thread(target=second)
    with told("another file", "try again"):
        thread.start()
        inside.wait(0.5)  # in vain: it has to wait
    ended.set()
    thread.join(5)
    assert warnings.filters == before
