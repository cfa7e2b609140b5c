"""Promises about what is on disk: complete, the same bits, and no pickle."""

from __future__ import annotations

import os
import pickletools
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from cgcl.testing.graphs import AWKWARD_NAMES, groups, unlinked_pairs
from cgcl.testing.predictor import Make, Predictor, expect

__all__ = [
    "check_fresh_process_loads_the_same",
    "check_no_pickle_is_saved",
    "check_save_and_load_give_the_same_bits",
]

# Where to compute need not be remembered.
_OF_THE_MACHINE = ("device", "threads")
_IN_A_FRESH_PROCESS = """
import importlib, sys
from cgcl.testing.storage_checks import answers
module, kind, folder = sys.argv[1:]
sys.stdout.buffer.write(answers(getattr(importlib.import_module(module), kind).load(folder)))
"""
# What a pickle needs to reach a function or a class.
_CODE = {"GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "REDUCE", "BUILD"}


def check_save_and_load_give_the_same_bits(make: Make) -> None:
    """A predictor that was saved and loaded gives the same bits, settings and test."""
    graph = groups()
    predictor: Any = make(seed=2).fit(graph)
    with tempfile.TemporaryDirectory() as parent:
        predictor.save(Path(parent) / "new" / "folder")
        loaded: Any = type(predictor).load(Path(parent) / "new" / "folder")
        outside = sorted(path.name for path in Path(parent).iterdir())
    expect(outside == ["new"], "nothing written outside the folder", outside)
    expect(answers(loaded) == answers(predictor), "the same answers from a loaded one", "others")
    pairs = unlinked_pairs(graph)
    same = np.array_equal(loaded.score(pairs), predictor.score(pairs))
    expect(same, "the same bits in the scores of a loaded one", "others")
    expect(loaded.test_ == predictor.test_, f"the test {predictor.test_}", loaded.test_)
    before, after = (
        {k: v for k, v in asked.get_params().items() if k not in _OF_THE_MACHINE}
        for asked in (predictor, loaded)
    )
    # What was left open comes back as what was chosen.
    after |= {name: None for name, value in before.items() if value is None}
    expect(before == after, f"the settings {before}", after)


def check_fresh_process_loads_the_same(make: Make) -> None:
    """Another process loads the folder and gives the same bits: nothing was left in memory."""
    predictor = make().fit(groups(AWKWARD_NAMES))
    kind = type(predictor)
    with tempfile.TemporaryDirectory() as folder:
        predictor.save(folder)
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", _IN_A_FRESH_PROCESS, kind.__module__, kind.__name__, folder],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            check=False,
        )
    said = done.stderr.decode(errors="replace").strip()[-300:]
    expect(done.returncode == 0, "a fresh process to load it", said)
    expect(done.stdout == answers(predictor), "the same answers in a fresh process", "others")


def check_no_pickle_is_saved(make: Make) -> None:
    """Nothing that is saved is a pickle, nor a zip file, which may hold one."""
    with tempfile.TemporaryDirectory() as folder:
        make().fit(groups()).save(folder)
        files = [path for path in Path(folder).rglob("*") if path.is_file()]
        expect(bool(files), "files in the saved folder", "none")
        for path in files:
            expect(not zipfile.is_zipfile(path), "no zip files", path.name)
            expect(not _holds_pickle(path.read_bytes()), "no pickles", path.name)


def answers(predictor: Predictor) -> bytes:
    """Return the best links with their scores to the last bit, as bytes to compare."""
    links = predictor.top(30)
    names = "\n".join(repr((link.source, link.target)) for link in links)
    scores = np.array([link.score for link in links], dtype=np.float32)
    return names.encode() + b"\n" + scores.tobytes()


def _holds_pickle(content: bytes) -> bool:
    """Say whether all of the content is a pickle, or some of it is one that can run code."""
    if len(_opcodes(content)) > 1:
        return True
    place = content.find(b"\x80")
    while place >= 0:
        if content[place + 1 : place + 2] in (b"\x02", b"\x03", b"\x04", b"\x05") and (
            _opcodes(content[place:]) & _CODE
        ):
            return True
        place = content.find(b"\x80", place + 1)
    return False


def _opcodes(content: bytes) -> set[str]:
    """Return the instructions of the pickle that the content begins with; none if it does not."""
    try:
        return {opcode.name for opcode, _, _ in pickletools.genops(content)}
    except Exception:  # whatever is not a pickle fails in its own way
        return set()
