"""What is wrong is said before anything is done: in a sentence, with nothing on stdout."""

import shlex
from pathlib import Path

import pytest

from cgcl.methods.table import METHODS

USAGE, OURS = 2, 1
TRAIN = "train friends.csv --test 0.2 --val 0.1"
TUNE = "tune friends.csv --test 0.2 --threads 1 --features nodes.csv"
COMPARE = "compare friends.csv --test 0.2 --val 0.1"
REPRODUCE = "reproduce table1 --methods vgae --runs 1 --epochs 2 --out runs"
NO_METHOD = f"Error: method is 'vgea'; it must be one of {', '.join(METHODS)}. Did you mean vgae?"


@pytest.fixture
def files(friends: Path) -> None:
    """Files that a command below names, beside those of the friends."""
    pairs = friends.read_text().splitlines()[1:]
    for name, header, part in (
        ("test", "source,target", pairs[:5]),
        ("val", "source,target", pairs[5:8]),
        ("both", "source,target", pairs[3:8]),
        ("other", "from,to,at", [f"{pair},1" for pair in pairs[:5]]),
    ):
        Path(f"{name}.csv").write_text("\n".join([header, *part]) + "\n")
    Path("damaged.toml").write_text("[cora")
    Path("partly.toml").write_text("[cgcl-cora-10]\nlr = 0.1\n")
    Path("foreign.toml").write_text("cora = 3")


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("train --hiden 3", "Unknown option: --hiden. Did you mean --hidden?"),
        ("trian", 'Unknown command "trian". Did you mean "train"?'),
        ("train --lr abc", 'unable to convert "abc" into float'),
        ("train --views disjont", 'Did you mean "disjoint"?'),
        ("train --lr -1", "lr is -1.0; it must be above 0 and at most 10."),
        ("train --time-limit soon", "write a number with s, m or h, such as 5m"),
        ("train --config none.toml", "There is no settings file none.toml"),
        ("train --out o\udcff", "is not valid UTF-8"),
        # Before anything is read, so that a long download is not for nothing.
        ("train no-such-file.csv --method vgea", NO_METHOD),
        ("methods vgea", NO_METHOD),
        (f"{TRAIN} --method mlp --set.hops 2", "Error: mlp has no setting hops. It has lr, epochs"),
        (f"{TRAIN} --set.hiden 2", "Error: cgcl-rank has no setting hiden. It has lr, epochs,"),
        (f"{TRAIN} --method mlp --views one", "mlp has no setting views. It has choose_by, clip,"),
        (f"{TRAIN} --method mlp --set.hidden wide", "hidden is 'wide'; it must be a whole number."),
        (f"{TRAIN} --views one", "cgcl-rank has no setting views. The paper's model has: method "),
        (f"{TRAIN} --method cgcl --set.views three", "views is 'three'; it must be one of disj"),
        (f"{TRAIN} --method cgcl-rank --preset paper", "has no preset paper; it has quick"),
        (f"{TRAIN} --track-consistency", "this is cgcl-rank. Add --method cgcl."),
        ("train friends.csv --val-edges val.csv", "--val-edges goes with --test-edges"),
        ("train friends.csv --time t --test-edges test.csv", "--time and --test-edges both say"),
        ("predict", "requires an argument"),
        ("audit", "Give either a run folder or files of links"),
        ("audit --train a.csv", "compares the links to learn from with others"),
        ("audit runs/x --pairs -1", "pairs is -1; it must be at least 0"),
        (f"{COMPARE} --runs 0", "runs is 0; it must be at least 1"),
        (f"{COMPARE} --time when", "compare draws its splits at random"),
        (f"{COMPARE} --tuned nowhere", "There is no folder nowhere"),
        (f"{COMPARE} --time-limit soon", "time_limit is 'soon'"),
        (f"{COMPARE} --json --format csv", "--json and --format csv contradict each other"),
        (f"{TUNE} --method katzz", "Did you mean katz?"),
        (f"{TUNE} --method common-neighbours", "There is nothing to tune: common-neighbours"),
        (f"{TUNE} --trials 0 --val 0.2", "trials is 0; it must be at least 1."),
        (f"{TUNE} --val 0", "There are no validation links"),
        (f"{TUNE} --time-limit soon", "write a number with s, m or h, such as 5m"),
        (f"{TUNE} --method katz --epochs 3", "katz has no setting epochs"),
        (f"{REPRODUCE} --dataset nope", "table1 has no dataset nope. It has cora, citeseer,"),
        (f"{REPRODUCE} --ratio x", "ratio is 'x'; give percents, such as 10 or 10,20."),
        ("reproduce table1 --runs 0", "--runs and --epochs must be at least 1."),
        (f"{REPRODUCE} --chosen missing.toml", "missing.toml cannot be read as what cgcl reprod"),
        (f"{REPRODUCE} --chosen foreign.toml", "foreign.toml is not what cgcl reproduce grid"),
        (f"{REPRODUCE} --dataset ,", "',' names nothing; give names with commas"),
        (f"{REPRODUCE} --device gpu", "device is 'gpu'; it must be auto, cpu, cuda or cuda:N."),
        (
            "reproduce table1 --methods cgcl --dataset cora --ratio 10 --chosen partly.toml",
            "No hidden of cgcl was chosen for cora with 10 % test links yet.",
        ),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_was_meant(cli, files, command, text) -> None:
    check(cli, command, USAGE, text)
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("train corra", "cora"),
        ("train --resume runs/none-1", "There is no run folder runs/none-1"),
        ("predict runs/none-1", "runs/none-1 does not exist. Name a run folder"),
        ("report runs/none-1", "There is no run folder runs/none-1"),
        ("audit nowhere", "There is no split in nowhere: it is no run folder."),
        (f"{COMPARE} --device cuda:99", "CUDA device"),
        (f"{TUNE} --val 0.2 --out .", "is not the folder of a search"),
        ("train friends.csv --test-edges none.csv", "none.csv"),
        ("train friends.csv --test-edges test.csv --val-edges both.csv", "2 links are both for"),
        ("train friends.csv --test-edges friends.csv --val 0", "so 0 would be left to learn from"),
        ("train friends.csv --test-edges other.csv", "other.csv"),
    ],
)
def test_an_error_of_ours_exits_with_1_in_four_lines_at_most(cli, files, command, text) -> None:
    err = check(cli, command, OURS, text)
    assert len(err[err.index("Error: ") :].strip().splitlines()) <= 4


def check(cli, command: str, code: int, text: str) -> str:
    """Run a command that is to be refused, and return what was said."""
    result = cli(*shlex.split(command))
    # A frame folds lines wherever they are too long.
    told = " ".join(result.err.replace("│", " ").split())
    assert (result.code, result.out, text in told) == (code, "", True), told
    assert not list(Path().glob("runs/*-1")), "a run was begun"
    return result.err
