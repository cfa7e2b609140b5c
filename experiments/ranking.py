"""Measure the top of the list: search, ablation, rows, test, without features, by either engine.

    python experiments/ranking.py search --device cuda
    python experiments/ranking.py run --methods cgcl-rank,cgcl --device cuda
    python experiments/ranking.py run --methods adamic-adar --workers 2
    python experiments/ranking.py quick --threads 2
    python experiments/ranking.py negatives --device cuda
    python experiments/ranking.py readable --device cuda, and fast beside it
    python experiments/ranking.py heart-search --device cuda --data-root FOLDER, then heart
    python experiments/ranking.py hits100-search --device cuda, then hits100

What to run stands in ranking.toml, for the last two lines in harder.toml. A result is one line of
JSON in experiments/results/; what is there with the same settings is not computed again, so an
interrupted call goes on where it stopped. Of two lines about the same run the later one counts.
The tables of docs/ranking.md are written here, too.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from statistics import mean

import cgcl
import harder
import run
from cgcl.experiments.statistics import LEVEL, Difference, paired_difference
from cgcl.graph import Graph
from cgcl.methods.settings import TrainedSettings
from cgcl.methods.table import METHODS, method_named
from cgcl.split import random_split
from cgcl.train.config import RunConfig
from cgcl.train.top_of_list import ranking_metrics
from harder import not_run
from run import TITLES, Key, Line, mean_sd, percent, table
from speed import Curve, log_plot

RESULTS, SEARCH = "ranking", "ranking_search"
OURS = "cgcl-rank"
# These look at validation links only.
BLIND = ("search", "ablation", "negatives", *harder.GOALS)
# These take the readable path: the first is `run` once more, and what is compared in the second is
# to differ in its rows alone.
READABLE = ("readable", "negatives")
KEY = ("stage", "graph", "features", "name", "seed")

ASKED = run.described("ranking")
SHOWN = ASKED["shown"]
EARLIER, FORMULAS, MEASURES = (SHOWN[name] for name in ("earlier", "formulas", "measures"))
HEAD = " | ".join([*MEASURES.values(), "splits"])


def jobs_of(experiment: Line, stage: str) -> Iterator[Line]:
    """Yield the runs of a stage, the first split of all first."""
    told = experiment[stage]
    if stage in BLIND:
        for part in told.values():
            for graph, seeds in part["seeds"].items():
                for seed, (name, changed) in product(seeds, part["variants"].items()):
                    settings = {"preset": "best", **part.get("base", {}), **changed}
                    job = _job(stage, graph, OURS, name, seed, settings)
                    yield {**job, "features": part.get("features", True)}
        return
    seeds = range(told.get("first", 0), max(told["splits"].values()))
    for seed, graph, method in product(seeds, told["graphs"], told["splits"]):
        most = min(told["splits"][method], told.get("most", {}).get(graph, seeds.stop))
        if seed < most and graph in told.get("only", {}).get(method, told["graphs"]):
            own = told.get("settings", {}).get(method, {})
            settings = {**_settings(stage, graph, method), **own}
            yield _job(stage, graph, method, method, seed, settings)


def _job(stage: str, graph: str, method: str, name: str, seed: int, settings: Line) -> Line:
    values = {"graph": graph, "method": method, "name": name, "seed": seed, "settings": settings}
    return {"stage": stage, "features": stage != "bare", **values}


def _settings(stage: str, graph: str, method: str) -> Line:
    """Return what a method is told: for Table I's rows what Table I tells them."""
    if method == OURS:
        return {"preset": "quick" if stage == "quick" else "best"}
    row = run.described("reproduce/table1")["rows"].get(method, {})
    own = row.get("on", {}).get(graph, {})
    names = [*row.get("chosen", ()), *own.get("chosen", ())]
    found = run.described("reproduce/chosen").get(f"{method}-{graph}-10", {})
    return {**row.get("settings", {}), **own.get("settings", {}), **{n: found[n] for n in names}}


def run_once(job: Line, place: Line) -> Line | None:
    """Train once and measure; None if that was done before."""
    stage, graph = job["stage"], _read(job["graph"], data_root=place["data_root"])
    if not job["features"]:
        graph = replace(graph, x=None, feature_names=())
    if job["settings"].get("normalised"):
        graph = harder.normalised(graph)
    is_harder, is_blind = stage in harder.STAGES, stage in BLIND
    if is_harder:
        split = harder.split_of(job, graph, place["data_root"])
    else:
        split = random_split(graph, 0.05, 0.10, job["seed"])
    recipe = _recipe(job, graph)
    # A setting that a line does not know of had its default then.
    default, have = type(recipe.settings)().to_json(), place["have"].get(run.key_of(job, KEY))
    if have is not None and recipe.settings.to_json() == {**default, **have}:
        return None
    line = {**job, "settings": recipe.settings.to_json(), "nodes": graph.num_nodes}
    engine = "plain" if stage in READABLE else "auto"
    how = {"measure_test": not is_blind, "top_of_list": not is_harder}
    line, trained = run.trained_once(line, graph, split, recipe, place, engine, **how)
    if trained is None:
        return line
    val, test = dict(trained.val or {}), dict(trained.test or {})
    sampled, scorer = trained.test_sampled, trained.scorer(split.train)
    if is_harder:
        harder.measure(job, scorer, split, place["data_root"], {"val": val, "test": test})
    elif is_blind:
        # Test links are pairs like any other here.
        val = ranking_metrics(scorer, split, "val").metrics | val
    elif "precision@1000" not in test:
        # Nobody waits here: all pairs, whatever it takes.
        test, sampled = test | ranking_metrics(scorer, split, budget=math.inf).metrics, None
    return {**line, "val": val, "test": test, "sampled": sampled}


# A process makes many runs on a graph.
_read = cache(cgcl.read)


def _recipe(job: Line, graph: Graph) -> RunConfig:
    method, told = method_named(job["method"]), {**job["settings"], "seed": job["seed"]}
    times = told.pop("epochs_times", None)
    told.pop("normalised", None)  # said of the graph, not of the method
    if issubclass(method.settings, TrainedSettings):
        told.setdefault("choose_by", harder.choose_by(job["stage"]))
    if job["method"] != OURS:
        told = {**method.authors_settings(job["graph"]), **told}
    recipe = RunConfig.for_graph(job["method"], told, graph)
    if times is None:
        return recipe
    told["epochs"] = round(times * recipe.epochs)
    return RunConfig.for_graph(job["method"], told, graph)


def shown(result: Line) -> str:
    """Return a result in a line."""
    words = run.shown(result)
    # Nothing runs after such an error in the same process.
    return sys.exit(words) if "CUDA error" in result.get("failure", "") else words


def _stage(stage: str) -> dict[Key, list[Line]]:
    return run.runs_of(stage, RESULTS, SEARCH)


def _cells(runs: Iterable[Line], part: str, shown: Iterable[str] = MEASURES) -> list[str]:
    """Return what some runs reached, AUC with a digit more."""
    own = list(runs)
    return [mean_sd(percent(own, m, part), 2 if m == "auc" else 1) for m in shown]


def _row(names: Sequence[str], runs: Sequence[Line], part: str = "test") -> list[str]:
    return [*names, *_cells(runs, part), str(len(runs))]


def _means(runs: Sequence[Line], measure: str, part: str = "val") -> float:
    return mean(percent(runs, measure, part))


Variants = dict[Key, dict[str, list[Line]]]
"""Runs by graph and whether it has its features, then by the name of their settings."""


def _variants(stage: str, only: Sequence[str] = ()) -> Variants:
    lines = [
        x for x in run.sound(SEARCH) if x["stage"] == stage and (not only or x["name"] in only)
    ]
    # Of two lines about the same run the later one counts.
    last = run.latest(lines, "graph", "features", "name", "seed").values()
    return {
        key: {name: runs for (name,), runs in run.grouped(own, "name").items()}
        for key, own in run.grouped(last, "graph", "features").items()
    }


def _title(graph: str, has_features: bool) -> str:
    return TITLES[graph] + ("" if has_features else ", features taken away")


def _variant_rows(found: Variants) -> list[list[str]]:
    """Return what each setting does on validation links."""
    return [
        _row([_title(*key), name], runs, "val")
        for key, own in found.items()
        for name, runs in own.items()
    ]


def search_table() -> str:
    """What the last search found on validation links, as the rule has it and otherwise."""
    rows = _variant_rows(_variants("search"))
    first, second, third = (sum(x["stage"] == s for x in run.sound(SEARCH)) for s in EARLIER)
    told = (
        f"Before that, {first} runs found roughly where to look, {second} compared what "
        f"is left, both with p linear in z itself, and {third} had p of z normalised and all w "
        f"positive."
    )
    return table(f"graph | settings | {HEAD}", rows, told) if rows else not_run("search")


def gone_table() -> str:
    """What was tried and given up, beside what was kept."""
    before, now = map(_variants, EARLIER[1:])
    shown: Variants = {}
    for key, found in before.items():
        tried = {name: found[name] for name in SHOWN["gone"] if name in found}
        shown[key] = {"base": found["base"], **tried} if tried else {}
        # The same settings, with p of z and of its normalised form.
        if key[1] and "input dropout 0.3" in found:
            shown[key]["p of z"] = found["input dropout 0.3"]
            same = run.paired(shown[key]["p of z"], now[key]["base"])[1]
            shown[key]["p of z normalised"] = same
    return table(f"graph |  | {HEAD}", _variant_rows(shown))


def trials_table() -> str:
    """What two changes of the decoder are worth, of all that was tried on a CPU."""
    return table(f"graph |  | {HEAD}", _variant_rows(_variants("trial", SHOWN["deciding"])))


def left_out_table() -> str:
    """Whether settings chosen on the other graphs of a kind are good on the one left out."""
    rows = []
    for has_features, graphs, stage in SHOWN["kinds"].values():
        found = _variants(stage)
        of = {g: found[g, has_features] for g in graphs if (g, has_features) in found}
        if len(of) < len(graphs):
            continue
        names = [n for n in of[graphs[0]] if all(n in runs for runs in of.values())]
        names = [n for n in names if not n.startswith("quick")]
        for graph in graphs:
            others = {g: runs for g, runs in of.items() if g != graph}
            row = [_title(graph, has_features), str(len(names))]
            for name in (_chosen(own, names) for own in (of, others, {graph: of[graph]})):
                figures = (_means(of[graph][name], m) for m in ("node_mrr", "precision@100"))
                row.append(f"{name} ({' / '.join(f'{value:.1f}' for value in figures)})")
            rows.append(row)
    head = "left out | settings | by all | by the others | by itself"
    return table(head, rows) if rows else not_run("search")


def _chosen(of: Mapping[str, Mapping[str, list[Line]]], names: Sequence[str]) -> str:
    """Return the setting that is best over some graphs, each of which counts alike.

    What counts is how far its node MRR is from the best one there, among settings that keep the
    best hundred.
    """
    ranks, tops = (
        {name: [_means(runs[name], measure) for runs in of.values()] for name in names}
        for measure in ("node_mrr", "precision@100")
    )
    best = [max(values) for values in zip(*ranks.values(), strict=True)]
    top = {name: mean(values) for name, values in tops.items()}
    first = top.get("base", min(top.values()))
    return max(
        (name for name in names if top[name] >= first - SHOWN["most_lost"]),
        key=lambda name: mean(x / y for x, y in zip(ranks[name], best, strict=True)),
    )


def ablation_table() -> str:
    """What each part of the model is worth on validation links."""
    found, told = _stage("ablation"), ASKED["ablation"]["all"]
    if not found:
        return not_run("ablation")
    shown = [*product(told["seeds"], ("node_mrr", "precision@1000", "auc"))]
    rows = [
        [name, *(_cells(found.get((graph, name), ()), "val", [m])[0] for graph, m in shown)]
        for name in told["variants"]
    ]
    return table(" | ".join(["", *(f"{TITLES[graph]} {MEASURES[m]}" for graph, m in shown)]), rows)


def _curves() -> dict[str, dict[str, list[Line]]]:
    """Return the runs of the stage `negatives` by graph and rows, on splits that have them all."""
    found, curves = _stage("negatives"), dict[str, dict[str, list[Line]]]()
    for part in ASKED["negatives"].values():
        for graph in part["seeds"]:
            runs = run.paired(*(found[graph, name] for name in part["variants"]))
            if runs[0]:
                curves[graph] = dict(zip(part["variants"], runs, strict=True))
    return curves


def negatives_table() -> str:
    """Node MRR on validation links by the number of rows that a step looks at."""
    curves = _curves()
    if not curves:
        return not_run("negatives")
    names = {name for runs in curves.values() for name in runs}
    # Numbers by their size, then "all".
    order = sorted(names, key=lambda name: (not name[0].isdigit(), len(name), name))
    rows = [
        [name, *(_cells(runs.get(name, ()), "val", ["node_mrr"])[0] for runs in curves.values())]
        for name in order
    ]
    rows.append(["splits", *(str(len(runs["all"])) for runs in curves.values())])
    few = "1,024"
    apart = (
        f"{_means(runs[few], 'node_mrr') - _means(runs['all'], 'node_mrr'):+.1f} on {TITLES[graph]}"
        for graph, runs in curves.items()
    )
    return table(
        " | ".join(["rows a step", *(f"{TITLES[graph]} node MRR" for graph in curves)]),
        rows,
        f"{few} rows a step instead of all: {', '.join(apart)}.",
        "",
        "![Node MRR on validation links against rows a step](images/ranking-rows.svg)",
    )


def negatives_plot() -> str:
    """Return node MRR against rows a step, all rows at the number of nodes."""
    curves = [
        Curve(
            TITLES[graph],
            [own[0]["settings"]["sampled"] or own[0]["nodes"] for own in runs.values()],
            [_means(own, "node_mrr") for own in runs.values()],
        )
        for graph, runs in _curves().items()
    ]
    return log_plot(curves, "Rows a step", "Node MRR, validation links, %") if curves else ""


def engines_table() -> str:
    """The fast engine beside the readable path over the same splits."""
    rows, fast, more, plain = list[list[str]](), *map(_stage, ("run", "fast", "readable"))
    for graph in ASKED["readable"]["graphs"]:
        key = (graph, OURS)
        both = run.paired(fast.get(key, []) + more.get(key, []), plain.get(key, ()))
        if not both[0]:
            rows.append([TITLES[graph], "`readable`: not run yet", *[""] * 9])
            continue
        devices = dict.fromkeys(line["device"] for runs in both for line in runs)
        preset = both[0][0]["settings"]["preset"]
        cells = [TITLES[graph], f"{preset}, {', '.join(devices)}", str(len(both[0]))]
        for measure, most in SHOWN["most_apart"].items():
            one, other = (percent(runs, measure) for runs in both)
            apart = paired_difference(one, other)
            error = "" if apart.sd is None else f" ± {apart.sd / apart.runs**0.5:.2f}"
            cells += [mean_sd(other), mean_sd(one), f"{apart.mean:+.2f}{error}"]
            cells.append("yes" if abs(apart.mean) <= most else "**no**")
        rows.append(cells)
    names = "readable, {0} | fast, {0} | difference | at most {1}"
    shown = (names.format(MEASURES[measure], most) for measure, most in SHOWN["most_apart"].items())
    return table(" | ".join(["graph | preset, device | splits", *shown]), rows)


def _apart(found: dict[Key, list[Line]], graph: str, name: str, measure: str) -> Difference | None:
    """Return ours minus another method's over common splits, None if there are none."""
    ours, theirs = (found.get((graph, own), ()) for own in (OURS, name))
    return run.apart(ours, theirs, measure)


def _tables(found: dict[Key, list[Line]], stage: str, names: Sequence[str]) -> list[str]:
    """Return a table for each graph, with an empty line after it."""
    asked, lines = ASKED[stage], list[str]()
    for graph in asked["graphs"]:
        rows = []
        for name in names:
            most = asked["splits"].get(name, 5)
            runs = [line for line in found.get((graph, name), ()) if line["seed"] < most]
            if runs:
                rows.append(_row([method_named(name).title], runs))
        if rows:
            lines += [table(f"{TITLES[graph]} | {HEAD}", rows), ""]
    return lines


def run_table() -> str:
    """Every method on the same test links."""
    found, asked = _stage("run"), ASKED["run"]
    names = [name for name in METHODS if name in asked["splits"]]
    tables = _tables(found, "run", names)
    if not any(name == OURS for _, name in found):
        return "\n".join([*tables, not_run("run")])
    places = [(graph, name) for graph in asked["graphs"] for name in names if name != OURS]
    told = (_ahead(found, places, measure) for measure in ("node_mrr", "precision@1000"))
    return "\n".join([*tables, "\n\n".join(told)])


def _ahead(found: dict[Key, list[Line]], places: Sequence[tuple[str, str]], measure: str) -> str:
    """Return who is ahead of whom, by paired tests corrected for their number."""
    tested = run.tested({place: _apart(found, *place, measure) for place in places})
    behind = [
        f"{method_named(name).title} on {TITLES[graph]} ({own.mean:+.1f})"
        for (graph, name), own in tested.items()
        if own.mean < 0
    ]
    chances = [own.adjusted_p for own in tested.values() if own.mean > 0]
    sure = sum(p is not None and p < LEVEL for p in chances)
    return (
        f"**{MEASURES[measure]}**, searched unlike: the mean is ahead in "
        f"{len(tested) - len(behind)} of {len(tested)} comparisons, in {sure} by more than "
        "chance explains (paired test, corrected for overlapping splits and for the number of "
        "comparisons)." + (f" Behind: {'; '.join(behind)}." if behind else "")
    )


def summary_table() -> str:
    """Ours, the paper's model and the best formula, a row for each graph."""
    found, shown = _stage("run"), ("node_mrr", "precision@100", "precision@1000", "auc")
    rows = []
    for graph in ASKED["run"]["graphs"]:
        row = [TITLES[graph]]
        for measure in shown:
            values = {name: percent(found.get((graph, name), ()), measure) for name in METHODS}
            means = {name: mean(own) for name, own in values.items() if own}
            best = max(means.get(name, 0.0) for name in FORMULAS)
            digits = 2 if measure == "auc" else 1
            figures = (means.get(OURS), means.get("cgcl"), best)
            row.append(" / ".join("" if x is None else f"{x:.{digits}f}" for x in figures))
        rows.append(row)
    names = (MEASURES[measure] for measure in shown)
    return table(" | ".join(["CGCL-rank / CGCL / the best of six formulas", *names]), rows)


def bare_table() -> str:
    """The same without features."""
    # Formulas look at no features.
    found = _stage("bare") | {k: runs for k, runs in _stage("run").items() if k[1] in FORMULAS}
    lines = _tables(found, "bare", [OURS, "cgcl", *FORMULAS])
    if not any(name == OURS for _, name in found):
        return "\n".join([*lines, not_run("bare")])
    ahead = [
        f"{method_named(name).title} on {TITLES[graph]} ({MEASURES[measure]}, by {-less.mean:.1f})"
        for graph, measure in product(ASKED["bare"]["graphs"], ("node_mrr", "precision@100"))
        for name in ("cgcl", *FORMULAS)
        if (less := _apart(found, graph, name, measure)) and less.mean < 0
    ]
    told = f"Ahead of CGCL-rank over the same splits: {', '.join(ahead)}; nothing else."
    return "\n".join([*lines, told if ahead else "Nothing is ahead of CGCL-rank here."])


def first_table() -> str:
    """The model as first tried, beside the one of today on the same splits."""
    stages = {"today": _stage("run"), "as first tried": _stage("first")}
    rows = [
        _row([TITLES[graph], title], found.get((graph, OURS), []))
        for graph, (title, found) in product(ASKED["first"]["graphs"], stages.items())
    ]
    return table(f" |  | {HEAD}", rows)


def quick_table() -> str:
    """The quick preset on two cores, beside Adamic-Adar."""
    found, formulas, rows = _stage("quick"), _stage("run"), list[list[str]]()
    for graph in ASKED["quick"]["graphs"]:
        ours = found.get((graph, OURS), [])
        there, _ = run.paired(formulas.get((graph, "adamic-adar"), ()), ours)
        seconds = mean_sd([line["seconds"] for line in ours], 0)
        sides = ((TITLES[graph], ours, seconds), ("Adamic-Adar there", there, ""))
        rows += [[title, *_cells(x, "test"), time, str(len(x))] for title, x, time in sides if x]
    if not rows:
        return not_run("quick").replace("--device cuda", "--threads 2")
    return table(" | ".join(["", *MEASURES.values(), "seconds", "splits"]), rows)


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


def main() -> None:
    """Run what is missing."""
    parser = run.options(__doc__)
    stages = ["search", "ablation", *READABLE, "run", "fast", "bare", "first", "quick"]
    parser.add_argument("stage", choices=[*stages, *harder.STAGES])
    for name in ("methods", "graphs"):
        parser.add_argument(f"--{name}", default="", help="only these, with commas")
    chosen = parser.parse_args()
    is_harder = chosen.stage in harder.STAGES
    logs = (harder.RESULTS, harder.SEARCH) if is_harder else (RESULTS, SEARCH)
    log = logs[chosen.stage in BLIND]
    lines = run.results_of(log, (*KEY, "settings"), chosen.out)
    have = {run.key_of(line, KEY): line["settings"] for line in lines if "failure" not in line}
    only = {"method": run.listed(chosen.methods), "graph": run.listed(chosen.graphs)}
    todo = [
        harder.with_winner(job, chosen.out)
        if chosen.stage in harder.SEARCHES and job["method"] == OURS
        else job
        for job in jobs_of(harder.ASKED if is_harder else ASKED, chosen.stage)
        if all(job[name] in (own or [job[name]]) for name, own in only.items())
    ]
    # What has failed before comes last.
    failed = run.latest(lines, *KEY).keys() - have.keys()
    todo.sort(key=lambda job: run.key_of(job, KEY) in failed)
    # What is there with the same settings is left out by `run_once`, which knows them.
    run.run_missing(log, todo, run_once, shown, chosen, is_fresh=False, have=have)


if __name__ == "__main__":
    main()
