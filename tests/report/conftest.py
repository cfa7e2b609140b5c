"""A run as the trainer records it, with plausible numbers, and its page."""

import copy
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from cgcl.graph.survey import survey
from cgcl.metrics.calibration import Calibration, Line
from cgcl.predict.baselines import Compared
from cgcl.report.page import render_page
from cgcl.report.results import RunResults, Suggestions, reliability

VOID = {"meta", "br", "hr", "img", "link", "input"}

RUN = {
    "format": 1,
    "status": "finished",
    "command": "cgcl train cora --epochs 200 --seed 0",
    "folder": "runs/cora-1",
    "graph": {
        "title": "cora",
        "nodes": 2708,
        "links": 5278,
        "features": 1433,
        "feature_nonzeros": 49216,
        "fingerprint": "9f2c41d07be8a6553190",
        "notes": ["151 repeated links merged.", "3 self-links dropped."],
    },
    "split": {"train": 4488, "val": 263, "test": 527},
    "config": {"views": "disjoint", "weight_decay": 1e-05, "epochs": 200, "patience": None},
    "versions": {"cgcl": "0.1.0", "python": "3.12.8", "torch": "2.13.0", "numpy": "2.3.4"},
    "device": "cpu",
    "threads": 2,
    "parameters": 191937,
    "best_epoch": 120,
    "epochs": 200,
    "val": {"auc": 0.95712, "ap": 0.96233},
    "test": {
        "auc": 0.96804,
        "ap": 0.97019,
        "hits@10": 0.7135,
        "hits@50": 0.9127,
        "hits@100": 0.9564,
        "mrr": 0.3217,
    },
    "stopped": None,
    "started": "2025-11-15T09:00:00+00:00",
    "seconds": 42.7,
}


def make_history(epochs=200):
    history = []
    for epoch in range(1, epochs + 1):
        left = math.exp(-epoch / 40)
        entry = {"epoch": epoch, "losses": [0.72 + 0.66 * left, 0.74 + 0.64 * left]}
        if epoch % 5 == 0:
            entry["val"] = {"auc": 0.957 - 0.22 * left, "ap": 0.962 - 0.2 * left}
            terms = {"views": -0.335, "reconstructions": -0.33 + 0.03 * left, "gap": 0.03}
            terms |= {"view_1": -0.3 - 0.02 * left, "view_2": -0.304 - 0.02 * left}
            entry["consistency"] = terms
        history.append(entry)
    return history


class Document(HTMLParser):
    """Collects tags, attributes and text, and checks that every tag is closed."""

    def __init__(self, page):
        super().__init__()
        self.page = page
        self.tags, self.attributes, self.open, self.pieces = [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.pieces.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.pieces).split()).replace("\N{NO-BREAK SPACE}", " ")

    def values_of(self, *names):
        return [value for name, value in self.attributes if name in names]

    def check_that_it_is_whole_and_needs_nothing_else(self):
        assert self.page.startswith("<!DOCTYPE html>")
        assert not any(address in self.page for address in ("http://", "https://", "@import"))
        assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", self.page))
        foreign = {"link", "img", "iframe", "object", "embed", "base", "form"}
        assert not foreign & set(self.tags)
        assert not any(name.startswith("on") for name, _ in self.attributes)
        links = self.values_of("src", "href", "xlink:href", "action")
        assert all(value.startswith("#") for value in links)
        ids = self.values_of("id")
        assert len(ids) == len(set(ids))
        assert {link[1:] for link in links} <= set(ids)
        assert set(self.values_of("for", "aria-labelledby")) <= set(ids)


@pytest.fixture(scope="session")
def parse():
    return Document


@pytest.fixture
def draw(run, history, scores):
    """Return the page of the run, with further parts or others."""

    def page(**parts):
        usual = {"run": run, "history": history, "positive": scores[0], "negative": scores[1]}
        return render_page(RunResults(**usual | parts))

    return page


@pytest.fixture
def told(draw):
    """Return the text of that page."""
    return lambda **parts: Document(draw(**parts)).text


@pytest.fixture(scope="session")
def finished_run():
    return RUN


@pytest.fixture
def run(finished_run):
    return copy.deepcopy(finished_run)


@pytest.fixture(scope="session")
def history():
    return make_history()


@pytest.fixture(scope="session")
def scores():
    generator = np.random.default_rng(0)
    return generator.beta(5, 1.3, 527), generator.beta(1.2, 4.5, 527)


NASTY = [
    "<script>alert(1)</script>",
    "</td></tr></table><img src=x onerror=alert(1)>",
    "=cmd()",
    "../../x",
    "\" onload='alert(1)' x=\"",
    "invoice\u202egnp.exe",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;",
    "$x^2$",
    "NA",
    "A" * 1000,
    "\U0001f469\u200d\U0001f467 family",
]


def method(name, **metrics):
    return {"method": name, "metrics": metrics}


def make_links(count=100):
    """Ranks and probabilities fall together; distance is missing in every third row."""
    return [
        {
            "source": NASTY[rank] if rank < len(NASTY) else f"node {rank}",
            "target": f"target {count - rank}",
            "probability": 0.8 - 0.006 * rank,
            "score": 1 - 0.001 * rank,
            "shared_neighbours": rank * 7 % 11,
            "common_features": rank % 4,
            "distance": None if rank % 3 == 0 else 2 + rank % 5,
            "because": f"{rank * 7 % 11} shared neighbours",
            "interval": (0.7 - 0.006 * rank, 0.9 - 0.006 * rank),
        }
        for rank in range(count)
    ]


@pytest.fixture(scope="session")
def everything(cora):
    """What a page can show beyond the run."""
    generator = np.random.default_rng(0)
    return {
        "suggestions": Suggestions(make_links(), "All 3,659,500 unknown pairs were scored."),
        "calibration": Calibration(
            method="bent",
            curve=Line(1.0),
            prior=1.45e-4,
            counts={},
            losses={
                "platt": {"even_odds": 0.231, "base_rate": 0.00131, "unexplained": 0.41},
                "bent": {"even_odds": 0.222, "base_rate": 0.001241, "unexplained": 0.396},
            },
            shift={
                "expected": 240.4,
                "observed": 263,
                "top": {"pairs": 1000, "expected": 61.2, "observed": 70},
            },
        ),
        "reliability": reliability(generator.beta(1.6, 0.5, 527), generator.beta(0.5, 1.6, 527)),
        "comparison": Compared(
            results=[
                method("CGCL", auc=0.968, ap=0.97, **{"precision@100": 0.28}),
                method("Adamic-Adar", auc=0.722, ap=0.724, **{"precision@100": 0.31}),
            ],
            protocol="527 links were taken out of the file.",
        ),
        "audit": [],
        "survey": survey(cora),
    }
