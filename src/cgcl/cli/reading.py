"""How a graph is read: the options that `cgcl train` and `cgcl inspect` share."""

from __future__ import annotations

from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from cgcl.cli.settings import flags_of
from cgcl.errors import ConfigError

if TYPE_CHECKING:
    from cgcl.graph import Graph
    from cgcl.readers.edge_table import EdgeTable

__all__ = ["Reading"]


@dataclass(frozen=True)
class Reading:
    """The files."""

    source: str = "source"
    """The column with one end of each link."""
    target: str = "target"
    """The column with the other end."""
    separator: str | None = None
    """What separates the columns of links; by default a comma, a tab in .tsv files, and in edge
    lists (.txt, .edges) what the first line shows."""
    header: bool | None = None
    """Whether the first row holds column names; by default yes, in edge lists only if it does."""
    time: str | None = None
    """The column with the time of each link: the newest links become the test."""
    directed: Literal["drop", "error"] = "drop"
    """What to do with directed links: drop the direction, or refuse the file."""
    bipartite: Literal["auto", "yes", "no", "columns"] = "auto"
    """Whether links only join two kinds of nodes; auto looks whether the columns share names. With
    columns, equal names in the two columns are different nodes: customer:5 and product:5."""
    features: Path | None = None
    """Node features: a table whose first column names the node, or a sparse matrix (.npz, .mtx)."""
    feature_separator: str | None = None
    """What separates the columns of features, if not the same as that of links."""
    one_hot: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = ()
    """A column of categories: each becomes a feature. May be repeated."""
    words: str | None = None
    """A column of text: each of its words becomes a feature."""
    row_names: Path | None = None
    """The node of each row of a feature matrix: a text file with a name per line."""
    data_root: Annotated[Path | None, Parameter(env_var="CGCL_DATA")] = None
    """Where data sets lie, or are downloaded to; also the environment's CGCL_DATA."""

    def read(self, graph: str, also: tuple[Path, ...] = ()) -> Graph:
        """Return the graph that these options describe.

        Args:
            graph: A file or the name of a data set.
            also: Files with further links of the graph.

        Raises:
            GraphFormatError: A file cannot be read.
            FeatureError: The features do not fit.
            ConfigError: The options contradict each other.
            ResourceError: A data set is missing and cannot be fetched.
        """
        from cgcl.readers import DATASETS, read

        for field in fields(self):
            is_for_files = field.name not in ("data_root", "features")
            if graph.lower() in DATASETS and is_for_files and self._is_given(field):
                raise ConfigError(
                    f"The data set {graph.lower()} is read as it is; "
                    f"--{field.name.replace('_', '-')} is for files.\n"
                    f"Leave it out, or give a file instead of the data set's name."
                )
        return read(graph, also=also, **self.as_dict())

    def _is_given(self, field: Field[Any]) -> bool:
        return getattr(self, field.name) != field.default

    def read_links(self, file: Path) -> EdgeTable:
        """Return the links of another file that is written in the same way.

        Raises:
            GraphFormatError: It cannot be read.
        """
        from cgcl.readers.read import read_links

        return read_links(
            file,
            source=self.source,
            target=self.target,
            separator=self.separator,
            header=self.header,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the options by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def words_of_command(self) -> list[str]:
        """Return the options that differ from their defaults, as a command line has them."""
        return flags_of(self)
