from __future__ import annotations

import math
import tomllib
from dataclasses import asdict

from hypothesis import example, given
from hypothesis import strategies as st

from cgcl.experiments.search import best_file
from cgcl.methods.settings import CGCLSettings

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), TEXT
)


def read(content: bytes) -> dict:
    return tomllib.loads(content.decode())


def test_flags_stand_below_train_and_other_settings_below_set() -> None:
    settings = {"lr": 0.01, "hops": 2, "hidden": 64, "mask": 0.7, "is_deep": True, "pool": "sum"}
    assert read(best_file("vgae", settings, {"val": 0.05, "seed": 3}, [])) == {
        "train": {
            "method": "vgae", "val": 0.05, "seed": 3, "lr": 0.01, "hidden": 64,
            "set": {"hops": 2, "mask": 0.7, "is_deep": True, "pool": "sum"},
        }
    }  # fmt: skip


def test_all_settings_of_cgcl_are_flags() -> None:
    settings = asdict(CGCLSettings())
    assert read(best_file("cgcl", settings, {}, []))["train"] == {"method": "cgcl", **settings}


@given(st.dictionaries(st.sampled_from(["lr", "hidden", "hops", "k"]), VALUES), st.lists(TEXT))
@example({"hops": "\0 \x1f \x7f \\ \" ' \n \u2028"}, ["\0\x7f\n"])
def test_whatever_the_values_and_comments_the_file_says_the_same(settings, comments) -> None:
    table = read(best_file("m", settings, {}, comments))["train"]
    found = {**table.pop("set", {}), **table}
    assert found == {"method": "m", **settings}
    assert all(type(found[name]) is type(value) for name, value in settings.items())


def test_numbers_keep_their_bits() -> None:
    values = [1e-5, 1e22, 5e-324, -0.0, math.inf, 0.1 + 0.2, 200.0]
    for value in values:
        found = read(best_file("m", {"lr": value}, {}, []))["train"]["lr"]
        assert repr(found) == repr(value)


def test_a_comment_cannot_become_a_setting() -> None:
    content = best_file("mlp", {}, {}, ["Graph: a\n[train]\nlr = 9\x7f\udcff"])
    assert read(content) == {"train": {"method": "mlp"}}
    assert content.decode().count("\n") == 4
