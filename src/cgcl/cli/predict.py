"""`cgcl predict`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from cgcl.cli.settings import FLAT, given_settings
from cgcl.cli.terminal import Format, choose_format, say, say_fact, write_answer
from cgcl.errors import ConfigError

if TYPE_CHECKING:
    from cgcl.predict import LinkPredictor, Links
    from cgcl.predict.answers import Ask

__all__ = ["predict"]

_DEFAULT_COUNT = 10
_COMPLETE_FROM = 0.5
_BLOCK = 2**16


@dataclass(frozen=True)
class Question:
    """What is asked."""

    top: int | None = None
    """How many links (default: 10)."""
    node: str | None = None
    """Only links of the node with this name."""
    pairs: Path | None = None
    """A table of pairs to score, instead of searching."""
    sources: Path | None = None
    """Only links with one end in this file, which holds a name per line."""
    targets: Path | None = None
    """Only links with the other end in this file, which holds a name per line."""
    exclude: Path | None = None
    """A table of pairs never to suggest."""
    min_probability: float | None = None
    """Only links at least this probable; without --top all of them, in the order of nodes."""
    prior: float | None = None
    """The share of unknown pairs that are links, which every probability rests on (default: what
    the held-out links were among the pairs not learned from)."""
    candidates: Literal["auto", "exact", "linear", "two-hop"] = "auto"
    """Which pairs to score: all (exact), the most promising by a linearised decoder (linear), or
    those with a common neighbour (two-hop); auto is exact while it is cheap, then linear."""
    explain: bool = False
    """Say what speaks for each link: shared neighbours, common features, distance, and the known
    links that its score rests on."""
    complete: bool = False
    """Write the completed graph to --out (.graphml, .csv or .parquet): the known links, and the new
    ones with at least --min-probability (default: 0.5), or the best --top."""
    new_links: Path | None = None
    """A table of links between new nodes and known ones; the answer is about the new nodes."""
    new_features: Path | None = None
    """A table with the features of the new nodes, in the columns of the training file."""


@dataclass(frozen=True)
class Tables:
    """How the tables among these files are written."""

    source: str = "source"
    """The column with one end of each pair."""
    target: str = "target"
    """The column with the other end."""
    separator: str | None = None
    """What separates the columns."""
    header: bool | None = None
    """Whether the first row holds column names."""
    one_hot: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = ()
    """A column of --new-features with categories, as in training. May be repeated."""
    words: str | None = None
    """A column of --new-features with text, as in training."""

    def read(self, path: Path, flag: str) -> list[tuple[str, str]]:
        """Return the pairs of names in a table.

        Raises:
            GraphFormatError: The file is not a table of pairs.
        """
        from cgcl.readers.edge_table import LinkOptions
        from cgcl.readers.formats import read_links

        usage = f"cgcl predict RUN {flag} {{file}}"
        table = read_links(
            path,
            LinkOptions(self.source, self.target, self.separator, self.header, usage=usage),
        )
        return [(table.names[a], table.names[b]) for a, b in table.pairs.T.tolist()]


def predict(
    run: Path,
    /,
    *,
    question: Annotated[Question, FLAT] = Question(),  # noqa: B008
    tables: Annotated[Tables, FLAT] = Tables(),  # noqa: B008
    output: Annotated[Format | None, Parameter(name="--format")] = None,
    out: Path | None = None,
    excel: bool = False,
    device: str = "auto",
    threads: int = 0,
    quiet: bool = False,
) -> None:
    """Print the best new links of a trained run, with their probabilities and what speaks for them.

    All known links are used. Known links and self-links are never suggested.

    Args:
        run: A run folder, or a folder written by LinkPredictor.save.
        question: What is asked.
        tables: The files.
        output: table for people; csv, json or parquet for programs (default: what the suffix of
            --out says, else table).
        out: A file to write the answer to, instead of printing it.
        excel: In CSV, put an apostrophe before names that a spreadsheet would take for a formula.
        device: auto, cpu, cuda or cuda:N.
        threads: CPU threads; 0 takes the cores, at most 4.
        quiet: Print nothing but the answer, warnings and errors.
    """
    _check(question, out)
    form: Format = "table" if question.complete else choose_format(output, out)
    from cgcl.predict import LinkPredictor
    from cgcl.train.trainer import learned_nothing

    predictor = LinkPredictor.load(run, device).set_params(threads=threads)
    warning = learned_nothing(predictor.val_)
    if warning:
        say(f"Warning: {warning}")
    new: list[str] = []
    if question.new_links is not None or question.new_features is not None:
        predictor, new = _with_new_nodes(predictor, question, tables)
    ask = _ask(question, tables, new)
    if question.complete and out is not None:
        _complete(predictor, ask, out, quiet)
        return
    blocks = _answer(predictor, question, tables, ask, quiet=quiet)
    write_answer(blocks, form, out, excel=excel)
    if out is not None:
        print(out)  # noqa: T201


def _check(question: Question, out: Path | None) -> None:
    """Refuse options that contradict each other before anything is loaded."""
    given = given_settings(by_flag=True)
    searching = {"top", "node", "sources", "targets", "exclude", "min_probability", "candidates"}
    foreign = sorted(given & (searching | {"complete"}))
    if question.pairs is not None and foreign:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in foreign)
        raise ConfigError(
            f"--pairs scores every pair of a file, so {flags} cannot go with it.\n"
            f"Use --pairs alone, or search without it."
        )
    if question.node is not None and question.sources is not None:
        raise ConfigError("--node and --sources both say where links begin. Give one of them.")
    if question.complete and out is None:
        raise ConfigError(
            "--complete writes a graph, which needs a file: add --out graph.graphml "
            "(or .csv, .parquet)."
        )
    for name, instead in (
        ("explain", "ask for reasons without --complete"),
        ("format", "its format is the suffix of --out"),
    ):
        if question.complete and name in given:
            raise ConfigError(
                f"--complete writes every link above a probability as a graph: --{name} cannot go "
                f"with it; {instead}."
            )
    if question.new_features is None and {"one_hot", "words"} & given:
        raise ConfigError("--one-hot and --words say how to read --new-features. Give that, too.")


def _ask(question: Question, tables: Tables, new: list[str]) -> Ask:
    from cgcl.predict.answers import Ask
    from cgcl.readers.regular_file import read_names

    sources = None if question.sources is None else read_names(question.sources)
    if question.node is not None:
        sources = [question.node]
    elif sources is None and new:
        sources = new
    exclude = [] if question.exclude is None else tables.read(question.exclude, "--exclude")
    wants_all = question.min_probability is not None and question.top is None
    count = question.top if question.top is not None else _DEFAULT_COUNT
    lowest = question.min_probability
    if question.complete and question.top is None:
        wants_all, lowest = True, _COMPLETE_FROM if lowest is None else lowest
    return Ask(
        count=None if wants_all else count,
        sources=sources,
        targets=None if question.targets is None else read_names(question.targets),
        exclude=exclude,
        min_probability=lowest,
        prior=question.prior,
        candidates=question.candidates,
        explain=question.explain,
    )


def _answer(
    predictor: LinkPredictor, question: Question, tables: Tables, ask: Ask, *, quiet: bool
) -> Iterator[Links]:
    """Yield the answer block by block, and tell on the way how it came about."""
    if question.pairs is not None:
        pairs = tables.read(question.pairs, "--pairs")
        for start in range(0, max(len(pairs), 1), _BLOCK):
            block = pairs[start : start + _BLOCK]
            yield predictor.score_pairs(block, prior=ask.prior, explain=ask.explain)
        _tell_base_rate(predictor, ask.prior, quiet)
    else:
        yield from _search(predictor, ask, quiet)


def _search(predictor: LinkPredictor, ask: Ask, quiet: bool) -> Iterator[Links]:
    """Yield the best links, or all of them in the order of nodes, and tell how they were found."""
    count = 0
    if ask.count is None:
        told: list[str] = []
        for links in predictor.stream(ask, told.append):
            count += len(links)
            yield links
        if not quiet:
            say_fact("Found", f"{told[0]} In the order of nodes; --top N gives the best first.")
        _tell_base_rate(predictor, ask.prior, quiet)
    else:
        options: dict[str, Any] = {**vars(ask), "count": ask.count}
        links = predictor.top(**options)
        count = len(links)
        _tell(predictor, links, ask, quiet)
        yield links
    if count == 0 and ask.min_probability is not None and not quiet:
        _tell_the_most_probable(predictor, ask)


def _tell_the_most_probable(predictor: LinkPredictor, ask: Ask) -> None:
    """Where nothing is probable enough, say what the most probable link has."""
    options: dict[str, Any] = {**vars(ask), "count": 1, "min_probability": None, "explain": False}
    best = predictor.top(**options)
    if len(best):
        say(
            f"No new link has a probability of {ask.min_probability:g}; the most probable has "
            f"{best[0].probability:.2g}.\nAsk for less with --min-probability, or for the best few "
            f"with --top; --prior says how many links you expect."
        )


def _tell(predictor: LinkPredictor, links: Links, ask: Ask, quiet: bool) -> None:
    if not quiet:
        say_fact("Found", links.found)
    if ask.count is not None and len(links) < ask.count and not quiet:
        say_fact("", f"There are no more than {len(links):,} such links.")
    _tell_base_rate(predictor, ask.prior, quiet)
    if links.expected is not None and len(links) and not quiet:
        say_fact("Expected", f"about {links.expected:,.1f} of these {len(links):,} links are real")


def _tell_base_rate(predictor: LinkPredictor, prior: float | None, quiet: bool) -> None:
    """Say what the probabilities rest on; a warning is never kept back."""
    calibration = predictor.calibration_
    warning = (calibration.shift or {}).get("warning") if calibration else None
    if warning and prior is None:
        say(f"Warning: {warning}")
    if quiet:
        return
    if calibration is None:
        say_fact("Probability", "none: the run had no validation links to calibrate by")
        return
    rate = calibration.prior if prior is None else prior
    share = f"1 in {1 / rate:,.0f} unknown pairs" if rate < 0.1 else f"{rate:.1%} of unknown pairs"
    whose = "like the held-out links; --prior changes it" if prior is None else "as you said"
    say_fact("Base rate", f"{share} is taken to be a link, {whose}")


def _complete(predictor: LinkPredictor, ask: Ask, out: Path, quiet: bool) -> None:
    from cgcl.predict.complete import write_completed

    new = write_completed(out, predictor.graph_, _search(predictor, ask, quiet))
    if not quiet:
        known = predictor.graph_.num_edges
        what = f"{known:,} known links and {new:,} new ones"
        if ask.min_probability is not None:
            what += f" with a probability of at least {ask.min_probability:g}"
        say_fact("Graph", what)
    print(out)  # noqa: T201


def _with_new_nodes(
    predictor: LinkPredictor, question: Question, tables: Tables
) -> tuple[LinkPredictor, list[str]]:
    """Return a predictor that knows the new nodes, and their names in order."""
    from cgcl.predict.new_features import read_new_features

    known = predictor.graph_.node_of
    file = question.new_links
    links: list[tuple[str, str]] = [] if file is None else tables.read(file, "--new-links")
    names = {name for pair in links for name in pair if name not in known}
    if question.new_features is None:
        ordered = sorted(names)
        return predictor.with_new_nodes(ordered, links), ordered
    ordered, features, notes = read_new_features(
        predictor.graph_,
        question.new_features,
        names,
        separator=tables.separator,
        header=tables.header is not False,
        one_hot=tables.one_hot,
        words=tables.words,
    )
    for note in notes:
        say_fact("", note)
    return predictor.with_new_nodes(ordered, links, features), ordered
