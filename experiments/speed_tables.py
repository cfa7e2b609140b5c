"""The tables and plots of docs/speed.md, from benchmarks/results/speed*.jsonl.

Lines come from several commands, on several machines, over several days: where two say the same,
the later one counts, and what nobody has measured yet is said to be so.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from speed_plot import Curve, log_plot

__all__ = ["IMAGES", "TABLES"]

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
TITLES = {
    "cora": "Cora",
    "citeseer": "CiteSeer",
    "pubmed": "PubMed",
    "photo": "Photo",
    "computers": "Computers",
}
YARDSTICK, READABLE, FAST, DIRECTED = "plain PyG", "readable", "fast", "fast, directed"
CHOICES = {
    FAST: "TF32 (default), ms",
    "fast, fp32": "`--precision fp32`, ms",
    "fast, bf16": "bf16 (taken out since), ms",
    "fast, deterministic": "`--deterministic`, ms",
}
PARTS = ("draws", "features", "propagation", "decoder", "optimizer", "other", "idle")
MISSING = "Not measured yet."

# What was asked for, not what was measured.
ALLOWED_MS = {"cora": 0.9, "citeseer": 1.0, "pubmed": 2.4, "photo": 5.0, "computers": 8.0}
ALLOWED_RANKING_MS = {
    "cora": 0.9,
    "citeseer": 1.1,
    "pubmed": 16.0,
    "photo": 4.0,
    "computers": 9.0,
}
ASKED_RATIO = {"cora": 2.5, "citeseer": 2.5, "pubmed": 2.0, "photo": 3.5, "computers": 3.5}
ALLOWED_GIB = {"computers": 1.5}
ALLOWED_DIFFERENCE = 0.1
ALLOWED_ROW_MINUTES = 6

Line = dict[str, Any]


def lines_of(kind: str, results: Path = RESULTS) -> list[Line]:
    """Return all lines of a kind that are no failure, in the order of files and lines."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(results.glob("speed*.jsonl"))]
    lines = [json.loads(line) for text in texts for line in text.splitlines()]
    return [line for line in lines if line["kind"] == kind and "failure" not in line]


def latest(lines: Iterable[Line], *names: str) -> dict[tuple[Any, ...], Line]:
    """Return the last line for each combination of these fields."""
    return {tuple(line[name] for name in names): line for line in lines}


def is_gpu(line: Line) -> bool:
    """Say whether a line was measured on a GPU."""
    return line["device"] != "cpu"


def machine_of(line: Line) -> str:
    """Return in words where a line was measured."""
    versions = line["versions"]
    torch = f"torch {versions['torch']}"
    if is_gpu(line):
        triton = f", Triton {versions['triton']}" if "triton" in versions else ""
        return f"{line['device']}, {torch}{triton}"
    threads = f"{line['threads']} thread{'s' if line['threads'] > 1 else ''}"
    return f"{threads} of {line['processor']}, {torch}"


def _places(lines: list[Line]) -> list[str]:
    return list(dict.fromkeys(machine_of(line) for line in lines))


def _ms(line: Line | None) -> str:
    """Return milliseconds: the middle of the rounds and, in brackets, the smallest."""
    if line is None:
        return ""
    return f"{_figures(line['ms'])} ({_figures(line['ms_smallest'])})"


def _figures(value: float) -> str:
    """Return a number with three figures that count, thousands apart."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}"


def _ratio(line: Line | None) -> str:
    return "" if line is None else f"{line['ratio']:.1f}x"


def _gib(line: Line | None) -> str:
    value = None if line is None else line["memory_bytes"]
    return "" if value is None else f"{value / 2**30:.2f}"


def _verdict(is_met: bool) -> str:
    return "yes" if is_met else "**no**"


def epochs_table(*, gpu: bool) -> str:
    """Milliseconds, ratios and memory of an epoch, a table for each machine."""
    # A line without a ratio was timed without the yardstick beside it.
    measured = (line for line in lines_of("epoch") if line["ratio"] is not None)
    lines = [line for line in measured if is_gpu(line) == gpu]
    if not lines:
        return MISSING
    asked = "at most, ms" if gpu else "at least"
    tables = []
    for place in _places(lines):
        own = [line for line in lines if machine_of(line) == place]
        found = latest(own, "graph", "way")
        rows = [
            f"| graph | plain PyG, ms | readable, ms | **fast, ms** | ratio | {asked} | met "
            "| fast, `directed`, ms | ratio | memory, GiB: plain PyG | readable | fast |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        ]
        for graph, title in TITLES.items():
            ways = {way: found.get((graph, way)) for way in (YARDSTICK, READABLE, FAST, DIRECTED)}
            if not any(ways.values()):
                continue
            rows.append(
                f"| {title} | {_ms(ways[YARDSTICK])} | {_ms(ways[READABLE])} | {_ms(ways[FAST])} "
                f"| {_ratio(ways[FAST])} | {_asked(graph, ways[FAST], gpu=gpu)} "
                f"| {_ms(ways[DIRECTED])} | {_ratio(ways[DIRECTED])} "
                f"| {_gib(ways[YARDSTICK])} | {_gib(ways[READABLE])} | {_gib(ways[FAST])} |"
            )
        words = f"{_width(own)}; {place}; {_rounds(found.values())}."
        tables.append("\n".join([*rows, "", words, *_memory_words(found, gpu=gpu)]))
    return "\n\n".join(tables)


def ranking_table() -> str:
    """Milliseconds and memory of an epoch of CGCL-rank on a GPU, beside the readable torch."""
    lines = [line for line in lines_of("cgcl-rank epoch") if is_gpu(line)]
    found = latest(lines, "graph", "way")
    if not found:
        return MISSING
    rows = [
        "| graph | readable, ms | **fast, ms** | ratio | at most, ms | met | memory, GiB: readable "
        "| fast |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for graph, title in TITLES.items():
        readable, fast = found.get((graph, READABLE)), found.get((graph, FAST))
        if readable is None or fast is None:
            rows.append(f"| {title} | not measured yet | | | | | | |")
            continue
        limit = ALLOWED_RANKING_MS[graph]
        rows.append(
            f"| {title} | {_ms(readable)} | {_ms(fast)} | {_ratio(fast)} | {limit} "
            f"| {_verdict(fast['ms'] <= limit)} | {_gib(readable)} | {_gib(fast)} |"
        )
    places = "; ".join(_places(lines))
    return "\n".join([*rows, "", f"{_width(lines)}; {places}; {_rounds(found.values())}."])


def _width(lines: Iterable[Line]) -> str:
    return "d_v " + ", ".join(str(hidden) for hidden in sorted({line["hidden"] for line in lines}))


def _rounds(lines: Iterable[Line]) -> str:
    """Return of how many rounds the milliseconds are."""
    counts = sorted({len(line["rounds"]) for line in lines})
    spread = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"median of {spread} rounds, the smallest in brackets"


def _asked(graph: str, fast: Line | None, *, gpu: bool) -> str:
    """Return two cells: what was asked for, and whether it is met."""
    if gpu:
        limit = ALLOWED_MS[graph]
        return f"{limit} | {_verdict(fast['ms'] <= limit) if fast else ''}"
    limit = ASKED_RATIO[graph]
    return f"{limit}x | {_verdict(fast['ratio'] >= limit) if fast else ''}"


def _memory_words(found: dict[tuple[Any, ...], Line], *, gpu: bool) -> list[str]:
    words = []
    for graph, limit in ALLOWED_GIB.items():
        line = found.get((graph, FAST))
        if not gpu and line and line["memory_bytes"] is not None:
            used = line["memory_bytes"] / 2**30
            words.append(
                f"{TITLES[graph]} takes {used:.2f} GiB beyond the imports; at most {limit} is "
                f"the target: {'met' if used < limit else '**not met**'}."
            )
    return words


def choices_table() -> str:
    """What another precision and repeatable last bits cost on a GPU."""
    lines = [line for line in lines_of("epoch") if is_gpu(line) and line["way"] in CHOICES]
    found = latest(lines, "graph", "way")
    if not {key[1] for key in found} - {FAST}:
        return MISSING
    rows = [f"| graph | {' | '.join(CHOICES.values())} |", "| --- |" + " --- |" * len(CHOICES)]
    for graph, title in TITLES.items():
        cells = [_ms(found.get((graph, way))) for way in CHOICES]
        if any(cells):
            rows.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join([*rows, "", f"{'; '.join(_places(list(found.values())))}."])


def bits_table() -> str:
    """Return which ways give the same bits twice, and what they take."""
    found = latest(lines_of("bits"), "on", "graph", "method", "way")
    if not found:
        return MISSING
    names = ("method", "way", "epochs", "seconds", "same bits twice", "largest difference")
    rows = [f"| {' | '.join(names)} |", "| --- " * len(names) + "|"]
    for line in found.values():
        same = "yes" if line["same_bits"] else "no"
        rows.append(
            f"| {line['method']} | {line['way']} | {line['epochs']} | {line['seconds']:.2f} "
            f"| {same} | {line['largest_difference']:.1g} |"
        )
    last = next(reversed(found.values()))
    notes = dict.fromkeys(line["note"] for line in found.values() if "note" in line)
    words = "; ".join([last["graph"].capitalize(), machine_of(last), *notes])
    return "\n".join([*rows, "", f"{words}."])


def breakdown_table(*, gpu: bool) -> str:
    """Where the milliseconds of the fast engine go, beside the least possible."""
    lines = [line for line in lines_of("breakdown") if is_gpu(line) == gpu]
    found = latest((line for line in lines if line["way"] == FAST), "graph")
    if not found:
        return MISSING
    shown = [part for part in PARTS if any(part in line["shares"] for line in found.values())]
    rows = [
        f"| graph | ms | {' | '.join(shown)} | TFLOP | floor, ms | times the floor |",
        "| --- |" + " --- |" * (len(shown) + 4),
    ]
    for graph, title in TITLES.items():
        line = found.get((graph,))
        if line is None:
            continue
        cells = [_figures(line["ms"] * line["shares"].get(part, 0)) for part in shown]
        floor = sum(line["floor_ms"].values())
        rows.append(
            f"| {title} | {_figures(line['ms'])} | {' | '.join(cells)} | {line['tflop']:.3f} "
            f"| {_figures(floor)} | {line['ms'] / floor:.1f} |"
        )
    machines = [line["machine"] for line in found.values()]
    rates = [f"{_figures(1000 * m['tflops'])} GFLOP/s" for m in machines]
    speeds = [f"{_figures(1000 * m['tb_per_s'])} GB/s" for m in machines]
    words = f"{_span(rates)} of matrix products and {_span(speeds)} of memory"
    places = "; ".join(_places(list(found.values())))
    source = "as its maker says" if gpu else "as measured beside it"
    return "\n".join([*rows, "", f"{places}; the floor is for {words}, {source}."])


def _span(words: list[str]) -> str:
    """Return one of them, or the first and last in order of the numbers that they begin with."""
    ordered = sorted(set(words), key=lambda word: float(word.split()[0].replace(",", "")))
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"


def kernels_table() -> str:
    """What each kernel takes of an epoch, on the largest graph that was profiled."""
    lines = [line for line in lines_of("breakdown") if line.get("kernels")]
    found = latest((line for line in lines if line["way"] == FAST), "graph")
    graph = next((graph for graph in reversed(TITLES) if (graph,) in found), None)
    if graph is None:
        return MISSING
    line = found[graph,]
    rows = ["| kernel | part | ms an epoch | launches an epoch |", "| --- | --- | --- | --- |"]
    rows += [
        f"| `{_short(kernel['name'])}` | {kernel['part']} | {_figures(kernel['ms'])} "
        f"| {kernel['calls']:.1f} |"
        for kernel in line["kernels"]
    ]
    return "\n".join([*rows, "", f"{TITLES[graph]}; {machine_of(line)}."])


def _short(name: str) -> str:
    """Return a kernel's name without types and arguments; a product's own name if it has one."""
    product = re.search(r"Kernel\d?<(\w+)", name)
    if product:
        return product[1]
    return re.split(r"[<(]", name.removeprefix("void "))[0].replace("|", "/")


def _series() -> dict[str, list[Line]]:
    """Return the measured sizes in order, by machine; a GPU last."""
    lines = [line for line in lines_of("scaling") if line["asked_engine"] == "auto"]
    series: dict[str, list[Line]] = {}
    for place in _places(sorted(lines, key=is_gpu)):
        own = latest((line for line in lines if machine_of(line) == place), "links")
        series[place] = [own[key] for key in sorted(own)]
    return series


def slope(sizes: list[int], values: list[float]) -> float:
    """Return the power of the size that fits the values best: their slope on a log-log plot."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def scaling_table() -> str:
    """Time and memory by size, and the slopes over all sizes and over the upper ones."""
    series = _series()
    if not series:
        return MISSING
    rows = [
        "| links | nodes | " + " | ".join(f"{place}: ms | MiB" for place in series) + " |",
        "| --- | --- |" + " --- | --- |" * len(series),
    ]
    for links in sorted({line["links"] for lines in series.values() for line in lines}):
        cells: list[str] = []
        nodes = 0
        for lines in series.values():
            line = next((line for line in lines if line["links"] == links), None)
            nodes = line["nodes"] if line else nodes
            cells.append(
                f"{_figures(line['ms'])} | {line['memory_bytes'] / 2**20:,.0f}" if line else " | "
            )
        rows.append(f"| {links:,} | {nodes:,} | {' | '.join(cells)} |")
    rows += [
        _slopes(series, 0, "slope, all sizes"),
        _slopes(series, 10**6, "slope, from 1,000,000"),
    ]
    return "\n".join(rows)


def _slopes(series: dict[str, list[Line]], smallest: int, words: str) -> str:
    cells = []
    for lines in series.values():
        own = [line for line in lines if line["links"] >= smallest]
        sizes = [line["links"] for line in own]
        for what in ("ms", "memory_bytes"):
            values = [line[what] for line in own]
            cells.append(f"{slope(sizes, values):.2f}" if len(own) > 1 else "")
    return f"| **{words}** | | {' | '.join(cells)} |"


def scaling_plot(what: str) -> str:
    """Return cost against size on a log-log plot, as a file of its own; empty without lines.

    Args:
        what: `ms` or `memory_bytes`.
    """
    unit, name = (1.0, "Milliseconds an epoch") if what == "ms" else (2.0**20, "Peak memory, MiB")
    curves = [
        Curve(
            lines[0]["device"] if is_gpu(lines[0]) else f"CPU, {lines[0]['threads']} threads",
            [line["links"] for line in lines],
            [line[what] / unit for line in lines],
        )
        for lines in _series().values()
    ]
    return log_plot(curves, "Links", name, "in proportion to links") if curves else ""


def plots() -> str:
    """Show the plots."""
    if not _series():
        return MISSING
    return (
        "![Milliseconds an epoch against the number of links](images/speed-time.svg)\n"
        "![Peak memory against the number of links](images/speed-memory.svg)"
    )


def accuracy_table() -> str:
    """Mean test AUC of both engines over the same splits, and their difference.

    The runs of the row of Table I with a tenth of the links to test on count, too.
    """
    rows = [
        "| graph | fast | readable | splits | readable, AUC | fast, AUC | difference | at most "
        "| met |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines = [*lines_of("accuracy"), *_as_accuracy(lines_of("row"))]
    found = latest(lines, "epochs", "views", "lr", "graph", "seed", "asked_engine")
    for where in dict.fromkeys(key[:3] for key in found):
        epochs, views, _ = where
        for graph, title in TITLES.items():
            pairs = _paired(found, (*where, graph))
            if not pairs:
                continue
            fast, readable = (
                [100 * pair[side]["test"]["auc"] for pair in pairs] for side in range(2)
            )
            apart = statistics.mean(fast) - statistics.mean(readable)
            place, other = ("; ".join(_places([pair[side] for pair in pairs])) for side in range(2))
            rows.append(
                f"| {title} | {place}; {epochs} epochs, `{views}` | {other} | {len(pairs)} "
                f"| {_mean(readable)} | {_mean(fast)} | {apart:+.3f} | {ALLOWED_DIFFERENCE} "
                f"| {_verdict(abs(apart) <= ALLOWED_DIFFERENCE)} |"
            )
    return "\n".join(rows) if len(rows) > 2 else MISSING


def _as_accuracy(lines: list[Line]) -> list[Line]:
    return [
        {**line, "asked_engine": "auto", "test": {"auc": line["auc"]}}
        for line in lines
        if line["test"] == 0.1 and line["runs"] > 1
    ]


def row_table() -> str:
    """The CGCL row of Table I, trained cell by cell: AUC, AP and time."""
    lines = lines_of("row")
    parts: list[str] = []
    for place in _places(lines):
        here = [line for line in lines if machine_of(line) == place]
        found = latest(here, "graph", "test", "seed")
        rows = [
            "| graph | test links | runs | AUC | AP | seconds |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        total = 0.0
        for graph, share in dict.fromkeys(key[:2] for key in found):
            own = [line for key, line in found.items() if key[:2] == (graph, share)]
            auc, ap = ([100 * line[name] for line in own] for name in ("auc", "ap"))
            total += own[0]["cell_seconds"]
            rows.append(
                f"| {TITLES[graph]} | {share:.0%} | {len(own)} | {_mean(auc)} | {_mean(ap)} "
                f"| {own[0]['cell_seconds']:.1f} |"
            )
        minutes = total / 60
        met = _verdict(minutes <= ALLOWED_ROW_MINUTES)
        rows.append(
            f"\n{place}: {minutes:.1f} minutes in all, the target is at most "
            f"{ALLOWED_ROW_MINUTES}: {met}."
        )
        parts.append("\n".join(rows))
    return "\n\n".join(parts) or MISSING


def ranking_row_table() -> str:
    """The same row of CGCL-rank: AUC, node MRR and time."""
    lines = lines_of("cgcl-rank row")
    parts: list[str] = []
    for place in _places(lines):
        found = latest((x for x in lines if machine_of(x) == place), "graph", "seed")
        rows = ["| graph | runs | AUC | node MRR | seconds |", "| --- | --- | --- | --- | --- |"]
        total = 0.0
        graphs = list(dict.fromkeys(graph for graph, _ in found))
        for graph in graphs:
            own = [line for key, line in found.items() if key[0] == graph]
            auc, mrr = ([100 * line[name] for line in own] for name in ("auc", "node_mrr"))
            total += own[0]["cell_seconds"]
            rows.append(
                f"| {TITLES[graph]} | {len(own)} | {_mean(auc)} | {_mean(mrr)} "
                f"| {own[0]['cell_seconds']:.1f} |"
            )
        told = f"{len(found)} runs on {len(graphs)} of {len(TITLES)} graphs in {total:.0f} s"
        parts.append("\n".join([*rows, "", f"{place}: {told}."]))
    return "\n\n".join(parts) or MISSING


def _paired(found: dict[tuple[Any, ...], Line], where: tuple[Any, ...]) -> list[tuple[Line, Line]]:
    """Return the lines of both engines for every split that both have, the fast one first."""
    seeds = sorted({key[4] for key in found if key[:4] == where})
    pairs = [(found.get((*where, s, "auto")), found.get((*where, s, "plain"))) for s in seeds]
    return [(fast, readable) for fast, readable in pairs if fast and readable]


def _mean(values: list[float]) -> str:
    mean = f"{statistics.mean(values):.2f}"
    return f"{mean} ± {statistics.stdev(values):.2f}" if len(values) > 1 else mean


def startup_table() -> str:
    """How long a command takes that trains one epoch, beside the import of torch."""
    lines = lines_of("startup")
    if not lines:
        return MISSING
    rows = [
        '| where | `cgcl train cora --method cgcl --epochs 1`, s | `python -c "import torch"`, s '
        "| at most, s | met | imports |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for place in _places(lines):
        line = [line for line in lines if machine_of(line) == place][-1]
        limit = 3 * line["import_torch"] + 1
        names = [f"`{name}`" for name, is_there in line["imported"].items() if is_there]
        rows.append(
            f"| {place} | {line['seconds']:.2f} ({line['seconds_smallest']:.2f}) "
            f"| {line['import_torch']:.2f} ({line['import_torch_smallest']:.2f}) | {limit:.2f} "
            f"| {_verdict(line['seconds'] <= limit)} | {', '.join(names) or 'none of them'} |"
        )
    looked = ", ".join(f"`{name}`" for name in lines[-1]["imported"])
    return "\n".join([*rows, "", f"Median, the smallest in brackets. Looked for: {looked}."])


TABLES: dict[str, Callable[[], str]] = {
    "speed-cpu": lambda: epochs_table(gpu=False),
    "speed-gpu": lambda: epochs_table(gpu=True),
    "speed-ranking": ranking_table,
    "speed-choices": choices_table,
    "speed-bits": bits_table,
    "speed-breakdown-cpu": lambda: breakdown_table(gpu=False),
    "speed-breakdown-gpu": lambda: breakdown_table(gpu=True),
    "speed-kernels": kernels_table,
    "speed-scaling": scaling_table,
    "speed-plots": plots,
    "speed-accuracy": accuracy_table,
    "speed-row": row_table,
    "speed-ranking-row": ranking_row_table,
    "speed-startup": startup_table,
}
IMAGES: dict[str, Callable[[], str]] = {
    "docs/images/speed-time.svg": lambda: scaling_plot("ms"),
    "docs/images/speed-memory.svg": lambda: scaling_plot("memory_bytes"),
}
