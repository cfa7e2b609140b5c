"""Fit on a graph, ask for links: the class that most users need."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor

from cgcl.errors import ConfigError, NotFittedError
from cgcl.graph import Graph
from cgcl.methods.method import PairScorer
from cgcl.methods.scoring import EmbeddingScorer
from cgcl.methods.table import DEFAULT_METHOD, is_method, method_named, no_such_setting
from cgcl.predict.engine import QueryEngine
from cgcl.predict.links import Links
from cgcl.predict.new_nodes import with_new_nodes
from cgcl.predict.query import Asked, Pairs, Query, checked_pairs
from cgcl.predict.saved import Fitted, folder_called, read_fitted, write_fitted
from cgcl.predict.search import require_finite
from cgcl.readers import read
from cgcl.settings import pick
from cgcl.split import Split, random_split
from cgcl.tensors import with_own_tensors
from cgcl.train.config import Resources, RunConfig, SplitConfig
from cgcl.train.execution import computing_with, resolve_device
from cgcl.train.fit import fit

if TYPE_CHECKING:
    from cgcl.train.harder import Against, Harder


class LinkPredictor:
    """Learns from the links of a graph which links are missing.

    Follows scikit-learn's habits: the constructor only stores, `fit` learns and returns the
    predictor, what is learned ends in an underscore, the same seed gives the same result. Settings
    are attributes of the same names: the constructor's arguments, and all of the method's.

    Attributes:
        graph_: The graph it was fitted on.
        split_: The links it learned from, chose by and was tested on.
        settings_: The method's settings, those that its rule chose included.
        model_: The network with the weights of the best epoch.
        calibration_: What turns scores into probabilities, or None without validation links.
        history_: What happened in each epoch.
        best_epoch_: The epoch whose weights were kept.
        val_: Validation AUC and AP at that epoch, or None.
        test_: Metrics on the test links as fractions, or None.
        stopped_: Why training ended early, or None.
        notes_: What is not known for sure of a predictor that was loaded, a sentence each.

    Example:
        >>> import cgcl
        >>> predictor = cgcl.LinkPredictor(hidden=16, epochs=2).fit(cgcl.read("cora"))
        >>> predictor.score([("35", "1033"), ("35", "887")]).shape
        (2,)
    """

    def __init__(
        self,
        method: str = DEFAULT_METHOD,
        *,
        val: float = SplitConfig.val,
        test: float = SplitConfig.test,
        seed: int = 0,
        device: str = "auto",
        threads: int = 0,
        engine: str = "auto",
        precision: str = "tf32",
        deterministic: bool = False,
        time_limit: str = "",
        track_consistency: bool = False,
        **settings: Any,  # noqa: ANN401
    ) -> None:
        """Store the settings; their values are checked when `fit` is called.

        Args:
            method: One of `cgcl.methods.table.METHODS`, such as `cgcl`, `vgae` or `adamic-adar`.
            val: Share of the links to choose the best epoch by; 0 keeps the last epoch.
            test: Share of the links to test on; 0 for none.
            seed: Seed of everything random.
            device: auto, cpu, cuda or cuda:N.
            threads: CPU threads; 0 takes the cores, at most 4.
            engine: auto for the fastest way there is to train CGCL, plain for the readable one.
            precision: How a GPU multiplies matrices: tf32 or fp32.
            deterministic: Whether a GPU must give the same bits in every run; it is slower then.
            time_limit: Stop at the next epoch after this long, such as 5m; empty for no limit.
            track_consistency: Log the method's own figures, for CGCL the terms of Eq. 10-11.
            **settings: Settings of the method by name, such as `hidden=64`; `cgcl methods NAME`
                prints them. None, as some are by default, lets the method's rule choose.

        Raises:
            ConfigError: The method has no setting of that name.
        """
        self.method = method
        self.val, self.test, self.seed = val, test, seed
        self.device, self.threads = device, threads
        self.engine, self.precision, self.deterministic = engine, precision, deterministic
        self.time_limit, self.track_consistency = time_limit, track_consistency
        known = _defaults_of(method)
        unknown = [name for name in settings if name not in known]
        if unknown and is_method(method):  # another is refused later, by fit
            raise no_such_setting(method, unknown, [*self._own_defaults(), *known])
        vars(self).update({**known, **settings})

    def _own_defaults(self) -> dict[str, Any]:
        parameters = inspect.signature(type(self)).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is not p.VAR_KEYWORD}

    def _method_names(self) -> list[str]:
        """Return the names of the method's settings; of an unknown one those that were given."""
        if is_method(self.method):
            return list(_defaults_of(self.method))
        own = self._own_defaults()
        return [n for n in vars(self) if n not in own and not n.startswith("_") and n[-1] != "_"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return the settings by name: the predictor's own, then all of the method's."""
        return {n: getattr(self, n) for n in (*self._own_defaults(), *self._method_names())}

    def set_params(self, **params: Any) -> Self:  # noqa: ANN401
        """Change settings by name and return the predictor.

        Another method brings its own settings, with their defaults.

        Raises:
            ConfigError: There is no setting of that name.
        """
        stays = params.get("method", self.method) == self.method
        kept = self.get_params() if stays else {n: getattr(self, n) for n in self._own_defaults()}
        other = type(self)(**{**kept, **params})
        for name in self._method_names():
            delattr(self, name)
        vars(self).update(vars(other))
        return self

    def __repr__(self) -> str:
        usual, now = {**self._own_defaults(), **_defaults_of(self.method)}, self.get_params()
        changed = [f"{n}={now[n]!r}" for n in now if n not in usual or now[n] != usual[n]]
        return f"{type(self).__name__}({', '.join(changed)})"

    @property
    def declared_exceptions(self) -> frozenset[str]:
        """Checks of `cgcl.testing` that the method cannot keep by its nature."""
        return method_named(self.method).exceptions if is_method(self.method) else frozenset()

    def fit(self, graph: Any, split: Split | None = None) -> LinkPredictor:  # noqa: ANN401
        """Split the graph's links, train, keep the best epoch, calibrate and test it.

        Args:
            graph: The graph to learn from: what `cgcl.read` returns, or what it takes, such as a
                networkx graph, a data frame, an edge_index or the name of a file.
            split: A split of its links, such as `given_split` or `time_split` makes; drawn at
                random if None.

        Returns:
            The predictor itself.

        Raises:
            GraphFormatError: It is no graph.
            ConfigError: A setting is out of range.
            SplitError: The graph has too few links, or too few unlinked pairs; or the split
                belongs to another graph.
            TrainingError: The loss is not finite before anything was learned.
            ResourceError: The device does not exist.
        """
        if not isinstance(graph, Graph):
            graph = read(graph)
        params = self.get_params()
        resources = pick(Resources, params)
        told = {n: v for n, v in params.items() if n not in {"method", *vars(resources)}}
        recipe = RunConfig.for_graph(self.method, told, graph)
        # Checked anew, for a tensor may have been written to since; and may be from here on.
        graph = with_own_tensors(graph)
        if split is None:
            split = random_split(graph, recipe.split.val, recipe.split.test, recipe.split.seed)
        else:
            split = with_own_tensors(split)
        fitted = fit(graph, split, recipe, resources, calibrated=True)
        self._take(fitted)
        return self

    def score(self, pairs: Pairs) -> npt.NDArray[np.float32]:
        """Return a score between 0 and 1 for each pair of names, higher for likelier links.

        All known links are encoded. A score orders pairs; `probability` says what it means.

        Raises:
            NotFittedError: `fit` was not called.
            GraphContentError: A name is not in the graph, or something is not a pair of names.
        """
        return self.score_pairs(pairs).scores

    def probability(self, pairs: Pairs, prior: float | None = None) -> npt.NDArray[np.float64]:
        """Return the calibrated probability of each pair of names.

        Args:
            pairs: Pairs of names.
            prior: The share of unknown pairs that are links; by default the share that the
                held-out links had among the pairs not learned from.

        Raises:
            NotFittedError: `fit` was not called, or had no validation links to calibrate by.
            GraphContentError: A name is not in the graph, or something is not a pair of names.
            ConfigError: `prior` is not between 0 and 1.
        """
        found = self.score_pairs(pairs, prior=prior).probabilities
        if found is None:
            raise NotFittedError(
                "This predictor has no probabilities: it was fitted without validation links, so "
                "there was nothing to calibrate by. Fit it with val=0.05."
            )
        return found

    def score_pairs(
        self, pairs: Pairs, *, prior: float | None = None, explain: bool = False
    ) -> Links:
        """Return scores and probabilities of given pairs in their order, if asked with evidence.

        Raises:
            NotFittedError: `fit` was not called.
            GraphContentError: A name is not in the graph, or something is not a pair of names.
            ConfigError: `prior` is not between 0 and 1.
        """
        with self._computing():
            return self._engine().score(pairs, prior, explain=explain)

    def top(
        self,
        count: int = 10,
        *,
        sources: Sequence[str] | None = None,
        targets: Sequence[str] | None = None,
        exclude: Pairs = (),
        min_probability: float | None = None,
        prior: float | None = None,
        candidates: Asked = "auto",
        explain: bool = False,
    ) -> Links:
        """Return the best new links, best first, equal scores in the order of names.

        Known links (validation and test links included) and self-links are never suggested, and in
        a bipartite graph only links across. `found` of the answer says which pairs were scored.

        Args:
            count: How many links at most.
            sources: Only links with one end among these names; that end comes first.
            targets: Only links whose other end is among these names.
            exclude: Pairs never to suggest, either way round.
            min_probability: Nothing less probable than this.
            prior: The share of unknown pairs that are links; see `probability`.
            candidates: Which pairs to score: all (`exact`), the most promising by a linearised
                decoder (`linear`), those with a common neighbour (`two-hop`), or `auto`: exact
                while it is cheap, then linear.
            explain: Say in words what speaks for each link.

        Raises:
            NotFittedError: `fit` was not called.
            GraphContentError: A name is not in the graph.
            ConfigError: A number is out of range.
            ResourceError: The search would take hours; the message says what would not.
        """
        return self.answer(
            Query(
                count=count,
                sources=sources,
                targets=targets,
                exclude=exclude,
                min_probability=min_probability,
                prior=prior,
                candidates=candidates,
                explain=explain,
            )
        )

    def answer(self, query: Query) -> Links:
        """Return the best new links that a query asks for, as `top` does."""
        with self._computing():
            return self._engine().answer(query)

    def links_of(self, name: str, count: int = 10, *, explain: bool = False) -> Links:
        """Return the best new links of one node, best first, equal scores by name.

        `top` with `sources=[name]` takes more options.

        Raises:
            NotFittedError: `fit` was not called.
            GraphContentError: No node has that name.
            ConfigError: `count` is not positive.
        """
        return self.top(count, sources=[name], explain=explain)

    def stream(self, query: Query, tell: Callable[[str], None] = lambda _: None) -> Iterator[Links]:
        """Yield every new link that a query admits, block by block, in bounded memory.

        Args:
            query: The query.
            tell: Told after the last block which pairs were scored, in a sentence.

        Raises:
            NotFittedError: `fit` was not called.
            GraphContentError: A name is not in the graph.
            ConfigError: A number is out of range.
            ResourceError: The search would take hours.
        """
        with self._computing():
            yield from self._engine().stream(query, tell)

    def with_new_nodes(
        self, names: Sequence[str], links: Pairs, features: Tensor | None = None
    ) -> LinkPredictor:
        """Return a predictor that also knows nodes it was not trained on; nothing is retrained.

        Args:
            names: Names of the new nodes.
            links: Their links, to known nodes or to each other.
            features: Their features in the units of the training file, [k, d]; needed if the graph
                came with features.

        Raises:
            NotFittedError: `fit` was not called.
            GraphContentError: A name is taken or unknown, or a node has neither links nor features.
            FeatureError: Features are missing or do not fit.
        """
        fitted = self._fitted()
        extended = type(self)(**self.get_params())
        pairs = checked_pairs(links)
        with self._computing():
            graph = with_new_nodes(fitted.graph, list(names), pairs, features)
        extended._take(replace(fitted, graph=graph))
        return extended

    def embeddings(self, links: Tensor | None = None) -> npt.NDArray[np.float32]:
        """Return the embedding of every node, [n, hidden]: what a method decodes links from.

        Where it scores by inner products they are scaled such that these are the scores, but for a
        term of each end: see `InnerProductScorer.embeddings`.

        Args:
            links: The links to encode, int64 [2, any]; None for all known links.

        Raises:
            NotFittedError: `fit` was not called.
            ConfigError: The method scores pairs without embedding nodes.
            ModelFileError: The network gives numbers that are not finite.
        """
        fitted = self._fitted()
        title = fitted.recipe.method.title
        with self._computing():
            scorer = self.scorer() if links is None else fitted.scorer(links)
            if not isinstance(scorer, EmbeddingScorer):
                raise ConfigError(
                    f"{title} scores pairs as a whole and has no embedding of a node.\n"
                    f"Train a method that embeds nodes, such as `method=cgcl`."
                )
            z = scorer.embeddings.cpu()
        require_finite(z, what="embeddings")
        return z.numpy()

    def save(self, folder: str | Path) -> None:
        """Write the fitted predictor to a folder: weights, names, links, split, calibration.

        Raises:
            NotFittedError: `fit` was not called.
            ConfigError: `folder` names none.
            ResourceError: The folder cannot be written.
        """
        write_fitted(folder_called(folder), self._fitted())

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto") -> LinkPredictor:
        """Return the predictor that `save`, or `cgcl train`, wrote to a folder.

        Args:
            folder: Where it was written.
            device: Where to compute from now on; it need not be where it was trained.

        Raises:
            ConfigError: `folder` names none.
            RunFolderError: The folder holds no model; the message says what it is instead.
            ModelFileError: A file is missing, damaged, foreign or does not belong to the others.
            ResourceError: The device does not exist.
        """
        return cls.of(read_fitted(folder_called(folder)), device)

    @classmethod
    def of(cls, fitted: Fitted, device: str = "auto") -> LinkPredictor:
        """Return a predictor of something learned, to compute on some device.

        Raises:
            ResourceError: The device does not exist.
        """
        predictor = cls(**fitted.recipe.to_json()).set_params(device=device)
        predictor._take(fitted)
        return predictor

    def test_scores(self) -> tuple[Tensor, Tensor]:
        """Return the logits of the test links and of their counter-examples, on the CPU."""
        split = self._fitted().split
        with self._computing():
            scorer = self.test_scorer()
            return scorer.logits(split.test), scorer.logits(split.test_negatives)

    def test_scorer(self) -> PairScorer:
        """Return what scores pairs in the test: by the links to learn from alone."""
        fitted = self._fitted()
        return fitted.scorer(fitted.split.train)

    def scorer(self) -> PairScorer:
        """Return what scores pairs of node numbers by all known links.

        Raises:
            NotFittedError: `fit` was not called.
        """
        with self._computing():
            return self._engine().scorer

    def _take(self, fitted: Fitted) -> None:
        self._device = resolve_device(pick(Resources, self.get_params()))
        fitted.learner.to(self._device)
        self._learned = fitted
        self._answering: QueryEngine | None = None
        self.graph_, self.split_, self.model_ = fitted.graph, fitted.split, fitted.learner
        self.settings_ = fitted.recipe.settings.to_json()
        self.calibration_, self.history_ = fitted.calibration, fitted.history
        self.best_epoch_, self.val_, self.test_ = fitted.best_epoch, fitted.val, fitted.test
        self.stopped_, self.notes_ = fitted.stopped, fitted.notes

    def _fitted(self) -> Fitted:
        if not hasattr(self, "_learned"):
            raise NotFittedError(
                "This LinkPredictor has not learned anything yet. Call .fit(graph) first, or "
                "LinkPredictor.load(folder)."
            )
        return self._learned

    def _engine(self) -> QueryEngine:
        fitted = self._fitted()
        if self._answering is None:
            graph, scorer = fitted.graph, fitted.scorer(fitted.graph.edges)
            self._answering = QueryEngine(graph, scorer, fitted.calibration, fitted.learner)
        return self._answering

    def _computing(self) -> AbstractContextManager[None]:
        return computing_with(pick(Resources, self.get_params()))


def evaluate_against(predictor: LinkPredictor, against: Against = "heart") -> Harder:
    """Test a predictor on its held-out links against harder negatives than random pairs are.

    Args:
        predictor: A fitted predictor; its test links are looked at, its training links are known.
        against: `heart` for hard negatives of each link's own, as Li and others (NeurIPS 2023)
            have them; `heart-released` for the same with the flaws of their released generator;
            `degree` for unlinked pairs whose ends have as many links as those of links do.

    Raises:
        NotFittedError: `fit` was not called.
        SplitError: There are no test links, or too few unlinked pairs.

    Example:
        >>> import cgcl
        >>> predictor = cgcl.LinkPredictor("adamic-adar").fit(cgcl.read("cora"))
        >>> sorted(evaluate_against(predictor, "degree").metrics)
        ['degree_ap', 'degree_auc']
    """
    from cgcl.train.harder import metrics_against  # it needs scipy, which training does not

    with predictor._computing():
        scorer, split, graph = predictor.test_scorer(), predictor.split_, predictor.graph_
        return metrics_against(scorer, split, graph, against, seed=predictor.seed)


def _defaults_of(method: str) -> dict[str, Any]:
    if not is_method(method):
        return {}
    known = method_named(method)
    # None leaves the choice to the method's rule.
    return {
        field.name: None if field.name in known.ruled else field.default
        for field in fields(known.settings)
    }
