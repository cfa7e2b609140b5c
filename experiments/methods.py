"""Run every method on the citation graphs: with its authors' settings, and tuned.

    python experiments/methods.py tune --workers 2    chooses settings by validation links
    python experiments/methods.py run --workers 2     trains and tests, on every split

What to run stands in methods.toml. A result is one line of JSON in experiments/results/. Results
that are there are not computed again, so an interrupted run goes on where it stopped. The tables
of docs/methods.md are written here, too.
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import cgcl
from cgcl.experiments.search import tune
from cgcl.experiments.statistics import Difference, corrected, paired_difference, spread_of
from cgcl.methods.settings import TrainedSettings
from cgcl.methods.table import METHODS, method_named
from cgcl.split import random_split
from cgcl.train.config import Resources, RunConfig, SplitConfig
from run import (
    HERE,
    TITLES,
    Key,
    Line,
    described,
    grouped,
    latest,
    listed,
    mean_sd,
    options,
    percent,
    results_of,
    run_missing,
    sound,
    stamp,
    table,
    trained_once,
)

RESULTS, TUNING = "methods", "tuning"
KINDS = ("authors", "tuned")
# Nobody published these as methods of their own.
CONTROLS = ("gcn", "mlp")
OURS = "cgcl"


def caps_of(experiment: Line, method: str, graph: str) -> Line:
    """Return what is cut down for a method on a graph."""
    return dict(experiment.get("caps", {}).get(method, {}).get(graph, {}))


def studies(experiment: Line) -> Iterator[Line]:
    """Yield every search for settings, the slow ones first."""
    tuning = experiment["tuning"]
    for graph in reversed(experiment["graphs"]):
        for method in experiment.get("methods", METHODS):
            if method_named(method).search:
                yield {
                    "graph": graph,
                    "method": method,
                    "trials": tuning["fewer"].get(method, {}).get(graph, tuning["trials"]),
                    "split": tuning["split"],
                    "fixed": caps_of(experiment, method, graph),
                }


def runs(experiment: Line, tuned: dict[Key, Line]) -> Iterator[Line]:
    """Yield every run, split by split; those with settings that are still to be found are not."""
    for seed in experiment["splits"]:
        for graph in reversed(experiment["graphs"]):
            for method in experiment.get("methods", METHODS):
                caps = caps_of(experiment, method, graph)
                settings = {"authors": {**method_named(method).authors_settings(graph), **caps}}
                if (graph, method) in tuned:
                    settings["tuned"] = tuned[graph, method]["settings"]
                for kind, own in settings.items():
                    job = {"graph": graph, "method": method, "kind": kind, "seed": seed}
                    yield {**job, "settings": own}


def tune_once(job: Line, place: Line) -> Line | None:
    """Search for the settings of one method on one graph; None if time ran out."""
    remaining = place["deadline"] - time.time()
    if remaining <= 0:
        return None
    graph, shares = cgcl.read(job["graph"], data_root=place["data_root"]), SplitConfig()
    limit = f"{remaining:.0f}s"
    found = tune(
        graph,
        random_split(graph, shares.val, shares.test, job["split"]),
        job["method"],
        job["trials"],
        resources=Resources(device=place["device"], threads=place["threads"], time_limit=limit),
        folder=place["out"] / "studies" / f"{job['graph']}-{job['method']}",
        fixed=job["fixed"],
    )
    if found.stopped not in (None, "all tried"):
        return None
    return {
        **job,
        "trials": len(found.trials),
        "failed": sum(trial.has_failed for trial in found.trials),
        "val": {"auc": found.best.auc, "ap": found.best.ap},
        "origin": found.best.origin,
        "settings": found.settings,
        "values": [trial.auc for trial in found.trials],
        "fingerprint": graph.fingerprint,
        **stamp(place),
    }


def run_once(job: Line, place: Line) -> Line | None:
    """Train and test once; None if time ran out."""
    if time.time() >= place["deadline"]:
        return None
    graph = cgcl.read(job["graph"], data_root=place["data_root"])
    recipe = RunConfig.of(job["method"], {**job["settings"], "seed": job["seed"]})
    split = random_split(graph, recipe.split.val, recipe.split.test, job["seed"])
    settings = recipe.settings
    line = {**job, "settings": settings.to_json(), "caps": settings.caps, **stamp(place)}
    return trained_once(line, graph, split, recipe, place)[0]


def shown(result: Line) -> str:
    """Return a result in a line."""
    head = f"{result['graph']}, {result['method']}"
    if "values" in result:
        return f"{head}: {result['trials']} trials, validation AUC {result['val']['auc']:.4f}"
    head = f"{head}, {result['kind']}, split {result['seed']}"
    if "failure" in result:
        return f"{head}: failed, {result['failure']}"
    test = result["test"]
    return f"{head}: AUC {test['auc']:.4f} AP {test['ap']:.4f}, {result['seconds']:.0f} s"


def results() -> dict[Key, list[Line]]:
    """Return the runs by graph, method and kind of settings, checked to be complete."""
    seeds = described("methods")["splits"]
    by_seed = sorted(sound(RESULTS), key=lambda run: run["seed"])
    found = grouped(by_seed, "graph", "method", "kind")
    for key, own in found.items():
        if [run["seed"] for run in own] != seeds[: len(own)]:
            raise SystemExit(f"{key}: the results are not those that the experiment asks for")
    return found


def published(method: str, graph: str) -> str:
    """Return every published figure of a method on a graph, with a letter for its source."""
    told = described("published")
    figures = {name: told.get(name, {}).get(method, {}).get(graph) for name in told["sources"]}
    return "<br>".join(
        f"{' / '.join(f'{value:.2f}' for value in own)} [{name}]"
        for name, own in figures.items()
        if own
    )


def against_ours(found: dict[Key, list[Line]], graph: str, kind: str) -> dict[str, str]:
    """Return the difference in AUC to CGCL with its corrected p-value, by method."""
    ours = found.get((graph, OURS, kind), [])
    apart: dict[str, Difference] = {}
    for method in METHODS:
        own = found.get((graph, method, kind), [])
        if method != OURS and own and ours:
            links, common = ours[0]["links"], min(len(own), len(ours))
            values = [percent(side[:common], "auc") for side in (own, ours)]
            overlap = links["test"] / links["train"]
            apart[method] = paired_difference(*values, overlap=overlap)
    return {
        method: f"{own.mean:+.2f}"
        + ("" if own.adjusted_p is None else f" (p {_p(own.adjusted_p)})")
        for method, own in zip(apart, corrected([*apart.values()]), strict=True)
    }


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def results_table(graph: str) -> str:
    """Every method on one graph: a row for each kind of settings."""
    found, rows = results(), list[list[str]]()
    notes: dict[str, str] = {}
    against = {kind: against_ours(found, graph, kind) for kind in KINDS}
    for method in METHODS:
        title, others = method_named(method).title, published(method, graph)
        for kind in KINDS:
            own = found.get((graph, method, kind), [])
            if not own:
                continue
            caps, mark = own[0]["caps"], ""
            if caps:
                mark = f" <sup>{notes.setdefault(caps, chr(ord('a') + len(notes)))}</sup>"
            means = [mean_sd(percent(own, name)) for name in ("auc", "ap", "hits@100", "mrr")]
            seconds = spread_of([run["seconds"] for run in own]).mean
            cells = [against[kind].get(method, ""), f"{seconds:.1f}", f"{own[0]['parameters']:,}"]
            rows.append([title, _words(method, kind) + mark, *means, *cells, others])
            title = others = ""  # told once
    head = "method | settings | AUC | AP | Hits@100 | MRR | AUC minus CGCL | seconds | weights"
    told = [f"<sup>{letter}</sup> {caps}.  " for caps, letter in notes.items()]
    return table(f"{head} | published AUC / AP", rows, _about(found, graph), *told)


def _words(method: str, kind: str) -> str:
    """Return what to call a kind of settings."""
    is_formula = not issubclass(method_named(method).settings, TrainedSettings)
    if kind == "authors" and (is_formula or method in CONTROLS):
        return "default"
    return "authors'" if kind == "authors" else kind


def _about(found: dict[Key, list[Line]], graph: str) -> str:
    """Return how many links and splits results on a graph are of, and where they were made."""
    here = {key: own for key, own in found.items() if key[0] == graph}
    every = [run for own in here.values() for run in own]
    links, count = every[0]["links"], max(map(len, here.values()))
    fewer = [
        f", {method_named(method).title} {len(own)}"
        for (_, method, kind), own in here.items()
        if kind == "authors" and len(own) < count
    ]
    return (
        f"{TITLES[graph]}: {links['train']:,} links to learn from, {links['val']:,} to choose by, "
        f"{links['test']:,} to test on; mean and standard deviation over {count} splits"
        f"{''.join(fewer)}; {', '.join(sorted({run['device'] for run in every}))}."
    )


def tuning_table() -> str:
    """What tuning chose, by how many trials."""
    found, rows = latest(results_of(TUNING), "method", "graph"), list[list[str]]()
    for name, method in zip(METHODS, map(method_named, METHODS), strict=True):
        for graph in described("methods")["graphs"]:
            line = found.get((name, graph))
            if line is not None:
                first = "failed" if line["values"][0] is None else f"{100 * line['values'][0]:.2f}"
                best = f"{100 * line['val']['auc']:.2f}"
                chosen = ", ".join(f"{own} {line['settings'][own]}" for own in method.search)
                where = [method.title, TITLES[graph], str(line["trials"])]
                rows.append([*where, first, best, chosen])
    head = "method | graph | trials | validation AUC: defaults | best | chosen"
    return table(head, rows)


def seal_hops_table() -> str:
    """SEAL with two hops beside one, on the same splits."""
    near, rows = latest(results_of(RESULTS), "method", "kind", "graph", "seed"), list[list[str]]()
    for far in results_of("seal_hops"):
        graph, seed = far["graph"], far["seed"]
        pair = (near["seal", "authors", graph, seed], far)
        figures = [[f"{100 * line['test'][name]:.2f}" for name in ("auc", "ap")] for line in pair]
        rows.append([TITLES[graph], str(seed), *map(" / ".join, figures)])
    return table("graph | split | 1 hop: AUC / AP | 2 hops: AUC / AP", rows)


def sources_list() -> str:
    """Where the published figures were read."""
    return "\n".join(
        f"- [{name}] {words}" for name, words in described("published")["sources"].items()
    )


TABLES: dict[str, Callable[[], str]] = {
    **{
        f"methods-{graph}": partial(results_table, graph)
        for graph in described("methods")["graphs"]
    },
    "methods-tuning": tuning_table,
    "methods-sources": sources_list,
    "methods-seal-hops": seal_hops_table,
}


def main() -> None:
    """Run what is missing."""
    parser = options(__doc__)
    parser.add_argument("what", choices=["tune", "run"])
    parser.add_argument("--experiment", type=Path, default=HERE / "methods.toml")
    parser.add_argument("--methods", help="only these, separated by commas")
    parser.add_argument("--graphs", help="only these, separated by commas")
    parser.add_argument("--splits", type=int, help="only the first so many")
    parser.add_argument("--kinds", default=",".join(KINDS), help="authors, tuned or both")
    chosen = parser.parse_args()
    experiment = tomllib.loads(chosen.experiment.read_text(encoding="utf-8"))
    for name in ("methods", "graphs"):
        if getattr(chosen, name):
            experiment[name] = listed(getattr(chosen, name))
    experiment["splits"] = experiment["splits"][: chosen.splits]
    if chosen.what == "tune":
        run_missing(TUNING, studies(experiment), tune_once, shown, chosen, ("graph", "method"))
        return
    tuned = latest(
        results_of(TUNING, ("graph", "method", "settings"), chosen.out), "graph", "method"
    )
    jobs = [job for job in runs(experiment, tuned) if job["kind"] in listed(chosen.kinds)]
    run_missing(RESULTS, jobs, run_once, shown, chosen, ("graph", "method", "kind", "seed"))


if __name__ == "__main__":
    main()
