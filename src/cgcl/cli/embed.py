"""`cgcl embed`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from cgcl.cli.terminal import by_suffix, loaded, print_path, say_fact
from cgcl.errors import ConfigError

EmbeddingFormat = Literal["parquet", "npz", "csv"]
_SUFFIXES: dict[str, EmbeddingFormat] = {".parquet": "parquet", ".npz": "npz", ".csv": "csv"}


def embed(
    run: Path,
    /,
    *,
    out: Path | None = None,
    output: Annotated[EmbeddingFormat | None, Parameter(name="--format")] = None,
    known: Literal["all", "train"] = "all",
    excel: bool = False,
    device: str = "auto",
    threads: int = 0,
) -> None:
    """Write the embedding of every node of a trained run, for other tools.

    Without --out they are printed as CSV: node, z0, z1 and so on.

    Args:
        run: A run folder, or a folder written by LinkPredictor.save.
        out: The file to write or replace; its suffix says the format.
        output: parquet, npz or csv, whatever the file is called.
        known: Encode all known links, or only those of the training set.
        excel: In CSV, put an apostrophe before names that a spreadsheet would take for a formula.
        device: auto, cpu, cuda or cuda:N.
        threads: CPU threads; 0 takes the cores, at most 4.
    """
    if out is None and output not in (None, "csv"):
        raise ConfigError(
            f"Only csv can be printed; {output} needs a file.\nName one: --out embeddings.{output}"
        )
    kind = output or ("csv" if out is None else by_suffix(out, _SUFFIXES))
    from cgcl.predict.writers import csv_blocks, formula_note, guarded_names, write_embeddings

    predictor = loaded(run, device, threads)
    graph = predictor.graph_
    names = guarded_names(graph.names) if excel and kind == "csv" else graph.names
    if kind == "csv" and not excel and (note := formula_note(graph.names)):
        say_fact("Note", note)
    links = predictor.split_.train if known == "train" else graph.edges
    z = predictor.embeddings(links)
    if out is None:
        for text in csv_blocks(names, z):
            sys.stdout.write(text)
        return
    write_embeddings(out, names, z, kind)
    print_path(out)
