"""Any method on the command line: `cgcl methods`, `cgcl train --method`, and what follows it."""

import csv
import io
import json
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from cgcl.cli.settings import from_text
from cgcl.errors import ConfigError
from cgcl.methods.method import EVERY_GRAPH
from cgcl.methods.networks import MLP
from cgcl.methods.settings import CGCLSettings, MethodSettings
from cgcl.methods.table import METHODS, method_named
from cgcl.predict import LinkPredictor

SHARES = ["--test", "0.2", "--val", "0.1", "--threads", "1"]


def config_of(folder: str) -> dict:
    return json.loads(Path(folder.strip(), "run.json").read_text())["config"]


def test_methods_are_listed_with_a_line_each(cli) -> None:
    result = cli("methods")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert [line.split()[0] for line in lines] == list(METHODS)
    for line in lines:
        name, text = line.split(maxsplit=1)
        assert text.endswith("."), name
    # The explanations begin in one column.
    assert len({len(line) - len(line.split(maxsplit=1)[1]) for line in lines}) == 1


@pytest.mark.parametrize("name", METHODS)
def test_the_settings_of_every_method_are_explained(cli, name: str) -> None:
    result = cli("methods", name)
    assert (result.code, result.err) == (0, "")
    method = method_named(name)
    head, *lines = result.out.splitlines()
    assert head.count(method.title) == 1
    for field in fields(method.settings):
        value = "chosen for the graph" if field.name in method.ruled else field.default
        at = lines.index(f"  {field.name} = {value}")
        assert lines[at + 1].startswith("    ")
        assert lines[at + 1].strip().endswith(".")
    for graph, values in method.authors.items():
        where = "on every graph" if graph == EVERY_GRAPH else f"on {graph}"
        told = next(line for line in lines if line.startswith(f"  Its authors use {where}: "))
        assert all(f"{key} {value}" in told for key, value in values.items())


def test_settings_by_name_and_flags_reach_the_method(cli, friends: Path) -> None:
    common = ["train", friends, *SHARES, "--method", "mlp", "--no-compare"]
    run = cli(*common, "--epochs", "2", "--set.hidden", "6", "--set.input-dropout", "0.1")
    assert run.code == 0, run.err
    config = config_of(run.out)
    assert (config["method"], config["epochs"]) == ("mlp", 2)
    assert (config["hidden"], config["input_dropout"]) == (6, 0.1)
    # Only what was said: the defaults of CGCL's flags are not those of every method.
    assert config["weight_decay"] == MLP.settings().weight_decay
    assert "views" not in config
    assert "Features only (MLP): lr 0.01, epochs 2, " in run.err
    graphsage = config_of(
        cli("train", friends, *SHARES, "--method", "vgae", "--epochs", "1", "--no-compare").out
    )
    assert graphsage["hidden"] == method_named("vgae").settings().hidden


@pytest.mark.parametrize("name", ["vgae", "gcn"])
def test_the_paper_preset_of_another_method_is_its_authors_settings(cli, friends, name) -> None:
    flags = ["train", friends, *SHARES, "--method", name, "--epochs", "1", "--no-compare"]
    config = config_of(cli(*flags, "--preset", "paper", "--lr", "0.02").out)
    method = method_named(name)
    expected = method.settings(**method.authors_settings("friends")).to_json()
    expected = {**expected, "epochs": 1, "lr": 0.02}  # a flag goes over the preset
    assert expected.items() <= config.items()
    paper = CGCLSettings(hidden=512, lr=0.005, epochs=800, views="directed")
    assert config["hidden"] != paper.hidden or expected["hidden"] == paper.hidden


def test_a_settings_file_may_name_the_method_and_its_settings(cli, friends: Path) -> None:
    Path("best.toml").write_text(
        '[train]\nmethod = "katz"\nval = 0.1\n\n[train.set]\nbeta = 0.2\nlength = 2\n'
    )
    run = cli("train", friends, "--config", "best.toml", "--test", "0.2", "--no-compare")
    assert run.code == 0, run.err
    config = config_of(run.out)
    assert (config["method"], config["beta"], config["length"]) == ("katz", 0.2, 2)
    Path("cgcl.toml").write_text(Path("best.toml").read_text())
    assert cli("train", "--resume", run.out.strip()).code == 0
    flag = cli("train", friends, "--test", "0.2", "--no-compare", "--set.length", "4")
    assert config_of(flag.out)["length"] == 4


@pytest.fixture
def counted(cli, friends: Path) -> Path:
    """A run of a method that has nothing to train."""
    adamic_adar = ("--method", "adamic-adar", "--features", "nodes.csv", "--no-compare")
    result = cli("train", friends, *SHARES, *adamic_adar)
    assert (result.code, result.out) == (0, "runs/friends-1\n"), result.err
    return friends.parent / "runs" / "friends-1"


def test_a_method_without_training_goes_all_the_way(cli, counted: Path) -> None:
    about = json.loads((counted / "run.json").read_text())
    assert (about["status"], about["epochs"], about["parameters"]) == ("finished", 0, 0)
    found = cli("evaluate", counted, "--json", "--threads", "1")
    assert json.loads(found.out) == about["test"]
    answer = cli("predict", counted, "--top", "20", "--format", "csv").out
    rows = list(csv.DictReader(io.StringIO(answer)))
    top = LinkPredictor.load(counted, device="cpu").top(20)
    assert [(row["source"], row["target"]) for row in rows] == list(
        zip(top.sources, top.targets, strict=True)
    )
    assert cli("predict", counted, "--node", "Anna", "--top", "2", "--explain").code == 0
    page = counted / "report.html"
    before = page.read_text()
    page.unlink()
    assert cli("report", "runs/friends-1", "--no-compare").code == 0
    assert page.read_text() == before
    resumed = cli("train", "--resume", counted, "--no-compare")
    assert resumed.code == 0
    assert "there is nothing left to train" in resumed.err
    # --views is no setting of Adamic-Adar, so nothing that it could have been started with.
    told = ("--method", "adamic-adar", "--set.lr", "1", "--views", "one")
    refused = cli("train", "--resume", counted, *told)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == (
        "Error: A resumed run keeps its graph, 'friends', and its settings; it takes no --method, "
        f"--views, --set.lr.\nWrite only: cgcl train --resume {counted}\n"
    )
    assert cli("audit", counted).code == 0
    for more in ((), ("--out", "z.npz")):
        refused = cli("embed", counted, *more)
        assert (refused.code, refused.out) == (2, "")
        assert "Adamic-Adar scores pairs as a whole and has no embedding of a node." in refused.err
        assert not Path("z.npz").exists()


def test_the_story_of_a_method_without_training(cli, friends: Path) -> None:
    result = cli("train", friends, *SHARES, "--method", "katz", "--no-compare")
    lines = result.err.splitlines()
    # Features are not asked for, so none are made.
    assert lines[0] == "  Graph       friends: 10 nodes, 25 links, 0 features (0 nonzeros)"
    assert lines[2] == "  Model       Katz: beta 0.005, length 6"
    assert "  Training" not in result.err
    assert "at epoch" not in result.err


@dataclass(frozen=True)
class Switch(MethodSettings):
    is_on: bool = False


def test_truth_is_read_as_people_write_it() -> None:
    for text, value in (("true", True), ("Yes", True), ("no", False), ("FALSE", False)):
        assert from_text(Switch, {"is-on": text}, "toy") == {"is_on": value}
    with pytest.raises(ConfigError, match="is_on is '1'; it must be true or false"):
        Switch(**from_text(Switch, {"is-on": "1"}, "toy"))


@pytest.mark.parametrize(
    ("told", "method"),
    [
        ((), "cgcl-rank"),
        (("--preset", "best"), "cgcl-rank"),
        (("--preset", "paper"), "cgcl"),
        (("--method", "cgcl-rank", "--preset", "best"), "cgcl-rank"),
    ],
)
def test_a_preset_belongs_to_its_method(cli, friends: Path, told, method: str) -> None:
    result = cli("train", friends, "--val", "0", "--test", "0", "--epochs", "2", *told)
    assert result.code == 0, result.err
    about = json.loads((Path(result.out.strip()) / "run.json").read_text())
    assert about["config"]["method"] == method
    assert f"--method {method}" in about["command"]
