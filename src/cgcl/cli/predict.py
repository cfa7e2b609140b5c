"""`cgcl predict`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Parameter

from cgcl.cli.settings import FLAT, flag_of, given_settings
from cgcl.cli.terminal import Format, choose_format, loaded, print_path, say, say_fact, write_answer
from cgcl.errors import ConfigError

if TYPE_CHECKING:
    from cgcl.graph import Graph
    from cgcl.predict import LinkPredictor, Links, Query

Tell: TypeAlias = Callable[[str, str], None]

_DEFAULT_COUNT = 10
_COMPLETE_FROM = 0.5
_BLOCK = 2**16
_ENDS = {"node", "sources", "targets"}
_SEARCHING = _ENDS | {"top", "exclude", "min_probability", "candidates", "complete"}


@dataclass(frozen=True)
class Question:
    """What is asked, and how the files are written that say it."""

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
    source: str | None = None
    """The column with one end of each pair; by default source, or the first of two columns."""
    target: str | None = None
    """The column with the other end; by default target, or the second of two columns."""
    separator: str | None = None
    """What separates the columns."""
    header: bool | None = None
    """Whether the first row holds column names."""
    one_hot: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = ()
    """A column of --new-features with categories, as in training. May be repeated."""
    words: str | None = None
    """A column of --new-features with text, as in training."""
    max_memory: str | None = None
    """How much memory reading a file may take, such as 8GB; by default four fifths of what is
    free."""

    def table(self, path: Path, flag: str, graph: Graph) -> list[tuple[str, str]]:
        """Return the pairs of names in a table, as the graph has them.

        Raises:
            GraphFormatError: The file is not a table of pairs.
        """
        from cgcl.memory import reading_at_most
        from cgcl.readers.edge_table import LinkOptions, names_of_pairs
        from cgcl.readers.formats import read_links

        columns = self.source, self.target, self.separator, self.header
        usage = f"cgcl predict RUN {flag} {{file}}"
        options = LinkOptions(*columns, nodes=graph.node_of, usage=usage)
        with reading_at_most(self.max_memory):
            return names_of_pairs(read_links(path, options), graph)

    def query(self, new: list[str], graph: Graph) -> Query:
        """Return the query, its files read; about new nodes if there are any and no others."""
        from cgcl.predict import Query
        from cgcl.readers.regular_file import read_names

        sources = read_names(self.sources) if self.sources else new or None
        count, lowest = self.top, self.min_probability
        if count is None and lowest is None:
            count, lowest = (None, _COMPLETE_FROM) if self.complete else (_DEFAULT_COUNT, None)
        return Query(
            count=count,
            sources=sources if self.node is None else [self.node],
            targets=read_names(self.targets) if self.targets else None,
            exclude=self.table(self.exclude, "--exclude", graph) if self.exclude else (),
            min_probability=lowest,
            prior=self.prior,
            candidates=self.candidates,
            explain=self.explain,
        )


def predict(
    run: Path,
    /,
    *,
    question: Annotated[Question, FLAT] = Question(),  # noqa: B008
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
    from cgcl.predict.writers import formula_note
    from cgcl.train.trainer import learned_nothing

    predictor = loaded(run, device, threads)
    warning = learned_nothing(predictor.val_)
    if warning:
        say(f"Warning: {warning}")
    new: list[str] = []
    if question.new_links is not None or question.new_features is not None:
        predictor, new = _with_new_nodes(predictor, question)
    query = question.query(new, predictor.graph_)
    tell: Tell = (lambda *_: None) if quiet else say_fact
    if question.pairs is None:
        answer = _search(predictor, query, tell)
    else:
        answer = _score(predictor, question, question.pairs, tell)
    if question.complete and out is not None:
        _complete(predictor, query, answer, out, tell)
    else:
        write_answer(answer, form, out, excel=excel)
    if form == "csv" and not excel and (note := formula_note(predictor.graph_.names)):
        tell("Note", note)
    if out is not None:
        print_path(out)


def _check(question: Question, out: Path | None) -> None:
    """Refuse options that contradict each other before anything is loaded."""
    given = given_settings(by_flag=True)
    foreign = [flag_of(name) for name in sorted(given & _SEARCHING)]
    if question.pairs is not None and foreign:
        raise ConfigError(
            f"--pairs scores every pair of a file, so {', '.join(foreign)} cannot go with it.\n"
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


def _score(predictor: LinkPredictor, question: Question, file: Path, tell: Tell) -> Iterator[Links]:
    """Yield the scores of the pairs in a file, block by block."""
    pairs = question.table(file, "--pairs", predictor.graph_)
    for start in range(0, max(len(pairs), 1), _BLOCK):
        block = pairs[start : start + _BLOCK]
        yield predictor.score_pairs(block, prior=question.prior, explain=question.explain)
    _tell_base_rate(predictor, question.prior, tell)


def _search(predictor: LinkPredictor, query: Query, tell: Tell) -> Iterator[Links]:
    """Yield the best links, or all of them in the order of nodes, and tell how they were found."""
    count = 0
    if query.count is None:
        told: list[str] = []
        for links in predictor.stream(query, told.append):
            count += len(links)
            yield links
        tell("Found", f"{told[0]} In the order of nodes; --top N gives the best first.")
        _tell_base_rate(predictor, query.prior, tell)
    else:
        links = predictor.answer(query)
        count = len(links)
        tell("Found", links.found)
        if count < query.count:
            tell("", f"There are no more than {count:,} such links.")
        _tell_base_rate(predictor, query.prior, tell)
        if links.expected is not None and count:
            tell("Expected", f"about {links.expected:,.1f} of these {count:,} links are real")
        yield links
    if count == 0 and query.min_probability is not None and tell is say_fact:
        _tell_the_most_probable(predictor, query)


def _tell_the_most_probable(predictor: LinkPredictor, query: Query) -> None:
    """Where nothing is probable enough, say what the most probable link has."""
    best = predictor.answer(replace(query, count=1, min_probability=None, explain=False))
    if len(best):
        say(
            f"No new link has a probability of {query.min_probability:g}; the most probable has "
            f"{best[0].probability:.2g}.\nAsk for less with --min-probability, or for the best few "
            f"with --top; --prior says how many links you expect."
        )


def _tell_base_rate(predictor: LinkPredictor, prior: float | None, tell: Tell) -> None:
    """Say what the probabilities rest on; a warning is never kept back."""
    calibration = predictor.calibration_
    if calibration is None:
        tell("Probability", "none: the run had no validation links to calibrate by")
        return
    warning = (calibration.shift or {}).get("warning")
    if warning and prior is None:
        say(f"Warning: {warning}")
    rate = calibration.prior if prior is None else prior
    share = f"1 in {1 / rate:,.0f} unknown pairs" if rate < 0.1 else f"{rate:.1%} of unknown pairs"
    whose = "like the held-out links; --prior changes it" if prior is None else "as you said"
    tell("Base rate", f"{share} is taken to be a link, {whose}")


def _complete(
    predictor: LinkPredictor, query: Query, answer: Iterator[Links], out: Path, tell: Tell
) -> None:
    from cgcl.predict.writers import write_completed

    new = write_completed(out, predictor.graph_, answer)
    what = f"{predictor.graph_.num_edges:,} known links and {new:,} new ones"
    if query.min_probability is not None:
        what += f" with a probability of at least {query.min_probability:g}"
    tell("Graph", what)


def _with_new_nodes(
    predictor: LinkPredictor, question: Question
) -> tuple[LinkPredictor, list[str]]:
    """Return a predictor that knows the new nodes, and their names in order."""
    known, file = predictor.graph_.node_of, question.new_links
    graph = predictor.graph_
    links = question.table(file, "--new-links", graph) if file is not None else []
    names = sorted({name for pair in links for name in pair if name not in known})
    features = None
    if question.new_features is not None:
        from cgcl.memory import reading_at_most
        from cgcl.predict.new_nodes import read_new_features
        from cgcl.readers.features import FeatureOptions

        columns = question.header is not False, question.one_hot, question.words
        options = FeatureOptions(question.separator, *columns)
        file = question.new_features
        with reading_at_most(question.max_memory):
            names, features, notes = read_new_features(predictor.graph_, file, names, options)
        for note in notes:
            say_fact("", note)
    return predictor.with_new_nodes(names, links, features), names
