"""The tables of docs/ranking.md: the top of the list, from the results of ranking.py."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from cgcl.experiments.statistics import LEVEL, holm, paired_difference, spread_of
from cgcl.methods.table import METHODS, method_named
from script import Result, results_of
from speed_plot import Curve, log_plot

__all__ = ["IMAGES", "TABLES"]

HERE = Path(__file__).parent
OURS = "cgcl-rank"
FORMULAS = (
    "common-neighbours",
    "adamic-adar",
    "resource-allocation",
    "preferential-attachment",
    "katz",
    "pagerank",
)
TITLES = {
    "cora": "Cora",
    "citeseer": "CiteSeer",
    "pubmed": "PubMed",
    "photo": "Photo",
    "computers": "Computers",
}
MEASURES = {
    "node_mrr": "node MRR",
    "precision@100": "P@100",
    "precision@1000": "P@1,000",
    "auc": "AUC",
}

# Stages of the search before the last one, and the kinds of graphs that the rule tells apart.
EARLIER = ("first search", "second search", "third search")
DECIDING = (
    "all w positive",
    "an eighth of w negative",
    "a quarter of w negative",
    "half of w negative",
    "p of z, lr 0.005",
    "p of z normalised, lr 0.005",
    "p of z over the root of its length, lr 0.005",
    "p of z over the root of its length",
)
GONE = ("links as features", "own vectors")
# Each kind with whether it has features, its graphs, and the search that compared settings there.
KINDS = {
    "words": (True, ["cora", "citeseer"], "search"),
    "denser features": (True, ["photo", "computers", "pubmed"], EARLIER[1]),
    "no features": (False, ["cora", "citeseer", "photo", "pubmed"], "search"),
}
# So much of the best hundred, in points, may a setting cost that is chosen for its node MRR.
MOST_LOST = 0.5
# So far apart, in points, may the means of the fast engine and the readable path be.
MOST_APART = {"auc": 0.1, "node_mrr": 0.3}


def _lines(name: str) -> list[Result]:
    return [line for line in results_of(name) if "failure" not in line]


def _stage(stage: str) -> dict[tuple[str, str], dict[int, Result]]:
    """Return the runs of a stage by graph and name, then by split."""
    found: dict[tuple[str, str], dict[int, Result]] = defaultdict(dict)
    for line in _lines("ranking") + _lines("ranking_search"):
        if line["stage"] == stage:
            found[line["graph"], line["name"]][line["seed"]] = line
    return found


def _asked(stage: str) -> dict[str, Any]:
    told = tomllib.loads((HERE / "ranking.toml").read_text(encoding="utf-8"))
    asked: dict[str, Any] = told[stage]
    return asked


def _percent(runs: Iterable[Result], part: str, measure: str) -> list[float]:
    return [100 * run[part][measure] for run in runs if measure in (run[part] or {})]


def _cell(values: Sequence[float], digits: int = 1) -> str:
    if not values:
        return ""
    spread = spread_of(list(values))
    return f"{spread.mean:.{digits}f}" + ("" if spread.sd is None else f" ± {spread.sd:.{digits}f}")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows)]


def _missing(stage: str) -> str:
    return f"Not run yet: `python experiments/ranking.py {stage} --device cuda`."


def search_table() -> str:
    """What the last search found on validation links, as the rule has it and otherwise."""
    lines = _lines("ranking_search")
    rows = _rows(_by_variant(line for line in lines if line["stage"] == "search"))
    before = [sum(line["stage"] == stage for line in lines) for stage in EARLIER]
    told = (
        f"Before that, {before[0]} runs found roughly where to look, {before[1]} compared what "
        f"is left, both with p linear in z itself, and {before[2]} had p of z normalised and all w "
        f"positive."
    )
    head = ["graph", "settings", *MEASURES.values(), "splits"]
    return "\n".join([*_table(head, rows), "", told]) if rows else _missing("search")


def gone_table() -> str:
    """What was tried and given up, beside what was kept."""
    before, now = (
        _by_variant(line for line in _lines("ranking_search") if line["stage"] == stage)
        for stage in EARLIER[1:]
    )
    shown = {}
    for key, found in before.items():
        tried = {name: found[name] for name in GONE if name in found}
        if tried:
            tried = {"base": found["base"], **tried}
        # The same settings, with p of z and of its normalised form.
        if key[1] and "input dropout 0.3" in found:
            tried["p of z"] = found["input dropout 0.3"]
            seeds = [run["seed"] for run in tried["p of z"]]
            tried["p of z normalised"] = [r for r in now[key]["base"] if r["seed"] in seeds]
        shown[key] = tried
    return "\n".join(_table(["graph", "", *MEASURES.values(), "splits"], _rows(shown)))


def trials_table() -> str:
    """What two changes of the decoder are worth, of all that was tried on a CPU."""
    lines = [line for line in _lines("ranking_search") if line["stage"] == "trial"]
    rows = _rows(_by_variant(line for line in lines if line["name"] in DECIDING))
    return "\n".join(_table(["graph", "", *MEASURES.values(), "splits"], rows))


def left_out_table() -> str:
    """Whether settings chosen on the other graphs of a kind are good on the one left out."""
    rows = []
    for has_features, graphs, stage in KINDS.values():
        found = _by_variant(x for x in _lines("ranking_search") if x["stage"] == stage)
        of = {g: found[g, has_features] for g in graphs if (g, has_features) in found}
        if len(of) < len(graphs):
            continue
        names = [n for n in of[graphs[0]] if all(n in runs for runs in of.values())]
        names = [n for n in names if not n.startswith("quick")]
        by_all = _chosen(of, names)
        for graph in graphs:
            told = _chosen({g: runs for g, runs in of.items() if g != graph}, names)
            alone = _chosen({graph: of[graph]}, names)
            cells = [f"{name} ({_means(of[graph][name])})" for name in (by_all, told, alone)]
            rows.append([_title(graph, has_features=has_features), str(len(names)), *cells])
    head = ["left out", "settings", "by all", "by the others", "by itself"]
    return "\n".join(_table(head, rows)) if rows else _missing("search")


def _chosen(of: dict[str, dict[str, list[Result]]], names: Sequence[str]) -> str:
    """Return the setting that is best over some graphs, each of which counts alike.

    What counts is how far its node MRR is from the best one there, among settings that keep the
    best hundred.
    """

    def over_graphs(name: str, measure: str) -> list[float]:
        return [mean(_percent(runs[name], "val", measure)) for runs in of.values()]

    best = [max(over_graphs(name, "node_mrr")[i] for name in names) for i in range(len(of))]
    top = {name: mean(over_graphs(name, "precision@100")) for name in names}
    first = top.get("base", min(top.values()))
    return max(
        (name for name in names if top[name] >= first - MOST_LOST),
        key=lambda n: mean(x / y for x, y in zip(over_graphs(n, "node_mrr"), best, strict=True)),
    )


def _means(runs: Sequence[Result]) -> str:
    found = (mean(_percent(runs, "val", m)) for m in ("node_mrr", "precision@100"))
    return " / ".join(f"{value:.1f}" for value in found)


def _by_variant(lines: Iterable[Result]) -> dict[tuple[str, bool], dict[str, list[Result]]]:
    """Return runs by graph and whether it has its features, then by the name of their settings."""
    # Of two lines about the same run the later one counts.
    last = {(x["graph"], x["features"], x["name"], x["seed"]): x for x in lines}
    found: dict[tuple[str, bool], dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for (graph, has_features, name, _), line in last.items():
        found[graph, has_features][name].append(line)
    return found


def _rows(by_graph: dict[tuple[str, bool], dict[str, list[Result]]]) -> list[list[str]]:
    """Return what each setting does on validation links, as rows of a table."""
    return [
        [
            _title(graph, has_features=has_features),
            name,
            *(_cell(_percent(runs, "val", m), 2 if m == "auc" else 1) for m in MEASURES),
            str(len(runs)),
        ]
        for (graph, has_features), found in by_graph.items()
        for name, runs in found.items()
    ]


def _title(graph: str, *, has_features: bool) -> str:
    return TITLES[graph] + ("" if has_features else ", features taken away")


def ablation_table() -> str:
    """What each part of the model is worth on validation links."""
    found, asked = _stage("ablation"), _asked("ablation")
    if not found:
        return _missing("ablation")
    shown, graphs = ("node_mrr", "precision@1000", "auc"), list(asked["all"]["seeds"])
    head = ["", *(f"{TITLES[g]} {MEASURES[m]}" for g in graphs for m in shown)]
    rows = []
    for name in asked["all"]["variants"]:
        cells = [
            _cell(_percent(found.get((graph, name), {}).values(), "val", m), 2 if m == "auc" else 1)
            for graph in graphs
            for m in shown
        ]
        rows.append([name, *cells])
    return "\n".join(_table(head, rows))


def _rows_of(run: Result) -> int:
    """Return how many rows each step of a run looks at."""
    return run["settings"]["sampled"] or run["nodes"]


def _curves() -> dict[str, dict[str, list[Result]]]:
    """Return the runs of the stage `negatives` by graph and rows, on splits that have them all."""
    found = _stage("negatives")
    curves: dict[str, dict[str, list[Result]]] = {}
    for part in _asked("negatives").values():
        for graph in part["seeds"]:
            runs = {name: found[graph, name] for name in part["variants"]}
            seeds = sorted(set.intersection(*(set(own) for own in runs.values())))
            if seeds:
                curves[graph] = {name: [own[s] for s in seeds] for name, own in runs.items()}
    return curves


def negatives_table() -> str:
    """Node MRR on validation links by the number of rows that a step looks at."""
    curves = _curves()
    if not curves:
        return _missing("negatives")
    names = dict.fromkeys(name for runs in curves.values() for name in runs if name != "all")
    order = [*sorted(names, key=lambda name: int(name.replace(",", ""))), "all"]
    rows = [
        [
            name,
            *(_cell(_percent(runs.get(name, ()), "val", "node_mrr")) for runs in curves.values()),
        ]
        for name in order
    ]
    splits = [str(len(runs["all"])) for runs in curves.values()]
    head = ["rows a step", *(f"{TITLES[graph]} node MRR" for graph in curves)]
    few = "1,024"
    apart = []
    for graph, runs in curves.items():
        some, every = (mean(_percent(runs[name], "val", "node_mrr")) for name in (few, "all"))
        apart.append(f"{some - every:+.1f} on {TITLES[graph]}")
    told = f"{few} rows a step instead of all: {', '.join(apart)}."
    image = "![Node MRR on validation links against rows a step](images/ranking-rows.svg)"
    return "\n".join([*_table(head, [*rows, ["splits", *splits]]), "", told, "", image])


def negatives_plot() -> str:
    """Return node MRR against rows a step, all rows at the number of nodes."""
    curves = [
        Curve(
            TITLES[graph],
            [_rows_of(own[0]) for own in runs.values()],
            [mean(_percent(own, "val", "node_mrr")) for own in runs.values()],
        )
        for graph, runs in _curves().items()
    ]
    return log_plot(curves, "Rows a step", "Node MRR, validation links, %") if curves else ""


def engines_table() -> str:
    """The fast engine beside the readable path over the same splits."""
    rows = []
    fast, plain = _stage("run"), _stage("readable")
    for graph in _asked("readable")["graphs"]:
        ours, theirs = fast.get((graph, OURS), {}), plain.get((graph, OURS), {})
        seeds = sorted(ours.keys() & theirs.keys())
        if not seeds:
            rows.append([TITLES[graph], "`readable`: not run yet", *[""] * 9])
            continue
        both = [[runs[seed] for seed in seeds] for runs in (ours, theirs)]
        devices = dict.fromkeys(run["device"] for runs in both for run in runs)
        cells = [TITLES[graph], f"{both[0][0]['settings']['preset']}, {', '.join(devices)}"]
        cells.append(str(len(seeds)))
        for measure, most in MOST_APART.items():
            one, other = (_percent(runs, "test", measure) for runs in both)
            apart = paired_difference(one, other)
            error = "" if apart.sd is None else f" ± {apart.sd / apart.runs**0.5:.2f}"
            cells += [_cell(other, 2), _cell(one, 2), f"{apart.mean:+.2f}{error}"]
            cells.append("yes" if abs(apart.mean) <= most else "**no**")
        rows.append(cells)
    names = ("readable, {0}", "fast, {0}", "difference", "at most {1}")
    shown = (name.format(MEASURES[m], most) for m, most in MOST_APART.items() for name in names)
    return "\n".join(_table(["graph", "preset, device", "splits", *shown], rows))


def _difference(
    found: dict[tuple[str, str], dict[int, Result]], graph: str, name: str, measure: str
) -> tuple[float, float | None] | None:
    """Return ours minus another method's, and how likely chance makes it, over common splits."""
    ours, theirs = found.get((graph, OURS), {}), found.get((graph, name), {})
    seeds = [
        seed
        for seed in sorted(ours.keys() & theirs.keys())
        if measure in ours[seed]["test"] and measure in theirs[seed]["test"]
    ]
    if not seeds:
        return None
    one, other = (
        _percent([runs[seed] for seed in seeds], "test", measure) for runs in (ours, theirs)
    )
    links = ours[seeds[0]]["links"]
    difference = paired_difference(one, other, links["test"] / links["train"])
    return difference.mean, difference.p


def _result_table(stage: str, names: Sequence[str]) -> list[str]:
    found, asked = _stage(stage), _asked(stage)
    if stage == "bare":  # formulas look at no features
        found |= {key: runs for key, runs in _stage("run").items() if key[1] in FORMULAS}
    lines: list[str] = []
    for graph in asked["graphs"]:
        rows = []
        for name in names:
            runs = found.get((graph, name), {})
            if not runs:
                continue
            splits = [
                run for seed, run in sorted(runs.items()) if seed < asked["splits"].get(name, 5)
            ]
            values = {m: _percent(splits, "test", m) for m in MEASURES}
            cells = [_cell(values[m], 2 if m == "auc" else 1) for m in MEASURES]
            rows.append([method_named(name).title, *cells, str(len(splits))])
        if rows:
            head = [TITLES[graph], *MEASURES.values(), "splits"]
            lines += [*_table(head, rows), ""]
    return lines


def run_table() -> str:
    """Every method on the same test links."""
    found, asked = _stage("run"), _asked("run")
    names = [name for name in METHODS if name in asked["splits"]]
    lines = _result_table("run", names)
    if not any(name == OURS for _, name in found):
        return "\n".join([*lines, _missing("run")])
    return "\n".join([*lines, *_ahead(found, names, asked["graphs"])])


def _ahead(
    found: dict[tuple[str, str], dict[int, Result]], names: Sequence[str], graphs: Sequence[str]
) -> list[str]:
    """Return who is ahead of whom, by paired tests corrected for their number."""
    lines = []
    for measure in ("node_mrr", "precision@1000"):
        tested = {
            (graph, name): difference
            for graph in graphs
            for name in names
            if name != OURS and (difference := _difference(found, graph, name, measure))
        }
        chances = [p for _, p in tested.values() if p is not None]
        adjusted = dict(
            zip((k for k, (_, p) in tested.items() if p is not None), holm(chances), strict=True)
        )
        behind = [
            f"{method_named(name).title} on {TITLES[graph]} ({mean:+.1f})"
            for (graph, name), (mean, _) in tested.items()
            if mean < 0
        ]
        sure = sum(mean > 0 and adjusted.get(key, 1.0) < LEVEL for key, (mean, _) in tested.items())
        lines.append(
            f"**{MEASURES[measure]}**: the mean is ahead in {len(tested) - len(behind)} of "
            f"{len(tested)} comparisons, in {sure} by more than chance explains (paired test, "
            f"corrected for overlapping splits and for the number of comparisons)."
            + (f" Behind: {'; '.join(behind)}." if behind else "")
        )
        lines.append("")
    return lines[:-1]


def summary_table() -> str:
    """Ours, the paper's model and the best formula, a row for each graph."""
    found, asked = _stage("run"), _asked("run")
    shown = ("node_mrr", "precision@100", "precision@1000", "auc")
    rows = []
    for graph in asked["graphs"]:
        cells = []
        for measure in shown:
            digits = 2 if measure == "auc" else 1
            means = {
                name: mean(values)
                for name in (OURS, "cgcl", *FORMULAS)
                if (values := _percent(found.get((graph, name), {}).values(), "test", measure))
            }
            best = max(means.get(name, 0.0) for name in FORMULAS)
            row = [means.get(OURS), means.get("cgcl"), best]
            cells.append(" / ".join("" if x is None else f"{x:.{digits}f}" for x in row))
        rows.append([TITLES[graph], *cells])
    head = ["CGCL-rank / CGCL / the best of six formulas", *(MEASURES[m] for m in shown)]
    return "\n".join(_table(head, rows))


def bare_table() -> str:
    """The same without features."""
    lines = _result_table("bare", [OURS, "cgcl", *FORMULAS])
    found = _stage("bare")
    if not any(name == OURS for _, name in found):
        return "\n".join([*lines, _missing("bare")])
    found |= {key: runs for key, runs in _stage("run").items() if key[1] in FORMULAS}
    ahead = [
        f"{method_named(name).title} on {TITLES[graph]} ({MEASURES[measure]}, by {-less[0]:.1f})"
        for graph in _asked("bare")["graphs"]
        for measure in ("node_mrr", "precision@100")
        for name in ("cgcl", *FORMULAS)
        if (less := _difference(found, graph, name, measure)) and less[0] < 0
    ]
    told = f"Ahead of CGCL-rank over the same splits: {', '.join(ahead)}; nothing else."
    return "\n".join([*lines, told if ahead else "Nothing is ahead of CGCL-rank here."])


def first_table() -> str:
    """The model as first tried, beside the one of today on the same splits."""
    now, before = _stage("run"), _stage("first")
    rows = []
    for graph in _asked("first")["graphs"]:
        for title, found in (("today", now), ("as first tried", before)):
            runs = [run for _, run in sorted(found.get((graph, OURS), {}).items())]
            cells = [_cell(_percent(runs, "test", m), 2 if m == "auc" else 1) for m in MEASURES]
            rows.append([TITLES[graph], title, *cells, str(len(runs))])
    return "\n".join(_table(["", "", *MEASURES.values(), "splits"], rows))


def quick_table() -> str:
    """The quick preset on two cores, beside Adamic-Adar."""
    found = _stage("quick")
    rows = []
    for graph in _asked("quick")["graphs"]:
        runs = [run for _, run in sorted(found.get((graph, OURS), {}).items())]
        if not runs:
            continue
        cells = [_cell(_percent(runs, "test", m), 2 if m == "auc" else 1) for m in MEASURES]
        seconds = _cell([run["seconds"] for run in runs], 0)
        rows.append([TITLES[graph], *cells, seconds, str(len(runs))])
        formula = [_stage("run").get((graph, "adamic-adar"), {}).get(run["seed"]) for run in runs]
        there = [run for run in formula if run is not None]
        if there:
            cells = [_cell(_percent(there, "test", m), 2 if m == "auc" else 1) for m in MEASURES]
            rows.append(["Adamic-Adar there", *cells, "", str(len(there))])
    if not rows:
        return _missing("quick").replace("--device cuda", "--threads 2")
    return "\n".join(_table(["", *MEASURES.values(), "seconds", "splits"], rows))


TABLES: dict[str, Callable[[], str]] = {
    "ranking-search": search_table,
    "ranking-gone": gone_table,
    "ranking-trials": trials_table,
    "ranking-left-out": left_out_table,
    "ranking-ablation": ablation_table,
    "ranking-negatives": negatives_table,
    "ranking-run": run_table,
    "ranking-summary": summary_table,
    "ranking-first": first_table,
    "ranking-bare": bare_table,
    "ranking-quick": quick_table,
    "ranking-engines": engines_table,
}
IMAGES: dict[str, Callable[[], str]] = {"docs/images/ranking-rows.svg": negatives_plot}
