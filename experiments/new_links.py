"""Take a tenth of the links out of a file, train on the rest, look for them in the suggestions.

    python experiments/new_links.py --graphs cora --seeds 0 1 2 3 4
    python experiments/new_links.py --summary

A user's way: the remaining links are written to a CSV file, the features to another, `cgcl.read`
reads them, a predictor is fitted and asked for its best new links. Precision at k is the share of
the first k suggestions that are among the links taken out; recall at k is the share of the links
taken out that are among the first k. Every method gets the same files.

No test links are held out of the file again (test=0): the links that were taken out are the test,
and a user who wants suggestions has no reason to hide more from the model. The networks choose
their epoch by 5 % of the file's links (val=0.05). Every unlinked pair is scored.

A result is one line of JSON. Results that are there are not computed again.
"""

from __future__ import annotations

import csv
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from script import Job, Result, Where, options, results_of, run_missing, stamp

if TYPE_CHECKING:
    from cgcl.graph import Graph

KEY = ("graph", "method", "preset", "seed")
METHODS = ("cgcl", "mlp", "adamic-adar", "common-neighbours")
CUTS = (10, 50, 100, 500, 1000)
SHARE = 0.10


def take_out(graph: Graph, seed: int) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the links that stay in the file and those that are taken out, as names."""
    import torch

    from cgcl.seeds import stream

    order = torch.randperm(graph.num_edges, generator=stream(seed, "taken out")).tolist()
    links = [(graph.names[a], graph.names[b]) for a, b in graph.edges.T.tolist()]
    count = int(SHARE * len(links))
    return [links[i] for i in sorted(order[count:])], [links[i] for i in sorted(order[:count])]


def write_files(folder: Path, graph: Graph, links: list[tuple[str, str]]) -> tuple[Path, Path]:
    """Write links and features as a user would have them."""
    if graph.x is None:
        raise SystemExit(f"{graph.title} has no features.")
    links_file, features_file = folder / "links.csv", folder / "features.csv"
    with links_file.open("w", newline="") as file:
        csv.writer(file).writerows([("source", "target"), *links])
    rows = graph.x.to_dense().tolist()
    with features_file.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["node", *(f"f{i}" for i in range(graph.num_features))])
        # %.9g gives every float32 back.
        writer.writerows(
            [name, *(f"{value:.9g}" for value in row)]
            for name, row in zip(graph.names, rows, strict=True)
        )
    return links_file, features_file


def build(method: str, preset: str, seed: int, device: str, threads: int) -> Any:  # noqa: ANN401
    """Return an unfitted predictor."""
    from cgcl.methods.cgcl_settings import PRESETS
    from cgcl.predict import LinkPredictor

    settings: dict[str, Any] = {"test": 0.0, "seed": seed, "device": device, "threads": threads}
    if method == "cgcl":
        return LinkPredictor(method, **PRESETS[preset], **settings)
    return LinkPredictor(method, **settings)


def measure(graph: Graph, predictor: Any, taken: list[tuple[str, str]]) -> dict[str, Any]:  # noqa: ANN401
    """Fit on what is left and look for what was taken out."""
    start = time.perf_counter()
    predictor.fit(graph)
    fitted = time.perf_counter()
    suggested = predictor.top(max(CUTS), candidates="exact")
    wanted = {frozenset(pair) for pair in taken}
    hits = [frozenset((link.source, link.target)) in wanted for link in suggested]
    return {
        "precision": {str(k): sum(hits[:k]) / k for k in CUTS},
        "recall": {str(k): sum(hits[:k]) / len(taken) for k in CUTS},
        "taken_out": len(taken),
        "pairs": graph.num_nodes * (graph.num_nodes - 1) // 2 - graph.num_edges,
        "auc": auc_of(graph, predictor, taken),
        "fit_seconds": round(fitted - start, 2),
        "top_seconds": round(time.perf_counter() - fitted, 2),
    }


def auc_of(graph: Graph, predictor: Any, taken: list[tuple[str, str]]) -> float:  # noqa: ANN401
    """Return the AUC of the links taken out against ten times as many other unlinked pairs."""
    import torch

    from cgcl.metrics import auc
    from cgcl.seeds import stream
    from cgcl.split import UnlinkedPairs

    gone = torch.stack([graph.nodes_named([pair[end] for pair in taken]) for end in (0, 1)])
    all_links = torch.cat([graph.edges, gone], dim=1)
    others = UnlinkedPairs(all_links, graph.num_nodes).draw_distinct(
        10 * len(taken), stream(0, "others")
    )
    names = [(graph.names[a], graph.names[b]) for a, b in others.T.tolist()]
    return auc(predictor.score(taken), predictor.score(names))


def run(job: Job, place: Where) -> Result:
    """Write the files without a tenth of the links, fit, and measure."""
    import cgcl

    whole = cgcl.read(job["graph"], data_root=place["data_root"])
    kept, taken = take_out(whole, job["seed"])
    with tempfile.TemporaryDirectory() as folder:
        links, features = write_files(Path(folder), whole, kept)
        graph = cgcl.read(links, features=features)
    how = (job["method"], job["preset"], job["seed"])
    predictor = build(*how, place["device"], place["threads"])
    found = measure(graph, predictor, taken)
    return {**job, **found, "fingerprint": graph.fingerprint, **stamp(place)}


def shown(result: Result) -> str:
    """Return a result in a line."""
    head = f"{result['graph']}, seed {result['seed']}, {result['method']}"
    return f"{head}: P@100 {result['precision']['100']:.2f}"


def summary(records: list[dict[str, Any]]) -> str:
    """Return a table of means, and standard deviations over seeds."""
    lines: list[str] = []
    for graph, preset in sorted({(r["graph"], r["preset"]) for r in records}):
        group = [r for r in records if (r["graph"], r["preset"]) == (graph, preset)]
        first = group[0]
        seeds = len({r["seed"] for r in group})
        lines += [
            f"{graph}, preset {preset}, {seeds} seeds: {first['taken_out']:,} links taken out, "
            f"{first['pairs']:,} unlinked pairs; precision (recall) of the first k suggestions",
            "",
            "| method | " + " | ".join(f"k = {k:,}" for k in CUTS) + " | AUC |",
            "|---|" + "---|" * (len(CUTS) + 1),
        ]
        for method in METHODS:
            rows = [r for r in group if r["method"] == method]
            if rows:
                cells = [_cell(rows, str(k)) for k in CUTS]
                area = statistics.mean(r["auc"] for r in rows)
                lines.append(f"| {method} | " + " | ".join(cells) + f" | {area:.3f} |")
        lines.append("")
    return "\n".join(lines)


def _cell(rows: list[dict[str, Any]], cut: str) -> str:
    precision = [row["precision"][cut] for row in rows]
    spread = f" ± {statistics.stdev(precision):.3f}" if len(rows) > 1 else ""
    recall = statistics.mean(row["recall"][cut] for row in rows)
    return f"{statistics.mean(precision):.3f}{spread} ({recall:.3f})"


def main() -> None:
    """Run what is missing, or print what is there."""
    parser = options(__doc__, threads=2)
    parser.add_argument("--graphs", nargs="+", default=["cora"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--summary", action="store_true", help="print the table of what is there")
    chosen = parser.parse_args()
    if not chosen.summary:
        jobs = [
            {"graph": graph, "method": method, "preset": chosen.preset, "seed": seed}
            for graph in chosen.graphs
            for seed in chosen.seeds
            for method in METHODS
        ]
        run_missing("new_links", jobs, run, shown, chosen, KEY)
    print(summary(results_of("new_links", KEY, chosen.out)))


if __name__ == "__main__":
    main()
