"""The tables of docs/methods.md: every method with its authors' settings and tuned."""

from __future__ import annotations

import tomllib
from pathlib import Path

from cgcl.experiments.statistics import holm, paired_difference, spread_of
from cgcl.methods.settings import TrainedSettings
from cgcl.methods.table import METHODS, method_named
from script import Result, results_of

__all__ = ["TABLES"]

HERE = Path(__file__).parent
EXPERIMENT = tomllib.loads((HERE / "methods.toml").read_text(encoding="utf-8"))
PUBLISHED = tomllib.loads((HERE / "published.toml").read_text(encoding="utf-8"))
TITLES = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}
KINDS = ("authors", "tuned")
# Nobody published these as methods of their own.
CONTROLS = ("gcn", "mlp")
OURS = "cgcl"

# An AUC and, where it is known, an AP.
Figures = list[float]


def _results() -> dict[tuple[str, str, str], list[Result]]:
    """Return the runs by graph, method and kind of settings, checked to be complete."""
    found: dict[tuple[str, str, str], list[Result]] = {}
    for line in results_of("methods"):
        if "failure" not in line:
            found.setdefault((line["graph"], line["method"], line["kind"]), []).append(line)
    for key, runs in found.items():
        runs.sort(key=lambda run: run["seed"])
        if [run["seed"] for run in runs] != EXPERIMENT["splits"][: len(runs)]:
            raise SystemExit(f"{key}: the results are not those that the experiment asks for")
    return found


def _percent(runs: list[Result], metric: str) -> list[float]:
    return [100 * run["test"][metric] for run in runs]


def _overlap(runs: list[Result]) -> float:
    return runs[0]["links"]["test"] / runs[0]["links"]["train"]


def _mean(values: list[float]) -> str:
    spread = spread_of(values)
    return f"{spread.mean:.2f}" + ("" if spread.sd is None else f" ± {spread.sd:.2f}")


def _published(method: str, graph: str) -> str:
    """Return every published figure of a method on a graph, with a letter for its source."""
    found: list[str] = []
    for source in PUBLISHED["sources"]:
        figures: Figures | None = PUBLISHED.get(source, {}).get(method, {}).get(graph)
        if figures:
            found.append(" / ".join(f"{value:.2f}" for value in figures) + f" [{source}]")
    return "<br>".join(found) or ""


def _against_ours(
    results: dict[tuple[str, str, str], list[Result]], graph: str, kind: str
) -> dict[str, str]:
    """Return the difference in AUC to CGCL with its corrected p-value, by method."""
    ours = results.get((graph, OURS, kind), [])
    differences = {}
    for method in METHODS:
        runs = results.get((graph, method, kind), [])
        if method == OURS or not runs or not ours:
            continue
        common = min(len(runs), len(ours))
        differences[method] = paired_difference(
            _percent(runs[:common], "auc"), _percent(ours[:common], "auc"), _overlap(ours)
        )
    tested = {method: d.p for method, d in differences.items() if d.p is not None}
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    return {
        method: f"{d.mean:+.2f} (p {_p(adjusted[method])})"
        if method in adjusted
        else f"{d.mean:+.2f}"
        for method, d in differences.items()
    }


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def results_table(graph: str) -> str:
    """Every method on one graph: a row for each kind of settings."""
    results = _results()
    rows = [
        "| method | settings | AUC | AP | Hits@100 | MRR | AUC minus CGCL | seconds | weights "
        "| published AUC / AP |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    notes: dict[str, str] = {}
    against = {kind: _against_ours(results, graph, kind) for kind in KINDS}
    for method in METHODS:
        first = True
        for kind in KINDS:
            runs = results.get((graph, method, kind))
            if not runs:
                continue
            title = method_named(method).title if first else ""
            mark = _mark(runs[0]["caps"], notes)
            seconds = spread_of([run["seconds"] for run in runs]).mean
            rows.append(
                f"| {title} | {_words(method, kind)}{mark} | {_mean(_percent(runs, 'auc'))} "
                f"| {_mean(_percent(runs, 'ap'))} | {_mean(_percent(runs, 'hits@100'))} "
                f"| {_mean(_percent(runs, 'mrr'))} | {against[kind].get(method, '')} "
                f"| {seconds:.1f} | {runs[0]['parameters']:,} "
                f"| {_published(method, graph) if first else ''} |"
            )
            first = False
    return "\n".join([*rows, *_footnotes(results, graph, notes)])


def _words(method: str, kind: str) -> str:
    """Return what to call a kind of settings."""
    is_formula = not issubclass(method_named(method).settings, TrainedSettings)
    if kind == "authors" and (is_formula or method in CONTROLS):
        return "default"
    return "authors'" if kind == "authors" else kind


def _mark(caps: str, notes: dict[str, str]) -> str:
    if not caps:
        return ""
    return f" <sup>{notes.setdefault(caps, chr(ord('a') + len(notes)))}</sup>"


def _footnotes(
    results: dict[tuple[str, str, str], list[Result]], graph: str, notes: dict[str, str]
) -> list[str]:
    runs = [run for (where, _, _), found in results.items() for run in found if where == graph]
    count = max(len(found) for (where, _, _), found in results.items() if where == graph)
    links = runs[0]["links"]
    devices = sorted({run["device"] for run in runs})
    fewer = [
        f"{method_named(method).title} {len(found)}"
        for (where, method, kind), found in results.items()
        if where == graph and kind == "authors" and len(found) < count
    ]
    lines = [
        "",
        f"{TITLES[graph]}: {links['train']:,} links to learn from, {links['val']:,} to choose by, "
        f"{links['test']:,} to test on; mean and standard deviation over {count} splits"
        f"{', ' + ', '.join(fewer) if fewer else ''}; {', '.join(devices)}.",
    ]
    lines += [f"<sup>{letter}</sup> {caps}.  " for caps, letter in notes.items()]
    return lines


def tuning_table() -> str:
    """What tuning chose, by how many trials."""
    rows = [
        "| method | graph | trials | validation AUC: defaults | best | chosen |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    found = {(line["method"], line["graph"]): line for line in results_of("tuning")}
    for method in METHODS:
        for graph in EXPERIMENT["graphs"]:
            line = found.get((method, graph))
            if line is None:
                continue
            known = method_named(method)
            chosen = ", ".join(f"{name} {line['settings'][name]}" for name in known.search)
            first = line["values"][0]
            rows.append(
                f"| {known.title} | {TITLES[graph]} | {line['trials']} "
                f"| {'failed' if first is None else f'{100 * first:.2f}'} "
                f"| {100 * line['val']['auc']:.2f} | {chosen} |"
            )
    return "\n".join(rows)


def seal_hops_table() -> str:
    """SEAL with two hops beside one, on the same splits."""
    near = {
        (line["graph"], line["seed"]): line
        for line in results_of("methods")
        if line["method"] == "seal" and line["kind"] == "authors"
    }
    rows = ["| graph | split | 1 hop: AUC / AP | 2 hops: AUC / AP |", "| --- | --- | --- | --- |"]
    for far in results_of("seal_hops"):
        pair = (near[far["graph"], far["seed"]], far)
        one, two = (
            " / ".join(f"{100 * line['test'][metric]:.2f}" for metric in ("auc", "ap"))
            for line in pair
        )
        rows.append(f"| {TITLES[far['graph']]} | {far['seed']} | {one} | {two} |")
    return "\n".join(rows)


def sources_list() -> str:
    """Where the published figures were read."""
    return "\n".join(f"- [{name}] {words}" for name, words in PUBLISHED["sources"].items())


TABLES = {
    "methods-cora": lambda: results_table("cora"),
    "methods-citeseer": lambda: results_table("citeseer"),
    "methods-pubmed": lambda: results_table("pubmed"),
    "methods-tuning": tuning_table,
    "methods-sources": sources_list,
    "methods-seal-hops": seal_hops_table,
}
