import tomllib

from hypothesis import example, given
from hypothesis import strategies as st

from cgcl.experiments.search import best_file

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), TEXT
)


def read(content: bytes) -> dict:
    return tomllib.loads(content.decode())


@given(st.dictionaries(st.sampled_from(["lr", "hidden", "hops", "k"]), VALUES), st.lists(TEXT))
@example({"hops": "\0 \x1f \x7f \\ \" ' \n \u2028"}, ["\0\x7f\n"])
def test_whatever_the_values_and_comments_the_file_says_the_same(settings, comments) -> None:
    table = read(best_file("m", settings, {}, comments))["train"]
    found = {**table.pop("set", {}), **table}
    assert found == {"method": "m", **settings}
    assert all(type(found[name]) is type(value) for name, value in settings.items())


def test_a_comment_cannot_become_a_setting() -> None:
    content = best_file("mlp", {}, {}, ["Graph: a\n[train]\nlr = 9\x7f\udcff"])
    assert read(content) == {"train": {"method": "mlp"}}
    assert content.decode().count("\n") == 4
