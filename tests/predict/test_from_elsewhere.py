"""A predictor among what other programs, and other settings of torch, hand to it."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
import torch

import cgcl
from cgcl.cli.main import main
from cgcl.errors import ConfigError, GraphFormatError, ModelFileError, RunFolderError
from cgcl.predict import LinkPredictor
from cgcl.testing.graphs import groups

NAMES = [f"n{i:02d}" for i in range(36)]
BRIEF = {"hidden": 4, "epochs": 2, "threads": 1}


@pytest.fixture
def other_defaults() -> Iterator[None]:
    """What a caller may have told torch for all of its own tensors."""
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    yield
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)


def test_fit_takes_what_read_takes(tmp_path) -> None:
    graph = nx.karate_club_graph()
    edges = list(graph.edges)
    ends = {"source": [str(a) for a, _ in edges], "target": [str(b) for _, b in edges]}
    frame = pa.table(ends)
    rows = [f"{a},{b}\n" for a, b in edges]
    (tmp_path / "karate.csv").write_text("source,target\n" + "".join(rows))
    for own in (graph, frame, np.array(edges).T, tmp_path / "karate.csv"):
        found = LinkPredictor("adamic-adar").fit(own)
        expected = LinkPredictor("adamic-adar").fit(cgcl.read(own))
        assert found.graph_.fingerprint == expected.graph_.fingerprint
        assert found.top(5).to_csv() == expected.top(5).to_csv()


def test_what_is_written_to_tensors_after_fit_changes_no_answer() -> None:
    graph = groups(NAMES)
    split = cgcl.random_split(graph, 0.05, 0.1)
    model = LinkPredictor(**BRIEF).fit(graph, split)
    expected = LinkPredictor(**BRIEF).fit(groups(NAMES)).top(20).to_csv()

    for tensor in (graph.x, graph.edges, split.train, split.test):
        tensor.zero_()

    assert model.top(20).to_csv() == expected
    assert model.embeddings().any()


@pytest.mark.usefixtures("other_defaults")
@pytest.mark.parametrize("method", ["cgcl", "cgcl-rank", "adamic-adar"])
def test_defaults_of_torch_change_nothing_and_are_put_back(tmp_path, method: str) -> None:
    settings = {"threads": 1} if method == "adamic-adar" else BRIEF
    graph = cgcl.read(nx.karate_club_graph())
    model = LinkPredictor(method, **settings).fit(graph)
    model.save(tmp_path / "saved")
    loaded = cgcl.load(tmp_path / "saved").set_params(threads=1)
    joined = model.with_new_nodes(["new"], [("new", "0")])

    assert (torch.get_default_dtype(), torch.get_default_device().type) == (torch.float64, "meta")
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)
    usual = LinkPredictor(method, **settings).fit(cgcl.read(nx.karate_club_graph()))
    assert model.top(5).to_csv() == usual.top(5).to_csv() == loaded.top(5).to_csv()
    assert joined.links_of("new", 3)


@pytest.mark.parametrize("wrong", [None, 7, "a\0b"])
def test_what_names_no_folder_is_refused_by_save_and_load(wrong) -> None:
    model = LinkPredictor("adamic-adar").fit(groups(NAMES))
    for ask in (model.save, cgcl.load, LinkPredictor.load):
        with pytest.raises(ConfigError, match=r"A folder is named by|holds a NUL"):
            ask(wrong)


def test_a_name_that_is_too_long_is_refused_by_load() -> None:
    with pytest.raises(RunFolderError, match="Cannot open the folder xxx"):
        cgcl.load("x" * 300)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("kind", ["meta", "quantised"])
def test_tensors_without_plain_values_are_refused(kind: str) -> None:
    tensor = torch.zeros(2, 5, device="meta")
    if kind == "quantised":
        tensor = torch.quantize_per_tensor(torch.rand(2, 5), 0.1, 0, torch.quint8)
    with pytest.raises(GraphFormatError, match="edge_index cannot be read"):
        cgcl.read(tensor)
    with pytest.raises(GraphFormatError, match=r"features \(Tensor\) cannot be read"):
        cgcl.read(nx.path_graph(2), features=tensor)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Two runs of one graph and one split, which differ in a setting."""
    folder = tmp_path_factory.mktemp("runs")
    rows = [f"{NAMES[a]},{NAMES[b]}" for a, b in groups(NAMES).edges.T.tolist()]
    (folder / "g.csv").write_text("\n".join(["source,target", *rows, ""]))
    for rate in ("0.01", "0.02"):
        words = ["train", str(folder / "g.csv"), "--method", "cgcl", "--lr", rate, "--quiet"]
        words += ["--hidden=4", "--epochs=2", "--threads=1", "--no-compare", f"--out={folder}"]
        with pytest.raises(SystemExit, match="0"):
            main(words)
    return folder


def test_a_model_of_another_run_of_the_same_split_is_refused(runs: Path, tmp_path) -> None:
    run = shutil.copytree(runs / "g-1", tmp_path / "run")
    assert LinkPredictor.load(run).notes_ == ()

    shutil.copy(runs / "g-2" / "model.safetensors", run)

    with pytest.raises(ModelFileError, match="is not the model that this run made"):
        LinkPredictor.load(run)


def test_a_foreign_model_is_not_concluded_as_the_runs_own(runs: Path, tmp_path, capsys) -> None:
    run = shutil.copytree(runs / "g-1", tmp_path / "run")
    told = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(told | {"status": "trained"}))
    shutil.copy(runs / "g-2" / "model.safetensors", run)
    before = (run / "run.json").read_bytes()

    with pytest.raises(SystemExit, match="1"):
        main(["report", str(run)])

    assert "is not the model that this run made" in capsys.readouterr().err
    assert (run / "run.json").read_bytes() == before


def test_a_run_that_does_not_tell_its_model_loads_with_a_note(runs: Path, tmp_path, capsys) -> None:
    run = shutil.copytree(runs / "g-1", tmp_path / "run")
    told = json.loads((run / "run.json").read_text())
    del told["model"]
    (run / "run.json").write_text(json.dumps(told))

    assert "earlier version" in LinkPredictor.load(run).notes_[0]
    with pytest.raises(SystemExit, match="0"):
        main(["predict", str(run), "--top", "1", "--threads", "1"])
    assert "Note        This run was made by an earlier version" in capsys.readouterr().err

    (run / "run.json").write_text("{")
    assert "Nobody can tell" in LinkPredictor.load(run).notes_[0]
