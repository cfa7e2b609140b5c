"""User 5 and item 5: prefixes of columns wherever files of the same columns are read."""

import contextlib
import csv
import io
import random
from pathlib import Path

import pytest

from cgcl.cli.main import main

chance = random.Random(1)
ROWS = sorted({(chance.randrange(30), chance.randrange(20)) for _ in range(500)})
chance.shuffle(ROWS)


def write(path: Path, rows) -> str:
    path.write_text("user,item\n" + "".join(f"{a},{b}\n" for a, b in rows))
    return str(path)


@pytest.fixture
def ask(capsys):
    def run(*words: object, code: int = 0) -> str:
        with pytest.raises(SystemExit, match=str(code)):
            main([str(word) for word in words])
        return capsys.readouterr().out

    return run


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("ratings")
    for name, rows in (("train", ROWS[:200]), ("test", ROWS[200:240]), ("val", ROWS[240:260])):
        write(folder / f"{name}.csv", rows)
    words = ["train", "train.csv", "--bipartite=columns", "--test-edges=test.csv", "--quiet"]
    words += ["--val-edges=val.csv", "--epochs=2", "--threads=1", "--no-compare"]
    with contextlib.chdir(folder), pytest.raises(SystemExit, match="0"):
        main(words)
    return folder


def rows_of(text: str) -> list[tuple[str, str]]:
    return [(row["source"], row["target"]) for row in csv.DictReader(io.StringIO(text))]


def test_held_out_files_and_pairs_get_the_prefixes_of_the_graph(ask, files: Path) -> None:
    run, csv_ = files / "runs" / "train-1", ("--format", "csv", "--threads", "1")
    known = {a for a, _ in ROWS[:260]}, {b for _, b in ROWS[:260]}
    pairs = [(a, b) for a, b in ROWS[260:] if a in known[0] and b in known[1]]
    named = [(f"user:{a}", f"item:{b}") for a, b in pairs]
    assert len(pairs) > 10

    file = write(files / "pairs.csv", pairs)
    assert rows_of(ask("predict", run, "--pairs", file, *csv_)) == named
    # Whoever writes the names as the graph has them means these.
    (files / "whole.csv").write_text("user,item\n" + "".join(f"{a},{b}\n" for a, b in named))
    assert rows_of(ask("predict", run, "--pairs", files / "whole.csv", *csv_)) == named

    best = ask("predict", run, "--top", "1000", "--exclude", file, *csv_)
    assert not {*map(frozenset, rows_of(best))} & {*map(frozenset, named)}

    bare = files / "bare.csv"
    bare.write_text("".join(f"{a},{b}\n" for a, b in named))
    ask("predict", run, "--pairs", bare, *csv_, code=1)  # its first row would be lost

    new = write(files / "new.csv", [("user:999", pairs[0][1])])
    best = rows_of(ask("predict", run, "--new-links", new, "--top", "2", *csv_))
    assert all("user:999" in row for row in best)


def test_an_audit_of_files_tells_the_columns_apart_if_asked(ask, files: Path) -> None:
    one = write(files / "one.csv", [(1, 2), (3, 4)])
    other = write(files / "other.csv", [(2, 1)])  # another user, another item
    assert "other direction" in ask("audit", "--train", one, "--test", other, code=1)
    told = ask("audit", "--train", one, "--test", other, "--bipartite", "columns")
    assert "No leak found." in told
