"""The tables and plots of docs/speed.md, from benchmarks/results/speed*.jsonl.

Lines come from several commands, on several machines, over several days: where two say the same,
the later one counts, and what nobody has measured yet is said to be so. A plot is an SVG file of
its own: same numbers, same bytes, legible in light and dark.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean

import numpy as np
from jinja2 import Environment, FileSystemLoader

from cgcl.experiments.log import read_log
from cgcl.methods.table import method_named
from run import HERE, TITLES, Line, described, grouped, latest, mean_sd, paired, percent, table

RESULTS = HERE.parent / "benchmarks" / "results"
YARDSTICK, READABLE, FAST, DIRECTED = "plain PyG", "readable", "fast", "fast, directed"
PARTS = ("draws", "features", "propagation", "decoder", "optimizer", "other", "idle")
MISSING = "Not measured yet."

# What was asked for, not what was measured.
ASKED = described("speed")
# What is drawn against size: the name in a line, its unit and its title.
COSTS = {
    "time": ("ms", 1, "Milliseconds an epoch"),
    "memory": ("memory_bytes", 2**20, "Peak memory, MiB"),
}


def lines_of(kind: str, results: Path = RESULTS) -> list[Line]:
    """Return all lines of a kind that are no failure, in the order of files and lines."""
    paths = sorted(results.glob("speed*.jsonl"))
    lines = (line for path in paths for line in read_log(path, ["kind"]))
    return [line for line in lines if line["kind"] == kind and "failure" not in line]


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


def _by_place(lines: Iterable[Line]) -> dict[str, list[Line]]:
    found = defaultdict[str, list[Line]](list)
    for line in lines:
        found[machine_of(line)].append(line)
    return found


def _places(lines: Iterable[Line]) -> str:
    return "; ".join(_by_place(lines))


def _ms(line: Line | None) -> str:
    """Return milliseconds: the middle of the rounds and, in brackets, the smallest."""
    return "" if line is None else f"{_figures(line['ms'])} ({_figures(line['ms_smallest'])})"


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


def epochs_table(lines: Sequence[Line]) -> str:
    """Milliseconds, ratios and memory of an epoch, a table for each machine."""
    parts = []
    # A line without a ratio was timed without the yardstick beside it.
    for place, own in _by_place(x for x in lines if x["ratio"] is not None).items():
        found, rows, gpu = latest(own, "graph", "way"), list[list[str]](), is_gpu(own[0])
        for graph, title in TITLES.items():
            every = [found.get((graph, way)) for way in (YARDSTICK, READABLE, FAST, DIRECTED)]
            if any(every):
                *_, fast, directed = every
                times = [*map(_ms, every[:3]), _ratio(fast), *_asked(graph, fast, gpu=gpu)]
                memory = map(_gib, every[:3])
                rows.append([title, *times, _ms(directed), _ratio(directed), *memory])
        asked = "at most, ms" if gpu else "at least"
        parts.append(
            table(
                f"graph | plain PyG, ms | readable, ms | **fast, ms** | ratio | {asked} | met "
                "| fast, `directed`, ms | ratio | memory, GiB: plain PyG | readable | fast",
                rows,
                f"{_width(own)}; {place}; {_rounds(found.values())}.",
                *([] if gpu else _memory_words(found.get(("computers", FAST)))),
            )
        )
    return "\n\n".join(parts) or MISSING


def ranking_table(lines: Sequence[Line]) -> str:
    """Milliseconds and memory of an epoch of CGCL-rank on a GPU, beside the readable torch."""
    found, rows = latest(lines, "graph", "way"), list[list[str]]()
    for graph, title in TITLES.items():
        readable, fast = found.get((graph, READABLE)), found.get((graph, FAST))
        if readable is None or fast is None:
            rows.append([title, "not measured yet", *[""] * 6])
            continue
        limit = ASKED["ranking_ms"][graph]
        times = [_ms(readable), _ms(fast), _ratio(fast), str(limit), _verdict(fast["ms"] <= limit)]
        rows.append([title, *times, _gib(readable), _gib(fast)])
    head = "graph | readable, ms | **fast, ms** | ratio | at most, ms | met "
    about = f"{_width(lines)}; {_places(lines)}; {_rounds(found.values())}."
    return table(f"{head}| memory, GiB: readable | fast", rows, about)


def _width(lines: Iterable[Line]) -> str:
    return "d_v " + ", ".join(str(hidden) for hidden in sorted({line["hidden"] for line in lines}))


def _rounds(lines: Iterable[Line]) -> str:
    """Return of how many rounds the milliseconds are, and what is beside them."""
    counts = _span(str(len(line["rounds"])) for line in lines)
    return f"median of {counts} rounds, the smallest in brackets"


def _asked(graph: str, fast: Line | None, *, gpu: bool) -> list[str]:
    """Return two cells: what was asked for, and whether it is met."""
    limit = ASKED["ms" if gpu else "ratio"][graph]
    is_met = fast is not None and (fast["ms"] <= limit if gpu else fast["ratio"] >= limit)
    return [f"{limit}{'' if gpu else 'x'}", "" if fast is None else _verdict(is_met)]


def _memory_words(line: Line | None) -> list[str]:
    if line is None or line["memory_bytes"] is None:
        return []
    limit = ASKED["computers_gib"]
    met = "met" if line["memory_bytes"] / 2**30 < limit else "**not met**"
    about = f"{TITLES[line['graph']]} takes {_gib(line)} GiB beyond the imports"
    return [f"{about}; at most {limit} is the target: {met}."]


def choices_table(lines: Sequence[Line]) -> str:
    """What another precision and repeatable last bits cost on a GPU."""
    choices = ASKED["choices"]
    found = latest((line for line in lines if line["way"] in choices), "graph", "way")
    if not {way for _, way in found} - {FAST}:
        return MISSING
    of = {title: [_ms(found.get((g, way))) for way in choices] for g, title in TITLES.items()}
    rows = [[title, *cells] for title, cells in of.items() if any(cells)]
    return table(" | ".join(["graph", *choices.values()]), rows, f"{_places(found.values())}.")


def bits_table(lines: Sequence[Line]) -> str:
    """Return which ways give the same bits twice, and what they take."""
    last = [*latest(lines, "on", "graph", "method", "way").values()]
    rows = []
    for line in last:
        about = [str(line[name]) for name in ("method", "way", "epochs")]
        same = "yes" if line["same_bits"] else "no"
        rows.append([*about, f"{line['seconds']:.2f}", same, f"{line['largest_difference']:.1g}"])
    notes = dict.fromkeys(line["note"] for line in last if "note" in line)
    words = "; ".join([last[-1]["graph"].capitalize(), machine_of(last[-1]), *notes])
    head = "method | way | epochs | seconds | same bits twice | largest difference"
    return table(head, rows, f"{words}.")


def breakdown_table(lines: Sequence[Line]) -> str:
    """Where the milliseconds of the fast engine go, beside the least possible."""
    found = _by_graph(lines)
    shown = [part for part in PARTS if any(part in line["shares"] for line in found)]
    rows = []
    for line in found:
        cells = [_figures(line["ms"] * line["shares"].get(part, 0)) for part in shown]
        floor = sum(line["floor_ms"].values())
        ends = [f"{line['tflop']:.3f}", _figures(floor), f"{line['ms'] / floor:.1f}"]
        rows.append([TITLES[line["graph"]], _figures(line["ms"]), *cells, *ends])
    rates = _span(f"{_figures(1000 * line['machine']['tflops'])} GFLOP/s" for line in found)
    speeds = _span(f"{_figures(1000 * line['machine']['tb_per_s'])} GB/s" for line in found)
    source = "as its maker says" if is_gpu(lines[0]) else "as measured beside it"
    words = f"{rates} of matrix products and {speeds} of memory, {source}"
    head = " | ".join(["graph | ms", *shown, "TFLOP | floor, ms | times the floor"])
    return table(head, rows, f"{_places(found)}; the floor is for {words}.")


def _by_graph(lines: Iterable[Line]) -> list[Line]:
    """Return the last line of each graph, in the order of graphs."""
    found = latest(lines, "graph")
    return [found[graph,] for graph in TITLES if (graph,) in found]


def _span(words: Iterable[str]) -> str:
    """Return one of them, or the first and last in order of the numbers that they begin with."""
    ordered = sorted(set(words), key=lambda word: float(word.split()[0].replace(",", "")))
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"


def kernels_table(lines: Sequence[Line]) -> str:
    """What each kernel takes of an epoch, on the largest graph that was profiled."""
    found = _by_graph(line for line in lines if line.get("kernels"))
    if not found:
        return MISSING
    line = found[-1]
    rows = [
        [f"`{_short(own['name'])}`", own["part"], _figures(own["ms"]), f"{own['calls']:.1f}"]
        for own in line["kernels"]
    ]
    about = f"{TITLES[line['graph']]}; {machine_of(line)}."
    return table("kernel | part | ms an epoch | launches an epoch", rows, about)


def _short(name: str) -> str:
    """Return a kernel's name without types and arguments; a product's own name if it has one."""
    product = re.search(r"Kernel\d?<(\w+)", name)
    if product:
        return product[1]
    return re.split(r"[<(]", name.removeprefix("void "))[0].replace("|", "/")


def _series(lines: Iterable[Line]) -> dict[str, dict[int, Line]]:
    """Return what was measured by machine, a GPU last, and by the number of links, in order."""
    return {
        place: {links: line for (links,), line in sorted(latest(own, "links").items())}
        for place, own in _by_place(sorted(lines, key=is_gpu)).items()
    }


def slope(sizes: list[int], values: list[float]) -> float:
    """Return the power of the size that fits the values best: their slope on a log-log plot."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def scaling_table(lines: Sequence[Line]) -> str:
    """Time and memory by size, and the slopes over all sizes and over the upper ones."""
    series, rows = _series(lines), list[list[str]]()
    for links, nodes in sorted({line["links"]: line["nodes"] for line in lines}.items()):
        row = [f"{links:,}", f"{nodes:,}"]
        for line in (own.get(links) for own in series.values()):
            mib = f"{line['memory_bytes'] / 2**20:,.0f}" if line else ""
            row += [_figures(line["ms"]) if line else "", mib]
        rows.append(row)
    for smallest, words in ((0, "all sizes"), (10**6, "from 1,000,000")):
        row = [f"**slope, {words}** |"]
        for own in series.values():
            sizes = [links for links in own if links >= smallest]
            for what in ("ms", "memory_bytes"):
                values = [own[links][what] for links in sizes]
                row.append(f"{slope(sizes, values):.2f}" if len(sizes) > 1 else "")
        rows.append(row)
    return table(" | ".join(["links | nodes", *(f"{own}: ms | MiB" for own in series)]), rows)


def scaling_plot(cost: str, lines: Sequence[Line]) -> str:
    """Return one of the costs against size on a log-log plot, as a file of its own."""
    what, unit, name = COSTS[cost]
    curves = []
    for sizes in _series(lines).values():
        first, values = next(iter(sizes.values())), [line[what] / unit for line in sizes.values()]
        label = first["device"] if is_gpu(first) else f"CPU, {first['threads']} threads"
        curves.append(Curve(label, [*sizes], values))
    return log_plot(curves, "Links", name, "in proportion to links")


def plots(_: Sequence[Line]) -> str:
    """Show the plots."""
    return (
        "![Milliseconds an epoch against the number of links](images/speed-time.svg)\n"
        "![Peak memory against the number of links](images/speed-memory.svg)"
    )


def accuracy_table(lines: Sequence[Line]) -> str:
    """Mean test AUC of both engines over the same splits, and their difference.

    The runs of the row of Table I with a tenth of the links to test on count, too.
    """
    more = [
        {**line, "asked_engine": "auto", "test": {"auc": line["auc"]}}
        for line in lines_of("row")
        if line["test"] == 0.1 and line["runs"] > 1
    ]
    where = ("epochs", "views", "lr", "graph")
    last = latest([*lines, *more], *where, "seed", "asked_engine").values()
    found, rows = grouped(last, *where, "asked_engine"), list[list[str]]()
    places, most = dict.fromkeys(key[:3] for key in found), ASKED["difference"]
    for place, (graph, title) in product(places, TITLES.items()):
        both = paired(*(found.get((*place, graph, engine), ()) for engine in ("auto", "plain")))
        if both[0]:
            fast, readable = (percent(own, "auc") for own in both)
            apart = fmean(fast) - fmean(readable)
            here, other = map(_places, both)
            cells = [f"{here}; {place[0]} epochs, `{place[1]}`", other, str(len(fast))]
            cells += [mean_sd(readable), mean_sd(fast), f"{apart:+.3f}", str(most)]
            rows.append([title, *cells, _verdict(abs(apart) <= most)])
    head = "graph | fast | readable | splits | readable, AUC | fast, AUC | difference | at most"
    return table(f"{head} | met", rows) if rows else MISSING


def row_table(lines: Sequence[Line]) -> str:
    """A row of Table I for each machine, cell by cell; a cell's seconds count once."""
    # The row of CGCL, or of CGCL-rank at one share of test links.
    is_paper, most = lines[0]["kind"] == "row", ASKED["row_minutes"]
    fields = ("graph", "test") if is_paper else ("graph",)
    titles = {"auc": "AUC", "ap": "AP"} if is_paper else {"auc": "AUC", "node_mrr": "node MRR"}
    head = ["graph | test links" if is_paper else "graph", "runs", *titles.values(), "seconds"]
    parts = []
    for place, every in _by_place(lines).items():
        cells, rows = grouped(latest(every, *fields, "seed").values(), *fields), list[list[str]]()
        for (graph, *shares), own in cells.items():
            about = [TITLES[graph], *(f"{share:.0%}" for share in shares), str(len(own))]
            means = [mean_sd([100 * line[name] for line in own]) for name in titles]
            rows.append([*about, *means, f"{own[0]['cell_seconds']:.1f}"])
        seconds = sum(own[0]["cell_seconds"] for own in cells.values())
        if is_paper:
            words = f"{seconds / 60:.1f} minutes in all, the target is at most "
            words += f"{most}: {_verdict(seconds / 60 <= most)}"
        else:
            words = f"{sum(map(len, cells.values()))} runs on {len(cells)} of {len(TITLES)} graphs "
            words += f"in {seconds:.0f} s"
        parts.append(table(" | ".join(head), rows, f"{place}: {words}."))
    return "\n\n".join(parts)


def startup_table(lines: Sequence[Line]) -> str:
    """How long a command takes that trains one epoch, beside the import of torch."""
    rows = []
    for place, (*_, line) in _by_place(lines).items():
        limit = 3 * line["import_torch"] + 1
        both = ("seconds", "import_torch")
        times = [f"{line[x]:.2f} ({line[f'{x}_smallest']:.2f})" for x in both]
        names = [f"`{name}`" for name, is_there in line["imported"].items() if is_there]
        met = _verdict(line["seconds"] <= limit)
        rows.append([place, *times, f"{limit:.2f}", met, ", ".join(names) or "none of them"])
    looked = ", ".join(f"`{name}`" for name in lines[-1]["imported"])
    return table(
        'where | `cgcl train cora --method cgcl --epochs 1`, s | `python -c "import torch"`, s '
        "| at most, s | met | imports",
        rows,
        f"Median, the smallest in brackets. Looked for: {looked}.",
    )


def busy_table(lines: Sequence[Line]) -> str:
    """How long whole commands take on a quiet machine and beside busy processes."""
    rows = []
    for line in latest(lines, "command").values():
        times = [", ".join(f"{s:.1f}" for s in line[x]) for x in ("quiet_s", "busy_s")]
        met = _verdict(line["ratio"] <= ASKED["busy"])
        rows.append([f"`{line['command']}`", *times, f"{line['ratio']:.1f}x", met])
    last = lines[-1]
    return table(
        f"command | quiet, s | beside {last['busy']} busy processes, s | ratio "
        f"| at most {ASKED['busy']}x",
        rows,
        f"{machine_of(last)}; {last['cores']} cores. A ratio is the median over rounds.",
    )


def after_table(lines: Sequence[Line]) -> str:
    """How long it takes from the last epoch of `cgcl train cora` to the prompt."""
    found = latest([line for line in lines if "silent_s" in line], "method")
    rows = [
        [method_named(x["method"]).title, f"{x['seconds']:.1f}", f"{x['silent_s']:.1f}"]
        for x in found.values()
    ]
    head = "method | from the last epoch to the prompt, s | longest without a word, s"
    return table(head, rows, f"{machine_of(lines[-1])}; Cora.")


def _made(
    make: Callable[[Sequence[Line]], str], kind: str, missing: str = MISSING, **where: str
) -> Callable[[], str]:
    """Return what makes a table or a plot of the lines of a kind, if there are any such."""

    def made() -> str:
        lines = [x for x in lines_of(kind) if all(x[own] == is_ for own, is_ in where.items())]
        return make(lines) if lines else missing

    return made


_SIZES = {"asked_engine": "auto"}
TABLES: dict[str, Callable[[], str]] = {
    "speed-cpu": _made(epochs_table, "epoch", on="cpu"),
    "speed-gpu": _made(epochs_table, "epoch", on="cuda"),
    "speed-ranking": _made(ranking_table, "cgcl-rank epoch", on="cuda"),
    "speed-choices": _made(choices_table, "epoch", on="cuda"),
    "speed-bits": _made(bits_table, "bits"),
    "speed-breakdown-cpu": _made(breakdown_table, "breakdown", way=FAST, on="cpu"),
    "speed-breakdown-gpu": _made(breakdown_table, "breakdown", way=FAST, on="cuda"),
    "speed-kernels": _made(kernels_table, "breakdown", way=FAST),
    "speed-scaling": _made(scaling_table, "scaling", **_SIZES),
    "speed-plots": _made(plots, "scaling", **_SIZES),
    "speed-accuracy": _made(accuracy_table, "accuracy"),
    "speed-row": _made(row_table, "row"),
    "speed-ranking-row": _made(row_table, "cgcl-rank row"),
    "speed-startup": _made(startup_table, "startup"),
    "speed-after": _made(after_table, "after"),
    "speed-busy": _made(busy_table, "busy"),
}
IMAGES: dict[str, Callable[[], str]] = {
    f"docs/images/speed-{name}.svg": _made(partial(scaling_plot, name), "scaling", "", **_SIZES)
    for name in COSTS
}

_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 406.0, 54.0, 256.0
# No two curves differ by colour alone: each has its own dashes and its own marks.
_STYLES = (("one", "circle"), ("two", "square"), ("three", "diamond"), ("four", "circle"))
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Curve:
    """What was measured in one place."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    """Positive, one for each x."""


class _Axis:
    """Where numbers lie along an axis: of logarithms over whole powers of ten, or of tens."""

    def __init__(
        self, values: Iterable[float], start: float, end: float, is_log: bool = True
    ) -> None:
        self.start, self.end, self.is_log = start, end, is_log
        steps = [self.step(value) for value in values]
        self.low, high = math.floor(min(steps)), math.ceil(max(steps))
        self.high = max(high, self.low + 1)

    def step(self, value: float) -> float:
        return math.log10(value) if self.is_log else value / 10

    def place(self, value: float) -> float:
        share = (self.step(value) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def marks(self) -> list[tuple[float, str]]:
        """Return where a line of the grid is, and its number."""
        steps = range(self.low, self.high + 1)
        if self.is_log:
            return [(self.place(10.0**power), _power(power)) for power in steps]
        return [(self.place(10 * tens), str(10 * tens)) for tens in steps]


def log_plot(curves: Sequence[Curve], xlabel: str, ylabel: str, guide: str | None = None) -> str:
    """Return the curves over axes of powers of ten.

    Args:
        curves: What to draw, at most four.
        xlabel: What the horizontal axis shows.
        ylabel: What the vertical axis shows.
        guide: What to call the dotted lines of slope 1 that end where each curve ends; None for no
            such lines and a vertical axis without logarithms.
    """
    across = _Axis((x for c in curves for x in c.x), _LEFT, _RIGHT)
    up = _Axis((y for c in curves for y in c.y), _BOTTOM, _TOP, guide is not None)

    def placed(x: Iterable[float], y: Iterable[float]) -> list[tuple[float, float]]:
        return [(across.place(a), up.place(b)) for a, b in zip(x, y, strict=True)]

    drawn = []
    for curve, style in zip(curves, _STYLES, strict=False):
        x_last, y_last = curve.x[-1], curve.y[-1]
        first = max(curve.x[0], x_last * 10**up.low / y_last)  # not below the lowest power
        ends = placed([first, x_last], [y_last * first / x_last, y_last]) if guide else None
        drawn.append((*style, placed(curve.x, curve.y), ends))
    legend = [(c.label, *style) for c, style in zip(curves, _STYLES, strict=False)]
    legend += [(guide, "guide", "")] if guide else []
    told = "both axes" if guide else "horizontal axis"
    about = {"label": f"{ylabel} against {xlabel.lower()}, {told} logarithmic"}
    about |= {"xlabel": xlabel, "ylabel": ylabel}
    how = {"trim_blocks": True, "keep_trailing_newline": True}
    plot = Environment(loader=FileSystemLoader(HERE), autoescape=True, **how).get_template(
        "plot.svg.jinja"
    )
    return plot.render(about, across=across, up=up, legend=legend, drawn=drawn)


def _power(power: int) -> str:
    """Return a power of ten as people read it."""
    if power < 0:
        return f"{10.0**power:.{-power}f}"
    return f"{10**power:,}" if power < 4 else "10" + str(power).translate(_RAISED)
