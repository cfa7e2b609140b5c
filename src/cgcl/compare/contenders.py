"""Who takes part: methods, each with settings that came from somewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from cgcl.compare.plan import Plan
from cgcl.compare.tuned import TunedSettings
from cgcl.errors import ConfigError
from cgcl.graph import Graph
from cgcl.methods.method import EVERY_GRAPH, Method
from cgcl.methods.settings import TrainedSettings
from cgcl.methods.table import METHODS, method_named
from cgcl.train.recipe import Recipe

__all__ = ["Contender", "SettingsChoice", "line_up", "names_of"]

SettingsChoice = Literal["authors", "default"]
"""Which settings methods get: those of their authors for the graph, or those for any graph."""


@dataclass(frozen=True)
class Contender:
    """A method with its settings: a row of the table."""

    recipe: Recipe
    source: str
    """Where the settings come from, in a word or two; empty for a method without any."""
    is_tuned: bool = False

    @property
    def name(self) -> str:
        """The method's name in the table of methods."""
        return self.recipe.name

    @property
    def title(self) -> str:
        """What people call it; two rows of one method have two titles."""
        return self.recipe.method.title + (" tuned" if self.is_tuned else "")

    @property
    def settings(self) -> dict[str, Any]:
        """Every setting by name."""
        return self.recipe.settings.to_json()

    @property
    def is_trained(self) -> bool:
        """Whether there is anything to train, and hence anything that its first weights decide."""
        return self.recipe.epochs > 0

    @property
    def cost_rank(self) -> tuple[bool, bool]:
        """Smaller for methods that take less time: no training first, subgraph methods last."""
        return self.is_trained, bool(self.recipe.settings.caps)

    def with_seed(self, seed: int) -> Recipe:
        """Return the recipe of one run."""
        return replace(self.recipe, split=replace(self.recipe.split, seed=seed))


def names_of(text: str | None) -> list[str]:
    """Return the methods of a list with commas, each once; all of them for None.

    Raises:
        ConfigError: There is no such method.

    Example:
        >>> names_of("cgcl, adamic-adar,cgcl")
        ['cgcl', 'adamic-adar']
    """
    if text is None:
        return list(METHODS)
    names = [name for part in text.split(",") if (name := part.strip())]
    if not names:
        raise ConfigError(f"methods is {text!r}; give names with commas, such as cgcl,vgae,mlp.")
    for name in names:
        method_named(name)
    return list(dict.fromkeys(names))


def line_up(
    graph: Graph,
    names: Sequence[str],
    plan: Plan,
    *,
    settings: SettingsChoice = "authors",
    tuned: Mapping[str, TunedSettings] | None = None,
    epochs: int | None = None,
) -> tuple[list[Contender], list[str]]:
    """Return who takes part, and a sentence about each method that cannot.

    Args:
        graph: What they are compared on.
        names: The methods.
        plan: The shares to hold out.
        settings: Which settings each method gets.
        tuned: Further settings by method; each makes a row more.
        epochs: Train so long, whatever the settings say.

    Raises:
        ConfigError: A setting is unknown or out of range, or nobody is left.
    """
    contenders: list[Contender] = []
    notes: list[str] = []
    for name in names:
        method = method_named(name)
        if graph.sides is not None and not method.works_across_sides:
            notes.append(
                f"{method.title} is left out: it says nothing about two nodes on different sides "
                f"of a bipartite graph."
            )
            continue
        values, source = _chosen(method, graph.title, settings)
        rows = [(values, source, False)]
        if tuned is not None and name in tuned:
            rows.append((dict(tuned[name].values), tuned[name].words, True))
        for row, row_source, is_tuned in rows:
            words = row_source
            if epochs is not None and issubclass(method.settings, TrainedSettings):
                row["epochs"], words = epochs, f"{row_source}, epochs {epochs:,}"
            recipe = Recipe.for_graph(name, {**row, "val": plan.val, "test": plan.test}, graph)
            contenders.append(Contender(recipe, words if fields(recipe.settings) else "", is_tuned))
    if not contenders:
        raise ConfigError("No method is left to compare. " + " ".join(notes))
    return contenders, notes


def _chosen(method: Method, graph: str, settings: SettingsChoice) -> tuple[dict[str, Any], str]:
    """Return where the settings differ from the defaults, and what they are called."""
    if settings == "authors" and {graph, EVERY_GRAPH} & method.authors.keys():
        return method.authors_settings(graph), "authors"
    return {}, "default"
