"""Write the tables of README.md and docs/ from the results in experiments/results/.

    python experiments/tables.py          writes them
    python experiments/tables.py --check  fails if a committed table differs from its results

A table stands between `<!-- table NAME -->` and `<!-- end -->`, what a command printed between
`<!-- output NAME -->` and `<!-- end -->`. No number in either is typed.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harder_tables
import method_tables
import own_graph_tables
import ranking_tables
import reproduced
import speed_tables
from script import Result, results_of

ROOT = Path(__file__).parents[1]
PAGES = (
    "README.md",
    "docs/paper-to-code.md",
    "docs/measured.md",
    "docs/your-own-graph.md",
    "docs/methods.md",
    "docs/ranking.md",
    "docs/harder-questions.md",
    "docs/speed.md",
    "docs/results.md",
)


def load(name: str) -> tuple[dict[str, Any], list[Result]]:
    """Return an experiment and its results, checked to be complete and to have no others."""
    experiment = tomllib.loads((ROOT / "experiments" / f"{name}.toml").read_text())
    results = results_of(name)
    found = sorted((r["graph"], r["variant"], r["seed"]) for r in results)
    asked = sorted(
        (graph, variant, seed)
        for graph in experiment["graphs"]
        for variant in experiment["variants"]
        for seed in experiment["seeds"]
    )
    if found != asked:
        raise SystemExit(f"{name}: the results are not those that the experiment asks for")
    return experiment, results


def percent(results: list[Result], metric: str) -> list[float]:
    """Return one test metric of each result in percent, in the order of seeds."""
    ordered = sorted(results, key=lambda result: result["seed"])
    return [100 * result["test"][metric] for result in ordered]


def spread(values: list[float], sign: str = "") -> str:
    """Return mean and standard deviation as text."""
    mean = f"{statistics.mean(values):{sign}.2f}"
    return f"{mean} ± {statistics.stdev(values):.2f}"


def presets_table() -> str:
    """Both presets on Cora, a row per split."""
    experiment, results = load("presets")
    lines = [
        "| split | quick AUC | quick AP | paper AUC | paper AP |",
        "| --- | --- | --- | --- | --- |",
    ]
    of = {v: [r for r in results if r["variant"] == v] for v in experiment["variants"]}
    columns = [percent(of[v], metric) for v in ("quick", "paper") for metric in ("auc", "ap")]
    for number, seed in enumerate(experiment["seeds"]):
        cells = " | ".join(f"{column[number]:.2f}" for column in columns)
        lines.append(f"| seed {seed} | {cells} |")
    lines.append(f"| **mean ± sd** | {' | '.join(spread(column) for column in columns)} |")
    published = [f"{m:.2f} ± {d:.2f}" for m, d in experiment["published"].values()]
    lines.append(f"| the paper's Table I | | | {' | '.join(published)} |")
    seconds = {v: statistics.median(r["seconds"] for r in of[v]) for v in of}
    machine = {(r["device"], r["threads"], r["versions"]["torch"]) for r in results}
    device, threads, torch = machine.pop()
    lines += [
        "",
        f"Median time of a run: {seconds['quick']:.0f} s (quick), {seconds['paper']:.0f} s (paper) "
        f"on {device}, {threads} threads, torch {torch}.",
    ]
    return "\n".join(lines)


def readings_table() -> str:
    """What each reading changes, as paired differences over the same splits."""
    experiment, results = load("readings")
    graphs = experiment["graphs"]
    header = " | ".join(f"{graph} AUC | {graph} AP" for graph in graphs)
    lines = [f"| reading | {header} |", "| --- |" + " --- | --- |" * len(graphs)]
    for variant in experiment["variants"]:
        cells = []
        for graph in graphs:
            for metric in ("auc", "ap"):
                own, base = (
                    percent([r for r in results if (r["graph"], r["variant"]) == key], metric)
                    for key in ((graph, variant), (graph, "base"))
                )
                paired = [a - b for a, b in zip(own, base, strict=True)]
                cells.append(spread(base) if variant == "base" else spread(paired, "+"))
        name = "`paper` preset" if variant == "base" else variant
        lines.append(f"| {name} | {' | '.join(cells)} |")
    devices = sorted({f"{r['device']}, torch {r['versions']['torch']}" for r in results})
    lines += ["", f"{len(experiment['seeds'])} splits; {'; '.join(devices)}."]
    return "\n".join(lines)


TABLES: dict[str, Callable[[], str]] = {
    "presets": presets_table,
    "readings": readings_table,
    "calibration": own_graph_tables.calibration_table,
    "calibration-curves": own_graph_tables.curves_table,
    "new_links": own_graph_tables.new_links_table,
    "candidates": own_graph_tables.candidates_table,
    "cost": own_graph_tables.cost_table,
    "structure": own_graph_tables.structure_table,
    **method_tables.TABLES,
    **ranking_tables.TABLES,
    **harder_tables.TABLES,
    **speed_tables.TABLES,
    **reproduced.TABLES,
}


def fill(page: str) -> str:
    """Return a page with every table and every output in it put in anew."""

    def make(match: re.Match[str]) -> str:
        return f"<!-- table {match[1]} -->\n{TABLES[match[1]]()}\n<!-- end -->"

    def quote(match: re.Match[str]) -> str:
        output = (ROOT / "experiments" / "results" / f"{match[1]}.txt").read_text()
        return f"<!-- output {match[1]} -->\n```text\n{output.rstrip()}\n```\n<!-- end -->"

    page = re.sub(r"<!-- table ([\w-]+) -->\n.*?<!-- end -->", make, page, flags=re.DOTALL)
    return re.sub(r"<!-- output ([\w-]+) -->\n.*?<!-- end -->", quote, page, flags=re.DOTALL)


def main() -> None:
    """Write or check every page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    made = {name: fill((ROOT / name).read_text(encoding="utf-8")) for name in PAGES}
    images = speed_tables.IMAGES | ranking_tables.IMAGES
    # What is not measured yet has no picture.
    made |= {name: picture for name, draw in images.items() if (picture := draw())}
    made |= {name: make() for name, make in reproduced.FILES.items()}
    for name, after in made.items():
        path = ROOT / name
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        if check and after != before:
            sys.exit(f"{name} differs from the results: run make tables")
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"{name} written")


if __name__ == "__main__":
    main()
