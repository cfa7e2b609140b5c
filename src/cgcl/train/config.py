"""Every setting of a run, with its default, its range and its meaning.

The command line, the configuration file and the Python classes all take their settings from
here. Nothing heavy is imported, so that `cgcl train --help` answers at once.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from cgcl.errors import ConfigError

__all__ = ["PRESETS", "ModelConfig", "Resources", "TrainConfig", "describe_difference", "pick"]


@dataclass(frozen=True)
class ModelConfig:
    """The network."""

    hidden: int = 128
    """Width of the node embeddings, the paper's d_v; the decoder's hidden layer has half of it."""
    input_dropout: float = 0.8
    """Chance of a node feature to be dropped in a training step."""
    decoder_dropout: float = 0.2
    """Chance of an entry of a pair's product to be dropped in a training step."""
    product: Literal["hadamard", "inner"] = "hadamard"
    """How a pair's embeddings are combined; inner is Eq. 6 by the letter."""
    last_layer: Literal["linear", "relu"] = "linear"
    """What ends the decoder; relu is the text below Eq. 7 by the letter."""
    targets: Literal["hard", "sigmoid"] = "hard"
    """What a link and a non-link should score; sigmoid is Eq. 8 by the letter."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ConfigError: A setting is out of range.
        """
        _check_types(self)
        _check_range("hidden", self.hidden, low=2, high=65536)
        _check_range("input_dropout", self.input_dropout, low=0, below=1)
        _check_range("decoder_dropout", self.decoder_dropout, low=0, below=1)


@dataclass(frozen=True)
class TrainConfig:
    """The training."""

    views: Literal["disjoint", "shared", "directed", "one"] = "disjoint"
    """How the known links are divided into two views: disjoint puts each pair into one view, shared
    about half of the pairs into both, directed divides the two directions of each pair, as the
    authors' code does, one is disjoint but trains on one view only."""
    negatives: Literal["train", "view"] = "train"
    """Which links a counter-example must avoid: all links learned from (train), or only those that
    the step asks for (view), as the paper's text has it."""
    lr: float = 0.01
    """Learning rate of Adam, the paper's r."""
    epochs: int = 200
    """Number of epochs; each takes one optimizer step per view."""
    weight_decay: float = 1e-5
    """Strength of the L2 penalty on the weights."""
    evaluate_every: int = 10
    """Epochs between two measurements on the validation links."""
    val: float = 0.05
    """Share of the links to choose the best epoch by; 0 keeps the last epoch."""
    test: float = 0.10
    """Share of the links to test on; 0 for none."""
    seed: int = 0
    """Seed of everything random: the split, the weights, the views, the counter-examples."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ConfigError: A setting is out of range.
        """
        _check_types(self)
        _check_range("lr", self.lr, above=0, high=10)
        _check_range("epochs", self.epochs, low=1, high=10_000_000)
        _check_range("weight_decay", self.weight_decay, low=0, high=10)
        _check_range("evaluate_every", self.evaluate_every, low=1, high=10_000_000)
        _check_range("val", self.val, low=0, below=1)
        _check_range("test", self.test, low=0, below=1)
        _check_range("seed", self.seed, low=0, high=2**63 - 1)
        if self.val + self.test >= 1:
            raise ConfigError(
                f"val {self.val} and test {self.test} leave no links to learn from. "
                f"Together they must stay below 1."
            )


@dataclass(frozen=True)
class Resources:
    """Where and how long to compute. Changing these between stop and resume is allowed."""

    device: str = "auto"
    """auto, cpu, cuda or cuda:N; auto takes a GPU if there is one."""
    threads: int = 0
    """CPU threads; 0 takes the cores, at most 4 or OMP_NUM_THREADS. More than are free is slower
    than one."""
    time_limit: str = ""
    """Stop at the next epoch after this long, such as 90s, 5m or 2h; empty for no limit."""
    checkpoint_every: float = 5.0
    """Seconds between two checkpoints."""
    track_consistency: bool = False
    """Log the consistency terms of Eq. 10-11 and Theorem 1 at every evaluation."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ConfigError: A setting is out of range.
        """
        _check_types(self)
        _check_range("threads", self.threads, low=0, high=4096)
        _check_range("checkpoint_every", self.checkpoint_every, low=0)
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device):
            raise ConfigError(f"device is {self.device!r}; it must be auto, cpu, cuda or cuda:N.")
        _ = self.time_limit_s

    @property
    def time_limit_s(self) -> float:
        """The time limit in seconds, infinite if there is none."""
        if not self.time_limit:
            return math.inf
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", self.time_limit)
        if match is None:
            raise ConfigError(
                f"time_limit is {self.time_limit!r}; write a number with s, m or h, such as 5m."
            )
        return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]

    @property
    def num_threads(self) -> int:
        """The number of threads to use: what was asked, or the cores up to four."""
        if self.threads:
            return self.threads
        # Not every system can say which cores a process may use.
        affinity = getattr(os, "sched_getaffinity", None)
        cores = len(affinity(0)) if affinity else os.cpu_count() or 1
        told = os.environ.get("OMP_NUM_THREADS", "")
        return min(cores, 4, int(told) if told.isdecimal() and int(told) else 4)


_KIND_IN_WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}

PRESETS: dict[str, dict[str, Any]] = {
    "quick": {},
    "paper": {"hidden": 512, "lr": 0.005, "epochs": 800, "views": "directed"},
}
"""Named settings on top of the defaults above. The paper is silent on which width and learning
rate it used where, and its authors' code on more than one view scheme; docs/paper-to-code.md
says where each value comes from."""


Settings = TypeVar("Settings", ModelConfig, TrainConfig, Resources)


def pick(kind: type[Settings], values: Mapping[str, Any]) -> Settings:
    """Return the settings of one kind out of a mapping that may hold others too.

    Raises:
        ConfigError: A setting is out of range.
    """
    return kind(**{f.name: values[f.name] for f in fields(kind) if f.name in values})


def describe_difference(
    started: dict[str, Any], asked: ModelConfig | TrainConfig, names: frozenset[str]
) -> str | None:
    """Say which of the settings in `names` differs from how a run was started, if one does."""
    for name, value in asdict(asked).items():
        if name in names and name in started and started[name] != value:
            return f"This run was started with {name}={started[name]}; you asked for {value}."
    return None


def _check_range(
    name: str,
    value: float,
    *,
    low: float | None = None,
    above: float | None = None,
    high: float | None = None,
    below: float | None = None,
) -> None:
    """Refuse a number outside its range, or one that is no number."""
    wanted = [
        text
        for bound, text in (
            (low, f"at least {low:,}" if low is not None else ""),
            (above, f"above {above:,}" if above is not None else ""),
            (high, f"at most {high:,}" if high is not None else ""),
            (below, f"below {below:,}" if below is not None else ""),
        )
        if bound is not None
    ]
    inside = (
        not math.isnan(value)
        and not math.isinf(value)
        and (low is None or value >= low)
        and (above is None or value > above)
        and (high is None or value <= high)
        and (below is None or value < below)
    )
    if not inside:
        raise ConfigError(f"{name} is {value}; it must be {' and '.join(wanted)}.")


def _check_types(config: ModelConfig | TrainConfig | Resources) -> None:
    """Refuse what its field's type does not admit: no type checker sees files and callers."""
    for name, hint in get_type_hints(type(config)).items():
        value = getattr(config, name)
        if get_origin(hint) is Literal:
            if value not in get_args(hint):
                choices = ", ".join(get_args(hint))
                raise ConfigError(f"{name} is {value!r}; it must be one of {choices}.")
            continue
        # bool is an int to Python, but not to people; an int is as good as a float.
        kinds = (int, float) if hint is float else (hint,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and hint is not bool):
            raise ConfigError(f"{name} is {value!r}; it must be {_KIND_IN_WORDS[hint]}.")
