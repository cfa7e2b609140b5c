"""The table of methods, and what holds for every line in it."""

import os
import subprocess
import sys
from dataclasses import fields

import pytest

import cgcl
from cgcl import LinkPredictor
from cgcl.cli.methods import methods
from cgcl.errors import CGCLError, ConfigError
from cgcl.methods.method import EVERY_GRAPH, Method
from cgcl.methods.settings import COMMON_RANGES, MethodSettings, TrainedSettings
from cgcl.methods.table import METHODS, installed_methods, is_method, method_named
from cgcl.testing import CHECKS
from cgcl.testing.graphs import groups

GRAPHS = {EVERY_GRAPH, "cora", "citeseer", "pubmed", "photo", "computers"}


@pytest.mark.parametrize(
    ("name", "nearest"), [("vgea", "vgae"), ("adamic_adar", "adamic-adar"), ("GCN", None)]
)
def test_an_unknown_method_is_refused_with_the_list_and_the_nearest(name, nearest) -> None:
    with pytest.raises(ConfigError) as error:
        method_named(name)
    remedy = f" Did you mean {nearest}?" if nearest else ""
    expected = f"method is {name!r}; it must be one of {', '.join(METHODS)}.{remedy}"
    assert str(error.value) == expected


@pytest.mark.parametrize("name", METHODS)
def test_a_line_of_the_table_is_a_whole_method(name: str) -> None:
    method = method_named(name)
    assert isinstance(method, Method)
    assert method.title
    assert issubclass(method.settings, MethodSettings)
    known = {field.name for field in fields(method.settings)}
    defaults = method.settings()
    assert method.authors.keys() <= GRAPHS
    for graph in GRAPHS:
        method.settings(**method.authors_settings(graph))  # refuses what is no setting of it
    assert method.search.keys() <= known
    for setting, choices in method.search.items():
        assert len(set(choices)) == len(choices) > 1, setting
        for choice in choices:
            method.settings(**{setting: choice})
    assert not {"val", "test", "seed", "method"} & known
    assert isinstance(defaults.caps, str)
    assert method.exceptions <= CHECKS.keys()


@pytest.mark.parametrize("name", METHODS)
def test_every_number_has_a_range(name: str) -> None:
    """That every setting is explained is seen by tests/cli/test_methods.py."""
    kind = method_named(name).settings
    bases = [base for base in kind.__mro__ if issubclass(base, MethodSettings)]
    ranges = {key for base in bases for key in vars(base).get("RANGES", {})} | {*COMMON_RANGES}
    for field in fields(kind):
        if field.type in ("int", "float") and not field.name.endswith("dropout"):
            assert field.name in ranges, f"{field.name} may be anything"


TOY = '''
"""Degrees: another package's method."""

from cgcl.methods.heuristics import Heuristic, PreferentialAttachment
from cgcl.methods.method import Method
from cgcl.methods.settings import MethodSettings


def build(num_features, settings):
    return Heuristic(lambda known: PreferentialAttachment(known.links, known.num_nodes))


METHOD = Method("Degrees", MethodSettings, build, needs_features=False)
'''


def test_a_method_of_another_package_is_found_wherever_it_is_installed(
    tmp_path, monkeypatch, capsys
) -> None:
    """One line in that package's entry points; its saved model loads in another process."""
    package = tmp_path / "site"
    about = package / "degrees-1.0.dist-info"
    about.mkdir(parents=True)
    (package / "degrees_of_nodes.py").write_text(TOY)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: degrees\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[cgcl.methods]\ndegrees = degrees_of_nodes:METHOD\n")
    assert not is_method("degrees")
    monkeypatch.syspath_prepend(package)
    assert is_method("degrees")
    assert list(installed_methods()) == [*METHODS, "degrees"]
    methods()
    assert "degrees                  Degrees: another package's method." in capsys.readouterr().out
    fitted = LinkPredictor("degrees").fit(groups())
    fitted.save(tmp_path / "model")
    code = "import cgcl, sys; print(cgcl.load(sys.argv[1]).score([('n000', 'n001')]).item())"
    command = [sys.executable, "-c", code, tmp_path / "model"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert float(done.stdout) == fitted.score([("n000", "n001")]).item()
    monkeypatch.undo()
    with pytest.raises(CGCLError, match="degrees"):
        cgcl.load(tmp_path / "model")


def test_authors_settings_for_a_graph_go_over_those_for_every_graph() -> None:
    method = Method(
        "Toy",
        TrainedSettings,
        lambda *_: None,
        authors={EVERY_GRAPH: {"lr": 0.1, "epochs": 5}, "cora": {"lr": 0.2}},
    )
    assert method.authors_settings("cora") == {"lr": 0.2, "epochs": 5}
    assert method.authors_settings("photo") == {"lr": 0.1, "epochs": 5}
    assert Method("Toy", TrainedSettings, lambda *_: None).authors_settings("cora") == {}
