"""Write five graphs of different kinds to a folder, to try cgcl on.

    python examples/make_graphs.py graphs

Two come with networkx, three are generated; the same call writes the same bytes.

novel.graphml    characters of Les Miserables who appear together: weighted, no features
clubs.csv        women and the events they attended (Davis, 1941): bipartite
papers.graphml   generated citations: directed and dated; papers-nodes.csv holds their features,
                 numbers, a category and words
names.edges      a generated planted partition: an edge list with comments and awkward names
parcels.parquet  a generated small world: 12-digit ids and weights; parcels-features.mtx holds
                 sparse features, parcels-rows.txt says whose they are
"""

from __future__ import annotations

import argparse
import csv
import uuid
from collections.abc import Sequence
from pathlib import Path

import networkx as nx
import numpy as np

__all__ = ["write_graphs"]

_TOPICS = {
    "graphs": "node link path tree cycle clique walk degree",
    "vision": "pixel image camera edge filter colour depth scene",
    "speech": "sound voice phone pitch accent noise word tone",
    "robots": "arm grip motor joint plan force torque wheel",
}


def write_graphs(folder: Path) -> None:
    """Write all five graphs."""
    folder.mkdir(parents=True, exist_ok=True)
    nx.write_graphml(nx.les_miserables_graph(), folder / "novel.graphml")
    _write_clubs(folder)
    _write_papers(folder, np.random.default_rng(1))
    _write_names(folder, np.random.default_rng(2))
    _write_parcels(folder, np.random.default_rng(3))


def _write_clubs(folder: Path) -> None:
    graph = nx.davis_southern_women_graph()
    women = set(graph.graph["top"])
    rows = sorted((a, b) if a in women else (b, a) for a, b in graph.edges)
    _write_rows(folder / "clubs.csv", ["woman", "event"], rows)


def _write_papers(folder: Path, rng: np.random.Generator) -> None:
    """Papers cite earlier ones, mostly of their own topic."""
    topics = list(_TOPICS)
    topic = rng.integers(len(topics), size=400)
    names = [f"10.1000/{number:03d}" for number in range(400)]
    years = np.sort(rng.integers(1990, 2025, size=400))
    graph = nx.DiGraph()
    for paper in range(20, 400):
        weights = np.where(topic[:paper] == topic[paper], 12.0, 1.0)
        cited = rng.choice(paper, size=5, replace=False, p=weights / weights.sum())
        for old in sorted(cited):
            graph.add_edge(names[paper], names[old], date=f"{years[paper]}-06-30")
    nx.write_graphml(graph, folder / "papers.graphml")
    nodes = []
    for paper, name in enumerate(names):
        words = rng.choice(_TOPICS[topics[topic[paper]]].split(), size=4, replace=False)
        kind = rng.choice(["article", "letter", "review"])
        nodes.append((name, int(rng.integers(4, 40)), kind, " ".join(words)))
    _write_rows(folder / "papers-nodes.csv", ["paper", "pages", "kind", "abstract"], nodes)


def _write_names(folder: Path, rng: np.random.Generator) -> None:
    """Four groups, dense within, and names that other tools turn into something else."""
    names = ["NA", "null", "007", "7", "1e3", "1000", "True", "-5", "<script>", "=cmd()", "../../x"]
    names += ["\U0001f98a", "Zo\u00eb", "\u6771\u4eac", str(10**12), str(2**127)]
    names += [str(uuid.UUID(bytes=rng.bytes(16))) for _ in range(120 - len(names))]
    group = np.arange(120) % 4
    chance = np.where(group[:, None] == group[None, :], 0.3, 0.01)
    links = np.argwhere(np.triu(rng.random((120, 120)) < chance, 1))
    lines = ["# A planted partition of 120 nodes in four groups.", "% one link a line"]
    lines += [f"{names[a]} {names[b]}" for a, b in links]
    (folder / "names.edges").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_parcels(folder: Path, rng: np.random.Generator) -> None:
    import pyarrow as pa
    from pyarrow import parquet
    from scipy.io import mmwrite
    from scipy.sparse import coo_array

    graph = nx.watts_strogatz_graph(300, 8, 0.1, seed=4)
    ids = 10**11 + rng.choice(10**12 - 10**11, size=300, replace=False)
    ends = np.array(sorted(graph.edges)).T
    table = {"from": ids[ends[0]], "to": ids[ends[1]], "weight": rng.random(ends.shape[1])}
    parquet.write_table(pa.table(table), folder / "parcels.parquet")
    # Each parcel has the features of its place on the ring.
    rows = np.repeat(np.arange(300), 3)
    columns = (rows // 10 + np.tile(np.arange(3), 300)) % 30
    mmwrite(folder / "parcels-features.mtx", coo_array((np.ones(900), (rows, columns))))
    names = "\n".join(str(number) for number in ids) + "\n"
    (folder / "parcels-rows.txt").write_text(names, encoding="utf-8")


def _write_rows(path: Path, header: list[str], rows: Sequence[tuple[object, ...]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    write_graphs(parser.parse_args().folder)
