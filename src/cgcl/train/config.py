"""All that decides a run: the method and its settings, what is held out, where to compute.

Nothing heavy is imported, so that `cgcl train --help` answers at once.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from cgcl.errors import ConfigError
from cgcl.methods.settings import MethodSettings, TrainedSettings
from cgcl.methods.table import method_named, no_such_setting
from cgcl.settings import Range, Settings, pick

if TYPE_CHECKING:
    from cgcl.graph import Graph
    from cgcl.methods.method import Method


@dataclass(frozen=True)
class SplitConfig(Settings):
    """Which links are held out, and what chance decides."""

    val: float = 0.05
    """Share of the links to choose the best epoch by; 0 keeps the last epoch."""
    test: float = 0.10
    """Share of the links to test on; 0 for none."""
    seed: int = 0
    """Seed of everything random: the split, the weights, the views, the counter-examples."""

    RANGES: ClassVar[Mapping[str, Range]] = {
        "val": Range(low=0, below=1),
        "test": Range(low=0, below=1),
        "seed": Range(low=0, high=2**63 - 1),
    }

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ConfigError: A setting is out of range.
        """
        super().__post_init__()
        if self.val + self.test >= 1:
            raise ConfigError(
                f"val {self.val} and test {self.test} leave no links to learn from. "
                f"Together they must stay below 1."
            )


@dataclass(frozen=True)
class Resources(Settings):
    """Where and how long to compute. Changing these between stop and resume is allowed."""

    device: str = "auto"
    """auto, cpu, cuda or cuda:N; auto takes a GPU if there is one."""
    threads: int = 0
    """CPU threads; 0 takes the cores, at most 4 or OMP_NUM_THREADS. More than are free is slower
    than one."""
    engine: Literal["auto", "plain"] = "auto"
    """How epochs of CGCL and CGCL-rank are run: auto takes the fastest way there is for the device,
    plain the readable one. Other methods have one way only."""
    precision: Literal["tf32", "fp32"] = "tf32"
    """How a GPU multiplies matrices; a CPU always takes fp32. Unless it is fp32, CGCL-rank rounds
    features, messages and gradients to bf16, and vectors to the digits of tf32."""
    deterministic: bool = False
    """Let a GPU, too, give the same bits in every run, many times slower. A CPU always does."""
    time_limit: str = ""
    """Stop at the next epoch after this long, such as 90s, 5m or 2h; empty for no limit."""
    checkpoint_every: float = 5.0
    """Seconds between two checkpoints."""
    track_consistency: bool = False
    """Log the consistency terms of Eq. 10-11 and Theorem 1 at every evaluation (cgcl only)."""

    RANGES: ClassVar[Mapping[str, Range]] = {
        "threads": Range(low=0, high=4096),
        "checkpoint_every": Range(low=0),
    }

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            ConfigError: A setting is out of range.
        """
        super().__post_init__()
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


@dataclass(frozen=True)
class RunConfig:
    """How a run is made: the same recipe on the same graph gives the same result."""

    name: str
    """The method's name in the table of methods."""
    settings: MethodSettings
    split: SplitConfig

    @classmethod
    def of(cls, name: str, values: Mapping[str, Any]) -> RunConfig:
        """Return the recipe of a method with these settings by name, the others as by default.

        Args:
            name: The method.
            values: Its settings, and `val`, `test` and `seed`; nothing else.

        Raises:
            ConfigError: There is no such method or setting, or one is out of range.
        """
        method = method_named(name)
        own, shared = ({f.name for f in fields(kind)} for kind in (method.settings, SplitConfig))
        unknown = sorted(values.keys() - own - shared)
        if unknown:
            raise no_such_setting(name, unknown, sorted(own))
        return cls.from_json({**values, "method": name})

    @classmethod
    def for_graph(cls, name: str, values: Mapping[str, Any], graph: Graph) -> RunConfig:
        """Return the recipe of a method for a graph: what is not given, its rule chooses.

        Args:
            name: The method.
            values: As for `of`; None for what is left to the rule.
            graph: The graph to learn from.

        Raises:
            ConfigError: There is no such method or setting, or one is out of range.
        """
        return cls.of(name, method_named(name).settings_for(graph, values))

    @property
    def method(self) -> Method:
        """The method itself."""
        return method_named(self.name)

    @property
    def epochs(self) -> int:
        """How long it is trained; 0 if there is nothing to train."""
        return self.settings.epochs if isinstance(self.settings, TrainedSettings) else 0

    def to_json(self) -> dict[str, Any]:
        """Return all of it as one flat mapping."""
        return {"method": self.name, **self.settings.to_json(), **asdict(self.split)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> RunConfig:
        """Return what `to_json` gave; other names in the mapping do no harm.

        Raises:
            KeyError: It names no method.
            ConfigError: There is no such method, or a setting is out of range.
        """
        name = values["method"]
        return cls(name, pick(method_named(name).settings, values), pick(SplitConfig, values))
