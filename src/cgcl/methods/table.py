"""The table of methods: a line each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cgcl.errors import ConfigError, FeatureError
from cgcl.methods.adamic_adar import AdamicAdar
from cgcl.methods.common_neighbours import CommonNeighbours
from cgcl.methods.features_mlp import FeaturesMLP, train_features_mlp
from cgcl.methods.method import Known, Learned, Method
from cgcl.split import Split

__all__ = ["METHODS", "method_named"]

_MLP_SETTINGS = (
    "hidden",
    "input_dropout",
    "decoder_dropout",
    "lr",
    "epochs",
    "weight_decay",
    "evaluate_every",
    "seed",
)


def _nothing(known: Known, split: Split, settings: Mapping[str, Any]) -> Learned:  # noqa: ARG001
    """Learn nothing, as a heuristic does."""
    return {}


def _features_mlp(known: Known, split: Split, settings: Mapping[str, Any]) -> Learned:
    if known.x is None:
        raise FeatureError("The features-only network needs features, and the graph has none.")
    chosen = {name: settings[name] for name in _MLP_SETTINGS}
    return train_features_mlp(known.x, split, **chosen)


def _features_scorer(known: Known, learned: Learned) -> FeaturesMLP:
    if known.x is None:
        raise FeatureError("The features-only network needs features, and the graph has none.")
    return FeaturesMLP(known.x, learned)


METHODS: dict[str, Method] = {
    "common-neighbours": Method(
        False, _nothing, lambda known, _: CommonNeighbours(known.links, known.num_nodes)
    ),
    "adamic-adar": Method(
        False, _nothing, lambda known, _: AdamicAdar(known.links, known.num_nodes)
    ),
    "features-mlp": Method(True, _features_mlp, _features_scorer),
}
"""Every method by the name that users give it."""


def method_named(name: str) -> Method:
    """Return the method of that name.

    Raises:
        ConfigError: There is none.
    """
    if name not in METHODS:
        raise ConfigError(f"method is {name!r}; it must be one of {', '.join(METHODS)}.")
    return METHODS[name]
