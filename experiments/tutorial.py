"""Run the commands of docs/your-own-graph.md or of `make demo` and keep what they print.

    python experiments/tutorial.py         the page, with its pictures
    python experiments/tutorial.py demo    what `make demo` leaves on a terminal

Texts go to experiments/results/, pictures to docs/images/. The pictures of the report need
chromium; where it is missing they stay as they are. The progress line, which a terminal overwrites,
is left out.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import networkx as nx
from matplotlib import rc_context
from matplotlib.figure import Figure

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


def execute(folder: str, *command: str) -> tuple[list[str], str]:
    """Run Python in a folder and return what it said, line by line, and what it answered."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stderr.splitlines(), done.stdout.rstrip()


def keep(name: str, said: list[str], answer: str) -> None:
    """Keep what a command said, without the line of progress, and what it answered."""
    passing = ("  Training    epoch", "  Then  ")
    lasting = [line for line in said if not line.startswith(passing)]
    text = "\n".join([*lasting, answer]).rstrip()
    (RESULTS / f"{name}.txt").write_text(f"{text}\n", encoding="utf-8")


def demo(folder: str) -> None:
    """Run what `make demo` runs."""
    said, run = execute(folder, "-m", "cgcl", "train", "cora", "--out", "runs/demo")
    found, links = execute(folder, "-m", "cgcl", "predict", run, "--top", "10")
    keep("demo", [*said, *found], links)


def tutorial(folder: str) -> None:
    """Run every step of the page and make its pictures."""
    execute(folder, str(ROOT / "examples" / "make_graphs.py"), folder)
    for step, words in STEPS.items():
        said, answer = execute(folder, "-m", "cgcl", *words.split())
        keep(f"tutorial-{step}", [f"$ cgcl {words}", *said], answer)
    draw(Path(folder, "novel+.graphml"))
    photograph(Path(folder, "runs/novel-1/report.html"), Path(folder))


def draw(path: Path) -> None:
    """Draw the completed graph: known links grey, new ones orange."""
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
        how = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        how += [f"--window-size={WIDTH},{HEIGHTS[section]}"]
        how += [f"--screenshot={IMAGES / f'novel-{section}.png'}", target.as_uri()]
        subprocess.run([browser, *how], check=True, capture_output=True)  # noqa: S603


def main() -> None:
    """Run the commands in an empty folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", nargs="?", choices=["page", "demo"], default="page")
    make = demo if parser.parse_args().what == "demo" else tutorial
    with tempfile.TemporaryDirectory() as folder:
        make(folder)


if __name__ == "__main__":
    main()
