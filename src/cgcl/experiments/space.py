"""What a search may choose from, what it tries next, and what came of it."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch

from cgcl.errors import ConfigError, ResourceError
from cgcl.experiments.log import Line
from cgcl.methods.settings import TrainedSettings
from cgcl.methods.table import method_named
from cgcl.metrics.table import in_order, metric_title
from cgcl.seeds import stream
from cgcl.train.config import Recipe

if TYPE_CHECKING:
    import optuna

Origin = Literal["defaults", "authors", "search"]
"""Where the settings of a trial come from."""
Goal = Literal["auc", "ap", "node_mrr"]
"""What the best trial has most of, on the validation links."""


@dataclass(frozen=True)
class Proposal:
    """Settings to try."""

    origin: Origin
    settings: dict[str, Any]
    """Every setting of the method."""


@dataclass(frozen=True)
class Trial(Line):
    """Settings that were tried."""

    NEEDED = frozenset({"auc", "ap", "best_epoch", "seconds", "failure"})

    number: int
    """1 for the first."""
    origin: Origin
    settings: dict[str, Any]
    """Every setting of the method."""
    auc: float | None = None
    """Validation AUC at the best epoch; None if the trial failed."""
    ap: float | None = None
    """Validation AP at the same epoch."""
    best_epoch: int | None = None
    seconds: float = 0.0
    """Time that it took."""
    failure: str = ""
    """Why the trial failed; empty if it did not."""
    node_mrr: float | None = None
    """Validation node MRR at the same epoch, if that was chosen by it."""

    @property
    def has_failed(self) -> bool:
        """Whether there is no result."""
        return self.auc is None or self.ap is None

    def value(self, goal: Goal) -> float | None:
        """Return what it reached; None if it failed."""
        return {"auc": self.auc, "ap": self.ap, "node_mrr": self.node_mrr}[goal]

    def in_words(self, between: str = "  ") -> str:
        """Return what it reached, for people."""
        found = in_order({k: v for k in get_args(Goal) if (v := self.value(k)) is not None})
        return between.join(f"{metric_title(name)} {value:.4f}" for name, value in found.items())

    def rank(self, goal: Goal) -> tuple[float, float, int]:
        """Return what is greater for the better trial: the goal, then AUC or AP, then the first."""
        value, other = self.value(goal), self.ap if goal == "auc" else self.auc
        if value is None or other is None:
            return (-1.0, -1.0, -self.number)
        return (value, other, -self.number)

    def said(self) -> dict[str, Any]:
        """Return what the line says: node MRR only where it was measured."""
        return {k: v for k, v in asdict(self).items() if k != "node_mrr" or v is not None}

    def is_sound(self) -> bool:
        """Tell whether a trial of settings has a result, or none."""
        numbers = (self.auc, self.ap)
        return (
            type(self.number) is int
            and self.origin in get_args(Origin)
            and isinstance(self.settings, dict)
            and (all(type(n) is float for n in numbers) or all(n is None for n in numbers))
            and (self.node_mrr is None or type(self.node_mrr) is float)
        )


def best_of(trials: Iterable[Trial], goal: Goal = "auc") -> Trial | None:
    """Return the best trial, ties by AUC or AP, then by who came first."""
    return max((t for t in trials if not t.has_failed), key=lambda t: t.rank(goal), default=None)


def table_of(trials: Sequence[Trial]) -> bytes:
    """Return the trials as CSV, a row each, a column for each setting."""
    settings = list(trials[0].settings) if trials else []
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    measured = ["auc", "ap"]
    if any(trial.node_mrr is not None for trial in trials):
        measured.insert(0, "node_mrr")
    writer.writerow(["trial", "origin", *measured, "best_epoch", "seconds", *settings, "failure"])
    for trial in trials:
        figures = [getattr(trial, name) for name in measured]
        figures += [trial.best_epoch, f"{trial.seconds:.2f}"]
        values = [trial.settings[name] for name in settings]
        writer.writerow([trial.number, trial.origin, *figures, *values, trial.failure])
    return text.getvalue().encode()


@dataclass(frozen=True)
class Space:
    """The settings of a method: which are searched, and what the others are."""

    method: str
    """The method's name in the table of methods."""
    base: Mapping[str, Any]
    """Every setting as by default, or as fixed for all trials."""
    authors: Mapping[str, Any]
    """Every setting as its authors have it on this graph, or as fixed for all trials."""
    choices: Mapping[str, tuple[Any, ...]]
    """What to try for each setting that is searched."""

    @classmethod
    def of(
        cls,
        method: str,
        graph_title: str,
        fixed: Mapping[str, Any],
        chosen: Mapping[str, Any] | None = None,
    ) -> Space:
        """Return the space of a method.

        Args:
            method: The method's name.
            graph_title: Its authors may have settings of their own for this graph.
            fixed: Settings that are the same in all trials, whatever the method would search.
            chosen: What the method's own rule chooses for the graph: its defaults there.

        Raises:
            ConfigError: There is no such method or setting, one is out of range, or there is
                nothing to search.
        """
        known = method_named(method)
        choices = {name: values for name, values in known.search.items() if name not in fixed}
        chosen = chosen or {}
        base = Recipe.of(method, {**chosen, **fixed}).settings.to_json()
        if known.search and not choices:
            raise ConfigError(
                f"There is nothing to tune: of {method}'s settings {', '.join(known.search)} are "
                f"searched, and all are fixed. Leave one of them open."
            )
        if not choices:
            raise ConfigError(
                f"There is nothing to tune: {method} has no settings that are worth a search.\n"
                f"Use it as it is: cgcl train GRAPH --method {method}"
            )
        authors = Recipe.of(method, {**chosen, **known.authors_settings(graph_title), **fixed})
        return cls(method, base, authors.settings.to_json(), choices)

    @property
    def goal(self) -> Goal:
        """By what the best trial is chosen, unless told otherwise: as its epoch, if it can be."""
        return "node_mrr" if self.base.get("choose_by") == "node_mrr" else "auc"

    @property
    def starts(self) -> list[Proposal]:
        """The first trials: the defaults, and what the authors use if that is something else."""
        first = [Proposal("defaults", dict(self.base))]
        if self.authors != self.base:
            first.append(Proposal("authors", dict(self.authors)))
        return first

    @property
    def size(self) -> int:
        """How many different settings can be chosen."""
        return math.prod(len(values) for values in self.choices.values())

    def contains(self, settings: Mapping[str, Any]) -> bool:
        """Say whether settings can be chosen: the authors may use some that cannot."""
        return all(
            value in self.choices[name] if name in self.choices else value == self.base.get(name)
            for name, value in settings.items()
        )

    def at(self, place: int) -> dict[str, Any]:
        """Return every setting at one of the `size` places of the space."""
        chosen = dict(self.base)
        for name, values in self.choices.items():
            place, digit = divmod(place, len(values))
            chosen[name] = values[digit]
        return chosen


def chosen_by(goal: Goal | None, method: str) -> dict[str, str]:
    """Return the setting that a goal asks for: by what the epoch of every trial is chosen.

    Raises:
        ConfigError: There is no such method, or nothing in it that is trained for node MRR.
    """
    is_trained = issubclass(method_named(method).settings, TrainedSettings)
    if goal == "node_mrr" and not is_trained:
        raise ConfigError(f"{method} is not trained, so its goal can be auc or ap.")
    if goal is None or not is_trained:
        return {}
    return {"choose_by": "node_mrr" if goal == "node_mrr" else "auc"}


# So many trials are drawn at random before the results guide the search. Few, because a search
# has some twenty trials and the first ones are good settings already.
_RANDOM_TRIALS = 5
# How often to ask again if an answer has been tried already.
_QUESTIONS = 20
# Below every result: settings that fail are to be kept away from.
_WORST = 0.0


def require_optuna() -> None:
    """Refuse to begin without Optuna.

    Raises:
        ResourceError: It is not installed.
    """
    if find_spec("optuna") is None:
        raise ResourceError("Tuning needs optuna: pip install 'cgcl[tune]'")


def propose(
    space: Space, number: int, earlier: Sequence[Trial], seed: int, goal: Goal = "auc"
) -> Proposal | None:
    """Return what to try next, or None if everything has been tried.

    The answer follows from the arguments alone, so a search that was interrupted goes on as if
    it had not been. Settings that were tried before are never proposed again.

    Args:
        space: What to choose from.
        number: The number of the trial, 1 for the first.
        earlier: The trials with smaller numbers.
        seed: The seed of the search.
        goal: What is searched for.

    Raises:
        ResourceError: Optuna is not installed.
    """
    starts = space.starts
    if number <= len(starts):
        return starts[number - 1]
    tried = [trial.settings for trial in earlier]
    if sum(space.contains(settings) for settings in tried) >= space.size:
        return None
    require_optuna()
    with _quiet_optuna():
        study = _study_of(space, earlier, goal)
        for question in range(_QUESTIONS):
            answer = _ask(study, space, _seed(seed, number, question))
            if answer.settings not in tried:
                return answer
    return _next_untried(space, tried, _seed(seed, number, _QUESTIONS))


def _study_of(space: Space, earlier: Sequence[Trial], goal: Goal) -> optuna.Study:
    """Return an Optuna study that knows the results so far."""
    from optuna import create_study
    from optuna.trial import create_trial

    study = create_study(direction="maximize")
    distributions = _distributions(space)
    for trial in earlier:
        if space.contains(trial.settings):
            study.add_trial(
                create_trial(
                    value=_WORST if (value := trial.value(goal)) is None else value,
                    params={name: trial.settings[name] for name in space.choices},
                    distributions=dict(distributions),
                )
            )
    return study


def _ask(study: optuna.Study, space: Space, seed: int) -> Proposal:
    """Ask Optuna once.

    A sampler's generator is part of no storage. A new one with a seed of its own for each
    question makes the answer the same in every process. An answer that is not taken stays
    pending in the study, and TPE keeps away from what is pending.
    """
    from optuna.samplers import TPESampler

    study.sampler = TPESampler(seed=seed, n_startup_trials=_RANDOM_TRIALS, multivariate=True)
    chosen = study.ask(dict(_distributions(space))).params
    return Proposal("search", {**space.base, **chosen})


def _distributions(space: Space) -> dict[str, optuna.distributions.BaseDistribution]:
    from optuna.distributions import CategoricalDistribution

    return {name: CategoricalDistribution(values) for name, values in space.choices.items()}


def _next_untried(space: Space, tried: list[dict[str, object]], seed: int) -> Proposal | None:
    """Return the first settings from a random place on that have not been tried."""
    generator = torch.Generator().manual_seed(seed)
    start = int(torch.randint(space.size, (1,), generator=generator))
    places = ((start + step) % space.size for step in range(space.size))
    found = (settings for place in places if (settings := space.at(place)) not in tried)
    settings = next(found, None)
    return None if settings is None else Proposal("search", settings)


def _seed(seed: int, number: int, question: int) -> int:
    """Return a seed for one question of one trial; NumPy takes 32 bits."""
    return stream(seed, f"tune {number}", question).initial_seed() % 2**32


@contextmanager
def _quiet_optuna() -> Iterator[None]:
    """Keep Optuna from telling of studies that only live for a moment."""
    from optuna import logging

    before = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)
    try:
        yield
    finally:
        logging.set_verbosity(before)
