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
from itertools import product
from pathlib import Path
from statistics import fmean

import cgcl
import run
from cgcl.experiments.search import tune
from cgcl.experiments.tables import p_words
from cgcl.methods.settings import TrainedSettings
from cgcl.methods.table import METHODS, method_named
from cgcl.split import random_split
from cgcl.train.config import Resources, SplitConfig
from run import TITLES, Key, Line, described, latest, mean_sd, percent, results_of, table

RESULTS, TUNING = "methods", "tuning"
KINDS = ("authors", "tuned")
# Nobody published these as methods of their own.
CONTROLS = ("gcn", "mlp")
OURS = "cgcl"


def _places(experiment: Line) -> Iterator[tuple[str, str, Line]]:
    """Yield graphs and methods, the slow ones first, and what is cut down there."""
    for graph, method in product(experiment["graphs"][::-1], experiment.get("methods", METHODS)):
        yield graph, method, experiment.get("caps", {}).get(method, {}).get(graph, {})


def studies(experiment: Line) -> Iterator[Line]:
    """Yield every search for settings."""
    tuning = experiment["tuning"]
    for graph, method, caps in _places(experiment):
        if method_named(method).search:
            trials = tuning["fewer"].get(method, {}).get(graph, tuning["trials"])
            job = {"graph": graph, "method": method, "trials": trials, "split": tuning["split"]}
            yield {**job, "fixed": caps}


def runs(experiment: Line, tuned: dict[Key, Line]) -> Iterator[Line]:
    """Yield every run, split by split; those with settings that are still to be found are not."""
    for seed, (graph, method, caps) in product(experiment["splits"], [*_places(experiment)]):
        settings = {"authors": {**method_named(method).authors_settings(graph), **caps}}
        if (graph, method) in tuned:
            settings["tuned"] = tuned[graph, method]["settings"]
        for kind, own in settings.items():
            job = {"graph": graph, "method": method, "kind": kind, "seed": seed}
            yield {**job, "settings": own}


def tune_once(job: Line, place: Line) -> Line | None:
    """Search for the settings of one method on one graph; None if time ran out."""
    graph, shares = cgcl.read(job["graph"], data_root=place["data_root"]), SplitConfig()
    limit = f"{max(1, place['deadline'] - time.time()):.0f}s"
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
        **run.stamp(place, job["method"]),
    }


def shown(result: Line) -> str:
    """Return a search in a line."""
    found = f"{result['trials']} trials, validation AUC {result['val']['auc']:.4f}"
    return f"{result['graph']}, {result['method']}: {found}"


def results() -> dict[Key, list[Line]]:
    """Return the runs by graph, method and kind of settings, checked to be complete."""
    seeds = described("methods")["splits"]
    by_seed = sorted(run.sound(RESULTS), key=lambda line: line["seed"])
    found = run.grouped(by_seed, "graph", "method", "kind")
    for key, own in found.items():
        if [line["seed"] for line in own] != seeds[: len(own)]:
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
    of = {method: found.get((graph, method, kind), []) for method in METHODS}
    apart = {name: run.apart(own, of[OURS], "auc") for name, own in of.items() if name != OURS}
    return {
        name: f"{own.mean:+.2f}"
        + ("" if own.adjusted_p is None else f" (p {p_words(own).replace('<', '< ')})")
        for name, own in run.tested(apart).items()
    }


def results_table(graph: str) -> str:
    """Every method on one graph: a row for each kind of settings."""
    found, rows, notes = results(), list[list[str]](), dict[str, str]()
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
            seconds = f"{fmean(line['seconds'] for line in own):.1f}"
            cells = [against[kind].get(method, ""), seconds, f"{own[0]['parameters']:,}"]
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
    every = [line for own in here.values() for line in own]
    links, count = every[0]["links"], max(map(len, here.values()))
    fewer = [
        f", {method_named(method).title} {len(own)}"
        for (_, method, kind), own in here.items()
        if kind == "authors" and len(own) < count
    ]
    return (
        f"{TITLES[graph]}: {links['train']:,} links to learn from, {links['val']:,} to choose by, "
        f"{links['test']:,} to test on; mean and standard deviation over {count} splits"
        f"{''.join(fewer)}; {', '.join(sorted({line['device'] for line in every}))}."
    )


def tuning_table() -> str:
    """What tuning chose, by how many trials."""
    found, rows = latest(results_of(TUNING), "method", "graph"), list[list[str]]()
    for name, graph in product(METHODS, described("methods")["graphs"]):
        if (name, graph) in found:
            line, method = found[name, graph], method_named(name)
            first, best = line["values"][0], 100 * line["val"]["auc"]
            figures = ["failed" if first is None else f"{100 * first:.2f}", f"{best:.2f}"]
            chosen = ", ".join(f"{own} {line['settings'][own]}" for own in method.search)
            rows.append([method.title, TITLES[graph], str(line["trials"]), *figures, chosen])
    return table("method | graph | trials | validation AUC: defaults | best | chosen", rows)


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
    parser = run.options(__doc__)
    parser.add_argument("what", choices=["tune", "run"])
    parser.add_argument("--experiment", type=Path, default=run.HERE / "methods.toml")
    for name in ("methods", "graphs"):
        parser.add_argument(f"--{name}", help="only these, separated by commas")
    parser.add_argument("--splits", type=int, help="only the first so many")
    parser.add_argument("--kinds", default=",".join(KINDS), help="authors, tuned or both")
    chosen = parser.parse_args()
    experiment = tomllib.loads(chosen.experiment.read_text(encoding="utf-8"))
    for name in ("methods", "graphs"):
        if getattr(chosen, name):
            experiment[name] = run.listed(getattr(chosen, name))
    experiment["splits"] = experiment["splits"][: chosen.splits]
    key = ("graph", "method")
    if chosen.what == "tune":
        run.run_missing(TUNING, studies(experiment), tune_once, shown, chosen, key)
        return
    tuned = latest(results_of(TUNING, (*key, "settings"), chosen.out), *key)
    jobs = [job for job in runs(experiment, tuned) if job["kind"] in run.listed(chosen.kinds)]
    run.run_missing(RESULTS, jobs, run.run, run.shown, chosen, (*key, "kind", "seed"))


if __name__ == "__main__":
    main()
