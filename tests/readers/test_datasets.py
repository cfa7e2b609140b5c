import os
import shutil
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cgcl.errors import GraphFormatError, ResourceError
from cgcl.readers import DATASETS, load_dataset
from cgcl.readers import datasets as module

SHARED = Path(os.environ.get("CGCL_DATA") or Path(__file__).parents[3] / "shared" / "data")
needs_data = pytest.mark.skipif(
    not (SHARED / "PubMed" / "raw").is_dir(), reason="the data sets' raw files are not here"
)


@pytest.fixture(scope="module")
def from_pyg(tmp_path_factory):
    """Read a data set with PyTorch Geometric from a copy, because it writes beside its input."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch_geometric.datasets import Amazon, Planetoid

    def load(name):
        folder = DATASETS[name].folder or "Cora"
        root = tmp_path_factory.mktemp(name)
        (root / folder / "raw").mkdir(parents=True)
        for path in (SHARED / folder / "raw").iterdir():
            shutil.copyfile(path, root / folder / "raw" / path.name)
        kind = Amazon if name in ("photo", "computers") else Planetoid
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return kind(str(root), folder)[0]

    return load


def undirected(edge_index):
    low, high = edge_index.min(0).values, edge_index.max(0).values
    return torch.unique(torch.stack([low, high])[:, low != high], dim=1)


def links_by_words(edges, x):
    """Count the links by the words at either end, which hardly any two nodes share."""
    rows = [row.tobytes() for row in x]
    return Counter(frozenset((rows[a], rows[b])) for a, b in edges.T.tolist())


def test_the_bundled_cora_has_the_published_counts_and_needs_no_folder(tmp_path):
    graph = load_dataset("CORA", tmp_path / "nowhere", download=False)
    assert repr(graph) == "Graph(2,708 nodes, 5,278 links, 1,433 features)"
    assert graph.notes == ()
    assert graph.x.is_sparse
    assert graph.x.values().tolist() == [1.0] * 49_216
    assert list(graph.names) == sorted(graph.names)
    assert len(torch.unique(graph.edges)) == 2_708


@needs_data
def test_the_bundled_cora_is_the_graph_that_pyg_reads(from_pyg):
    ours, theirs = load_dataset("cora"), from_pyg("cora")
    our_x, their_x = ours.x.to_dense().numpy(), theirs.x.numpy()
    their_edges = undirected(theirs.edge_index)
    assert len({row.tobytes() for row in our_x}) > 2_600
    assert np.array_equal(our_x.sum(0), their_x.sum(0))  # same words in the same order
    assert Counter(r.tobytes() for r in our_x) == Counter(r.tobytes() for r in their_x)
    assert links_by_words(ours.edges, our_x) == links_by_words(their_edges, their_x)


@needs_data
@pytest.mark.parametrize("name", ["citeseer", "pubmed", "photo", "computers"])
def test_a_data_set_is_the_one_that_pyg_reads(from_pyg, name):
    ours, theirs = load_dataset(name, SHARED, download=False), from_pyg(name)
    row = DATASETS[name]
    assert (ours.num_nodes, ours.num_edges) == (row.num_nodes, row.num_edges)
    assert ours.names == tuple(map(str, range(row.num_nodes)))
    assert torch.equal(ours.edges, undirected(theirs.edge_index))
    assert torch.equal(ours.x.to_dense(), theirs.x)
    assert int(torch.count_nonzero(theirs.x)) == row.num_nonzeros
    assert ours.x.is_sparse == (name in ("citeseer", "pubmed"))


@needs_data
def test_the_folder_comes_from_the_argument_then_cgcl_data_then_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CGCL_DATA", str(SHARED))
    assert load_dataset("citeseer", download=False).num_nodes == 3_327
    with pytest.raises(ResourceError):
        load_dataset("citeseer", tmp_path, download=False)
    monkeypatch.setenv("CGCL_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert module.data_folder() == tmp_path / "cgcl"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert module.data_folder() == tmp_path / ".cache" / "cgcl"


def test_missing_files_are_named_with_address_and_folder(tmp_path):
    with pytest.raises(ResourceError) as caught:
        load_dataset("pubmed", tmp_path, download=False)
    assert str(caught.value) == (
        f"The data set pubmed is not in {tmp_path}/PubMed/raw: ind.pubmed.allx, ind.pubmed.tx, "
        "ind.pubmed.graph, ind.pubmed.test.index missing.\n"
        "Fetch from https://github.com/kimiyoung/planetoid/raw/master/data/ and put them there,\n"
        "or name a folder that has PubMed/raw in it: `data_root` or CGCL_DATA."
    )


def test_a_failed_download_lists_the_other_files_too(tmp_path, monkeypatch):
    def refuse(url, target, *, check):
        raise ResourceError(f"Cannot download {target.name}: offline.")

    monkeypatch.setattr(module, "fetch", refuse)
    with pytest.raises(ResourceError) as caught:
        load_dataset("citeseer", tmp_path)
    assert str(caught.value) == (
        "Cannot download ind.citeseer.allx: offline.\n"
        "Also missing, same address, same folder: "
        "ind.citeseer.tx, ind.citeseer.graph, ind.citeseer.test.index."
    )


@needs_data
@pytest.mark.parametrize("name", ["citeseer", "photo"])
def test_missing_files_are_fetched_checked_and_then_read(tmp_path, monkeypatch, name):
    fetched = []

    def copy(url, target, *, check):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SHARED / target.relative_to(tmp_path), target)
        check(target)
        fetched.append(url)

    monkeypatch.setattr(module, "fetch", copy)
    graph = load_dataset(name, tmp_path)
    assert graph.fingerprint == load_dataset(name, SHARED, download=False).fingerprint
    assert fetched == [DATASETS[name].url(file) for file in DATASETS[name].files]
    assert all(url.startswith("https://") for url in fetched)


def test_files_with_other_content_are_refused_and_kept(tmp_path):
    raw = tmp_path / "Photo" / "raw"
    raw.mkdir(parents=True)
    matrix = {"data": np.ones(1), "indices": np.zeros(1, int), "indptr": np.array([0, 1])}
    arrays = {f"{m}_{k}": v for m in ("adj", "attr") for k, v in matrix.items()}
    shapes = {"adj_shape": np.array([1, 1]), "attr_shape": np.array([1, 1])}
    np.savez(raw / "amazon_electronics_photo.npz", **arrays, **shapes)
    with pytest.raises(GraphFormatError, match="does not hold the published arrays"):
        load_dataset("photo", tmp_path)
    assert (raw / "amazon_electronics_photo.npz").exists()


def test_an_unknown_data_set_lists_the_known_ones():
    with pytest.raises(GraphFormatError) as caught:
        load_dataset("pubmet")
    assert str(caught.value) == (
        "No data set is called 'pubmet'. Did you mean 'pubmed'?\n"
        "There are: cora, citeseer, pubmed, photo, computers."
    )


def test_counts_that_differ_from_the_table_are_refused(monkeypatch):
    wrong = {"cora": replace(DATASETS["cora"], num_edges=1)}
    monkeypatch.setattr(module, "DATASETS", wrong)
    with pytest.raises(GraphFormatError, match="Its files are damaged"):
        load_dataset("cora")


def test_a_data_set_is_present_when_all_its_files_are(tmp_path):
    photo = DATASETS["photo"]
    assert DATASETS["cora"].is_present(tmp_path)
    assert not photo.is_present(tmp_path)
    (tmp_path / "Photo" / "raw").mkdir(parents=True)
    (tmp_path / "Photo" / "raw" / next(iter(photo.files))).touch()
    assert photo.is_present(tmp_path)
