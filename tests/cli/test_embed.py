import csv
import io
from pathlib import Path

import numpy as np
import pytest
import torch

from cgcl.cli.embed import embed
from cgcl.errors import ConfigError, ResourceError, RunFolderError
from cgcl.methods.scoring import embed as encoded
from cgcl.model import symmetric
from cgcl.predict import LinkPredictor
from cgcl.predict.writers import write_embeddings
from cgcl.testing.graphs import groups


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LinkPredictor]:
    graph = groups(["Anna", "NA", "007", "a,b", "é"])
    predictor = LinkPredictor("cgcl", hidden=4, epochs=2, device="cpu", threads=1).fit(graph)
    folder = tmp_path_factory.mktemp("run")
    predictor.save(folder)
    return folder, predictor


def expected(predictor: LinkPredictor, links: torch.Tensor) -> np.ndarray:
    return encoded(predictor.model_, predictor.graph_.x, symmetric(links)).numpy()


def table(text: str) -> tuple[list[str], np.ndarray]:
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    assert header == ["node", "z0", "z1", "z2", "z3"]
    return [row[0] for row in rows], np.array([row[1:] for row in rows], dtype=np.float32)


@pytest.mark.parametrize("known", ["all", "train"])
def test_without_a_file_the_answer_is_csv_and_nothing_else(saved, capsys, known) -> None:
    folder, predictor = saved
    embed(folder, known=known, device="cpu", threads=1)
    captured = capsys.readouterr()
    names, z = table(captured.out)
    assert tuple(names) == predictor.graph_.names
    links = predictor.graph_.edges if known == "all" else predictor.split_.train
    assert np.array_equal(z, expected(predictor, links))
    assert captured.err == ""


@pytest.mark.parametrize(
    ("file", "output"),
    [("z.parquet", None), ("Z.NPZ", None), ("z.csv", None), ("z.dat", "parquet"), ("z", "npz")],
)
def test_the_suffix_or_the_option_says_the_format(saved, tmp_path, capsys, file, output) -> None:
    folder, predictor = saved
    path = tmp_path / file
    embed(folder, out=path, output=output, device="cpu", threads=1)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == (f"{path}\n", "")
    z, kind = expected(predictor, predictor.graph_.edges), output or path.suffix.lower()[1:]
    write_embeddings(tmp_path / "again", predictor.graph_.names, z, kind)
    assert path.read_bytes() == (tmp_path / "again").read_bytes()


@pytest.mark.parametrize(
    ("file", "output", "message"),
    [
        (None, "parquet", "Only csv can be printed; parquet needs a file.\nName one: --out"),
        ("z.txt", None, r"'z\.txt' does not say in which format to write"),
        ("z", None, "one of the suffixes .parquet, .npz, .csv, or add --format"),
    ],
)
def test_a_format_that_is_not_clear_is_refused_before_anything_is_read(file, output, message):
    with pytest.raises(ConfigError, match=message):
        embed(Path("no such run"), out=file and Path(file), output=output)


def test_a_folder_that_is_no_run_or_cannot_be_written_is_said_so(saved, tmp_path) -> None:
    with pytest.raises(RunFolderError, match="does not exist"):
        embed(tmp_path / "nothing", device="cpu")
    with pytest.raises(ResourceError, match="Cannot write"):
        embed(saved[0], out=tmp_path / "nowhere" / "z.npz", device="cpu", threads=1)
