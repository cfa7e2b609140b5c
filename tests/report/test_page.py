"""The page of a run: complete, self-contained, safe, and honest about what is missing."""

import base64
import hashlib
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cgcl.report import (
    AuditFinding,
    Comparison,
    MethodResult,
    SuggestedLink,
    Suggestions,
    render_page,
)

VOID = {"meta", "br", "hr", "img", "link", "input"}
SECTIONS = ["graph", "split", "training", "test", "settings", "machine", "reproduce"]
ALL_SECTIONS = [*SECTIONS[:4], "comparison", "probabilities", "links", *SECTIONS[4:]]


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
        if not {"style", "script"} & set(self.open):
            self.pieces.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.pieces).split()).replace("\N{NO-BREAK SPACE}", " ")


@pytest.fixture
def page(run, history, scores):
    return render_page(run, history, *scores)


@pytest.fixture
def full_page(run, history, scores, more):
    return render_page(run, history, *scores, **more)


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
        assert fact in text
    assert "stopped" not in text


@pytest.mark.parametrize("which", ["page", "full_page"])
def test_the_page_needs_nothing_else(which, request):
    page = request.getfixturevalue(which)
    document = Document(page)
    assert not {"link", "img", "iframe", "object", "embed", "base", "form"} & set(document.tags)
    assert document.tags.count("script") == (which == "full_page")
    for name, value in document.attributes:
        assert not name.startswith("on")
        if name in {"src", "href", "xlink:href", "action"}:
            assert value.startswith("#")
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", page))
    references = {value[1:] for name, value in document.attributes if name == "href"}
    references |= {
        value for name, value in document.attributes if name in {"for", "aria-labelledby"}
    }
    assert references <= {value for name, value in document.attributes if name == "id"}
    assert "http://" not in page
    assert "https://" not in page
    assert "@import" not in page
    assert len(page.encode()) < 1_000_000


def test_no_two_elements_share_an_id(full_page):
    ids = [value for name, value in Document(full_page).attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_the_same_run_gives_the_same_bytes(full_page, run, history, scores, more):
    assert render_page(run, history, *scores, **more) == full_page


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


def test_everything_a_run_can_have_is_on_the_page(full_page):
    assert re.findall(r'<section id="(\w+)">', full_page) == ALL_SECTIONS
    document = Document(full_page)
    assert document.tags.count("svg") == 8
    for fact in (
        "connected components 78",
        "nodes in the largest 2,485",
        "nodes without a link 3",
        "two sides no",
        "most links of a node 168, Genetic algorithms",
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
        "3 =cmd() target 98 78.8 % 68.8 % to 88.8 % 0.9980 3 2 4 3 shared neighbours",
        "4 ../../x target 97 78.2 % 68.2 % to 88.2 % 0.9970 10 3 \N{EN DASH} 10 shared neighbours",
    ):
        assert fact in document.text


def test_who_is_ahead_at_the_top_is_said_before_any_auc(full_page):
    text = Document(full_page).text
    assert 0 < text.index("At the top of the list, Adamic-Adar is ahead") < text.index("AUC")


def test_the_top_of_the_list_comes_first_with_its_sampling_error(run, history):
    top = {"node_mrr": 0.2741, "node_hits@10": 0.46, "precision@100": 0.17, "pair_ap": 0.03}
    run["test"] = top | run["test"]
    text = Document(render_page(run, history, None, None)).text
    assert "Test node MRR 27.41 % Test precision@100 17.00 % Test AUC 96.80 %" in text
    assert "among its first ten answers 46.00 % of the time." in text
    assert text.index("node MRR 27.41 % Mean of 1/rank") < text.index("AUC 96.80 % The chance")
    assert "each link ranked against all unlinked pairs. Against 527 unlinked pairs." in text
    run["test_sampled"] = {"links": 40, "se": {"node_mrr": 0.0312}}
    text = Document(render_page(run, history, None, None)).text
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


def one_link(source, target="Bob", because=""):
    return Suggestions([SuggestedLink(source, target, 0.1, 0.9, 0, None, None, because)], "Why.")


MARKUP = st.sampled_from(["<", ">", "&", '"', "'", "/", "=", "{{", "}}", "<!--", "]]>", "<script>"])
NAMES = st.lists(MARKUP | st.text(st.characters(), max_size=9), max_size=6).map("".join)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.tuples(NAMES, NAMES, NAMES))
def test_no_name_becomes_an_element_or_an_attribute(run, names):
    def structure(page):
        document = Document(page)
        # A name that is cut has its whole in a title.
        return document.tags, [name for name, _ in document.attributes if name != "title"]

    def page_with(source, target, because):
        audit = [AuditFinding(because, "leak", [(source, target)])]
        suggestions = one_link(source, target, because)
        return render_page(run, [], None, None, suggestions=suggestions, audit=audit)

    assert structure(page_with(*names)) == structure(page_with("a", "b", "c"))


def test_names_of_suggested_links_are_shown_as_they_are(full_page):
    document = Document(full_page)
    for shown in (
        "<script>alert(1)</script>",
        "</td></tr></table><img src=x onerror=alert(1)>",
        "invoice\\u202egnp.exe",
        "{{ 7 * 7 }}{% raw %}",
        "&lt;b&gt;",
        "\U0001f469\u200d\U0001f467 family",
    ):
        assert shown in document.pieces
    assert "img" not in document.tags
    assert ("title", "A" * 299 + "…") in document.attributes
    assert "A" * 59 + "…" in document.pieces
    assert "\u202e" not in full_page


def test_a_hundred_of_the_longest_names_stay_under_a_megabyte(run, history, scores, more):
    worst = '"' * 1000
    link = SuggestedLink(worst, worst, 0.123456789012345, 0.987654321, 10**6, 10**6, 10**6, worst)
    more["suggestions"] = Suggestions([link] * 150, worst)
    page = render_page(run, history, *scores, **more)
    assert len(page.encode()) < 1_000_000
    assert page.count('<td class="because">') == 100
    assert "The page shows the first 100 of 150." in Document(page).text


def test_probabilities_that_differ_look_different_on_the_page(run, history):
    links = [
        replace(one_link("a").links[0], probability=0.2 + 1e-6 * rank, interval=None)
        for rank in range(5)
    ]
    page = render_page(run, history, None, None, suggestions=Suggestions(links, "Found."))
    table = page[page.index('id="suggested-links"') :]
    assert len(set(re.findall(r"20\.000\d+", table))) == 5
    assert "interval" not in table


def test_links_without_probabilities_promise_nothing(run, history, scores, more):
    links = [replace(link, probability=None) for link in more["suggestions"].links]
    page = render_page(run, history, *scores, suggestions=Suggestions(links, "Found."))
    text = Document(page).text
    assert "how many of them are real is not known" in text
    assert "should be real" not in text
    assert ">Probability</th>" not in page
    links[0] = replace(links[0], probability=0.5)
    partly = render_page(run, history, *scores, suggestions=Suggestions(links, "Found."))
    assert "should be real" not in Document(partly).text


def test_columns_of_the_link_table_match_their_heads(run, history, more):
    for links in (more["suggestions"].links, one_link("a").links):
        page = render_page(run, history, None, None, suggestions=Suggestions(links, "Found."))
        table = page[page.index('id="suggested-links"') :]
        table = table[: table.index("</table>")]
        assert table.count("<td") == len(links) * table.count("<th ")
    assert ">Common features</th>" not in page


def test_two_sides_are_named(run, history, everything):
    for survey, words in (
        (replace(everything["survey"], is_bipartite=True, sides=(12, 1300)), "yes, 12 and 1,300"),
        (replace(everything["survey"], sides=(12, 30), hub=None), "possible, 12 and 30"),
    ):
        page = render_page(run, history, None, None, survey=survey)
        assert f"two sides {words} nodes" in Document(page).text


def test_without_new_links_the_page_says_so(run, history):
    page = render_page(run, history, None, None, suggestions=Suggestions([], "Found."))
    assert "No new link is left to suggest." in Document(page).text
    assert "<script" not in page


def test_findings_of_the_audit_name_the_pairs(run, history):
    pairs = [(f"a{i}", "<b>") for i in range(7)]
    audit = [
        AuditFinding("7 test links are training links.", "leak", pairs),
        AuditFinding("2 nodes lost all links.", "note"),
        AuditFinding("9 pairs are doubtful.", "warning", [("x", "y")], count=9),
    ]
    text = Document(render_page(run, history, None, None, audit=audit)).text
    assert "no leaks found" not in text
    assert "Leak 7 test links are training links. a0 and <b> a1 and <b>" in text
    assert "a4 and <b> and 2 more pairs 2 nodes lost all links. Warning 9 pairs" in text
    assert "x and y and 8 more pairs" in text
    text = Document(render_page(run, history, None, None, audit=audit[1:])).text
    assert "Split audit: no leaks found. 2 nodes lost all links." in text
    assert "Split audit" not in Document(render_page(run, history, None, None)).text


def test_a_shift_of_the_scores_is_a_warning(run, history, scores, more):
    shift = {"warning": "Scores rose."}
    probabilities = replace(more["probabilities"], shift=shift, notes=["Only 7 links."])
    text = Document(render_page(run, history, *scores, probabilities=probabilities)).text
    assert "Only 7 links. The probabilities may be off Scores rose." in text
    probabilities = replace(probabilities, test_links=None, shift=None, losses={})
    page = render_page(run, history, *scores, probabilities=probabilities)
    text = Document(page).text
    assert "Without test pairs there is no reliability diagram." in text
    assert "may be off" not in text
    assert "Held-out log-loss" not in text


def test_a_comparison_in_which_nothing_was_measured_is_left_out(run, history):
    comparison = Comparison([MethodResult("CGCL", {"auc": None})])
    assert 'id="comparison"' not in render_page(run, history, None, None, comparison=comparison)
