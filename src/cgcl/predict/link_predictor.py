"""Fit on a graph, ask for links: the class that most users need."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgcl.errors import (
    ConfigError,
    GraphContentError,
    ModelFileError,
    NotFittedError,
    RunFolderError,
)
from cgcl.files import make_folder
from cgcl.graph import Graph
from cgcl.graph.prepare import features_of, prepare
from cgcl.graph.stored import read_stored_graph, write_graph
from cgcl.model import CGCL, symmetric
from cgcl.predict.links import Links
from cgcl.predict.top import require_affordable, top_of_node, top_pairs
from cgcl.split import Split, random_split
from cgcl.split.stored import read_split, write_split
from cgcl.train.config import ModelConfig, Resources, TrainConfig, pick
from cgcl.train.execution import computing_with, resolve_device
from cgcl.train.history import read_history, write_history
from cgcl.train.loop import Stopped, train
from cgcl.train.model_file import MODEL, describe_model, read_model, write_model
from cgcl.train.run_folder import GRAPH, RUN, SPLIT, read_run
from cgcl.train.scoring import (
    decode_pairs,
    embed,
    score_test_links,
)
from cgcl.train.trainer import EpochRecord, Trainer

__all__ = ["LinkPredictor"]


class LinkPredictor:
    """Learns from the links of a graph which links are missing.

    Follows scikit-learn's habits: the constructor only stores, `fit` learns and returns the
    predictor, what is learned ends in an underscore, the same seed gives the same result.

    Attributes:
        graph_: The graph it was fitted on.
        split_: The links it learned from, chose by and was tested on.
        model_: The network with the weights of the best epoch.
        history_: What happened in each epoch.
        best_epoch_: The epoch whose weights were kept.
        val_: Validation AUC and AP at that epoch, or None.
        test_: Metrics on the test links as fractions, or None.
        stopped_: Why training ended early, or None.

    Example:
        >>> import cgcl
        >>> predictor = cgcl.LinkPredictor(hidden=16, epochs=2).fit(cgcl.read("cora"))
        >>> predictor.score([("35", "1033"), ("35", "887")]).shape
        (2,)
    """

    def __init__(
        self,
        *,
        hidden: int = 128,
        input_dropout: float = 0.8,
        decoder_dropout: float = 0.2,
        product: Literal["hadamard", "inner"] = "hadamard",
        last_layer: Literal["linear", "relu"] = "linear",
        targets: Literal["hard", "sigmoid"] = "hard",
        views: Literal["disjoint", "shared", "directed", "one"] = "disjoint",
        negatives: Literal["train", "view"] = "train",
        lr: float = 0.01,
        epochs: int = 200,
        weight_decay: float = 1e-5,
        evaluate_every: int = 10,
        val: float = 0.05,
        test: float = 0.10,
        seed: int = 0,
        device: str = "auto",
        threads: int = 0,
        time_limit: str = "",
        track_consistency: bool = False,
    ) -> None:
        """Store the settings; `cgcl.train.config` says what each one means.

        They are checked when `fit` is called.
        """
        self.hidden = hidden
        self.input_dropout = input_dropout
        self.decoder_dropout = decoder_dropout
        self.product: Literal["hadamard", "inner"] = product
        self.last_layer: Literal["linear", "relu"] = last_layer
        self.targets: Literal["hard", "sigmoid"] = targets
        self.views: Literal["disjoint", "shared", "directed", "one"] = views
        self.negatives: Literal["train", "view"] = negatives
        self.lr = lr
        self.epochs = epochs
        self.weight_decay = weight_decay
        self.evaluate_every = evaluate_every
        self.val = val
        self.test = test
        self.seed = seed
        self.device = device
        self.threads = threads
        self.time_limit = time_limit
        self.track_consistency = track_consistency

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return the settings by name, as scikit-learn's tools expect."""
        names = inspect.signature(type(self)).parameters
        return {name: getattr(self, name) for name in names}

    def set_params(self, **params: Any) -> LinkPredictor:  # noqa: ANN401
        """Change settings by name and return the predictor.

        Raises:
            ConfigError: There is no setting of that name.
        """
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ConfigError(f"There is no setting {name!r}. Known: {', '.join(known)}.")
            setattr(self, name, value)
        return self

    def fit(self, graph: Graph) -> LinkPredictor:
        """Split the graph's links, train, keep the best epoch, test it; return the predictor.

        Raises:
            ConfigError: A setting is out of range.
            SplitError: The graph has too few links, or too few unlinked pairs.
            TrainingError: The loss is not finite before anything was learned.
            FeatureError: The graph has no features and too many nodes to do without.
            ResourceError: The device does not exist.
        """
        if not isinstance(graph, Graph):
            raise GraphContentError(
                f"fit needs a graph, as cgcl.read returns it; found {type(graph).__name__}."
            )
        model_config, config, resources = self._settings()
        device = resolve_device(resources)
        graph = prepare(graph)
        split = random_split(graph, config.val, config.test, config.seed)
        history: list[EpochRecord] = []
        with computing_with(resources):
            x = features_of(graph).to(device)
            trainer = Trainer(
                x, split, model_config, config, device, track_consistency=self.track_consistency
            )
            stopped = train(
                trainer, config, on_epoch=history.append, time_limit_s=resources.time_limit_s
            )
            test = trainer.finish()
        self._take(graph, split, trainer.model, self.get_params())
        self.history_ = [record.to_json() for record in history]
        self.best_epoch_ = trainer.best_epoch
        self.val_, self.test_ = trainer.best_val, test
        self.stopped_: Stopped | None = stopped
        return self

    def score(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float32]:
        """Return a score between 0 and 1 for each pair of names, higher for likelier links.

        All known links are encoded. A score orders pairs; it is not a probability.

        Raises:
            NotFittedError: `fit` was not called.
            GraphContentError: A name is not in the graph, or something is not a pair of names.
        """
        model, graph = self._fitted()
        if any(isinstance(pair, str) or len(pair) != 2 for pair in pairs):
            raise GraphContentError(
                "score needs a list of pairs of names, such as [('Anna', 'Bob'), ('Anna', 'Eve')]."
            )
        sources, targets = (graph.nodes_named([pair[end] for pair in pairs]) for end in (0, 1))
        with self._computing():
            logits = decode_pairs(model, self._embeddings(), torch.stack([sources, targets]))
        return _to_scores(logits)

    def top(self, count: int = 10) -> Links:
        """Return the best new links of the whole graph, best first, equal scores by name.

        Known links (validation and test links included) and self-links are never suggested.

        Raises:
            NotFittedError: `fit` was not called.
            ConfigError: `count` is not positive.
            ResourceError: The graph is so large that scoring all pairs would take hours.
        """
        model, graph = self._fitted()
        _require_positive(count)
        with self._computing():
            require_affordable(model, self._embeddings(), graph)
            return self._links(*top_pairs(model, self._embeddings(), graph, count))

    def links_of(self, name: str, count: int = 10) -> Links:
        """Return the best new links of one node, best first, equal scores by name.

        Raises:
            NotFittedError: `fit` was not called.
            GraphContentError: No node has that name.
            ConfigError: `count` is not positive.
        """
        model, graph = self._fitted()
        _require_positive(count)
        node = int(graph.nodes_named([name]))
        with self._computing():
            return self._links(*top_of_node(model, self._embeddings(), graph, node, count))

    def save(self, folder: str | Path) -> None:
        """Write the fitted predictor to a folder: weights, names, links, split, settings.

        Raises:
            NotFittedError: `fit` was not called.
            ResourceError: The folder cannot be written.
        """
        model, graph = self._fitted()
        path = Path(folder)
        make_folder(path)
        # The model goes first and comes last, so that a folder with one is complete.
        (path / MODEL).unlink(missing_ok=True)
        write_graph(path / GRAPH, graph)
        write_split(path / SPLIT, self.split_)
        write_history(path, self.history_)
        about = describe_model(
            graph, self.split_, self._fitted_with, self.best_epoch_, self.val_, self.test_
        )
        write_model(path / MODEL, model, pick(ModelConfig, self._fitted_with), about)

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto") -> LinkPredictor:
        """Return the predictor that `save`, or `cgcl train`, wrote to a folder.

        Args:
            folder: Where it was written.
            device: Where to compute from now on; it need not be where it was trained.

        Raises:
            RunFolderError: The folder holds no model; the message says what it is instead.
            ModelFileError: A file is missing, damaged, foreign or does not belong to the others.
            ResourceError: The device does not exist.
        """
        path = Path(folder)
        _require_model(path)
        model, _, about = read_model(path / MODEL)
        graph, split = read_stored_graph(path / GRAPH), read_split(path / SPLIT)
        for what, found, file in (("graph", graph, GRAPH), ("split", split, SPLIT)):
            if about.get(what) != found.fingerprint:
                raise ModelFileError(
                    f"{path / MODEL} was trained on another {what} than {file} beside it holds. "
                    f"Put the files of one run back together."
                )
        known = inspect.signature(cls).parameters
        settings: dict[str, Any] = {k: v for k, v in about["settings"].items() if k in known}
        predictor = cls(**settings).set_params(device=device)
        predictor._take(graph, split, model, settings)
        predictor.history_ = read_history(path)
        predictor.best_epoch_ = about["best_epoch"]
        predictor.val_, predictor.test_ = about["val"], about["test"]
        predictor.stopped_ = None
        return predictor

    def test_scores(self) -> tuple[Tensor, Tensor]:
        """Return the logits of the test links and of their counter-examples, on the CPU.

        As in the test itself, only the links to learn from are encoded.

        Raises:
            NotFittedError: `fit` was not called.
        """
        model, graph = self._fitted()
        with self._computing():
            return score_test_links(model, features_of(graph).to(self._device), self.split_)

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value != defaults[name].default
        ]
        return f"LinkPredictor({', '.join(changed)})"

    def _settings(self) -> tuple[ModelConfig, TrainConfig, Resources]:
        params = self.get_params()
        return pick(ModelConfig, params), pick(TrainConfig, params), pick(Resources, params)

    def _take(self, graph: Graph, split: Split, model: CGCL, settings: dict[str, Any]) -> None:
        self._fitted_with = settings
        self._device = resolve_device(self._settings()[2])
        self.graph_, self.split_, self.model_ = graph, split, model.to(self._device)
        self._z: Tensor | None = None

    def _fitted(self) -> tuple[CGCL, Graph]:
        if not hasattr(self, "model_"):
            raise NotFittedError(
                "This LinkPredictor has not learned anything yet. Call .fit(graph) first, or "
                "LinkPredictor.load(folder)."
            )
        return self.model_, self.graph_

    def _embeddings(self) -> Tensor:
        """Encode all known links, once."""
        if self._z is None:
            x, links = features_of(self.graph_), symmetric(self.graph_.edges)
            self._z = embed(self.model_, x.to(self._device), links.to(self._device))
        return self._z

    def _computing(self) -> AbstractContextManager[None]:
        return computing_with(self._settings()[2])

    def _links(self, pairs: Tensor, logits: Tensor) -> Links:
        names = self.graph_.names
        sources, targets = (tuple(names[node] for node in nodes) for nodes in pairs.tolist())
        return Links(sources, targets, _to_scores(logits))


def _require_model(path: Path) -> None:
    """Refuse a folder without a model, saying what it is instead."""
    if (path / MODEL).exists():
        return
    if not path.is_dir():
        what = "is a file, not a run folder" if path.exists() else "does not exist"
        raise RunFolderError(f"{path} {what}. Name a run folder, as cgcl train prints it.")
    if not (path / RUN).exists():
        raise RunFolderError(
            f"{path} is not a run folder: it holds neither {MODEL} nor {RUN}.\n"
            f"Name a run folder, as cgcl train prints it."
        )
    run = read_run(path)
    raise RunFolderError(
        f"The run in {path} has no model yet: its status is '{run['status']}', after epoch "
        f"{run['epochs']} of {run['config'].get('epochs')}.\n"
        f"Let it finish, or go on with it: cgcl train --resume {path}"
    )


def _require_positive(count: int) -> None:
    if count < 1:
        raise ConfigError(f"You asked for the best {count} links; ask for at least 1.")


def _to_scores(logits: Tensor) -> npt.NDArray[np.float32]:
    if not torch.isfinite(logits).all():
        raise ModelFileError(
            "The model gives scores that are not finite numbers.\n"
            "Train again with a lower --lr, and look for very large feature values."
        )
    return torch.sigmoid(logits).numpy()
