"""Every option of `cgcl predict`, on a run that is trained once."""

import contextlib
import csv
import io
import json
import shutil
from itertools import combinations
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

from cgcl.cli.main import main

HUB = "hub"
NAMES = [HUB, "007", "NA", "=cmd()", "[red]", "<b>", "é", "a b", "1e3", "-5", "a,b"]
NAMES += [f"n{number:02d}" for number in range(13)]
EVIDENCE = ["shared_neighbours", "common_features", "distance"]
COLUMNS = ["source", "target", "probability", "score", "probability_low", "probability_high"]


def make_files(folder: Path) -> None:
    """Three groups, and a hub that knows everybody: all pairs have a common neighbour."""
    rng = np.random.default_rng(0)
    group = np.arange(len(NAMES)) % 3
    chance = np.where(group[:, None] == group[None, :], 0.7, 0.08)
    chance[0] = 1.0
    links = np.argwhere(np.triu(rng.random(chance.shape) < chance, 1))
    pairs_file(folder / "people.csv", [(NAMES[a], NAMES[b]) for a, b in links])
    words = ["tea cake", "coffee", "juice fruit ice"]
    nodes = [
        (name, f"{rng.random():.3f}", "rgb"[group[i]], words[group[i]])
        for i, name in enumerate(NAMES)
    ]
    pairs_file(folder / "nodes.csv", nodes, "name", "size", "colour", "likes")


def pairs_file(path: str | Path, rows: list[tuple[str, ...]], *header: str) -> Path:
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        table = [header or ("source", "target"), *rows]
        csv.writer(file, lineterminator="\n").writerows(table)
    return Path(path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A folder with two runs: `full`, and `bare` without features and probabilities."""
    folder = tmp_path_factory.mktemp("trained")
    make_files(folder)
    common = ["--hidden", "8", "--epochs", "20", "--threads", "1", "--no-compare", "--quiet"]
    common += ["--lr", "0.05", "--input-dropout", "0.2", "--evaluate-every", "5"]
    features = ["--features", "nodes.csv", "--one-hot", "colour", "--words", "likes"]
    for out, more in (("full", [*features, "--val", "0.1"]), ("bare", ["--val", "0"])):
        with contextlib.chdir(folder), pytest.raises(SystemExit) as stopped:
            main(["train", "people.csv", *common, *more, "--out", out])
        assert not stopped.value.code
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained / "full" / "people-1", tmp_path / "run")
    return Path("run")


@pytest.fixture
def bare(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained / "bare" / "people-1", tmp_path / "bare")
    return Path("bare")


@pytest.fixture(scope="module")
def known(trained: Path) -> set[frozenset[str]]:
    return {frozenset(pair) for pair in pairs_of((trained / "people.csv").read_text())}


@pytest.fixture
def unknown(known) -> set[frozenset[str]]:
    return {frozenset(pair) for pair in combinations(NAMES, 2)} - known


@pytest.fixture
def ask(cli, run: Path):
    """Ask the full run, and return the rows of the answer, numbers as numbers."""

    def asked(*options: str | Path) -> list[dict]:
        result = cli("predict", run, *options, "--format", "json")
        assert result.code == 0, result.err
        return json.loads(result.out)

    return asked


def pairs_of(text: str) -> list[tuple[str, str]]:
    return [(row["source"], row["target"]) for row in csv.DictReader(io.StringIO(text))]


def ends(rows: list[dict]) -> list[tuple[str, str]]:
    return [(row["source"], row["target"]) for row in rows]


def sets(rows: list[dict]) -> set[frozenset[str]]:
    return {frozenset(pair) for pair in ends(rows)}


def names_file(name: str, names: list[str]) -> Path:
    Path(name).write_text("".join(f"{one}\n" for one in names), encoding="utf-8")
    return Path(name)


def test_top_says_how_many_and_ten_is_the_default(ask, unknown) -> None:
    everything = ask("--top", "1000")
    assert sets(everything) == unknown
    assert ask() == everything[:10]
    assert ask("--top", "3") == everything[:3]
    assert list(everything[0]) == [*COLUMNS, *EVIDENCE]
    scores = [row["score"] for row in everything]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) > 10


def test_a_node_that_knows_everybody_gets_an_empty_answer_in_every_format(cli, run) -> None:
    result = cli("predict", run, "--node", HUB, "--format", "json")
    assert (result.code, json.loads(result.out)) == (0, [])
    assert "There are no more than 0 such links." in result.err
    header = ",".join([*COLUMNS, *EVIDENCE]) + "\n"
    assert cli("predict", run, "--node", HUB, "--format", "csv").out == header
    table = cli("predict", run, "--node", HUB).out
    assert table.split() == [*COLUMNS[:4], "shared", "common", "distance"]


def test_pairs_are_scored_in_their_order_known_links_and_self_pairs_too(
    ask, known, monkeypatch
) -> None:
    one, other = sorted(next(iter(sorted(map(sorted, known)))))
    wanted = [("é", "007"), (one, other), ("NA", "NA"), (other, one), ("007", "é"), ("é", "007")]
    file = pairs_file("pairs.csv", wanted)
    rows = ask("--pairs", file)
    assert ends(rows) == wanted
    assert list(rows[0]) == [*COLUMNS, "known"]
    assert [row["known"] for row in rows] == [False, True, False, True, False, False]
    scores = [row["score"] for row in rows]
    assert scores[0] == scores[4] == scores[5]
    assert scores[1] == scores[3]
    assert "because" in ask("--pairs", file, "--explain")[0]
    monkeypatch.setattr("cgcl.cli.predict._BLOCK", 4)
    assert ask("--pairs", file) == rows


def test_tables_are_read_as_told(ask, cli, run) -> None:
    Path("bare.csv").write_text("007;NA\nNA;é\n")
    rows = ask("--pairs", "bare.csv", "--no-header", "--separator", ";")
    assert ends(rows) == [("007", "NA"), ("NA", "é")]
    Path("named.csv").write_text("from,to\n007,NA\n")
    assert ends(ask("--pairs", "named.csv", "--source", "from", "--target", "to")) == [
        ("007", "NA")
    ]
    assert ends(ask("--pairs", "named.csv")) == [("007", "NA")]  # by their place
    Path("dated.csv").write_text("from,to,at\n007,NA,1\n")
    result = cli("predict", run, "--exclude", "dated.csv")
    assert result.code == 1
    assert "cgcl predict RUN --exclude dated.csv --source from --target to" in result.err


def test_node_sources_and_targets_restrict_their_end(ask, unknown) -> None:
    some, others = ["007", "NA", "a b", "n05", "-5"], ["é", "NA", "n01", "n02", "a,b"]
    sources = ["--sources", names_file("s.txt", some)]
    targets = ["--targets", names_file("t.txt", others)]
    for options, first, second in (
        (["--node=-5"], ["-5"], NAMES),
        (sources, some, NAMES),
        (targets, NAMES, others),
        ([*sources, *targets], some, others),
        (["--node", "007", *targets], ["007"], others),
    ):
        rows = ask(*options, "--top", "1000")
        assert sets(rows) == {frozenset((a, b)) for a in first for b in second} & unknown
        assert all(row["source"] in first and row["target"] in second for row in rows)
        assert 0 < len(rows) < len(unknown)


def test_a_lowest_probability_alone_gives_all_links_in_the_order_of_nodes(
    ask, cli, run, monkeypatch
) -> None:
    everything = ask("--top", "1000")
    limit = everything[40]["probability"]
    assert everything[-1]["probability"] < limit < everything[0]["probability"]
    rows = ask("--min-probability", repr(limit))
    assert ends(rows) == sorted(ends([r for r in everything if r["probability"] >= limit]))
    assert list(rows[0]) == COLUMNS
    whole = cli("predict", run, "--min-probability", limit, "--format", "csv").out
    # Streamed: several blocks, one header.
    monkeypatch.setattr("cgcl.predict.search._BLOCK", 10)
    assert cli("predict", run, "--min-probability", limit, "--format", "csv").out == whole
    assert pairs_of(whole) == ends(rows)


def test_where_nothing_is_probable_enough_it_is_said_what_the_best_has(cli, run, ask) -> None:
    best = ask("--top", "1")[0]["probability"]
    for flags in ([], ["--top", "5"]):
        result = cli("predict", run, "--min-probability", "1", "--format", "csv", *flags)
        assert result.code == 0
        assert f"No new link has a probability of 1; the most probable has {best:.2g}" in result.err
        assert not pairs_of(result.out)


def test_the_prior_moves_probabilities_and_nothing_else(ask, cli, run) -> None:
    usual, rare = ask("--top", "1000"), ask("--top", "1000", "--prior", "0.001")
    for row, other in zip(usual, rare, strict=True):
        assert other["probability"] < row["probability"]
        moved = {key: other[key] for key in row if key.startswith("probability")}
        assert row | moved == other
    found = ask("--pairs", pairs_file("pairs.csv", ends(usual)), "--prior", "0.001")
    chances = [[row["probability"] for row in rows] for rows in (found, rare)]
    assert chances[0] == pytest.approx(chances[1], rel=1e-5)
    told = cli("predict", run, "--prior", "0.001").err
    assert "Base rate   1 in 1,000 unknown pairs is taken to be a link" in told
    expected = sum(row["probability"] for row in rare[:10])
    assert f"Expected    about {expected:,.1f} of these 10 links are real" in told


def test_explain_adds_a_column_and_below_the_table_a_paragraph_per_link(cli, run, ask) -> None:
    rows = ask("--explain", "--top", "4")
    assert list(rows[0]) == [*COLUMNS, *EVIDENCE, "because"]
    for row in rows:
        assert row["because"].startswith(f"{row['source']} and {row['target']} share ")
        assert "The score rests most on " in row["because"]
    table = cli("predict", run, "--explain", "--top", "4").out
    assert "because" not in table.splitlines()[0]
    for row in rows:
        low, high = row["probability_low"], row["probability_high"]
        assert low < row["probability"] < high
        sure = f"95 % interval of the probability: {low:.2g} to {high:.2g}"
        assert f"\n{row['source']} - {row['target']}\n  {sure}\n  {row['because']}\n" in table


def completed(path: str) -> tuple[set[frozenset[str]], dict[frozenset[str], float]]:
    """Read a completed graph back: the links that were known, and new ones' probabilities."""
    graph = nx.read_graphml(path)
    assert set(graph) == set(NAMES)
    edges = [(frozenset((a, b)), data) for a, b, data in graph.edges(data=True)]
    new = {pair: data["probability"] for pair, data in edges if not data["known"]}
    return {pair for pair, data in edges if data["known"]}, new


def test_complete_writes_known_and_new_links_above_the_threshold(cli, run, ask, known) -> None:
    out = "g.graphml"
    rows = ask("--top", "1000", "--prior", "0.5")
    even = {frozenset((row["source"], row["target"])): row["probability"] for row in rows}
    for limit, flags in ((0.5, []), (0.7, ["--min-probability", "0.7"])):
        result = cli("predict", run, "--complete", "--out", out, "--prior", "0.5", *flags)
        assert (result.code, result.out) == (0, f"{out}\n")
        wanted = {pair: chance for pair, chance in even.items() if chance >= limit}
        assert 0 < len(wanted) < len(even)
        old, new = completed(out)
        assert (old, new) == (known, pytest.approx(wanted, rel=1e-6))
        told = f"{len(known)} known links and {len(new)} new ones"
        assert f"  Graph       {told} with a probability of at least {limit:g}\n" in result.err
        assert "In the order of nodes; --top N gives the best first." in result.err
        assert "  Base rate   50.0% of unknown pairs is taken to be a link" in result.err


def test_complete_with_top_adds_the_best_few(cli, run, ask, known) -> None:
    """And heeds the other options."""
    options = ["--top", "7", "--sources", names_file("s.txt", ["007", "NA"])]
    result = cli("predict", run, "--complete", "--out", "g.graphml", *options, "--quiet")
    assert (result.code, result.out, result.err) == (0, "g.graphml\n", "")
    old, new = completed("g.graphml")
    assert (old, set(new)) == (known, sets(ask(*options)))


def test_new_nodes_are_answered_for_with_their_links_alone(cli, bare, known) -> None:
    file = pairs_file("new.csv", [("Zoe", "007"), ("NA", "Zoe"), ("Max", "Zoe")])
    options = ["--new-links", file, "--format", "json", "--top", "1000"]
    found = json.loads(cli("predict", bare, *options).out)
    everyone = {frozenset((new, old)) for new in ("Zoe", "Max") for old in NAMES}
    assert sets(found) == everyone - {frozenset(("Zoe", "007")), frozenset(("Zoe", "NA"))}
    assert {row["source"] for row in found} == {"Zoe", "Max"}
    of_known = json.loads(cli("predict", bare, *options, "--node", "007").out)
    assert {row["target"] for row in of_known} & {"Max", "Zoe"} == {"Max"}


def test_new_nodes_with_features_need_no_links(ask, cli, run) -> None:
    features = Path("features.csv")
    features.write_text("who,size,colour,likes\nZoe,0.5,r,tea cake\nMax,0.5,b,juice\n")
    options = ["--new-features", features, "--one-hot", "colour", "--words", "likes"]
    rows = ask(*options, "--top", "1000")
    assert {row["source"] for row in rows} == {"Zoe", "Max"}
    assert len(rows) == 2 * len(NAMES) + 1
    file = pairs_file("new.csv", [("Zoe", "007"), ("é", "Zoe")])
    linked = ask(*options, "--new-links", file, "--top", "1000")
    assert len(linked) == 2 * len(NAMES) + 1 - 2
    features.write_text("who,size,colour,likes\nZoe,0.5,violet,tea\nMax,0.5,b,juice\n")
    told = cli("predict", run, *options).err
    assert "values not seen in training left out: 'colour=violet'" in told


class Captured(io.TextIOWrapper):
    """A standard output that keeps bytes, and may claim to be a terminal."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "table"])
def test_every_format_goes_to_stdout_and_to_a_file_alike(cli, run, monkeypatch, form: str) -> None:
    stdout = Captured(is_terminal=False)
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", stdout)
        assert cli("predict", run, "--format", form).code == 0
    printed = stdout.buffer.getvalue()
    files = {"answer.xyz": ["--format", form], f"answer.{form.upper()}": []}
    for name, flags in files.items():  # the format, or else the suffix, decides
        if flags or form != "table":
            result = cli("predict", run, "--out", name, *flags)
            assert (result.code, result.out) == (0, f"{name}\n")
            assert Path(name).read_bytes() == printed
    if form == "table":
        lines = printed.decode().splitlines()[1:]
        rows = [(line[:8].rstrip(), line[8:16].rstrip()) for line in lines]
    elif form == "parquet":
        rows = ends(pyarrow.parquet.read_table("answer.xyz").to_pylist())
    else:
        rows = pairs_of(printed.decode()) if form == "csv" else ends(json.loads(printed))
    assert rows == ends(json.loads(cli("predict", run, "--format", "json").out))


def test_parquet_is_kept_from_terminals(cli, run, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        stdout = Captured(is_terminal=True)
        patch.setattr("sys.stdout", stdout)
        result = cli("predict", run, "--format", "parquet")
    assert result.code == 2
    assert stdout.buffer.getvalue() == b""
    assert "Parquet is not text for a terminal. Add --out FILE.parquet" in result.err


def test_quiet_leaves_the_answer_alone(cli, run) -> None:
    told, quiet = cli("predict", run), cli("predict", run, "--quiet")
    assert quiet.err == ""
    assert quiet.out == told.out
    assert [line.split()[0] for line in told.err.splitlines()] == ["Found", "Base", "Expected"]


def test_threads_reach_the_computation(cli, run, monkeypatch) -> None:
    import cgcl.predict.link_predictor as module

    seen = []
    original = module.computing_with
    monkeypatch.setattr(
        module, "computing_with", lambda asked: seen.append(asked.threads) or original(asked)
    )
    assert cli("predict", run, "--threads", "2").code == 0
    assert set(seen) == {2}


PAIRS = "cannot go with it.\nUse --pairs alone"
LOWEST = "this predictor has none: it was trained without validation links"


@pytest.mark.parametrize(
    ("folder", "flags", "text"),
    [
        # Options that contradict each other are refused before anything is loaded.
        ("nowhere", "--pairs p.csv --top 3 --node NA", f"so --node, --top {PAIRS}"),
        ("nowhere", "--pairs p.csv --min-probability 0.1", f"so --min-probability {PAIRS}"),
        ("nowhere", "--pairs p.csv --complete --out g.csv", f"so --complete {PAIRS}"),
        ("nowhere", "--node NA --sources x", "--node and --sources both say where links begin."),
        ("nowhere", "--complete", "which needs a file: add --out graph.graphml"),
        ("nowhere", "--complete --out g.csv --explain", "--explain cannot go with it"),
        ("nowhere", "--complete --out g.csv --format csv", "--format cannot go with it"),
        ("nowhere", "--one-hot colour", "--one-hot and --words say how to read --new-features."),
        ("nowhere", "--out answer.doc", "'answer.doc' does not say in which format to write."),
        ("run", "--top=0", "ask for at least 1"),
        ("run", "--min-probability=1.1", "must be between 0 and 1"),
        ("run", "--prior=0", "it must be above 0 and below 1"),
        ("run", "--prior=nan --pairs p.csv", "it must be above 0 and below 1"),
        ("run", "--complete --out g.json", "can be written as .graphml, .csv, .parquet"),
        ("bare", "--min-probability 0.1", LOWEST),
        ("bare", "--complete --out g.csv", LOWEST),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_is_wrong(
    cli, run, bare, folder, flags: str, text: str
) -> None:
    Path("p.csv").write_text("source,target\n007,NA\n")
    result = cli("predict", folder, *flags.split())
    assert (result.code, result.out) == (2, "")
    assert text in result.err
    assert not list(Path().glob("g.*"))


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--node", "Eve"], "No node is called 'Eve'"),
        (["--pairs", "p.csv"], "No node is called 'Eve'"),
        (["--pairs", "none.csv"], "none.csv"),
        (["--sources", "empty.txt"], "empty.txt is empty."),
    ],
)
def test_what_is_wrong_with_the_files_exits_with_1(cli, run, flags, text: str) -> None:
    Path("s.txt").write_text("007\nEve\n")
    Path("empty.txt").write_text("\n")
    Path("p.csv").write_text("source,target\n007,Eve\n")
    Path("a.csv").write_text("precious")
    result = cli("predict", run, *flags, "--out", "a.csv")
    assert (result.code, result.out) == (1, "")
    assert text in result.err
    assert Path("a.csv").read_text() == "precious"
    assert [path.name for path in Path().glob("a.csv*")] == ["a.csv"]


def test_a_run_without_probabilities_leaves_the_column_empty_and_says_so(cli, bare) -> None:
    result = cli("predict", bare, "--format", "csv")
    assert result.code == 0
    rows = list(csv.DictReader(io.StringIO(result.out)))
    assert {row["probability"] for row in rows} == {""}
    assert "Probability none: the run had no validation links to calibrate by" in result.err
    assert "common_features" not in rows[0]
    assert cli("predict", bare).out.splitlines()[0].split()[:4] == COLUMNS[:4]
