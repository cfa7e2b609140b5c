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

import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from statistics import mean

import torch

import cgcl
from cgcl.experiments.tables import csv_text
from cgcl.graph import Graph
from cgcl.methods.settings import PRESETS
from cgcl.metrics import auc
from cgcl.predict import LinkPredictor
from cgcl.seeds import stream
from cgcl.split import NegativeSampler
from run import Line, grouped, mean_sd, options, results_of, run_missing, stamp, table

KEY = ("graph", "method", "preset", "seed")
METHODS = {
    "cgcl": "CGCL",
    "mlp": "features only (MLP)",
    "adamic-adar": "Adamic-Adar",
    "common-neighbours": "common neighbours",
}
CUTS = (10, 50, 100, 500, 1000)
SHARE = 0.10

Pairs = list[tuple[str, str]]


def take_out(graph: Graph, seed: int) -> tuple[Pairs, Pairs]:
    """Return the links that stay in the file and those that are taken out, as names."""
    order = torch.randperm(graph.num_edges, generator=stream(seed, "taken out")).tolist()
    links = named(graph, graph.edges)
    count = int(SHARE * len(links))
    return [links[i] for i in sorted(order[count:])], [links[i] for i in sorted(order[:count])]


def named(graph: Graph, pairs: torch.Tensor) -> Pairs:
    """Return pairs as names."""
    return [(graph.names[a], graph.names[b]) for a, b in pairs.T.tolist()]


def write_files(folder: Path, graph: Graph, links: Pairs) -> tuple[Path, Path]:
    """Write links and features as a user would have them."""
    if graph.x is None:
        raise SystemExit(f"{graph.title} has no features.")
    # %.9g gives every float32 back.
    features = (
        [name, *(f"{value:.9g}" for value in row)]
        for name, row in zip(graph.names, graph.x.to_dense().tolist(), strict=True)
    )
    head = ["node", *(f"f{i}" for i in range(graph.num_features))]
    (folder / "links.csv").write_text(csv_text(("source", "target"), links), "utf-8")
    (folder / "features.csv").write_text(csv_text(head, features), "utf-8")
    return folder / "links.csv", folder / "features.csv"


def measure(graph: Graph, predictor: LinkPredictor, taken: Pairs) -> Line:
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


def auc_of(graph: Graph, predictor: LinkPredictor, taken: Pairs) -> float:
    """Return the AUC of the links taken out against ten times as many other unlinked pairs."""
    gone = torch.stack([graph.nodes_named([pair[end] for pair in taken]) for end in (0, 1)])
    unlinked = NegativeSampler(torch.cat([graph.edges, gone], dim=1), graph.num_nodes)
    others = unlinked.draw_distinct(10 * len(taken), stream(0, "others"))
    return auc(predictor.score(taken), predictor.score(named(graph, others)))


def run(job: Line, place: Line) -> Line:
    """Write the files without a tenth of the links, fit, and measure."""
    whole = cgcl.read(job["graph"], data_root=place["data_root"])
    kept, taken = take_out(whole, job["seed"])
    with tempfile.TemporaryDirectory() as folder:
        links, features = write_files(Path(folder), whole, kept)
        graph = cgcl.read(links, features=features)
    settings = {**PRESETS[job["preset"]]} if job["method"] == "cgcl" else {}
    settings |= {"test": 0.0, "seed": job["seed"]}
    settings |= {"device": place["device"], "threads": place["threads"]}
    found = measure(graph, LinkPredictor(job["method"], **settings), taken)
    return {**job, **found, "fingerprint": graph.fingerprint, **stamp(place, job["method"])}


def shown(result: Line) -> str:
    """Return a result in a line."""
    head = f"{result['graph']}, seed {result['seed']}, {result['method']}"
    return f"{head}: P@100 {result['precision']['100']:.2f}"


def _about(lines: Sequence[Line]) -> tuple[str, str, str]:
    first = lines[0]
    seeds = len({line["seed"] for line in lines})
    return f"{first['taken_out']:,} links taken out", f"{first['pairs']:,}", f"{seeds} seeds"


def _precisions(lines: Sequence[Line], scale: float, digits: int) -> list[str]:
    return [mean_sd([scale * line["precision"][str(k)] for line in lines], digits) for k in CUTS]


def summary(records: Sequence[Line]) -> str:
    """Return a table of means, and standard deviations over seeds."""
    parts: list[str] = []
    for (graph, preset), group in sorted(grouped(records, "graph", "preset").items()):
        of, rows = grouped(group, "method"), list[list[str]]()
        for own in (of[name,] for name in METHODS if (name,) in of):
            recalls = [mean(line["recall"][str(k)] for line in own) for k in CUTS]
            cells = map("{} ({:.3f})".format, _precisions(own, 1, 3), recalls)
            rows.append([own[0]["method"], *cells, f"{mean(line['auc'] for line in own):.3f}"])
        gone, pairs, seeds = _about(group)
        words = f"{graph}, preset {preset}, {seeds}: {gone}, {pairs} unlinked pairs; precision "
        head = " | ".join(["method", *(f"k = {k:,}" for k in CUTS), "AUC"])
        parts += [f"{words}(recall) of the first k suggestions\n", table(head, rows), ""]
    return "\n".join(parts)


def new_links_table() -> str:
    """Precision among the first suggestions, beside simple methods."""
    records, rows = results_of("new_links"), list[list[str]]()
    of = grouped(records, "method", "preset")
    for method, title in METHODS.items():
        for preset in ("quick", "paper") if method == "cgcl" else ("quick",):
            own = of[method, preset]
            label = f"{title}, {preset} preset" if method == "cgcl" else title
            area = 100 * mean(line["auc"] for line in own)
            rows.append([label, *_precisions(own, 100, 1), f"{area:.1f}"])
    gone, pairs, seeds = _about(records)
    about = f"{gone}, {pairs} pairs to search, {seeds}; percent, mean ± sd."
    return table(" | ".join(["method", *(f"P@{k:,}" for k in CUTS), "AUC"]), rows, about)


TABLES: dict[str, Callable[[], str]] = {"new_links": new_links_table}


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
            for graph, seed, method in product(chosen.graphs, chosen.seeds, METHODS)
        ]
        run_missing("new_links", jobs, run, shown, chosen, KEY)
    print(summary(results_of("new_links", KEY, chosen.out)))


if __name__ == "__main__":
    main()
