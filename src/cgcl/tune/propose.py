"""Which settings to try next: Optuna's TPE, asked so that its answer can be repeated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch

from cgcl.errors import ResourceError
from cgcl.seeds import stream
from cgcl.tune.space import Space
from cgcl.tune.trial import Goal, Proposal, Trial

if TYPE_CHECKING:
    import optuna

__all__ = ["propose", "require_optuna"]

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
