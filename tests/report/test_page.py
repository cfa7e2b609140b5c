"""The page of a run: complete, self-contained, safe, and honest about what is missing."""

import base64
import hashlib
import re
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cgcl.predict.baselines import Compared
from cgcl.report.page import render_page
from cgcl.report.results import RunResults, Suggestions
from cgcl.split import Finding

SECTIONS = ["graph", "split", "training", "test", "settings", "machine", "reproduce"]
ALL_SECTIONS = [*SECTIONS[:4], "comparison", "probabilities", "links", *SECTIONS[4:]]


@pytest.fixture
def page(draw):
    return draw()


@pytest.fixture
def full_page(draw, everything):
    return draw(**everything)


def link(source="a", target="Bob", because="", **more):
    names = ("probability", "score", "shared_neighbours", "common_features", "distance")
    numbers = dict(zip(names, (0.1, 0.9, 0, None, None), strict=True))
    ends = {"source": source, "target": target, "because": because, "interval": None}
    return ends | numbers | more


def finding(sentence, severity="leak", pairs=(), count=None):
    """A finding about pairs of names."""
    nodes = torch.arange(2 * len(pairs)).reshape(-1, 2).T
    names = [name for pair in pairs for name in pair]
    found = len(pairs) if count is None else count
    return Finding("repeated pair", severity, "test", found, sentence, nodes, names)


@pytest.mark.parametrize(
    ("which", "sections", "figures"), [("page", SECTIONS, 6), ("full_page", ALL_SECTIONS, 8)]
)
def test_the_page_is_whole_and_needs_nothing_else(
    which, sections, figures, request, parse, draw, everything
):
    page = request.getfixturevalue(which)
    assert re.findall(r'<section id="(\w+)">', page) == sections
    document = parse(page)
    document.check_that_it_is_whole_and_needs_nothing_else()
    assert document.tags.count("svg") == figures
    assert document.tags.count("script") == (which == "full_page")
    assert len(page.encode()) < 1_000_000
    assert page == (draw() if which == "page" else draw(**everything))


def test_the_page_says_what_a_reader_wants_to_know(told):
    text = told()
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
        assert fact in text
    assert "stopped" not in text


def test_a_stopped_run_says_so_at_the_top(run, told):
    message = "The loss became NaN; the weights of epoch 55 were kept."
    run["stopped"] = {"reason": "diverged", "epoch": 57, "message": message}
    text = told()
    assert f"Training stopped early at epoch 57 {message}" in text
    assert text.index(message) < text.index("What was read")
    assert "it gives the same numbers" not in text


def test_without_a_test_or_validation_the_page_says_so(run, draw, parse):
    run["test"] = None
    run["split"]["test"] = 0
    page = draw(positive=None, negative=None)
    document = parse(page)
    assert re.findall(r'<section id="(\w+)">', page) == SECTIONS
    for fact in (
        "No links were held out for a test, so this page has no test numbers.",
        "There is no test: no links were held out for one.",
        "263 to choose the epoch on, with as many unlinked pairs. None were kept",
    ):
        assert fact in document.text
    assert "Test AUC" not in document.text
    assert document.tags.count("svg") == 3
    run |= {"val": None, "best_epoch": None, "epochs": 1}
    run["split"] = {"train": 1, "val": 0, "test": 0}
    run["graph"] |= {"features": 0, "feature_nonzeros": 0, "notes": []}
    page = draw(history=[{"epoch": 1, "losses": [1.4]}], positive=None, negative=None)
    for fact in (
        "1 link to learn from. None were kept for a test. None were kept to choose",
        "features per node none",
        "Nothing was merged, dropped or ignored.",
        "1 epoch in 42.7 s, 191,937 parameters.",
    ):
        assert fact in parse(page).text


def test_lost_scores_leave_the_metrics_and_hundreds_of_notes_are_cut_short(run, told):
    run["graph"]["notes"] = [f"Line {line} ignored." for line in range(300)]
    text = told(positive=None, negative=None)
    assert "The test scores were not kept, so there are no curves." in text
    assert "Hits@10" in text
    assert "Line 49 ignored. and 250 more notes" in text
    assert "Line 50 ignored." not in text


def test_everything_a_run_can_have_is_on_the_page(full_page, parse):
    document = parse(full_page)
    text = document.text
    assert "img" not in document.tags
    assert ("title", f"{'A' * 299}…") in document.attributes
    assert "\u202e" not in full_page
    for fact in (
        "connected components 78",
        "nodes in the largest 2,485",
        "nodes without a link 0",
        "two sides no",
        "most links of a node 168, 35",
        "Split audit: no leaks found.",
        "At the top of the list, Adamic-Adar is ahead of CGCL: precision@100 31.00 % against "
        "28.00 %. CGCL has the highest AUC (96.80 %) and AP (97.00 %).",
        "Adamic-Adar 31.00 % 72.20 % 72.40 %",
        "527 links were taken out of the file.",
        "a base rate of 1.45e-4, or 1 in 6,900 unknown pairs (held-out links over unknown pairs).",
        "Bent-line scaling turned scores into probabilities: of 2 methods it leaves the least",
        "Platt scaling 0.2310 0.001310 41.00 % Bent-line scaling, kept 0.2220 0.001241 39.60 %",
        "promise 240 where there are 263, and among the best 1,000 pairs 61 where there are 70.",
        "527 test links and 527 unlinked pairs",
        "All 3,659,500 unknown pairs were scored.",
        # 0.8 - 0.006 * 49.5 for each of a hundred.
        "Of these 100 about 50 should be real at a base rate of 1.45e-4 (1 in 6,900 unknown pairs)",
        # Names are shown as they are.
        "1 <script>alert(1)</script> target 100",
        "2 </td></tr></table><img src=x onerror=alert(1)> target 99",
        "invoice\\u202egnp.exe",
        "{{ 7 * 7 }}{% raw %}",
        "&lt;b&gt;",
        f"{'A' * 59}…",
        "\U0001f469\u200d\U0001f467 family",
        "3 =cmd() target 98 78.8 % 68.8 % to 88.8 % 0.9980 3 2 4 3 shared neighbours",
        "4 ../../x target 97 78.2 % 68.2 % to 88.2 % 0.9970 10 3 \N{EN DASH} 10 shared neighbours",
    ):
        assert fact in text
    assert 0 < text.index("At the top of the list, Adamic-Adar is ahead") < text.index("AUC")


def test_the_top_of_the_list_comes_first_with_its_sampling_error(run, told):
    top = {"node_mrr": 0.2741, "node_hits@10": 0.46, "precision@100": 0.17, "pair_ap": 0.03}
    run["test"] = top | run["test"]
    text = told()
    assert "Test node MRR 27.41 % Test precision@100 17.00 % Test AUC 96.80 %" in text
    assert "among its first ten answers 46.00 % of the time." in text
    assert text.index("node MRR 27.41 % Mean of 1/rank") < text.index("AUC 96.80 % The chance")
    assert "each link ranked against all unlinked pairs. Against 527 unlinked pairs." in text
    run["test_sampled"] = {"links": 40, "se": {"node_mrr": 0.0312}}
    text = told()
    assert "may link to. On 40 test links drawn at random; the standard error is 3.12 %." in text
    assert "46.00 % of the time, on 40 links drawn at random." in text


def test_the_policy_allows_this_script_and_no_other(full_page, page):
    [script] = re.findall(r"<script>(.*?)</script>", full_page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policies = dict.fromkeys(re.findall(r'Content-Security-Policy" content="([^"]*)"', full_page))
    assert list(policies) == [
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    ]
    assert "<script" not in script
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval", script)
    assert "content=\"default-src 'none'; style-src 'unsafe-inline'\"" in page


MARKUP = st.sampled_from(["<", ">", "&", '"', "'", "/", "=", "{{", "}}", "<!--", "]]>", "<script>"])
NAMES = st.lists(MARKUP | st.text(st.characters(), max_size=9), max_size=6).map("".join)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.tuples(NAMES, NAMES, NAMES))
def test_no_name_becomes_an_element_or_an_attribute(run, parse, names):
    def structure(source, target, because):
        suggestions = Suggestions([link(source, target, because)], "Why.")
        audit = [finding(because, pairs=[(source, target)])]
        graph = {"title": source, "notes": [target], "fingerprint": f"x{because}"}
        about = {"graph": run["graph"] | graph, "config": {**run["config"], f"x{source}": target}}
        about |= {"command": source, "versions": {f"x{target}": because}, "started": source}
        about |= {"stopped": {"epoch": 3, "message": because}, "warnings": [source]}
        about |= dict.fromkeys(("device", "status", "method", "folder"), target)
        told = RunResults(run | about, suggestions=suggestions, audit=audit)
        document = parse(render_page(told))
        # A name that is cut has its whole in a title.
        return document.tags, [name for name, _ in document.attributes if name != "title"]

    assert structure(*names) == structure("a", "b", "c")


def test_a_hundred_of_the_longest_names_stay_under_a_megabyte(draw, parse, everything):
    worst, many = '"' * 1000, 10**6
    links = [link(worst, worst, worst, shared_neighbours=many, common_features=many, distance=many)]
    page = draw(**everything | {"suggestions": Suggestions(links * 150, worst)})
    assert len(page.encode()) < 1_000_000
    assert page.count('<td class="because">') == 100
    assert "The page shows the first 100 of 150." in parse(page).text


def test_links_without_probabilities_promise_nothing(draw, told, everything):
    links = [link | {"probability": None} for link in everything["suggestions"].links]
    text = told(suggestions=Suggestions(links, "Found."))
    assert "how many of them are real is not known" in text
    assert "should be real" not in text
    assert ">Probability</th>" not in draw(suggestions=Suggestions(links, "Found."))
    links[0]["probability"] = 0.5
    assert "should be real" not in told(suggestions=Suggestions(links, "Found."))
    assert "No new link is left to suggest." in told(suggestions=Suggestions([], "Found."))


def test_columns_of_the_link_table_match_their_heads(draw, everything):
    for links in (everything["suggestions"].links, [link()]):
        page = draw(suggestions=Suggestions(links, "Found."))
        table = page[page.index('id="suggested-links"') :]
        table = table[: table.index("</table>")]
        assert table.count("<td") == len(links) * table.count("<th ")
    assert ">Common features</th>" not in page
    assert "interval" not in table
    links = [link(probability=0.2 + 1e-6 * rank) for rank in range(5)]
    page = draw(suggestions=Suggestions(links, "Found."))
    assert len(set(re.findall(r"20\.000\d+", page))) == 5  # those that differ look different


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"is_bipartite": True, "sides": (12, 1300)}, "yes, 12 and 1,300"),
        ({"sides": (12, 30), "hub": None}, "possible, 12 and 30"),
    ],
)
def test_two_sides_are_named(told, everything, change, words):
    assert f"two sides {words} nodes" in told(survey=replace(everything["survey"], **change))


def test_findings_of_the_audit_name_the_pairs(told):
    audit = [
        finding("7 test links are training links.", "leak", [(f"a{i}", "<b>") for i in range(7)]),
        finding("2 nodes lost all links.", "note"),
        finding("9 pairs are doubtful.", "warning", [("x", "y")], count=9),
    ]
    text = told(audit=audit)
    assert "no leaks found" not in text
    assert "Leak 7 test links are training links. a0 and <b> a1 and <b>" in text
    assert "a4 and <b> and 2 more pairs 2 nodes lost all links." in text
    assert "Warning 9 pairs are doubtful. x and y and 8 more pairs" in text
    assert "Split audit: no leaks found. " in told(audit=audit[2:])
    assert "Split audit" not in told()
    nothing = Compared([{"method": "CGCL", "metrics": {"auc": None}}])
    assert "Beside simple methods" not in told(comparison=nothing)


def test_a_shift_of_the_scores_is_a_warning(told, everything):
    shift = {"warning": "Scores rose."}
    calibration = replace(everything["calibration"], shift=shift, notes=("Only 7 links.",))
    text = told(calibration=calibration)
    assert "Only 7 links. The probabilities may be off Scores rose." in text
    text = told(calibration=replace(calibration, shift=None, losses={}))
    assert "Without test pairs there is no reliability diagram." in text
    assert "may be off" not in text
    assert "Held-out log-loss" not in text
