"""Help, mistakes and where settings come from."""

import json
from dataclasses import fields
from pathlib import Path
from unittest.mock import Mock

import pytest

from cgcl import __version__
from cgcl.cli.settings import Reading, flag_of
from cgcl.methods.settings import CGCLSettings
from cgcl.train.config import Resources, SplitConfig


def test_help_explains_every_setting(cli) -> None:
    text = cli("train", "--help").out
    for kind in (CGCLSettings, SplitConfig, Resources, Reading):
        assert [own.name for own in fields(kind) if flag_of(own.name) not in text] == []
    assert cli("--help").out.strip().startswith("Usage: cgcl ")
    assert cli("--version").out.strip() == __version__


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
