"""Where there is nothing to learn, nothing may be learned: a better result would be a leak."""

from dataclasses import replace
from typing import Any

import pytest

from cgcl.graph import Graph
from cgcl.methods.table import METHODS, method_named
from cgcl.split import Split, random_split
from cgcl.testing import graphs
from cgcl.train.config import Resources, RunConfig
from cgcl.train.fit import fit

ONE = Resources(threads=1, device="cpu")

SMALL = {
    "hidden": 16,
    "decoder_hidden": 16,
    "epochs": 40,
    "lr": 0.01,
    "batch": 1024,
    "hops": 1,
    "nodes_per_hop": 10,
}
"""Quick, and long enough to learn by heart what there is; a method takes what it has of it."""

OWN = {"seal": {"epochs": 4, "share": 0.3}, "s3grl": {"epochs": 4, "share": 0.3}}
"""Surroundings are cut out for each pair, which takes its time."""


def auc_of(name: str, graph: Graph, split: Split, **told: Any) -> float:
    own = method_named(name).settings  # whose batch is 0 takes whole views
    small = {k: v for k, v in (SMALL | OWN.get(name, {})).items() if getattr(own, k, 0)}
    test = fit(graph, split, RunConfig.of(name, small | told), ONE).test
    assert test is not None
    return test["auc"]


@pytest.fixture(scope="module")
def noise() -> tuple[Graph, Split]:
    """A random graph, and its links without 1,800 to test on.

    Given the links to learn from, every other pair is as likely as any to be among the test links.
    So the AUC of any method is 0.5 in the mean, with a standard error of sqrt(1 / 6p) for p test
    links and as many unlinked pairs: 0.0096. Each end of the band is five of them away.
    """
    graph = graphs.noise()
    split = random_split(graph, 0.05, 0.2)
    assert split.test.shape[1] > 1750
    return graph, split


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CGCL_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.mark.parametrize("name", METHODS)
def test_a_random_graph_cannot_be_predicted(noise, name: str) -> None:
    assert 0.45 <= auc_of(name, *noise) <= 0.55


@pytest.mark.parametrize("name", [name for name in METHODS if method_named(name).needs_features])
def test_nor_can_one_without_features(noise, name: str) -> None:
    graph, split = noise
    assert 0.45 <= auc_of(name, replace(graph, x=None), split) <= 0.55


@pytest.mark.parametrize("views", ["shared", "directed", "one"])
def test_nor_by_any_way_to_draw_views(noise, views: str) -> None:
    assert 0.45 <= auc_of("cgcl", *noise, views=views) <= 0.55


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("cgcl", {"hidden": 32, "epochs": 60, "views": "directed"}),
        ("vgae", {}),
        ("preferential-attachment", {}),
        ("katz", {}),
        ("pagerank", {}),
        ("three-step-paths", {}),
        ("item-cosine", {}),
    ],
    ids=str,
)
def test_the_detector_can_bark(noise, name: str, told: dict[str, Any]) -> None:
    """A split that leaves the held-out links among the training links is found out.

    To some other methods a link that is known already tells little or nothing: common neighbours
    are no more for it, SEAL and S3GRL cut it out of a pair's surroundings, and CGCL's disjoint
    views never show a link that they ask for, so that it depends on the first weights.
    """
    graph, split = noise
    leaking = replace(split, train=graph.edges)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Split, "require_parts_of", lambda *_: None)
        assert auc_of(name, graph, leaking, **told) > 0.57
