"""The table of methods, and what holds for every line in it."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import fields

import pytest

from cgcl.errors import ConfigError, FeatureError
from cgcl.methods.method import EVERY_GRAPH, Known, Method
from cgcl.methods.settings import MethodSettings, TrainedSettings
from cgcl.methods.table import METHODS, method_named
from cgcl.testing.contract import CHECKS

GRAPHS = {EVERY_GRAPH, "cora", "citeseer", "pubmed", "photo", "computers"}


def test_the_methods_are_those_that_users_know() -> None:
    assert list(METHODS) == [
        "cgcl",
        "cgcl-rank",
        "graphsage",
        "vgae",
        "seal",
        "s3grl",
        "s2gae",
        "maskgae",
        "ncn",
        "gcn",
        "mlp",
        "common-neighbours",
        "adamic-adar",
        "resource-allocation",
        "preferential-attachment",
        "katz",
        "pagerank",
    ]


@pytest.mark.parametrize(
    ("name", "nearest"), [("vgea", "vgae"), ("adamic_adar", "adamic-adar"), ("GCN", None)]
)
def test_an_unknown_method_is_refused_with_the_list_and_the_nearest(name, nearest) -> None:
    with pytest.raises(ConfigError) as error:
        method_named(name)
    remedy = f" Did you mean {nearest}?" if nearest else ""
    expected = f"method is {name!r}; it must be one of {', '.join(METHODS)}.{remedy}"
    assert str(error.value) == expected


def test_no_method_is_opened_before_it_is_used() -> None:
    """PyTorch Geometric takes seconds to import, which `cgcl methods` need not wait for."""
    code = (
        "import sys; from cgcl.methods.table import METHODS; "
        "opened = [m for m in METHODS.values() if m in sys.modules]; "
        "assert not opened, opened; "
        "assert not {'torch', 'torch_geometric'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


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
def test_every_setting_is_explained_and_every_number_has_a_range(name: str) -> None:
    kind = method_named(name).settings
    texts = {
        base: inspect.getsource(base) for base in kind.__mro__ if issubclass(base, MethodSettings)
    }
    ranges = {key for base in texts for key in vars(base).get("RANGES", {})}
    for field in fields(kind):
        source = next(text for text in texts.values() if f"\n    {field.name}:" in text)
        after = source.split(f"\n    {field.name}:", 1)[1].split("\n", 1)[1].lstrip()
        assert after.startswith('"""'), f"{field.name} has no docstring"
        if field.type in ("int", "float"):
            assert field.name in ranges, f"{field.name} may be anything"


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


def test_features_that_are_not_there_are_asked_for(two_cliques) -> None:
    known = Known(20, two_cliques.edges)
    with pytest.raises(FeatureError, match="needs features, and the graph has none"):
        _ = known.features
    fewer = known.with_links(two_cliques.edges[:, :3])
    assert (fewer.num_nodes, fewer.links.shape[1], known.links.shape[1]) == (20, 3, 91)
    # What is unlinked follows from the links of its own.
    assert fewer.unlinked.count == 190 - 3
    assert known.unlinked.count == 190 - 91
