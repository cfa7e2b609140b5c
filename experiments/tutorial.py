"""Run the commands of docs/your-own-graph.md and keep what they print, and its pictures.

    python experiments/tutorial.py

Texts go to experiments/results/tutorial-*.txt, pictures to docs/images/. The pictures of the report
need chromium; where it is missing they stay as they are. Progress lines are left out.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments" / "results"
IMAGES = ROOT / "docs" / "images"
# Name of the text, then the command.
STEPS = {
    "inspect": "inspect novel.graphml",
    "train": "train novel.graphml",
    "predict": "predict runs/novel-1 --top 5",
    "explain": "predict runs/novel-1 --node Javert --top 2 --explain --quiet",
    "complete": "predict runs/novel-1 --complete --min-probability 0.3 --out novel+.graphml",
}
WIDTH = 1280
HEIGHTS = {"links": 940, "probabilities": 960}


def main() -> None:
    """Run every step in an empty folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make = [sys.executable, str(ROOT / "examples" / "make_graphs.py"), name]
        subprocess.run(make, check=True)  # noqa: S603
        for step, words in STEPS.items():
            done = subprocess.run(  # noqa: S603
                [sys.executable, "-m", "cgcl", *words.split()],
                cwd=folder,
                capture_output=True,
                text=True,
                check=True,
            )
            said = [x for x in done.stderr.splitlines() if not x.startswith("  Training    epoch")]
            text = "\n".join([f"$ cgcl {words}", *said, done.stdout.rstrip()])
            (RESULTS / f"tutorial-{step}.txt").write_text(text.rstrip() + "\n", encoding="utf-8")
        draw(folder / "novel+.graphml")
        photograph(folder / "runs/novel-1/report.html", folder)


def draw(path: Path) -> None:
    """Draw the completed graph: known links grey, new ones orange."""
    import networkx as nx
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    graph = nx.read_graphml(path)
    known = [(a, b) for a, b, about in graph.edges(data=True) if about["known"]]
    new = [(a, b) for a, b, about in graph.edges(data=True) if not about["known"]]
    place = nx.kamada_kawai_layout(nx.Graph(known))
    with rc_context({"svg.hashsalt": "cgcl", "svg.fonttype": "none", "font.size": 7}):
        figure = Figure(figsize=(8, 6), layout="constrained")
        axes = figure.add_subplot()
        nx.draw_networkx_edges(graph, place, known, ax=axes, edge_color="#b8bec6", width=0.6)
        nx.draw_networkx_edges(graph, place, new, ax=axes, edge_color="#c2570c", width=1.4)
        sizes = [8 + 4 * graph.degree(node) for node in place]
        nx.draw_networkx_nodes(
            graph, place, list(place), ax=axes, node_size=sizes, node_color="#1d5fa8"
        )
        named = {node for link in new for node in link}
        busy = {node: node for node in place if node in named or graph.degree(node) >= 15}
        nx.draw_networkx_labels(
            graph, place, busy, ax=axes, font_size=7, verticalalignment="bottom"
        )
        axes.set_axis_off()
        figure.savefig(IMAGES / "novel.svg", metadata={"Date": None})


def photograph(page: Path, folder: Path) -> None:
    """Take pictures of two sections of the report."""
    browser = shutil.which("chromium")
    if browser is None:
        print("no chromium: the pictures of the report stay as they are")
        return
    for section in ("links", "probabilities"):
        target = folder / f"{section}.html"
        only = (
            f"<style>body > *:not(#{section}) {{ display: none }} #{section} h2 "
            f"{{ margin-top: 0 }} #suggested-links tbody tr:nth-child(n + 7) "
            f"{{ display: none }}</style></head>"
        )
        target.write_text(page.read_text(encoding="utf-8").replace("</head>", only, 1), "utf-8")
        subprocess.run(  # noqa: S603
            [
                browser,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                f"--window-size={WIDTH},{HEIGHTS[section]}",
                f"--screenshot={IMAGES / f'novel-{section}.png'}",
                target.as_uri(),
            ],
            check=True,
            capture_output=True,
        )


if __name__ == "__main__":
    main()
