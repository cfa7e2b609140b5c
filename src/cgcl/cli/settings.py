"""What a user says: where settings come from, and the options that several commands share."""

from __future__ import annotations

import difflib
import shlex
import tomllib
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from cyclopts import App, ArgumentCollection, Parameter, Token
from cyclopts.config import Toml

from cgcl.errors import ConfigError
from cgcl.methods.settings import PRESETS, CGCLSettings
from cgcl.methods.table import PAPER_METHOD, method_named, no_such_setting
from cgcl.settings import pick
from cgcl.train.config import Resources, SplitConfig

if TYPE_CHECKING:
    from cgcl.graph import Graph
    from cgcl.methods.settings import MethodSettings
    from cgcl.readers.edge_table import EdgeTable
    from cgcl.split import Split
    from cgcl.train.config import RunConfig

Preset = Literal["quick", "best", "paper"]

OPTIONS = Parameter(show_env_var=False)
"""How all options behave; the environment is explained once, below the list of commands."""

FLAT = Parameter(name="*")
"""The fields of a settings class become options of their own."""

COMMANDS = (
    "inspect",
    "store",
    "train",
    "predict",
    "evaluate",
    "compare",
    "tune",
    "report",
    "audit",
    "embed",
    "reproduce",
    "methods",
    "doctor",
)
"""Each is a function in the module of its name, and a table that a settings file may hold."""

_DEFAULT_FILE = "cgcl.toml"
_TRUTH = {"true": True, "yes": True, "false": False, "no": False}
_sources: dict[str, str] = {}


def given_settings(*, by_flag: bool = False) -> frozenset[str]:
    """Return the names of the settings that the user gave.

    Args:
        by_flag: Only those on the command line, not those in the environment or a file.
    """
    return frozenset(name for name, source in _sources.items() if source == "cli" or not by_flag)


def settings_file(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Read the file given by --config, or cgcl.toml in the current folder if it is there."""
    given = [a.tokens[0].value for a in arguments if a.name == "--config" and a.tokens]
    path = Path(given[0] if given else _DEFAULT_FILE)
    if given and not path.is_file():
        raise ConfigError(f"There is no settings file {path}. Check the name after --config.")
    if path.is_file():
        _check_tables(path)
    Toml(path, must_exist=False, search_parents=False)(app, commands, arguments)


def settings_preset(
    app: App,  # noqa: ARG001
    commands: tuple[str, ...],  # noqa: ARG001
    arguments: ArgumentCollection,
) -> None:
    """Note what the user gave, then let the preset fill in what is left."""
    _sources.clear()
    _sources.update({_setting(a.name): a.tokens[0].source for a in arguments if a.tokens})
    preset = next((a.tokens[0].value for a in arguments if a.name == "--preset" and a.tokens), "")
    values = PRESETS.get(preset, {})
    for argument in arguments:
        name = _setting(argument.name)
        if name in values and not argument.tokens:
            argument.append(Token(value=str(values[name]), source=f"preset {preset}"))


def _check_tables(path: Path) -> None:
    """Refuse a file that is not TOML, or whose settings belong to no command."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # also what is not UTF-8
        raise ConfigError(f"The settings file {path} is not valid TOML: {error}.") from error
    for name, value in content.items():
        if name not in COMMANDS or not isinstance(value, dict):
            nearest = difflib.get_close_matches(name, COMMANDS, 1)
            remedy = f"Did you mean [{nearest[0]}]? " if nearest else ""
            raise ConfigError(
                f"The settings file {path} has '{name}' outside the table of a command.\n"
                f"{remedy}Put settings below [train], [predict] or another command's name."
            )


def _setting(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def flag_of(setting: str) -> str:
    """Return the flag of a setting.

    Example:
        >>> flag_of("row_names")
        '--row-names'
    """
    return f"--{setting.replace('_', '-')}"


def command_of(name: str, graph: str, options: object) -> str:
    """Return a command line that repeats a command.

    Args:
        name: The command.
        graph: What it is about.
        options: A dataclass of its options; those that differ from their defaults are named.
    """
    return shlex.join(["cgcl", name, graph, *flags_of(options)])


def flags_of(options: Any) -> list[str]:  # noqa: ANN401
    """Return the options that differ from their defaults, as a command line has them."""
    words: list[str] = []
    for field in fields(options):
        value, flag = getattr(options, field.name), flag_of(field.name)
        # Always named: what is taken where none is may change.
        is_given = value != field.default or field.name == "method"
        if is_dataclass(value):
            words += flags_of(value)
        elif is_given and isinstance(value, bool):
            words.append(flag if value else flag.replace("--", "--no-", 1))
        elif is_given:
            for part in map(str, value if isinstance(value, tuple) else (value,)):
                # A value that begins with a dash would be taken for an option.
                words += [f"{flag}={part}"] if part.startswith("-") else [flag, part]
    return words


@dataclass(frozen=True)
class Reading:
    """The files."""

    source: str | None = None
    """The column with one end of each link; by default source, or the first of two columns."""
    target: str | None = None
    """The column with the other end; by default target, or the second of two columns."""
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
    max_memory: str | None = None
    """How much memory reading a file may take, such as 8GB; by default four fifths of what is free.
    What would take more is refused before it is read."""
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
        from cgcl.errors import TooLargeError
        from cgcl.readers import DATASETS, read

        for field in fields(self) if graph.lower() in DATASETS else ():
            is_given = getattr(self, field.name) != field.default
            if is_given and field.name not in ("data_root", "features"):
                raise ConfigError(
                    f"The data set {graph.lower()} is read as it is; {flag_of(field.name)} is for "
                    f"files.\nLeave it out, or give a file instead of the data set's name."
                )
        try:
            return read(graph, also=also, **asdict(self))
        except TooLargeError:
            path = Path(graph)
            if also or not self._can_store(path):
                raise
        return read(self._store(path))

    def _can_store(self, path: Path) -> bool:
        """Say whether a store can be made with these options, in the memory that may be taken."""
        from importlib.util import find_spec

        from cgcl.memory import readable_memory, reading_at_most
        from cgcl.readers.blocks import has_blocks
        from cgcl.readers.store_build import LEAST_MEMORY

        with reading_at_most(self.max_memory):
            fits = readable_memory() >= LEAST_MEMORY
        others = (self.time, self.words, self.row_names)
        is_plain = not self.one_hot and others == (None, None, None)
        has_features = self.features is None or has_blocks(self.features)
        return fits and is_plain and has_features and has_blocks(path) and bool(find_spec("duckdb"))

    def _store(self, path: Path) -> Path:
        """Make a store of a file that is too large to be read as a whole, and return where."""
        from cgcl.cli.store import Storing, make_store
        from cgcl.cli.terminal import say_fact

        out = Path(f"{path.name}.store")
        say_fact("Store", f"{path} takes too much memory as a whole: {out} is read instead.")
        make_store(
            path,
            out,
            Storing(**{field.name: getattr(self, field.name) for field in fields(Storing)}),
            self.max_memory,
        )
        return out

    def read_links(self, file: Path, nodes: Container[str] = ()) -> EdgeTable:
        """Return the links of another file that is written in the same way.

        Args:
            file: The file.
            nodes: Names of nodes, of which no column has one.

        Raises:
            GraphFormatError: It cannot be read.
        """
        from cgcl.memory import reading_at_most
        from cgcl.readers.edge_table import LinkOptions, prefix_names_by_column
        from cgcl.readers.formats import read_links

        columns = self.source, self.target, self.separator, self.header
        options = LinkOptions(*columns, nodes=nodes)
        with reading_at_most(self.max_memory):
            table = read_links(file, options)
        return prefix_names_by_column(table) if self.bipartite == "columns" else table


@dataclass(frozen=True)
class HeldOut:
    """The user's own files of links to test on and to choose the epoch by, if there are any."""

    test: Path | None = None
    val: Path | None = None

    def words(self) -> list[str]:
        """Return the options as a command line has them."""
        flags = (("--test-edges", self.test), ("--val-edges", self.val))
        return [f"{flag}={file}" for flag, file in flags if file]

    def read(self, graph: str, reading: Reading, config: SplitConfig) -> tuple[Graph, Split]:
        """Return the graph with all its links, and its split, drawn if nothing else is said.

        Raises:
            GraphFormatError: A file cannot be read.
            SplitError: The split leaves too few links, or its parts overlap.
            ConfigError: The options contradict each other.
        """
        from cgcl.split import given_split, random_split, time_split

        if self.val is not None and self.test is None:
            raise ConfigError(
                "--val-edges goes with --test-edges: give the links to test on, too.\n"
                "To have both drawn, leave both out and use --val and --test."
            )
        if self.test is not None and reading.time is not None:
            raise ConfigError(
                "--time and --test-edges both say which links to test on. Give one of them."
            )
        for name, file in (("test", self.test), ("val", self.val)):
            if file is not None and name in given_settings(by_flag=True):
                raise ConfigError(
                    f"--{name}-edges names the links, so --{name} has nothing to decide. "
                    f"Give one of them."
                )
        files = tuple(file for file in (self.test, self.val) if file is not None)
        whole = reading.read(graph, also=files)
        if files:
            # As node numbers of the graph, [2, any].
            tables = [reading.read_links(file, whole.node_of) for file in files]
            links = [whole.nodes_named(table.names)[table.pairs] for table in tables]
            val = links[1] if len(links) > 1 else None
            split, notes = given_split(
                whole, test=links[0], val=val, val_share=config.val, seed=config.seed
            )
        elif reading.time is not None:
            split, notes = time_split(whole, config.val, config.test, config.seed)
        else:
            return whole, random_split(whole, config.val, config.test, config.seed)
        return replace(whole, notes=(*whole.notes, *notes)), split


@dataclass(frozen=True)
class MethodOptions:
    """The options of a command that say which method to train and how."""

    method: str
    preset: Preset
    settings: CGCLSettings
    """The flags of CGCL, which hold for any method that has a setting of the same name."""
    shares: SplitConfig
    more: Mapping[str, str]
    """Settings of the method by name, as text."""

    def recipe(self, graph: Graph) -> RunConfig:
        """Return the recipe for a graph.

        Raises:
            ConfigError: The method has no such setting, or it is out of range.
        """
        from cgcl.train.config import RunConfig

        method = method_named(self.method)
        known = ("quick", "paper") if method.rule is None else ("quick", "best")
        if self.preset not in known:
            remedy = " The preset best is that of --method cgcl-rank."
            raise ConfigError(
                f"{self.method} has no preset {self.preset}; it has {' and '.join(known)}."
                f"{remedy if self.preset == 'best' else ''}"
            )
        values: dict[str, Any] = asdict(self.settings)
        if self.method != PAPER_METHOD:
            flags = {name: v for name, v in values.items() if name in given_settings()}
            authors = method.authors_settings(graph.title) if self.preset == "paper" else {}
            values = {**({"preset": self.preset} if method.rule else authors), **flags}
        values |= from_text(method.settings, self.more, self.method)
        return RunConfig.for_graph(self.method, {**values, **asdict(self.shares)}, graph)


def check_folder_name(out: Path | None) -> None:
    """Refuse a folder whose name no file could hold.

    Raises:
        ConfigError: It is not valid UTF-8.
    """
    try:
        str(out).encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"The folder name after --out is not valid UTF-8: {str(out)!r}. Choose another one."
        ) from error


class OnMachine:
    """Base of options that say where and how long to compute."""

    @property
    def resources(self) -> Resources:
        """The same as one object."""
        return pick(Resources, vars(self))


def from_text(kind: type[MethodSettings], told: Mapping[str, str], method: str) -> dict[str, Any]:
    """Return settings that were given as text as what their types say.

    Raises:
        ConfigError: The method has no such setting.
    """
    hints = get_type_hints(kind)
    known = [field.name for field in fields(kind)]
    values: dict[str, Any] = {}
    for flag, text in told.items():
        name = flag.replace("-", "_")
        if name not in known:
            raise no_such_setting(method, [name], known)
        values[name] = _converted(text, hints[name])
    return values


def _converted(text: str, hint: Any) -> Any:  # noqa: ANN401
    """Return what a text means; as it is where that is none of its type, to be refused later."""
    if hint is bool:
        return _TRUTH.get(text.lower(), text)
    if hint in (int, float):
        with suppress(ValueError):
            return hint(text)
    return text
