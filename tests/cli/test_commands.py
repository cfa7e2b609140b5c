"""What each command does with a small graph of one's own."""

import json
import re
import socket
from pathlib import Path

import pytest

# Of the paper's model, so few and so small steps leave nothing but chance.
OF_NO_USE = ("--epochs", "1", "--test", "0.2", "--val", "0.1", "--lr", "1e-9")


# Small and quick, where the model is not the point.
SMALL = ("--epochs", "2", "--test", "0.2", "--val", "0.1", "--threads", "1")


def test_train_tells_the_story_on_stderr_and_the_answer_on_stdout(cli, friends: Path) -> None:
    told = ("train", friends, "--features", "nodes.csv", "--epochs", "10", "--hidden", "8")
    shares = ("--test", "0.2", "--val", "0.1", "--out", "elsewhere")
    result = cli(*told, *shares)
    assert (result.code, result.out) == (0, "elsewhere/friends-1\n")
    lines = result.err.splitlines()
    assert lines[:4] == [
        "  Graph       friends: 10 nodes, 25 links, 2 features (10 nonzeros)",
        "  Split       18 links to learn from, 2 to choose the epoch by, 5 to test on (seed 0)",
        "  Model       CGCL-rank, preset quick: width 8, 2 layers, 10 epochs, lr 0.01",
        "  Run         elsewhere/friends-1",
    ]
    assert re.fullmatch(
        r"  Training    epoch 10/10  loss \d\.\d{4}  val node MRR .*  AUC .*", lines[4]
    )
    # Five test links: every one of them would be "above the 100th unlinked pair".
    test = r"^  Test        node MRR 0.\d{4}   node Hits@10 \d\.\d{4}\n"
    test += r"              AUC \d\.\d{4}   AP \d\.\d{4}   MRR 0.\d{4}   against 5 unlinked pairs$"
    assert re.search(test, result.err, re.M)
    assert "  Report      elsewhere/friends-1/report.html" in lines
    assert lines[-1] == "  Next        cgcl predict elsewhere/friends-1 --top 20"
    names = sorted(path.name for path in Path("elsewhere/friends-1").iterdir())
    assert names == [
        "checkpoint.safetensors", "comparison.json", "graph.safetensors", "lock", "metrics.jsonl",
        "model.safetensors", "report.html", "run.json", "split.safetensors", "suggestions.json",
    ]  # fmt: skip
    quiet = cli(*told, *shares, "--quiet")
    assert (quiet.code, quiet.out, quiet.err) == (0, "elsewhere/friends-2\n", "")


def test_a_useless_model_is_warned_of_wherever_it_is_used(cli, friends: Path) -> None:
    run = cli("train", friends, "--method", "cgcl", *OF_NO_USE)
    assert "Warning: The model learned nothing" in run.err
    assert "The model learned nothing" in Path(run.out.strip(), "report.html").read_text()
    assert "Warning: The model learned nothing" in cli("predict", run.out.strip()).err


def test_evaluate_repeats_the_test(cli, run_folder: Path, monkeypatch) -> None:
    result = cli("evaluate", run_folder, "--json", "--threads", "1")
    assert json.loads(result.out) == json.loads((run_folder / "run.json").read_text())["test"]
    table = cli("evaluate", run_folder)
    assert [line.split()[0] for line in table.out.splitlines()] == list(json.loads(result.out))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for command in ("predict", "evaluate"):
        result = cli(command, run_folder, "--device", "cuda")
        assert result.code == 1
        assert "No CUDA device found; you asked for cuda. Use --device cpu." in result.err


@pytest.mark.parametrize(
    ("against", "said", "names"),
    [
        ("heart", "5 held-out links, each against", ["heart_mrr", "heart_hits@10"]),
        ("heart-released", "as HeaRT's released generator does", ["heart_mrr", "heart_hits@10"]),
        ("degree", "5 held-out links against as many unlinked pairs", ["degree_auc", "degree_ap"]),
    ],
)
def test_evaluate_says_what_links_were_set_against(
    cli, run_folder: Path, against, said, names
) -> None:
    result = cli("evaluate", run_folder, "--against", against, "--threads", "1")
    assert result.code == 0, result.err
    assert said in result.err
    lines = [line.split() for line in result.out.splitlines()]
    assert [line[0] for line in lines] == names
    assert all(0 <= float(line[1]) <= 1 for line in lines)
    told = json.loads(cli("evaluate", run_folder, "--against", against, "--json").out)
    assert {name: f"{told[name]:.6f}" for name in names} == dict(lines)
    assert (
        said.removeprefix("5 held-out links, each against")
        in f"5 held-out links against {told['against']['words']}"
    )


def test_what_is_sampled_says_so(cli, friends: Path, monkeypatch) -> None:
    """As if a pair took so long that two of the five test links must do."""
    monkeypatch.setattr("cgcl.methods.scoring.EmbeddingScorer.cost_per_pair", 8e9)
    monkeypatch.setattr("cgcl.train.top_of_list._FEWEST_LINKS", 2)
    monkeypatch.setattr("cgcl.train.top_of_list._TABLE", 0)
    trained = cli("train", friends, "--method", "cgcl", "--hidden", "8", *SMALL, "--no-compare")
    assert trained.code == 0, trained.err
    told = r"Test        node MRR [01]\.\d{4} ± 0\.\d{4}   node Hits@10 .*   on 2 of 5 test links\n"
    assert re.search(told, trained.err)
    table = cli("evaluate", trained.out.strip())
    assert re.search(r"^node_mrr        [01]\.\d{6} ± 0\.\d{6}$", table.out, re.M)
    assert "2 of them, drawn at random, among all nodes" in table.err
    found = json.loads(cli("evaluate", trained.out.strip(), "--json").out)
    assert found["sampled"]["links"] == 2


def test_a_formula_that_is_ahead_at_the_top_is_named_before_any_auc(cli, tmp_path: Path) -> None:
    """Six cliques of six, and a network that has learned for one epoch."""
    groups = [range(6 * k, 6 * k + 6) for k in range(6)]
    rows = [f"{a},{b}\n" for group in groups for a in group for b in group if a < b]
    (tmp_path / "cliques.csv").write_text("source,target\n" + "".join(rows))
    result = cli("train", "cliques.csv", "--epochs", "1", "--hidden", "2", "--threads", "1")
    assert result.code == 0, result.err
    after = result.err[result.err.index("Training    epoch 1/1") :].splitlines()[1:]
    after = [line for line in after if not line.startswith("  Then ")]  # on a busy machine
    assert re.match(
        r"  Ahead       At the top of the list, .*Adamic-Adar.* ahead of CGCL-rank: node MRR",
        after[0],
    )
    assert after[1].startswith("  Test        node MRR")
    page = (Path(result.out.strip()) / "report.html").read_text()
    body = page[page.index("<body>") :]
    assert 0 < body.index("ahead of CGCL-rank: node MRR") < body.index("AUC")


def test_evaluate_without_a_test_set_says_so(cli, friends: Path) -> None:
    run = cli("train", friends, "--epochs", "1", "--test", "0", "--val", "0").out.strip()
    result = cli("evaluate", run)
    assert result.code == 1
    assert "was trained without a test set (--test 0)" in result.err
    assert "no test" in Path(run, "report.html").read_text().lower()


def test_doctor_tells_what_there_is_and_will_be(cli) -> None:
    result = cli("doctor", "--out", "a/b/c")
    assert result.code == 0
    found = {line[:17].strip(): line[17:] for line in result.out.splitlines()}
    assert {"cgcl", "python", "torch", "device", "threads", "memory", "runs"} <= set(found)
    assert found["cora"] == "present"
    assert "a/b/c: writable" in result.out


def test_a_finished_run_has_nothing_left_to_train(cli, run_folder: Path) -> None:
    """Nor do settings in a file stand in the way, or the same ones, or other resources."""
    before = (run_folder / "model.safetensors").read_bytes()
    Path("cgcl.toml").write_text('[train]\ngraph = "other.csv"\nhidden = 99\n')
    result = cli("train", "--resume", run_folder, "--hidden", "8", "--threads", "2")
    assert (result.code, result.out) == (0, f"{run_folder}\n")
    assert "after 20 epochs; there is nothing left to train" in result.err
    assert (run_folder / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--hidden", "128"], "This run was started with hidden=8; you asked for 128."),
        (["--lr", "0.5"], "This run was started with lr=0.01; you asked for 0.5."),
        (["cora"], "and its settings; it takes no GRAPH.\nWrite only: cgcl train --resume"),
        (["--preset", "paper", "--out", "x"], "it takes no --out, --preset."),
        (["--features", "nodes.csv"], "it takes no --features."),
        (["--test-edges", "t.csv", "--time", "day"], "it takes no --test-edges, --time."),
        (["--bipartite", "no"], "it takes no --bipartite."),
    ],
)
def test_resuming_takes_nothing_that_would_make_it_another_run(
    cli, run_folder, flags, text: str
) -> None:
    result = cli("train", "--resume", run_folder, *flags)
    assert result.code == 2
    assert text in result.err


def test_nothing_touches_the_network(cli, friends: Path, monkeypatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    run = cli("train", friends, "--epochs", "2", "--test", "0.2", "--val", "0.1").out.strip()
    for command in (["predict", run], ["evaluate", run], ["report", run], ["doctor"]):
        assert cli(*command).code == 0


def test_data_sets_are_looked_for_where_told(cli, monkeypatch, tmp_path) -> None:
    """The file there is not the published one, so it is refused by name and nothing is fetched."""
    sets = tmp_path / "sets"
    folder = sets / "CiteSeer" / "raw"
    folder.mkdir(parents=True)
    for part in ("allx", "tx", "graph", "test.index"):
        (folder / f"ind.citeseer.{part}").write_bytes(b"something else")
    told = cli("doctor", "--data-root", sets).out
    assert str(sets) in told
    assert re.search(r"^citeseer +present$", told, re.M)
    assert re.search(r"^pubmed +absent", told, re.M)
    by_flag = cli("train", "citeseer", "--data-root", sets)
    monkeypatch.setenv("CGCL_DATA", str(sets))
    for result in (by_flag, cli("train", "citeseer")):
        assert result.code == 1
        assert "is not the published file" in result.err


def test_predict_on_an_unfinished_run_says_how_to_finish_it(cli, run_folder: Path) -> None:
    (run_folder / "model.safetensors").unlink()
    stopped = json.loads((run_folder / "run.json").read_text())
    stopped |= {"status": "interrupted", "epochs": 7}
    (run_folder / "run.json").write_text(json.dumps(stopped))
    result = cli("predict", run_folder)
    assert result.code == 1
    assert "has no model yet: its status is 'interrupted', after epoch 7 of 20." in result.err
    assert f"cgcl train --resume {run_folder}" in result.err


def test_a_default_for_top_in_a_file_gives_way_to_pairs(cli, run_folder: Path) -> None:
    Path("cgcl.toml").write_text("[predict]\ntop = 2\n")
    Path("pairs.csv").write_text("source,target\n10,Anna\n")
    assert len(cli("predict", run_folder, "--pairs", "pairs.csv").out.splitlines()) == 2
    assert len(cli("predict", run_folder).out.splitlines()) == 3


def test_names_cannot_move_the_cursor(cli) -> None:
    Path("odd.csv").write_text("source,target\na,\x1b[31mred\na,b\na,c\n")
    run = cli("train", "odd.csv", "--val", "0", "--test", "0", "--epochs", "1").out.strip()
    table = cli("predict", run)
    assert "\x1b" not in table.out
    assert "\\x1b[31mred" in table.out
    assert "\x1b[31mred" in cli("predict", run, "--format", "csv").out


def test_results_do_not_depend_on_the_order_of_rows_or_directions(cli, friends: Path) -> None:
    rows = [line.split(",") for line in friends.read_text().splitlines()[1:]]
    Path("shuffled").mkdir()
    Path("shuffled/friends.csv").write_text(
        "target,source\n" + "".join(f"{a},{b}\n" for a, b in reversed(rows))
    )
    nodes = Path("nodes.csv").read_text().splitlines()
    Path("shuffled/nodes.csv").write_text("\n".join([nodes[0], *reversed(nodes[1:])]) + "\n")
    one = cli("train", "friends.csv", "--features", "nodes.csv", *SMALL).out.strip()
    two = cli("train", "shuffled/friends.csv", "--features", "shuffled/nodes.csv", *SMALL)
    for name in ("model.safetensors", "split.safetensors", "metrics.jsonl", "graph.safetensors"):
        assert Path(one, name).read_bytes() == Path(two.out.strip(), name).read_bytes(), name
