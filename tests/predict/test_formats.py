from __future__ import annotations

import contextlib
import csv
import io
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgcl.predict.formats import WRITERS
from cgcl.predict.links import Links

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


def make(names: list[tuple[str, str]], *, calibrated: bool = True) -> Links:
    scores = np.linspace(0.9, 0.1, len(names), dtype=np.float32)
    return Links(
        tuple(a for a, _ in names),
        tuple(b for _, b in names),
        scores,
        scores.astype(np.float64) / 2 if calibrated else None,
        {"shared_neighbours": list(range(len(names))), "distance": [None] * len(names)},
    )


def written(kind: str, blocks: list[Links], *, excel: bool = False) -> bytes:
    stream = io.BytesIO()
    with WRITERS[kind](stream, excel=excel) as writer:
        for block in blocks:
            writer.write(block)
    return stream.getvalue()


def rows_of(kind: str, content: bytes) -> list[dict[str, object]]:
    if kind == "csv":
        return list(csv.DictReader(io.StringIO(content.decode(), newline="")))
    if kind == "json":
        return json.loads(content)
    return pq.read_table(io.BytesIO(content)).to_pylist()


@pytest.mark.parametrize("kind", WRITERS)
@given(st.lists(st.lists(st.tuples(NAMES, NAMES), max_size=4), max_size=4))
def test_names_survive_every_format_in_any_number_of_blocks(kind, blocks) -> None:
    links = [make(block) for block in blocks]
    rows = rows_of(kind, written(kind, links))
    assert [(row["source"], row["target"]) for row in rows] == [p for b in blocks for p in b]


@pytest.mark.parametrize("kind", WRITERS)
def test_every_format_begins_with_the_same_four_columns(kind) -> None:
    row = rows_of(kind, written(kind, [make([("a", "b")])]))[0]
    columns = ["source", "target", "probability", "score", "shared_neighbours", "distance"]
    assert list(row) == columns
    assert float(str(row["probability"])) == pytest.approx(0.45)
    assert float(str(row["score"])) == pytest.approx(0.9)
    assert int(str(row["shared_neighbours"])) == 0


@pytest.mark.parametrize(("kind", "nothing"), [("csv", ""), ("json", None), ("parquet", None)])
def test_a_probability_that_is_not_known_is_left_empty(kind, nothing) -> None:
    row = rows_of(kind, written(kind, [make([("a", "b")], calibrated=False)]))[0]
    assert row["probability"] == nothing
    assert row["distance"] == nothing


@pytest.mark.parametrize("kind", WRITERS)
def test_no_links_are_a_valid_file_without_rows(kind) -> None:
    assert rows_of(kind, written(kind, [make([])])) == []
    assert rows_of(kind, written(kind, [])) == []
    assert written("csv", []) == b"source,target,probability,score\n"


def test_formulas_are_disarmed_only_when_asked() -> None:
    links = [make([("=cmd()", "+1"), ("-a", "@b")])]
    plain = rows_of("csv", written("csv", links))
    assert [row["source"] for row in plain] == ["=cmd()", "-a"]
    guarded = rows_of("csv", written("csv", links, excel=True))
    assert [(row["source"], row["target"]) for row in guarded] == [
        ("'=cmd()", "'+1"),
        ("'-a", "'@b"),
    ]
    assert guarded[0]["probability"] == plain[0]["probability"]


def test_a_failed_answer_is_not_finished() -> None:
    stream = io.BytesIO()
    with contextlib.suppress(ValueError), WRITERS["json"](stream) as writer:
        writer.write(make([("a", "b")]))
        raise ValueError
    with pytest.raises(json.JSONDecodeError):
        json.loads(stream.getvalue())
