"""`cgcl predict`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from cgcl.cli.settings import given_settings
from cgcl.cli.terminal import say
from cgcl.errors import ConfigError

if TYPE_CHECKING:
    from cgcl.predict import LinkPredictor, Links

__all__ = ["predict"]


def predict(
    run: Path,
    /,
    *,
    top: int | None = None,
    node: str | None = None,
    pairs: Path | None = None,
    source: str = "source",
    target: str = "target",
    separator: str | None = None,
    header: bool = True,
    output: Annotated[Literal["table", "csv", "json"], Parameter(name="--format")] = "table",
    device: str = "auto",
    threads: int = 0,
) -> None:
    """Print the best new links of a trained run, or the scores of given pairs.

    All known links are used. Known links and self-links are never suggested.

    Args:
        run: A run folder, or a folder written by LinkPredictor.save.
        top: How many links (default: 10).
        node: Only links of the node with this name.
        pairs: A CSV file of pairs to score, instead of searching.
        source: The column of --pairs with one end of each pair.
        target: The column of --pairs with the other end.
        separator: What separates the columns of --pairs.
        header: Whether the first row of --pairs holds column names.
        output: table for people, csv or json for programs.
        device: auto, cpu, cuda or cuda:N.
        threads: CPU threads; 0 takes the free cores, at most 4.
    """
    if pairs is not None and {"top", "node"} & given_settings(by_flag=True):
        raise ConfigError(
            "--pairs scores every pair of a file, so --top and --node do not go with it.\n"
            "Use --pairs alone, or --top and --node without it."
        )
    from cgcl.predict import LinkPredictor
    from cgcl.train.trainer import learned_nothing

    predictor = LinkPredictor.load(run, device).set_params(threads=threads)
    warning = learned_nothing(predictor.val_)
    if warning:
        say(f"Warning: {warning}")
    if pairs is not None:
        links = _scored(predictor, pairs, source, target, separator, header)
    elif node is not None:
        links = predictor.links_of(node, 10 if top is None else top)
    else:
        links = predictor.top(10 if top is None else top)
    _print(links, output)


def _scored(
    predictor: LinkPredictor,
    path: Path,
    source: str,
    target: str,
    separator: str | None,
    header: bool,
) -> Links:
    from cgcl.predict import Links
    from cgcl.readers.table import read_edge_table

    table = read_edge_table(
        path,
        source=source,
        target=target,
        separator=separator,
        header=header,
        usage="cgcl predict RUN --pairs {file}",
    )
    sources, targets = (
        tuple(table.names[node] for node in column) for column in table.pairs.tolist()
    )
    return Links(sources, targets, predictor.score(list(zip(sources, targets, strict=True))))


def _print(links: Links, output: str) -> None:
    if output == "csv":
        sys.stdout.write(links.to_csv())
    elif output == "json":
        columns = links.to_dict()
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        sys.stdout.write(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
    else:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False)
        table.add_column("source")
        table.add_column("target")
        table.add_column("score", justify="right")
        for link in links:
            # Text, because a name such as "[red]" is a name and not markup.
            names = (Text(_printable(name)) for name in (link.source, link.target))
            table.add_row(*names, f"{link.score:.4f}")
        Console(soft_wrap=True).print(table)


def _printable(name: str) -> str:
    """Return a name without characters that would move the cursor or colour the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
