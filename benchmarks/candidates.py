"""How many of each node's best partners the candidates hold, against exact scoring.

All pairs of the graph of a run are scored exactly, then each way to propose candidates is
measured on every node. Also measured: the peak memory of a process that looks for the best 1,000
links, and the time for one node of a graph with a million. Times are CPU seconds, which other
programs on the machine disturb least. Results go to benchmarks/results/candidates.json:

    python benchmarks/candidates.py --run RUN_FOLDER
    python benchmarks/candidates.py --graph pubmed --data-root FOLDER   trains one first
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import cgcl
from cgcl.graph import Graph
from cgcl.methods.scoring import REFERENCE_NODES, DecoderScorer
from cgcl.model import CGCL
from cgcl.predict import Query
from cgcl.predict.candidates import LinearCandidates, TwoHopCandidates, list_size
from cgcl.predict.pair_space import PairSpace
from cgcl.predict.search import find, share_held
from cgcl.predict.strategy import SAMPLED_NODES
from cgcl.seeds import stream
from cgcl.train.execution import versions

__all__: list[str] = []

RESULT = Path(__file__).parent / "results" / "candidates.json"
BEST = 100
MILLION = 1_000_000


def load(run: str) -> tuple[DecoderScorer, Graph, Tensor]:
    """Return the scorer, the graph and the embeddings of a run."""
    predictor = cgcl.LinkPredictor.load(run, device="cpu")
    graph = predictor.graph_
    scorer = predictor.scorer()
    if not isinstance(scorer, DecoderScorer):
        raise SystemExit(f"{run} was trained by another method than CGCL.")
    return scorer, graph, scorer.z


def score_all(scorer: DecoderScorer, graph: Graph) -> Tensor:
    """Return the logits of all pairs, [n, n]; -inf where a pair cannot be suggested."""
    logits = torch.full((graph.num_nodes, graph.num_nodes), -torch.inf)
    for pairs in PairSpace(graph, Query()).blocks(2**18):
        found = scorer.logits(pairs)
        logits[pairs[0], pairs[1]] = found
        logits[pairs[1], pairs[0]] = found
    return logits


def measure(
    way: str,
    candidates: LinearCandidates | TwoHopCandidates,
    space: PairSpace,
    exact: Tensor,
    seconds: float,
) -> dict[str, Any]:
    """Compare one way with exact scoring on every node."""
    proposed, start = 0, time.process_time()
    for pairs in candidates.blocks():
        proposed += pairs.shape[1]
    seconds += time.process_time() - start
    recalls: list[float] = []
    for low in range(0, space.rows.numel(), 256):
        rows = slice(low, min(low + 256, space.rows.numel()))
        held = candidates.holds((rows, slice(0, space.columns.numel())))
        held &= torch.isfinite(exact[rows])
        recalls += [share_held(*row, BEST) for row in zip(exact[rows], held, strict=True)]
    recall = torch.tensor(recalls, dtype=torch.float64)
    return {
        "way": way,
        "recall": float(recall.mean()),
        "worst_node": float(recall.min()),
        "nodes_at_98_percent": float((recall >= 0.98).double().mean()),
        "pairs": proposed,
        "times_fewer": space.size / proposed,
        "cpu_seconds_to_propose": seconds,
    }


def compare(run: str) -> dict[str, Any]:
    """Measure every way on every node of a run's graph."""
    scorer, graph, z = load(run)
    space = PairSpace(graph, Query())
    start = time.process_time()
    exact = score_all(scorer, graph)
    result: dict[str, Any] = {
        "graph": graph.title,
        "nodes": graph.num_nodes,
        "pairs": space.size,
        "hidden": z.shape[1],
        "list_size": list_size(graph.num_nodes),
        "cpu_seconds_exact": time.process_time() - start,
        "ways": [],
    }
    products = {"linear": scorer.factors, "inner product": lambda: (z, z)}
    for way, factors in products.items():
        start = time.process_time()
        candidates = LinearCandidates(space, factors())
        seconds = time.process_time() - start
        result["ways"].append(measure(way, candidates, space, exact, seconds))
        show(result["ways"][-1])
    start = time.process_time()
    walks = TwoHopCandidates(graph, space)
    result["ways"].append(measure("two-hop", walks, space, exact, time.process_time() - start))
    show(result["ways"][-1])
    # Beside the candidates, the decoder sees the pairs that make it linear and, on the sampled
    # nodes, all pairs.
    linear = result["ways"][0]
    extra = graph.num_nodes * (REFERENCE_NODES + SAMPLED_NODES)
    linear["times_fewer_with_everything"] = space.size / (linear["pairs"] + extra)
    return result


def show(row: dict[str, Any]) -> None:
    """Print one line of the table."""
    print(
        f"{row['way']:<14} recall@{BEST} {row['recall']:.4f}  worst node {row['worst_node']:.2f}  "
        f"pairs {row['pairs']:>11,}  {row['times_fewer']:>6.1f} times fewer  "
        f"{row['cpu_seconds_to_propose']:.1f} s",
        flush=True,
    )


def search_top(run: str) -> dict[str, Any]:
    """Look for the best 1,000 links; meant for a process of its own."""
    predictor = cgcl.LinkPredictor.load(run, device="cpu")
    graph, scorer = predictor.graph_, predictor.scorer()
    start = time.process_time()
    found = find(scorer, graph, Query(count=1000))
    return {
        "cpu_seconds": time.process_time() - start,
        "sentence": found.sentence,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def one_of_a_million() -> dict[str, Any]:
    """Look for the best 10 links of one node of a large graph with random embeddings."""
    generator = stream(0, "million")
    links = torch.randint(MILLION, (2, 3 * MILLION), generator=generator)
    graph = Graph.from_pairs("million", [f"node {i}" for i in range(MILLION)], links)
    model = CGCL(8, 64)
    model.reset_parameters(generator)
    z = torch.randn(MILLION, 64, generator=generator)
    start = time.process_time()
    found = find(DecoderScorer(model.decode, z), graph, Query(count=10, sources=[graph.names[7]]))
    return {"cpu_seconds": time.process_time() - start, "sentence": found.sentence}


def main() -> None:
    """Measure and write down."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", help="a run folder of cgcl train or LinkPredictor.save")
    parser.add_argument("--graph", default="pubmed", help="what to train on without --run")
    parser.add_argument("--data-root", help="where the data sets are")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", choices=["top", "million"], help="print one part as JSON")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    run = asked.run
    if run is None and asked.only != "million":
        run = str(RESULT.parent / f"{asked.graph}-run")
        graph = cgcl.read(asked.graph, data_root=asked.data_root)
        cgcl.LinkPredictor("cgcl", threads=asked.threads, device="cpu").fit(graph).save(run)
    if asked.only is not None:
        print(json.dumps(search_top(run) if asked.only == "top" else one_of_a_million()))
        return
    parts = {}
    for part in ("top", "million"):
        command = [sys.executable, __file__, "--run", run, "--only", part]
        command += ["--threads", str(asked.threads)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        parts[part] = json.loads(done.stdout)
        print(part, parts[part], flush=True)
    result = {**compare(run), **parts, "threads": asked.threads, "versions": versions()}
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
