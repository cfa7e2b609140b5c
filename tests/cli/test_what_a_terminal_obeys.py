"""Names from unknown hands: what a terminal or a spreadsheet would obey instead of showing it."""

import csv
import io
import sys

import pytest

from cgcl.cli.main import main

FORMULA = ("=", "+", "-", "@")
ROWS = ["=1+1,+b", "+b,-c", "-c,@d", "@d,=1+1", "e,=1+1", "e,+b", "e,-c", "e,@d", "f,e", "f,@d"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("formulas")
    (folder / "g.csv").write_text("\n".join(["source,target", *ROWS, ""]))
    words = ["train", str(folder / "g.csv"), "--method", "cgcl", "--hidden=4", "--epochs=2"]
    words += ["--val=0", "--test=0", "--threads=1", "--quiet", "--no-compare", f"--out={folder}"]
    with pytest.raises(SystemExit, match="0"):
        main(words)
    return folder / "g-1"


@pytest.mark.parametrize("command", ["predict", "embed"])
def test_a_note_names_excel_where_a_spreadsheet_would_compute(run, capsys, command: str) -> None:
    words = [command, str(run), "--format=csv", "--threads=1"]
    note = "4 names for a formula, such as '+b'; --excel prevents that."

    with pytest.raises(SystemExit, match="0"):
        main(words)
    found = capsys.readouterr()
    assert note in found.err
    assert any(
        row[0].startswith(("=", "+", "-", "@")) for row in csv.reader(io.StringIO(found.out))
    )

    with pytest.raises(SystemExit, match="0"):
        main([*words, "--excel"])
    found = capsys.readouterr()
    assert note not in found.err
    for row in csv.reader(io.StringIO(found.out)):
        assert not row[0].startswith(FORMULA)


def test_control_characters_in_file_names_do_not_reach_the_terminal(
    tmp_path, capsys, monkeypatch
) -> None:
    hostile = tmp_path / "g\x1b]0;title\x07\x9b31m\r.csv"
    hostile.write_text("source,target\na\n")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for words in (
        ["inspect", str(hostile)],
        ["train", str(hostile)],
        ["train", f"{hostile}.missing"],
        ["predict", str(hostile)],
        ["report", str(hostile)],
        ["audit", str(hostile)],
        ["train", "cora", "--config", str(hostile)],
        ["train", "cora", "--features", str(hostile)],
    ):
        with pytest.raises(SystemExit):
            main(words)
        told = "".join(capsys.readouterr())
        assert told.strip()
        assert not {"\x1b", "\x07", "\x9b", "\r"} & set(told), words


def test_a_path_is_printed_as_it_is_to_a_program_and_plainly_to_a_person(
    run, tmp_path, capsys, monkeypatch
) -> None:
    out = tmp_path / "links\x1b[31m.csv"
    for is_terminal in (False, True):
        monkeypatch.setattr(sys.stdout, "isatty", lambda answer=is_terminal: answer)
        with pytest.raises(SystemExit, match="0"):
            main(["predict", str(run), "--out", str(out), "--threads=1", "--quiet"])
        assert ("\x1b" in capsys.readouterr().out) != is_terminal
