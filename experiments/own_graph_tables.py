"""The tables of docs/measured.md, from the results of experiments and benchmarks."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import structure

ROOT = Path(__file__).parents[1]


def lines_of(name: str) -> list[dict[str, Any]]:
    """Return the records of a file of JSON lines in experiments/results/."""
    text = (ROOT / "experiments" / "results" / f"{name}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def benchmark(name: str) -> dict[str, Any]:
    """Return a file of benchmarks/results/."""
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())


def calibration_table() -> str:
    """Every curve on every graph, means over splits."""
    records = lines_of("calibration")
    lines = [
        "| graph | curve | calibration error at 1:1 | links in the best 1,000: promised / found, "
        "mean (each split) |",
        "| --- | --- | --- | --- |",
    ]
    for graph in dict.fromkeys(record["graph"] for record in records):
        splits = sorted((r for r in records if r["graph"] == graph), key=lambda r: r["seed"])
        for curve in ("raw sigmoid", "temperature", "platt", "isotonic", "chosen"):
            results = [record["results"][curve] for record in splits]
            ece = statistics.mean(result["ece"] for result in results)
            expected = [result["expected"]["1000"] for result in results]
            observed = [result["observed"]["1000"] for result in results]
            each = ", ".join(f"{e:.1f} / {o}" for e, o in zip(expected, observed, strict=True))
            name = f"**{curve}**" if curve == "chosen" else curve
            lines.append(
                f"| {graph} | {name} | {ece:.4f} | {statistics.mean(expected):.1f} / "
                f"{statistics.mean(observed):.1f} ({each}) |"
            )
    methods = sorted({record["method"] for record in records})
    devices = sorted({record["device"].split(":")[0] for record in records})
    runs = len({record["seed"] for record in records})
    lines += ["", f"{runs} splits, {', '.join(devices)}; chosen by validation: {methods[0]}."]
    if len(methods) > 1:
        raise SystemExit("calibration: say which method was chosen where")
    return "\n".join(lines)


def new_links_table() -> str:
    """Precision among the first suggestions, beside simple methods."""
    records = lines_of("new_links")
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
    path = ROOT / "experiments" / "results" / "structure.json"
    return structure.summary(json.loads(path.read_text()))
