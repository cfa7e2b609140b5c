"""The page of a run: complete, self-contained, safe, and honest about what is missing."""

import builtins
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from cgcl.report import render_page

VOID = {"meta", "br", "hr", "img", "link", "input"}
SECTIONS = ["graph", "split", "training", "test", "settings", "machine", "reproduce"]
NO_PLOTS = "Plots need matplotlib: pip install 'cgcl[report]'"


class Document(HTMLParser):
    """Collects tags, attributes and text, and checks that every tag is closed."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.open, self.pieces = [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.pieces.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.pieces).split())


@pytest.fixture
def page(run, history, scores):
    return render_page(run, history, *scores)


@pytest.fixture
def without_matplotlib(monkeypatch):
    real_import = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(f"No module named {name!r}")
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)


def test_the_page_has_every_section_in_order(page):
    assert re.findall(r'<section id="(\w+)">', page) == SECTIONS
    assert page.startswith("<!DOCTYPE html>")
    assert Document(page).tags.count("svg") == 6


def test_the_page_says_what_a_reader_wants_to_know(page):
    text = Document(page).text
    for fact in (
        "Test AUC 96.80 %",
        "Test AP 97.02 %",
        "Validation AUC 95.71 %",
        "nodes 2,708",
        "links 5,278",
        "features per node 1,433",
        "nonzero feature values 49,216",
        "151 repeated links merged.",
        "4,488 links to learn from, 263 to choose the epoch on, 527 to test on; as many unlinked "
        "pairs for the last two.",
        "200 epochs in 42.7 s, 191,937 parameters; the weights of epoch 120 were kept.",
        "Hits@50 91.27 % Links that score above the 50th highest unlinked pair.",
        "MRR 32.17 %",
        "weight_decay 1e-05",
        "patience none",
        "torch 2.13.0",
        "device cpu",
        "threads 2",
        "cgcl train cora --epochs 200 --seed 0",
        "cgcl predict runs/cora-1 --top 20",
    ):
        assert fact in text.replace("\N{NO-BREAK SPACE}", " ")
    assert "stopped" not in text


def test_the_page_needs_nothing_else(page):
    document = Document(page)
    assert not {"script", "link", "img", "iframe", "object", "embed", "base"} & set(document.tags)
    for name, value in document.attributes:
        assert not name.startswith("on")
        if name in {"src", "href", "xlink:href", "action"}:
            assert value.startswith("#")
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", page))
    assert "http://" not in page
    assert "https://" not in page
    assert "@import" not in page
    assert len(page.encode()) < 1_000_000


def test_no_two_elements_share_an_id(page):
    ids = [value for name, value in Document(page).attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_the_same_run_gives_the_same_bytes(page, run, history, scores):
    assert render_page(run, history, *scores) == page


def test_names_from_files_are_text_and_never_markup(run, history, scores):
    attack = "<script>alert(1)</script>"
    quote = "\" onload='alert(1)' x=\""
    run["graph"] |= {"title": attack, "notes": [attack, quote], "fingerprint": quote}
    run["config"]["views"] = attack
    run["config"][attack] = 1
    run["command"] = f"cgcl train '{attack}'"
    run["stopped"] = {"reason": "interrupted", "epoch": 3, "message": attack}
    run["versions"]["torch"] = attack
    run["device"] = run["started"] = run["status"] = attack
    page = render_page(run, history, *scores)
    document = Document(page)
    assert "<script" not in page
    assert "script" not in document.tags
    assert not any(name.startswith("on") for name, _ in document.attributes)
    assert document.text.count(attack) >= 9


def test_a_stopped_run_says_so_at_the_top(run, history, scores):
    message = "The loss became NaN; the weights of epoch 55 were kept."
    run["stopped"] = {"reason": "diverged", "epoch": 57, "message": message}
    page = render_page(run, history, *scores)
    text = Document(page).text
    assert f"Training stopped early at epoch 57 {message}" in text
    assert text.index(message) < text.index("What was read")
    assert "it gives the same numbers" not in text


def test_without_a_test_the_page_says_so(run, history):
    run["test"] = None
    run["split"]["test"] = 0
    page = render_page(run, history, None, None)
    text = Document(page).text
    assert re.findall(r'<section id="(\w+)">', page) == SECTIONS
    assert "No links were held out for a test, so this page has no test numbers." in text
    assert "There is no test: no links were held out for one." in text
    assert "263 to choose the epoch on, with as many unlinked pairs. None were kept" in text
    assert "Test AUC" not in text
    assert Document(page).tags.count("svg") == 3


def test_without_validation_and_test_there_is_still_a_page(run):
    run |= {"test": None, "val": None, "best_epoch": None, "epochs": 1}
    run["split"] = {"train": 1, "val": 0, "test": 0}
    run["graph"] |= {"features": 0, "feature_nonzeros": 0, "notes": []}
    text = Document(render_page(run, [{"epoch": 1, "losses": [1.4]}], None, None)).text
    assert "1 link to learn from. None were kept for a test. None were kept to choose" in text
    assert "features per node none" in text
    assert "Nothing was merged, dropped or ignored." in text
    assert "1 epoch in 42.7 s, 191,937 parameters." in text


def test_without_matplotlib_the_page_names_the_extra(run, history, scores, without_matplotlib):
    page = render_page(run, history, *scores)
    assert page.count(NO_PLOTS) == 2
    assert re.findall(r'<section id="(\w+)">', page) == SECTIONS
    document = Document(page)
    assert "svg" not in document.tags
    assert "96.80" in document.text


def test_lost_scores_leave_the_metrics(run, history):
    text = Document(render_page(run, history, None, None)).text
    assert "The test scores were not kept, so there are no curves." in text
    assert "Hits@10" in text


def test_hundreds_of_notes_are_cut_short(run, history):
    run["graph"]["notes"] = [f"Line {line} ignored." for line in range(300)]
    text = Document(render_page(run, history, None, None)).text
    assert "Line 49 ignored. and 250 more notes" in text
    assert "Line 50 ignored." not in text


def test_importing_the_room_imports_nothing_heavy():
    code = (
        "import sys, cgcl.report; "
        "sys.exit(bool({'torch', 'matplotlib', 'sklearn', 'jinja2'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
