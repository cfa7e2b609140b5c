"""kill -9 at any moment, then the same call again: the same trials as if nothing had happened."""

import json
import subprocess
import sys
from pathlib import Path


def test_killed_at_every_kind_of_moment_a_search_finds_the_same(tmp_path: Path) -> None:
    """At 18 moments, up to three times a search: before a folder or a file is made, before a
    write reaches the disk, before it takes its name, while a trial runs.
    """
    cases = [("disk", at) for at in (0, *range(1, 12), 13, 18, 24, 37, 59)]
    cases += [("trial", at) for at in (1, 8)]
    script = Path(__file__).with_name("kill_study.py")
    command = [sys.executable, str(script), json.dumps(cases)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    untouched, *others = map(json.loads, done.stdout.splitlines())
    assert (untouched["kills"], untouched["code"], len(untouched["trials"])) == (0, 0, 8)
    assert untouched["files"] == ["best.toml", "lock", "study.json", "trials.csv", "trials.jsonl"]
    assert len(others) == len(cases) - 1
    for other in others:
        assert other.pop("kills") >= 1, other
        assert other == {key: untouched[key] for key in other}
