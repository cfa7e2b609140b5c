"""The page in a real browser: the script runs, sorts and searches; nothing else runs."""

import base64
import hashlib
import json
import re
import shutil
import subprocess

import pytest

from cgcl.report.page import render_page
from cgcl.report.results import RunResults

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

# What a person does, and what the table shows after each step.
DRIVER = """
const seen = {};
const rows = () => [...document.querySelectorAll("#suggested-links tbody tr")];
const rank = (row) => Number(row.cells[0].textContent);
const ranks = () => rows().filter((row) => !row.hidden).map(rank);
const head = (title) => [...document.querySelectorAll("th")].find((e) => e.textContent === title);
const click = (title) => { head(title).querySelector("button").click(); return ranks(); };
const search = (words) => {
  const box = document.getElementById("search");
  box.value = words;
  box.dispatchEvent(new Event("input"));
  return [ranks(), document.getElementById("search-status").textContent];
};
seen.start = ranks();
seen.once = click("Shared neighbours");
seen.onceSaid = head("Shared neighbours").getAttribute("aria-sort");
seen.twice = click("Shared neighbours");
seen.twiceSaid = head("Shared neighbours").getAttribute("aria-sort");
seen.byDistance = click("Distance");
seen.byDistanceBack = click("Distance");
seen.sorted = document.querySelectorAll("th[aria-sort]").length;
seen.byTarget = click("Target");
seen.byProbability = click("Probability");
click("Rank");
seen.byRank = ranks();
seen.found = search("TARGET =CMD()");
seen.foundMarkup = search("<script>");
seen.foundInTitle = search("A".repeat(200));
seen.foundNothing = search("no such name");
seen.foundAll = search("");
seen.wide = document.documentElement.scrollWidth > window.innerWidth;
document.title = JSON.stringify(seen);
"""


def dump(page, folder):
    """Return the document as the browser has it after its scripts."""
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    flags = [f"--user-data-dir={folder / 'profile'}", "--window-size=500,900", path.as_uri()]
    done = subprocess.run(
        [*command, *flags], capture_output=True, encoding="utf-8", timeout=120, check=True
    )
    return done.stdout


@pytest.fixture(scope="module")
def full_page(everything, history, scores, finished_run):
    return render_page(RunResults(finished_run, history, *scores, **everything))


@pytest.fixture(scope="module")
def seen(full_page, tmp_path_factory):
    """The policy is widened by the driver's hash: what is tested still runs under its own."""
    digest = base64.b64encode(hashlib.sha256(DRIVER.encode()).digest()).decode()
    page = full_page.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    page = page.replace("</body>", f"<script>{DRIVER}</script></body>")
    dumped = dump(page, tmp_path_factory.mktemp("driven"))
    [title] = re.findall(r"<title>(.*?)</title>", dumped, re.DOTALL)
    return json.loads(title.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


def ordered(links, value, *, falling):
    """Return ranks by value; what is missing comes last, equal values keep their order."""
    ranks = range(1, len(links) + 1)
    sign = -1 if falling else 1

    def place(rank):
        found = value(links[rank - 1])
        return (found is None, 0 if found is None else sign * found)

    return sorted(ranks, key=place)


def test_the_columns_can_be_sorted_both_ways(seen, everything):
    links = everything["suggestions"].links
    assert seen["start"] == seen["byRank"] == list(range(1, 101))
    assert seen["once"] == ordered(links, lambda link: link["shared_neighbours"], falling=True)
    assert seen["twice"] == ordered(links, lambda link: link["shared_neighbours"], falling=False)
    assert (seen["onceSaid"], seen["twiceSaid"]) == ("descending", "ascending")
    assert seen["sorted"] == 1
    # "target 100" is that of the first link, and names count by their numbers.
    assert seen["byTarget"] == list(range(100, 0, -1))
    assert seen["byProbability"] == list(range(1, 101))


def test_a_missing_distance_comes_last_in_both_directions(seen, everything):
    links = everything["suggestions"].links
    assert seen["byDistance"] == ordered(links, lambda link: link["distance"], falling=False)
    assert seen["byDistanceBack"] == ordered(links, lambda link: link["distance"], falling=True)


def test_the_search_finds_names_in_any_case_and_cut_ones_too(seen):
    assert seen["found"] == [[3], "1 of 100 shown"]
    assert seen["foundMarkup"] == [[1], "1 of 100 shown"]
    assert seen["foundInTitle"] == [[11], "1 of 100 shown"]
    assert seen["foundNothing"] == [[], "0 of 100 shown"]
    assert seen["foundAll"] == [list(range(1, 101)), "100 of 100 shown"]


def test_the_page_is_no_wider_than_a_phone(seen):
    assert seen["wide"] is False


def test_the_browser_runs_our_script_and_no_other(full_page, tmp_path):
    attack = (
        "<script>document.title = 'owned'</script><svg onload=\"document.title='owned'\"></svg>"
    )
    dumped = dump(full_page.replace("</footer>", f"</footer>{attack}", 1), tmp_path)
    assert "<title>cora: link prediction</title>" in dumped
    assert dumped.count('<button type="button">') == 10
    assert '<div class="tools">' in dumped


def test_without_the_script_the_table_is_whole_and_shows_no_dead_controls(full_page, tmp_path):
    dumped = dump(full_page.replace('"use strict";', '"changed";', 1), tmp_path)
    assert "<button" not in dumped
    assert '<div class="tools" hidden="">' in dumped
    assert dumped.count('<td class="because">') == 100


def test_names_are_text_in_the_browser_too(full_page, tmp_path):
    dumped = dump(full_page, tmp_path)
    assert "&lt;/td&gt;&lt;/tr&gt;&lt;/table&gt;&lt;img src=x onerror=alert(1)&gt;" in dumped
    assert "<img" not in dumped
    assert dumped.count("<script") == 1
