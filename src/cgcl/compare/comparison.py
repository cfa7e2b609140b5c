"""Every method in every run, one after the other; what is finished is not done again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cgcl.compare.cell import Cell, measure
from cgcl.compare.contenders import Contender
from cgcl.compare.folder import ComparisonFolder
from cgcl.compare.listener import Listener
from cgcl.compare.plan import Plan
from cgcl.compare.result import Result
from cgcl.compare.strata import Strata
from cgcl.graph import Graph
from cgcl.metrics import link_metrics
from cgcl.split import Split, random_split
from cgcl.train.config import Resources
from cgcl.train.once import TrainOnce, train_once
from cgcl.train.recipe import Recipe
from cgcl.train.together import Ahead

__all__ = ["Comparison"]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods, the splits they are compared on, and the folder that keeps what was found."""

    graph: Graph
    plan: Plan
    contenders: tuple[Contender, ...]
    cells: tuple[Cell, ...]
    """In the order of work: run by run, within a run the cheap methods first."""
    sizes: dict[str, int]
    """Links in each part of a split; equal for all splits."""
    strata: Strata
    folder: ComparisonFolder

    @classmethod
    def open(
        cls,
        graph: Graph,
        contenders: Sequence[Contender],
        plan: Plan,
        path: Path,
        command: str = "",
    ) -> Comparison:
        """Prepare to compare, with the results that the folder already holds.

        Args:
            graph: What is learned from.
            contenders: The methods.
            plan: How often, and on which splits.
            path: The folder to keep results in; created if it is not there.
            command: What repeats the comparison, for those who find the folder.

        Raises:
            SplitError: The graph has too few links for these shares.
            RunFolderError: The folder belongs to another comparison or is in use.
            ResourceError: The folder cannot be written.
        """
        first = random_split(graph, plan.val, plan.test, plan.split_seed(0))
        seeds = dict.fromkeys(map(plan.split_seed, range(plan.runs)))
        prints = {seed: _split(graph, plan, seed).fingerprint for seed in seeds}
        ordered = sorted(contenders, key=lambda contender: contender.cost_rank)
        cells = tuple(
            Cell(
                run,
                contender,
                plan.split_seed(run),
                prints[plan.split_seed(run)],
                run if contender.is_trained else None,
            )
            for run in range(plan.runs)
            for contender in ordered
        )
        strata = Strata.of(first)
        identity = {
            "graph": {"title": graph.title, "fingerprint": graph.fingerprint},
            "protocol": plan.protocol,
            "val": plan.val,
            "test": plan.test,
        }
        about: dict[str, Any] = {
            "links": first.sizes,
            "runs": plan.runs,
            "methods": [contender.title for contender in contenders],
            "degrees": [part.words for part in strata.parts],
            "command": command,
        }
        folder = ComparisonFolder(path, identity, about)
        return cls(graph, plan, tuple(contenders), cells, first.sizes, strata, folder)

    def left(self, resources: Resources) -> list[Cell]:
        """Return the cells without a final result, in the order of work.

        Cells that are answered by the same result, such as those of a formula on one split, are
        listed once.
        """
        done = {
            result.key for result in self.folder.results if result.is_final(resources.time_limit)
        }
        left: dict[str, Cell] = {}
        for cell in self.cells:
            if cell.key not in done:
                left.setdefault(cell.key, cell)
        return list(left.values())

    def run(
        self,
        resources: Resources,
        listener: Listener | None = None,
        train: TrainOnce = train_once,
    ) -> bool:
        """Measure what is left; tell whether it came to the end.

        A method that fails is written down as failed and stops nothing.

        Args:
            resources: Where and how long to compute.
            listener: Told how it goes; may ask to stop.
            train: What trains one method.

        Raises:
            ResourceError: The folder cannot be written, or there is no such device.
        """
        listener = listener or Listener()
        # What metrics import on first use would else count as the first method's time.
        link_metrics([1.0], [0.0])
        split: Split | None = None
        left = self.left(resources)
        train = self._ahead(left, train)
        for place, cell in enumerate(left):
            if listener.should_stop():
                return False
            if split is None or split.fingerprint != cell.split:
                split = _split(self.graph, self.plan, cell.split_seed)
            listener.cell_begins(cell)
            result = measure(cell, self.graph, split, self.strata, resources, listener, train)
            if result is None:
                return False
            self.folder.append(result)
            listener.cell_ends(cell, result)
            if place + 1 == len(left) or left[place + 1].run != cell.run:
                listener.run_ends(cell.run)
        return True

    def _ahead(self, left: Sequence[Cell], train: TrainOnce) -> TrainOnce:
        """Return what trains runs of one method together where that is possible."""
        seeds = {
            cell.contender.with_seed(cell.init_seed): cell.split_seed
            for cell in left
            if cell.init_seed is not None
        }

        def split_of(recipe: Recipe) -> Split:
            return _split(self.graph, self.plan, seeds[recipe])

        ordered = sorted(seeds, key=lambda recipe: recipe.name)
        return Ahead(ordered, split_of, train)

    def found(self) -> dict[str, Result]:
        """Return the last result of each cell by its key; a failure only if there is no other."""
        wanted = {cell.key for cell in self.cells}
        found: dict[str, Result] = {}
        for result in self.folder.results:
            if result.key in wanted and (result.failure is None or result.key not in found):
                found[result.key] = result
        return found

    def seconds_for(self, cells: Sequence[Cell]) -> float:
        """Return about how long cells will take, by what their methods took so far."""
        times: dict[Contender, list[float]] = {}
        found = self.found()
        for cell in self.cells:
            result = found.get(cell.key)
            if result is not None and result.failure is None:
                times.setdefault(cell.contender, []).append(result.seconds)
        mean = {contender: sum(seconds) / len(seconds) for contender, seconds in times.items()}
        return sum(mean.get(cell.contender, 0.0) for cell in cells)

    @property
    def others(self) -> list[str]:
        """Methods with results in the folder that nobody asked for this time."""
        asked = {contender.name for contender in self.contenders}
        return sorted({result.method for result in self.folder.results} - asked)


def _split(graph: Graph, plan: Plan, seed: int) -> Split:
    return random_split(graph, plan.val, plan.test, seed)
