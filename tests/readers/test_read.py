import os
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest

from cgcl.errors import ConfigError, GraphFormatError
from cgcl.readers import DATASETS, read
from cgcl.readers.read import GRAPH_SUFFIXES


def test_a_data_set_is_read_by_its_name_in_any_case():
    assert read("Cora").fingerprint == read("cora").fingerprint
    assert read("cora").title == "cora"


def test_a_mistyped_data_set_is_corrected():
    with pytest.raises(GraphFormatError) as caught:
        read("coar")
    assert str(caught.value) == (
        "'coar' is neither a file nor a data set. Did you mean 'cora'?\n"
        f"Give a file of links ({' '.join(GRAPH_SUFFIXES)}),\n"
        "or one of the data sets: cora, citeseer, pubmed, photo, computers."
    )


def test_a_missing_file_lists_what_is_accepted():
    with pytest.raises(GraphFormatError) as caught:
        read("data/friends.csv")
    assert str(caught.value) == (
        "No such file: 'data/friends.csv'.\n"
        f"Give a file of links ({' '.join(GRAPH_SUFFIXES)}),\n"
        "or one of the data sets: cora, citeseer, pubmed, photo, computers."
    )


@pytest.mark.parametrize("name", ["", "x" * 5000, "a\0b", "cora\n"])
def test_impossible_names_are_refused(name):
    with pytest.raises(GraphFormatError):
        read(name)


def test_features_beside_a_data_set_are_refused():
    with pytest.raises(ConfigError) as caught:
        read("cora", features="nodes.csv")
    assert str(caught.value) == (
        "The data set cora has its own features.\n"
        "Leave out `features`, or give a file of links instead of the data set's name."
    )


@pytest.mark.parametrize("suffix", [".xlsx", ".gml", ".npy", ".gz", ".pt", ".JSON"])
def test_other_kinds_of_files_are_refused_by_name(tmp_path, suffix):
    path = tmp_path / f"friends{suffix}"
    path.write_bytes(b"source,target\na,b\n")
    with pytest.raises(GraphFormatError) as caught:
        read(path)
    assert str(caught.value) == (
        f"friends{suffix}: files of the kind '{suffix.lower()}' are not read.\n"
        f"Save it as one of {' '.join(GRAPH_SUFFIXES)}."
    )


@pytest.mark.parametrize("suffix", [".csv", ".CSV", ".txt", ".edges", ""])
def test_table_suffixes_are_read(tmp_path, suffix):
    path = tmp_path / f"friends{suffix}"
    path.write_bytes(b"source,target\na,b\n")
    assert read(str(path)).num_edges == 1


def test_a_path_is_a_file_even_if_a_data_set_is_called_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cora").write_text("source,target\na,b\n")
    assert read("cora").num_nodes == DATASETS["cora"].num_nodes
    assert read("./cora").num_nodes == 2


@pytest.mark.parametrize(
    ("stem", "title"),
    [
        ("friends", "friends"),
        ("my friends (2024)", "my-friends-2024"),
        (".hidden.x", "hidden.x"),
        ("...", "graph"),
        ("<script>", "script"),
        ("größe_1", "größe_1"),
        ("-rf", "rf"),
        ("x" * 200, "x" * 60),
    ],
)
def test_the_title_is_safe_as_a_folder_name(tmp_path, stem, title):
    path = tmp_path / f"{stem}.csv"
    path.write_text("source,target\na,b\n")
    assert read(path).title == title


def test_reading_leaves_merged_and_dropped_links_in_the_notes(tmp_path):
    path = tmp_path / "friends.csv"
    path.write_text("source,target\na,b\nb,a\na,a\na,b\n")
    graph = read(path)
    assert graph.num_edges == 1
    assert graph.notes == ("1 self-link dropped.", "2 repeated links merged.")


def test_what_is_read_is_what_the_message_lists():
    listed = ".csv .tsv .tab .txt .edges .edgelist .parquet .pq .graphml .gexf .npz"
    assert " ".join(GRAPH_SUFFIXES) == listed


def test_columns_cannot_be_named_where_there_are_none(tmp_path):
    path = tmp_path / "a.gexf"
    path.write_text("<gexf/>")
    with pytest.raises(ConfigError, match=r"a\.gexf has no columns"):
        read(path, source="from")
    with pytest.raises(ConfigError, match=r"a\.gexf has no columns"):
        read(path, target="to")


@pytest.mark.parametrize(
    "option",
    [{"one_hot": ["a"]}, {"words": "a"}, {"feature_separator": ";"}, {"row_names": "a.txt"}],
)
def test_options_about_features_need_features(tmp_path, option):
    path = tmp_path / "a.csv"
    path.write_text("source,target\na,b\n")
    with pytest.raises(ConfigError, match="Options about features need features"):
        read(path, **option)


def test_a_graph_with_features_of_its_own_takes_no_others(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, edge_index=np.array([[0], [1]]), x=np.eye(2))
    with pytest.raises(ConfigError, match="The graph has its own features"):
        read(path, features=tmp_path / "nodes.csv")


def test_features_bring_more_nodes_and_times_stay_with_their_links(tmp_path):
    links, nodes = tmp_path / "a.csv", tmp_path / "nodes.csv"
    links.write_text("source,target,t\nb,d,5\nd,c,3\n")
    nodes.write_text("name,v\na,0\nb,1\nc,2\nd,3\n")
    graph = read(links, features=nodes, time="t")
    assert graph.names == ("a", "b", "c", "d")
    assert graph.edges.tolist() == [[1, 2], [3, 3]]
    assert graph.times.tolist() == [5.0, 3.0]
    assert graph.x.to_dense().tolist() == [[0.0], [1.0], [2.0], [3.0]]


def test_links_and_features_may_have_different_separators(tmp_path):
    links, nodes = tmp_path / "a.csv", tmp_path / "nodes.csv"
    links.write_text("source;target\nb;c\n")
    nodes.write_text("name|v\nb|1\nc|2\n")
    graph = read(links, features=nodes, separator=";", feature_separator="|")
    assert graph.num_features == 1
    nodes.write_text("name;v\nb;1\nc;2\n")  # the same kind of file, the same separator
    assert read(links, features=nodes, separator=";").num_features == 1
    nodes = tmp_path / "nodes.tsv"
    nodes.write_text("name\tv\nb\t1\nc\t2\n")
    assert read(links, features=nodes, separator=";").num_features == 1


def test_reading_a_table_imports_neither_networkx_nor_scipy(tmp_path):
    (tmp_path / "a.csv").write_text("source,target\na,b\n")
    code = (
        "import sys, cgcl; cgcl.read('a.csv'); "
        "print(sorted({'networkx', 'scipy', 'pandas', 'torch_geometric'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True)
    assert done.stdout.strip() == b"[]", done.stderr


def test_a_node_that_only_the_features_know_joins_the_first_side(tmp_path):
    graph, nodes = nx.Graph([("b", "x"), ("c", "x")]), tmp_path / "nodes.csv"
    nx.set_node_attributes(graph, {"b": 1, "c": 1, "x": 0}, "bipartite")
    nodes.write_text("name,v\na,0\nb,1\nc,2\nx,3\n")
    ours = read(graph, features=nodes)
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
