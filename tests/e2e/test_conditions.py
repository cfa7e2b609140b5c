"""What may happen to any command: signals wherever they come, and conditions of every day."""

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cgcl.cli.main import main

WAITING = """
import runpy
import sys

sign = sys.argv.pop(1)

def wait(event, arguments):
    if event in ("open", "os.rename") and sign in f"{event} {arguments[0]}":
        print("Here", file=sys.stderr, flush=True)
        try:
            sys.stdin.read()
        except BaseException as error:
            raise RuntimeError("could not determine the shape of an object") from error

sys.addaudithook(wait)
runpy.run_module("cgcl", run_name="__main__")
"""
"""The program, but before it opens or renames a file of that name it waits for its input to close.

It waits in foreign code, which makes an error of its own of whatever is raised there.
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A graph of twenty nodes, and a run of it."""
    folder = tmp_path_factory.mktemp("signals")
    rows = [f"{a},{b}" for s in (0, 10) for a in range(s, s + 10) for b in range(a + 1, s + 10)]
    (folder / "toy.csv").write_text("\n".join(["source,target", *rows, ""]))
    command = [sys.executable, "-m", "cgcl", "train", "toy.csv", "--epochs", "2", "--hidden", "8"]
    subprocess.run([*command, "--no-compare", "--quiet"], cwd=folder, check=True)
    return folder


COMMANDS = [
    ("toy.csv", "inspect toy.csv"),
    ("cyclopts/__", "inspect toy.csv"),  # before the command line itself is imported
    ("torch/__init__.py", "train toy.csv"),
    ("toy.csv", "train toy.csv"),
    ("toy.csv", "compare toy.csv --methods cgcl,mlp --out compared"),
    ("toy.csv", "tune toy.csv --out tuned"),
    ("model.safetensors", "predict runs/toy-1 --top 3"),
    (".tmp", "predict runs/toy-1 --top 3 --out links.csv"),
    ("os.rename links.csv", "predict runs/toy-1 --top 3 --out links.csv"),  # all of it is there
    (".tmp", "embed runs/toy-1 --out vectors.npz"),
    ("model.safetensors", "evaluate runs/toy-1"),
    (".tmp", "report runs/toy-1 --no-compare"),
]


# Each command with one of the two signals: what differs is the exit code alone.
@pytest.mark.parametrize(("case", "sign", "command"), [(n, *own) for n, own in enumerate(COMMANDS)])
def test_a_signal_ends_a_command_with_a_sentence_and_nothing_half_written(
    start, folder: Path, case: int, sign: str, command: str
) -> None:
    number, code = [(signal.SIGINT, 130), (signal.SIGTERM, 143)][case % 2]
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    with start(sign, *command.split(), program=("-c", WAITING), cwd=folder) as process:
        while "Here" not in (line := process.stderr.readline()):
            assert line, "ended before it came there"
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    assert err.strip().splitlines()[-1] == (
        "Interrupted before the end. No file is half-written; the same command begins again."
    )
    assert "Traceback" not in err
    after = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    locks = {path for path in after if path.name == "lock"}
    assert {path: after[path] for path in after.keys() - locks} == {
        path: before[path] for path in before.keys() - locks
    }


@pytest.mark.parametrize("where", ["cgcl.train.fit.Trainer", "cgcl.train.fit.train"])
def test_a_run_that_memory_does_not_suffice_for_is_marked_as_failed(
    tmp_path: Path, folder: Path, monkeypatch, capsys, where: str
) -> None:
    def too_much(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(where, too_much)
    words = ["train", str(folder / "toy.csv"), "--quiet", "--out", str(tmp_path)]
    with pytest.raises(SystemExit, match="1"):
        main(words)
    run = json.loads((tmp_path / "toy-1" / "run.json").read_text())
    assert (run["status"], run["stopped"]["message"]) == ("failed", "MemoryError")
    assert "not enough memory" in capsys.readouterr().err


FULL = Path("/dev/full")


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("cgcl inspect toy.csv >&-", 0, "Warning: Standard output is closed"),
        ("cgcl predict runs/toy-1 --top 3 >&- 2>&-", 0, ""),
        ("cgcl inspect toy.csv > /dev/full", 1, "No space left on device"),
        ("cgcl inspect toy.csv > /dev/full 2> /dev/full", 1, ""),
        ("mkdir gone; cd gone; rmdir ../gone; cgcl inspect ../toy.csv", 1, "folder is gone"),
        (f"cgcl train toy.csv --out {'n' * 300}", 1, "File name too long"),
        (f"cgcl predict runs/toy-1 --top 3 --out {'n' * 300}.csv", 1, "File name too long"),
        (f"cgcl train toy.csv --seed {'9' * 401}", 2, "Error: seed is 999"),
        (f"cgcl predict runs/toy-1 --top {'9' * 401}", 0, "Found"),
        ("cgcl train toy.csv --features .", 1, "is a folder, not a regular file"),
        ("cgcl predict runs --top 3", 1, "is not a run folder"),
        ("cgcl predict toy.csv --top 3", 1, "toy.csv"),
    ],
)
def test_ordinary_conditions_have_a_sentence_and_an_exit_code(
    folder: Path, tmp_path: Path, command: str, code: int, said: str
) -> None:
    if "/dev/full" in command and not FULL.exists():
        pytest.skip("no device that is always full")
    with (tmp_path / "words").open("w") as words:
        script = f'cgcl() {{ {shlex.quote(sys.executable)} -m cgcl "$@"; }}; {command}'
        done = subprocess.run(["bash", "-c", script], cwd=folder, stdout=words, stderr=words)
    told = (tmp_path / "words").read_text()
    assert (done.returncode, "Traceback" in told, "bug in" in told) == (code, False, False), told
    assert said in told
