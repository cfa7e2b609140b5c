"""The whole CGCL row of the paper's Table I: five graphs, two shares of test links, ten runs.

    python benchmarks/speed/table1_row.py --device cuda
    python benchmarks/speed/table1_row.py --device cuda --method cgcl-rank

Every run has its own split and 800 epochs; the runs of a cell are trained together. A cell's time
is that of the clock on the wall: splitting, training, looking at the validation links every ten
epochs, and the test. Reading a graph is not in it, compiling the kernels is. CGCL-rank has the
preset `best` and a tenth of the links to test on, among all nodes, too. Lines go to
benchmarks/results/ as they come; cells that are there are not run again.
"""

from __future__ import annotations

import time

import torch
from measuring import GRAPHS, Clock, Line, Lines, about, options

import cgcl
from cgcl.graph import Graph
from cgcl.methods.settings import PRESETS
from cgcl.split import random_split
from cgcl.train.config import Resources, RunConfig
from cgcl.train.fit import fit_many

__all__ = ["SHARES", "cell"]

SHARES = ((0.05, 0.10), (0.10, 0.20))
"""Of the links, those to choose the epoch by and those to test on."""


def cell(graph: Graph, job: Line, resources: Resources) -> list[Line]:
    """Train the runs of one cell and return a line for each."""
    start = time.perf_counter()
    told = {name: job[name] for name in ("val", "test", "epochs", "views", "lr") if name in job}
    is_ranking = job["method"] != "cgcl"
    preset = {"preset": "best"} if is_ranking else PRESETS["paper"]
    recipes = [
        RunConfig.for_graph(job["method"], {**preset, **told, "seed": seed}, graph)
        for seed in range(job["runs"])
    ]
    splits = [
        random_split(graph, recipe.split.val, recipe.split.test, recipe.split.seed)
        for recipe in recipes
    ]
    results = fit_many(graph, splits, recipes, resources, top_of_list=is_ranking)
    seconds = time.perf_counter() - start
    return [
        {
            **job,
            "kind": f"{job['method']} row" if is_ranking else "row",
            "seed": recipe.split.seed,
            "auc": trained.test["auc"],
            "ap": trained.test["ap"],
            "node_mrr": trained.test.get("node_mrr"),
            "val_auc": trained.val["auc"] if trained.val else None,
            "best_epoch": trained.best_epoch,
            "stopped": trained.stopped.reason if trained.stopped else None,
            "split": split.fingerprint,
            "cell_seconds": round(seconds, 3),
        }
        for recipe, split, trained in zip(recipes, splits, results, strict=True)
        if trained.test is not None
    ]


def main() -> None:
    """Run the cells that are missing while there is time."""
    parser = options(__doc__, "speed-row.jsonl")
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--method", choices=["cgcl", "cgcl-rank"], default="cgcl")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--epochs", type=int, help="instead of those of the preset")
    parser.add_argument("--views", default="disjoint", help="of cgcl")
    parser.add_argument("--lr", type=float, default=PRESETS["paper"]["lr"], help="of cgcl")
    asked = parser.parse_args()
    clock, lines = Clock(asked.seconds), Lines(asked.out)
    own: Line = {"views": asked.views, "lr": asked.lr, "epochs": PRESETS["paper"]["epochs"]}
    own = own if asked.method == "cgcl" else {}
    own |= {"epochs": asked.epochs} if asked.epochs else {}
    names = ("method", "graph", "val", "test", "runs", "epochs", "views", "lr")
    done = {tuple(({"method": "cgcl"} | line).get(name) for name in names) for line in lines.before}
    resources = Resources(device=asked.device, threads=asked.threads)
    for name in asked.graphs.split(","):
        graph = cgcl.read(name, data_root=asked.data_root)
        for val, test in SHARES if asked.method == "cgcl" else SHARES[:1]:
            job: Line = {"method": asked.method, "graph": name, "val": val, "test": test}
            job |= {"runs": asked.runs, **own}
            if tuple(job.get(key) for key in names) in done or clock.left == 0:
                continue
            found = cell(graph, job, resources)
            for line in found:
                lines.add({**line, **about(asked.device, asked.threads)})
            auc = torch.tensor([line["auc"] for line in found])
            print(
                f"{name}, {test:.0%}: {found[0]['cell_seconds']:.1f} s, "
                f"AUC {100 * auc.mean():.2f} +- {100 * auc.std():.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
