"""Help, mistakes and where settings come from."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import Mock

import pytest

from cgcl import __version__


def test_help_explains_every_setting(cli) -> None:
    text = cli("train", "--help").out
    for flag in (
        "--hidden", "--lr", "--epochs", "--input-dropout", "--decoder-dropout", "--weight-decay",
        "--views", "--negatives", "--seed", "--val", "--test", "--device", "--threads", "--preset",
        "--out", "--time-limit", "--resume", "--features", "--data-root", "--track-consistency",
    ):  # fmt: skip
        assert flag in text
    assert cli("--version").out.strip() == __version__


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["train", "--hiden", "3"], "Unknown option: --hiden. Did you mean --hidden?"),
        (["trian"], 'Unknown command "trian". Did you mean "train"?'),
        (["train", "--lr", "abc"], 'unable to convert "abc" into float'),
        (["train", "--views", "disjont"], 'Did you mean "disjoint"?'),
        (["train", "--lr", "-1"], "lr is -1.0; it must be above 0 and at most 10."),
        (["train", "--epochs", "0"], "epochs is 0; it must be at least 1"),
        (["train", "--val", "0.6", "--test", "0.5"], "leave no links to learn from"),
        (["train", "--time-limit", "soon"], "write a number with s, m or h, such as 5m"),
        (["train", "--config", "none.toml"], "There is no settings file none.toml"),
        (["train", "--out", "o\udcff"], "is not valid UTF-8"),
        (["predict"], "requires an argument"),
        (["predict", "r", "--pairs", "p.csv", "--top", "3"], "so --top cannot go with it"),
    ],
)
def test_a_mistake_says_what_was_meant_and_exits_with_2(cli, arguments, text: str) -> None:
    result = cli(*arguments)
    assert result.code == 2
    assert text in " ".join(result.err.replace("│", " ").split())
    assert result.out == ""


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["train", "corra"], "cora"),
        (["train", "none.csv"], "none.csv"),
        (["inspect", "none.csv"], "No such file: 'none.csv'"),
        (["train", "--resume", "runs/none-1"], "There is no run folder runs/none-1"),
        (["predict", "runs/none-1"], "runs/none-1 does not exist. Name a run folder"),
        (["evaluate", "runs/none-1"], "runs/none-1 does not exist. Name a run folder"),
        (["report", "runs/none-1"], "There is no run folder runs/none-1"),
    ],
)
def test_an_error_of_ours_exits_with_1_and_prints_no_traceback(cli, arguments, text) -> None:
    result = cli(*arguments)
    assert result.code == 1
    assert result.err.startswith("Error: ")
    assert text in result.err
    assert len(result.err.strip().splitlines()) <= 4
    assert result.out == ""


def test_a_failed_allocation_is_reworded_and_a_bug_keeps_its_traceback(cli, monkeypatch) -> None:
    torch_says = RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")
    for error in (MemoryError(), torch_says):
        monkeypatch.setattr("cgcl.readers.read", Mock(side_effect=error))
        result = cli("train", "cora")
        assert result.code == 1
        assert "There is not enough memory for this.\nTry a smaller --hidden" in result.err
    for error in (KeyError("surprise"), RuntimeError("'surprise'")):
        monkeypatch.setattr("cgcl.readers.read", Mock(side_effect=error))
        result = cli("train", "cora")
        assert result.code == 70
        first, second = result.err.strip().splitlines()
        assert first == f"This is a bug in cgcl: {type(error).__name__}: 'surprise'"
        assert "Traceback" in Path(second.rsplit(" ", 1)[1]).read_text()


def test_flags_win_over_the_environment_over_the_file_over_the_preset(
    cli, friends, tmp_path, monkeypatch
) -> None:
    def config(*arguments: str) -> dict:
        shares = ("--epochs", "1", "--threads", "1", "--test", "0", "--val", "0", "--no-compare")
        result = cli("train", friends, *shares, *arguments)
        assert result.code == 0, result.err
        return json.loads(Path(result.out.strip(), "run.json").read_text())["config"]

    preset = config("--preset", "paper", "--hidden", "4")
    assert (preset["views"], preset["lr"], preset["hidden"]) == ("directed", 0.005, 4)
    (tmp_path / "cgcl.toml").write_text('[train]\nhidden = 6\nlr = 0.03\npreset = "paper"\n')
    file = config()
    assert (file["views"], file["lr"], file["hidden"]) == ("directed", 0.03, 6)
    monkeypatch.setenv("CGCL_LR", "0.04")
    monkeypatch.setenv("CGCL_INPUT_DROPOUT", "0.1")
    environment = config()
    assert (environment["lr"], environment["input_dropout"]) == (0.04, 0.1)
    flags = config("--lr", "0.05")
    assert (flags["lr"], flags["input_dropout"], flags["hidden"]) == (0.05, 0.1, 6)
    (tmp_path / "other.toml").write_text("[train]\nhidden = 10\n")
    assert config("--config", "other.toml")["hidden"] == 10


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("[train]\nhiden = 6\n", ["hiden", "cgcl.toml"]),
        ("[train\nhidden = ", ["The settings file cgcl.toml is not valid TOML: Expected ']'"]),
        ("epochs = 3\n", ["has 'epochs' outside the table of a command"]),
        ("[trian]\nepochs = 3\n", ["Did you mean [train]?"]),
    ],
)
def test_a_settings_file_with_mistakes_is_refused(cli, tmp_path, content, texts) -> None:
    (tmp_path / "cgcl.toml").write_text(content)
    result = cli("train")
    assert result.code == 2
    # The frame folds lines wherever the folder's name makes them too long.
    told = "".join(result.err.replace("│", " ").split())
    assert all("".join(text.split()) in told for text in texts), told
