"""The methods to compare with, behind the same door as the network."""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgcl.errors import GraphContentError, ModelFileError, NotFittedError, RunFolderError
from cgcl.files import make_folder
from cgcl.graph import Graph
from cgcl.graph.prepare import prepare
from cgcl.graph.stored import read_stored_graph, write_graph
from cgcl.methods import Known, PairScorer, method_named
from cgcl.methods.method import Learned
from cgcl.metrics import link_metrics
from cgcl.predict.answers import Answers, Ask, Pairs
from cgcl.predict.links import Links
from cgcl.predict.params import Params
from cgcl.split import Split, random_split
from cgcl.split.stored import read_split, write_split
from cgcl.tensors import read_tensors, write_tensors
from cgcl.train.config import ModelConfig, Resources, TrainConfig, pick
from cgcl.train.execution import computing_with, resolve_device

__all__ = ["BASELINE", "BaselinePredictor"]

BASELINE = "baseline.safetensors"
"""What a simple method remembers of its training; only its folders have this file."""
_GRAPH, _SPLIT, _LEARNED = "graph.safetensors", "split.safetensors", BASELINE
_KIND = "cgcl baseline 1"


class BaselinePredictor(Params):
    """Predicts links by a method that others are measured against.

    It is used like `LinkPredictor`, and the same seed hides the same links, so the two can be
    compared pair by pair.

    Attributes:
        graph_: The graph it was fitted on.
        split_: The links it learned from, chose by and was tested on.
        val_: Metrics on the validation links as fractions, or None.
        test_: Metrics on the test links as fractions, or None. Only training links were seen.

    Example:
        >>> import cgcl
        >>> predictor = BaselinePredictor("adamic-adar").fit(cgcl.read("cora"))
        >>> round(predictor.test_["auc"], 2)
        0.71
    """

    declared_exceptions: ClassVar[frozenset[str]] = frozenset()
    """Checks of `cgcl.testing` that no baseline can keep by its nature; there are none."""

    def __init__(
        self,
        method: str = "common-neighbours",
        *,
        hidden: int = 128,
        input_dropout: float = 0.8,
        decoder_dropout: float = 0.2,
        lr: float = 0.01,
        epochs: int = 200,
        weight_decay: float = 1e-5,
        evaluate_every: int = 10,
        val: float = 0.05,
        test: float = 0.10,
        seed: int = 0,
        device: str = "auto",
        threads: int = 0,
    ) -> None:
        """Store the settings; those from `hidden` to `evaluate_every` are for networks only.

        `cgcl.train.config` says what each one means. They are checked when `fit` is called.

        Args:
            method: common-neighbours, adamic-adar or features-mlp.
            hidden: Width of the embeddings.
            input_dropout: Chance of a feature to be dropped in a training step.
            decoder_dropout: Chance of an entry of a pair's product to be dropped.
            lr: Learning rate of Adam.
            epochs: Number of training steps.
            weight_decay: Strength of the L2 penalty on the weights.
            evaluate_every: Epochs between two looks at the validation links.
            val: Share of the links to choose the best epoch by.
            test: Share of the links to test on.
            seed: Seed of everything random.
            device: auto, cpu, cuda or cuda:N.
            threads: CPU threads; 0 takes the cores, at most 4.
        """
        self.method = method
        self.hidden = hidden
        self.input_dropout = input_dropout
        self.decoder_dropout = decoder_dropout
        self.lr = lr
        self.epochs = epochs
        self.weight_decay = weight_decay
        self.evaluate_every = evaluate_every
        self.val = val
        self.test = test
        self.seed = seed
        self.device = device
        self.threads = threads

    def fit(self, graph: Graph, split: Split | None = None) -> BaselinePredictor:
        """Split the graph's links, learn from them, test; return the predictor.

        Args:
            graph: The graph to learn from.
            split: A split of its links; drawn at random if None.

        Raises:
            ConfigError: A setting is out of range, or there is no such method.
            SplitError: The graph has too few links, or too few unlinked pairs; or the split
                belongs to another graph.
            FeatureError: The features are not finite, or missing where they are needed.
            TrainingError: Training gave no finite scores.
            ResourceError: The device does not exist.
        """
        if not isinstance(graph, Graph):
            raise GraphContentError(
                f"fit needs a graph, as cgcl.read returns it; found {type(graph).__name__}."
            )
        method, resources = method_named(self.method), self._resources()
        device = resolve_device(resources)
        settings = self.get_params()
        pick(ModelConfig, settings)
        config = pick(TrainConfig, settings)
        graph = replace(graph)  # checked anew: a tensor may have been written to since
        if split is None:
            split = random_split(graph, config.val, config.test, config.seed)
        else:
            split.require_parts_of(graph)
        if method.needs_features:
            graph = prepare(graph, split.train)
        with computing_with(resources):
            seen = _known(graph, split.train, device, method.needs_features)
            learned = method.learn(seen, split, settings)
            scorer = method.scorer(seen, learned)
            val = _metrics(scorer, split.val, split.val_negatives)
            test = _metrics(scorer, split.test, split.test_negatives)
        self._take(graph, split, learned, settings)
        self.val_, self.test_ = val, test
        return self

    def score(self, pairs: Pairs) -> npt.NDArray[np.float32]:
        """Return a score between 0 and 1 for each pair of names, higher for likelier links.

        All known links are used. A score orders pairs; it is not a probability.

        Raises:
            NotFittedError: `fit` was not called.
            GraphContentError: A name is not in the graph, or something is not a pair of names.
        """
        self._require_fitted()
        with self._computing():
            return self._answers().score(pairs).scores

    def top(self, count: int = 10) -> Links:
        """Return the best new links of the whole graph, best first, equal scores by name.

        Every unlinked pair is scored. Known links (validation and test links included) and
        self-links are never suggested.

        Raises:
            NotFittedError: `fit` was not called.
            ConfigError: `count` is not positive.
            ResourceError: The graph is so large that scoring all pairs would take hours.
        """
        self._require_fitted()
        with self._computing():
            return self._answers().find(Ask(count=count, candidates="exact"))

    def links_of(self, name: str, count: int = 10) -> Links:
        """Return the best new links of one node, best first, equal scores by name.

        Raises:
            NotFittedError: `fit` was not called.
            GraphContentError: No node has that name.
            ConfigError: `count` is not positive.
        """
        self._require_fitted()
        with self._computing():
            return self._answers().find(Ask(count=count, sources=[name], candidates="exact"))

    def save(self, folder: str | Path) -> None:
        """Write the fitted predictor to a folder: what it learned, names, links, split, settings.

        Raises:
            NotFittedError: `fit` was not called.
            ResourceError: The folder cannot be written.
        """
        self._require_fitted()
        path, graph = Path(folder), self.graph_
        make_folder(path)
        # It goes first and comes last, so that a folder with one is complete.
        (path / _LEARNED).unlink(missing_ok=True)
        write_graph(path / _GRAPH, graph)
        write_split(path / _SPLIT, self.split_)
        about = {
            "settings": self._fitted_with,
            "graph": graph.fingerprint,
            "split": self.split_.fingerprint,
            "val": self.val_,
            "test": self.test_,
        }
        write_tensors(path / _LEARNED, _KIND, self._learned, about)

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto") -> BaselinePredictor:
        """Return the predictor that `save` wrote to a folder.

        Args:
            folder: Where it was written.
            device: Where to compute from now on.

        Raises:
            RunFolderError: The folder holds no baseline.
            ModelFileError: A file is missing, damaged, foreign or does not belong to the others.
            ResourceError: The device does not exist.
        """
        path = Path(folder)
        if not (path / _LEARNED).exists():
            raise RunFolderError(
                f"{path} holds no {_LEARNED}. Name a folder that BaselinePredictor.save wrote."
            )
        learned, about = read_tensors(path / _LEARNED, _KIND)
        graph, split = read_stored_graph(path / _GRAPH), read_split(path / _SPLIT)
        for what, found in (("graph", graph), ("split", split)):
            if about.get(what) != found.fingerprint:
                raise ModelFileError(
                    f"{path / _LEARNED} was made from another {what} than the one beside it.\n"
                    f"Put the files of one folder back together."
                )
        known = inspect.signature(cls).parameters
        settings = {k: v for k, v in about["settings"].items() if k in known}
        predictor = cls(**settings).set_params(device=device)
        predictor._take(graph, split, learned, settings)
        predictor.val_, predictor.test_ = about["val"], about["test"]
        return predictor

    def _take(self, graph: Graph, split: Split, learned: Learned, settings: dict[str, Any]) -> None:
        self.graph_, self.split_ = graph, split
        self._learned, self._fitted_with = dict(learned), settings
        self._device = resolve_device(self._resources())
        self._ready: Answers | None = None

    def _require_fitted(self) -> None:
        if not hasattr(self, "graph_"):
            raise NotFittedError(
                "This BaselinePredictor has not learned anything yet. Call .fit(graph) first, or "
                "BaselinePredictor.load(folder)."
            )

    def _answers(self) -> Answers:
        """Get ready to answer from all known links, once."""
        if self._ready is None:
            method, graph = method_named(self._fitted_with["method"]), self.graph_
            known = _known(graph, graph.edges, self._device, method.needs_features)
            self._ready = Answers(graph, method.scorer(known, self._learned))
        return self._ready

    def _resources(self) -> Resources:
        return pick(Resources, self.get_params())

    def _computing(self) -> AbstractContextManager[None]:
        return computing_with(self._resources())


def _known(graph: Graph, links: Tensor, device: torch.device, needs_features: bool) -> Known:
    x = graph.x.to(device) if needs_features and graph.x is not None else None
    return Known(graph.num_nodes, links, x)


def _metrics(scorer: PairScorer, links: Tensor, negatives: Tensor) -> dict[str, float] | None:
    if links.shape[1] == 0:
        return None
    return link_metrics(scorer.logits(links), scorer.logits(negatives))
