"""Write the tables of README.md and docs/ from the results in experiments/results/.

    python experiments/tables.py          writes them
    python experiments/tables.py --check  fails if a committed table differs from its results

A table stands between `<!-- table NAME -->` and `<!-- end -->`, what a command printed between
`<!-- output NAME -->` and `<!-- end -->`. No number in either is typed. Tables of an experiment are
in the module that runs it; here are those of benchmarks and of `cgcl reproduce`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from functools import cache, partial
from statistics import median

import attacks
import calibration
import equal_tables
import harder
import methods
import new_links
import ranking
import run
import short
import speed
import stale
import structure
from cgcl.experiments.reproduction import CHOSEN_HEAD, RUNS, index, read_records
from cgcl.experiments.tables import csv, latex
from cgcl.experiments.tables import toml_text as chosen_toml
from reproduce import page
from reproduce.claims import behind_table, claims_markdown, summary
from reproduce.figures import figure_of, rendered
from run import RESULTS, ROOT, Line, table

FIGURES = {
    "fig2": "AUC and AP on Cora over r, a line for each d_v",
    "fig3": "AUC and AP on Computers over r, a line for each d_v",
    "fig4": "Loss, validation AUC and consistency over the epochs",
}


def benchmark(name: str) -> Line:
    """Return a file of benchmarks/results/."""
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())


def candidates_table() -> str:
    """Candidates on PubMed against exact scoring."""
    found = benchmark("candidates")
    rows = [["all pairs (exact)", "1", f"{found['pairs']:,}", "1"]]
    for way in found["ways"]:
        figures = [f"{way['recall']:.4f}", f"{way['pairs']:,}", f"{way['times_fewer']:.0f}"]
        rows.append([way["way"], *figures])
    linear = found["ways"][0]
    return table(
        "candidates | recall of the best 100 of a node | pairs scored | times fewer",
        rows,
        f"All {found['nodes']:,} nodes of {found['graph']}, width {found['hidden']}. With the "
        f"pairs that fit and check the candidates: {linear['times_fewer_with_everything']:.1f} "
        f"times fewer. The worst node keeps {linear['worst_node']:.2f} of its best 100; "
        f"{100 * linear['nodes_at_98_percent']:.1f} % of the nodes keep at least 0.98.",
    )


def reading_table() -> str:
    """What each reader takes for the worst files."""
    rows: list[list[str]] = []
    for one in benchmark("reading")["cases"]:
        size, peak = one["file_bytes"] / 1e6, one["peak_bytes"] / 1e6
        refused = f"{one['half_peak_bytes'] / 1e6:,.0f}" if "half_peak_bytes" in one else "refused"
        times = f"{peak / size:,.0f}" if size >= 0.1 else ""
        rows.append([one["case"], f"{size:,.1f}", f"{peak:,.0f}", times, refused])
    return table("file | MB | peak, MB | times the file | MB taken when refused", rows)


def store_table() -> str:
    """What it takes to make a store and to open it."""
    rows: list[list[str]] = []
    for one in benchmark("store")["steps"]:
        seconds = one["user_seconds"] + one["system_seconds"]
        rows.append(
            [
                one["step"],
                *(f"{one[name]:,}" for name in ("links", "nodes", "features")),
                *(f"{one[name] / 1e6:,.0f}" for name in ("file_bytes", "store_bytes")),
                f"{seconds:,.1f}",
                f"{one['peak_anonymous_bytes'] / 2**30:.2f}",
                f"{one['peak_disk_bytes'] / 1e6:,.0f}",
            ]
        )
    heads = "step | rows of links | nodes | features | files, MB | store, MB | seconds | peak, GiB"
    limit = benchmark("store")["steps"][0]["max_memory"]
    return table(f"{heads} | disk, MB", rows, f"Stores were made with `--max-memory {limit}`.")


def store_engines_table() -> str:
    """What three engines take to do the same."""
    rows = [
        [
            one["engine"],
            f"{one['links']:,}",
            f"{one['user_seconds'] + one['system_seconds']:.1f}",
            f"{one['peak_anonymous_bytes'] / 2**30:.2f}",
        ]
        for one in benchmark("store")["engines"]
    ]
    return table("engine | links | seconds of processors | peak of anonymous memory, GiB", rows)


def surroundings_table() -> str:
    """What an epoch of SEAL takes on Cora, by reach, width and device."""
    rows: list[list[str]] = []
    for one in benchmark("surroundings")["cases"]:
        _, hops, width = one["case"].split("-")
        whole = one["cut out"] + 50 * one["epoch"]
        figures = [f"{one['ms a step']:.1f}", f"{one['epoch']:.2f}", f"{whole:.0f}"]
        rows.append([f"{hops} hops, width {width}", one["device"], *figures])
    head = "SEAL on Cora | device | ms a step | s an epoch | s, 50 epochs"
    return table(head, rows, "No cap on nodes. Last column: cutting out, then fifty such epochs.")


def cost_table() -> str:
    """Reading and asking: seconds and memory."""
    read, ask = benchmark("read_links"), benchmark("predict")
    top, one = ask["top_1000"], ask["one_node"]
    own, arrow = read["cgcl_read"]["seconds"], read["pyarrow_read_csv"]["seconds"]
    calls, first = one["calls"][1:], top["calls"][0]
    peak = max(call["peak_mib"] for call in calls)
    imported = top["memory_of_import_torch_mib"]
    rows = [
        [
            f"read {read['rows']:,} links with {read['nodes']:,} names from CSV",
            f"{own:.2f}",
            f"Arrow's own reader, same run: {arrow:.2f} s, ratio {read['ratio']:.1f}",
        ],
        [
            "`cgcl predict --top 1000` on PubMed",
            f"{first['seconds']:.1f}",
            f"peak memory {first['peak_mib']:,} MiB, of which {imported} are torch",
        ],
        [
            f"`cgcl predict --node` on {one['nodes']:,} nodes",
            f"{median(call['seconds'] for call in calls):.1f}",
            f"peak memory {peak:,} MiB",
        ],
    ]
    about = f"Whole processes, {top['cores']} cores, torch {top['torch']}."
    return table("what | seconds | beside it", rows, about)


@cache
def reproduced() -> page.Reproduced:
    """Return the committed runs of `cgcl reproduce`."""
    path = RESULTS / "reproduce" / RUNS
    records = read_records(path)
    if len(records) != len(path.read_bytes().splitlines()):
        raise SystemExit(f"{path.name} has damaged lines")
    return page.Reproduced(index(records))


def figure_block(name: str) -> str:
    """Return a figure if all of its runs are there, else how many are missing."""
    missing, every = reproduced().missing(name)
    if missing:
        return f"Not run yet: {every - missing} of {every} runs are there."
    return f"![{FIGURES[name]}](images/{name}.svg)"


def figure_svg(name: str) -> str:
    """Return a figure as SVG; empty before all of its runs are there."""
    if reproduced().missing(name)[0]:
        return ""
    figure = figure_of(reproduced().places(name)[0], reproduced().records(name))
    return rendered(figure, "svg", name).decode()


_OF_RUNS: dict[str, Callable[[page.Reproduced], str]] = {
    "summary": summary,
    "behind": behind_table,
    "repeats": page.repeats,
    "progress": page.progress,
    "choices": page.choices,
    "level": page.level,
    "level-of-paper-grid": page.level_of_paper_grid,
    "table1": lambda own: page.table(own, "table1"),
    "table2": lambda own: page.table(own, "table2"),
    "claims": claims_markdown,
    "contradictions": page.contradictions,
    "others": page.level_of_others,
    "unfinished": page.unfinished,
    "budget": page.budget,
    "devices": page.devices,
}
TABLES: dict[str, Callable[[], str]] = {
    "candidates": candidates_table,
    "cost": cost_table,
    "reading-memory": reading_table,
    "surroundings": surroundings_table,
    "short-cells": lambda: short.short_table(reproduced()),
    "store": store_table,
    "store-engines": store_engines_table,
    **{f"reproduced-{name}": partial(figure_block, name) for name in FIGURES},
    **{f"reproduced-{name}": lambda own=own: own(reproduced()) for name, own in _OF_RUNS.items()},
}
_MODULES = (
    run,
    methods,
    equal_tables,
    ranking,
    harder,
    calibration,
    new_links,
    structure,
    speed,
    attacks,
    stale,
)
for _module in _MODULES:
    TABLES |= _module.TABLES
# What is not measured yet has no picture.
FILES: dict[str, Callable[[], str]] = {
    **speed.IMAGES,
    **ranking.IMAGES,
    "experiments/reproduce/chosen.toml": lambda: chosen_toml(reproduced().chosen, CHOSEN_HEAD),
    **{
        f"docs/results/{name}.{end}": lambda name=name, make=make: make(reproduced().table(name))
        for name in ("table1", "table2")
        for end, make in (("csv", csv), ("tex", latex))
    },
    **{f"docs/images/{name}.svg": partial(figure_svg, name) for name in FIGURES},
}


def fill(content: str) -> str:
    """Return a page with every table and every output in it put in anew."""

    def make(match: re.Match[str]) -> str:
        head, kind, name = match.groups()
        if kind == "table":
            return f"{head}\n{TABLES[name]()}\n<!-- end -->"
        output = (RESULTS / f"{name}.txt").read_text().rstrip()
        return f"{head}\n```text\n{output}\n```\n<!-- end -->"

    block = r"(<!-- (table|output) ([\w-]+) -->)\n.*?<!-- end -->"
    return re.sub(block, make, content, flags=re.DOTALL)


def main() -> None:
    """Write or check every page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    made = {path: fill(path.read_text(encoding="utf-8")) for path in pages}
    made |= {ROOT / name: content for name, make in FILES.items() if (content := make())}
    for path, after in made.items():
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        if check and after != before:
            sys.exit(f"{path.relative_to(ROOT)} differs from the results: run make tables")
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"{path.relative_to(ROOT)} written")


if __name__ == "__main__":
    main()
