"""The tables of docs/measured.md, from the results of experiments and benchmarks."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scipy.stats import chi2

import calibration
import structure
from calibration import TOPS
from script import results_of

ROOT = Path(__file__).parents[1]
# Constants of the calibration were settled with some of the first splits in view.
CLEAN = range(5, 10)
SPLITS = {"5-9": CLEAN, "0-4": range(5)}
# So many times as many links as are found, or as few, may be promised.
MOST_OFF = 1.5


def benchmark(name: str) -> dict[str, Any]:
    """Return a file of benchmarks/results/."""
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())


def _splits(graph: str, seeds: Iterable[int]) -> dict[str, list[dict[str, Any]]]:
    """Return the records of a graph on some splits by preset; of two about one the later counts."""
    last = {
        (record["preset"], record["seed"]): record
        for record in results_of("calibration")
        if record["graph"] == graph and record["seed"] in seeds
    }
    found: dict[str, list[dict[str, Any]]] = {}
    for (preset, _), record in sorted(last.items()):
        found.setdefault(preset, []).append(record)
    return found


def calibration_table() -> str:
    """The curve that is kept: promised and found test links, the new splits before the old."""
    tops = [f"best {top:,}: promised / found, mean (each split) | ratio | fits" for top in TOPS]
    lines = [
        f"| graph, preset | splits | calibration error at 1:1, mean (worst) | {' | '.join(tops)} "
        "| different as printed, fewest: of 10, of 100 |",
        "| --- | --- | --- |" + " --- | --- | --- |" * len(TOPS) + " --- |",
    ]
    for graph, (words, seeds) in itertools.product(calibration.GRAPHS, SPLITS.items()):
        found = _splits(graph, seeds)
        if not found and seeds == CLEAN:
            lines.append(f"| {graph} | {words} | not run yet |" + " |" * (3 * len(TOPS) + 1))
        for preset, records in found.items():
            results = [record["results"]["chosen"] for record in records]
            cells = [_error(results)]
            cells += [
                f"{_promised(results, top)} | {_fits(results, top)}" for top in map(str, TOPS)
            ]
            fewest = (min(result["printed"][top] for result in results) for top in ("10", "100"))
            cells.append(", ".join(map(str, fewest)))
            named = f"{graph}, {preset} | {words}: {len(records)}"
            lines.append(f"| {named} | {' | '.join(cells)} |")
    devices = sorted({record["device"] for record in results_of("calibration")})
    return "\n".join([*lines, "", f"CGCL-rank; {', '.join(devices)}."])


def curves_table() -> str:
    """Every curve on every graph, over all splits that have run."""
    tops = (f"best {top:,}: promised / found, mean" for top in TOPS)
    lines = [
        f"| graph, preset | curve | kept on | calibration error at 1:1 | {' | '.join(tops)} |",
        "| --- | --- | --- | --- |" + " --- |" * len(TOPS),
    ]
    for graph in calibration.GRAPHS:
        for preset, records in _splits(graph, range(10)).items():
            for curve in ("temperature", "platt", "bent"):
                results = [record["results"][curve] for record in records]
                kept = sum(record["method"] == curve for record in records)
                cells = [f"{kept} of {len(records)}", _error(results)]
                cells += [_promised(results, str(top)).partition(" (")[0] for top in TOPS]
                lines.append(f"| {graph}, {preset} | {curve} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _error(results: list[dict[str, Any]]) -> str:
    errors = [result["ece"] for result in results]
    return f"{statistics.mean(errors):.4f} ({max(errors):.4f})"


def _promised(results: list[dict[str, Any]], top: str) -> str:
    """Return links promised and found among the best, the mean and each split."""
    expected = [result["expected"][top] for result in results]
    observed = [result["observed"][top] for result in results]
    each = ", ".join(f"{e:.1f} / {o}" for e, o in zip(expected, observed, strict=True))
    return f"{statistics.mean(expected):.1f} / {statistics.mean(observed):.1f} ({each})"


def _fits(results: list[dict[str, Any]], top: str) -> str:
    """Return two cells: promised over found, and by what rule that is near enough, if by any."""
    expected, observed = (
        sum(result[name][top] for result in results) for name in ("expected", "observed")
    )
    ratio = expected / observed if observed else math.inf
    low, high = chi2.ppf(0.025, 2 * observed) / 2, chi2.ppf(0.975, 2 * observed + 2) / 2
    if 1 / MOST_OFF <= ratio <= MOST_OFF:
        rule = f"factor {MOST_OFF}"
    else:
        rule = "chance" if (low if observed else 0.0) <= expected <= high else "**no**"
    return f"{ratio:.2f} | {rule}"


def new_links_table() -> str:
    """Precision among the first suggestions, beside simple methods."""
    records = results_of("new_links")
    cuts = ("10", "50", "100", "500", "1000")
    header = " | ".join(f"P@{int(cut):,}" for cut in cuts)
    lines = [f"| method | {header} | AUC |", "| --- |" + " --- |" * (len(cuts) + 1)]
    names = {
        "cgcl": "CGCL",
        "mlp": "features only (MLP)",
        "adamic-adar": "Adamic-Adar",
        "common-neighbours": "common neighbours",
    }
    for method, name in names.items():
        presets = ("quick", "paper") if method == "cgcl" else ("quick",)
        for preset in presets:
            rows = [r for r in records if (r["method"], r["preset"]) == (method, preset)]
            cells = []
            for cut in cuts:
                values = [100 * row["precision"][cut] for row in rows]
                cells.append(f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}")
            label = f"{name}, {preset} preset" if method == "cgcl" else name
            auc = statistics.mean(row["auc"] for row in rows)
            lines.append(f"| {label} | {' | '.join(cells)} | {100 * auc:.1f} |")
    first = records[0]
    seeds = len({record["seed"] for record in records})
    lines += [
        "",
        f"{first['taken_out']:,} links taken out, {first['pairs']:,} pairs to search, {seeds} "
        f"seeds; percent, mean ± sd.",
    ]
    return "\n".join(lines)


def candidates_table() -> str:
    """Candidates on PubMed against exact scoring."""
    found = benchmark("candidates")
    lines = [
        "| candidates | recall of the best 100 of a node | pairs scored | times fewer |",
        "| --- | --- | --- | --- |",
        f"| all pairs (exact) | 1 | {found['pairs']:,} | 1 |",
    ]
    lines += [
        f"| {way['way']} | {way['recall']:.4f} | {way['pairs']:,} | {way['times_fewer']:.0f} |"
        for way in found["ways"]
    ]
    linear = found["ways"][0]
    lines += [
        "",
        f"All {found['nodes']:,} nodes of {found['graph']}, width {found['hidden']}. With the "
        f"pairs that fit and check the candidates: {linear['times_fewer_with_everything']:.1f} "
        f"times fewer. The worst node keeps {linear['worst_node']:.2f} of its best 100; "
        f"{100 * linear['nodes_at_98_percent']:.1f} % of the nodes keep at least 0.98.",
    ]
    return "\n".join(lines)


def cost_table() -> str:
    """Reading and asking: seconds and memory."""
    read, ask = benchmark("read_links"), benchmark("predict")
    top = ask["top_1000"]["calls"][0]
    node = ask["one_node"]["calls"][1:]
    seconds = sorted(call["seconds"] for call in node)
    imported = ask["top_1000"]["memory_of_import_torch_mib"]
    return "\n".join(
        [
            "| what | seconds | beside it |",
            "| --- | --- | --- |",
            f"| read {read['rows']:,} links with {read['nodes']:,} names from CSV | "
            f"{read['cgcl_read']['seconds']:.2f} | Arrow's own reader, same run: "
            f"{read['pyarrow_read_csv']['seconds']:.2f} s, ratio {read['ratio']:.1f} |",
            f"| `cgcl predict --top 1000` on PubMed | {top['seconds']:.1f} | peak memory "
            f"{top['peak_mib']:,} MiB, of which {imported} are torch |",
            f"| `cgcl predict --node` on {ask['one_node']['nodes']:,} nodes | "
            f"{statistics.median(seconds):.1f} | peak memory "
            f"{max(call['peak_mib'] for call in node):,} MiB |",
            "",
            f"Whole processes, {ask['top_1000']['cores']} cores, torch {ask['top_1000']['torch']}.",
        ]
    )


def structure_table() -> str:
    """What stands in for features."""
    return structure.summary(results_of("structure"))
