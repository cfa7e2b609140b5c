import pytest

from cgcl.errors import ConfigError, GraphFormatError
from cgcl.readers import DATASETS, read


def test_a_data_set_is_read_by_its_name_in_any_case():
    assert read("Cora").fingerprint == read("cora").fingerprint
    assert read("cora").title == "cora"


def test_a_mistyped_data_set_is_corrected():
    with pytest.raises(GraphFormatError) as caught:
        read("coar")
    assert str(caught.value) == (
        "'coar' is neither a file nor a data set. Did you mean 'cora'?\n"
        "Give a CSV or TSV file of links (.csv .tsv .tab .txt .edges),\n"
        "or one of the data sets: cora, citeseer, pubmed, photo, computers."
    )


def test_a_missing_file_lists_what_is_accepted():
    with pytest.raises(GraphFormatError) as caught:
        read("data/friends.csv")
    assert str(caught.value) == (
        "No such file: 'data/friends.csv'.\n"
        "Give a CSV or TSV file of links (.csv .tsv .tab .txt .edges),\n"
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
        "Leave out --features, or give a file of links instead of the data set's name."
    )


@pytest.mark.parametrize("suffix", [".xlsx", ".graphml", ".parquet", ".npz", ".gz", ".pt", ".JSON"])
def test_other_kinds_of_files_are_refused_by_name(tmp_path, suffix):
    path = tmp_path / f"friends{suffix}"
    path.write_bytes(b"source,target\na,b\n")
    with pytest.raises(GraphFormatError) as caught:
        read(path)
    assert str(caught.value) == (
        f"friends{suffix}: files of the kind '{suffix.lower()}' are not read.\n"
        "Save it as CSV or TSV (one of .csv .tsv .tab .txt .edges): "
        "a header line, then a row per link or node."
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
