from __future__ import annotations

import csv
import io

import numpy as np
import pyarrow as pa
import pytest

from cgcl.predict import Links

LINKS = Links(
    ("Anna", "=cmd()", 'a,"b"'),
    ("Bob", "<script>", "é\n2"),
    np.array([0.9, 0.5, 0.1], np.float32),
    np.array([0.5, 0.25, 0.0]),
)
UNCALIBRATED = Links(("Anna",), ("Bob",), np.array([0.9], np.float32))


def test_it_reads_as_a_table() -> None:
    assert repr(LINKS[:1]) == (
        "source  target  probability   score\nAnna    Bob          0.5000  0.9000"
    )
    assert repr(UNCALIBRATED) == (
        "source  target  probability   score\nAnna    Bob                  0.9000"
    )


def test_a_notebook_shows_names_as_text() -> None:
    assert "<td>&lt;script&gt;</td>" in LINKS._repr_html_()


def test_it_knows_how_many_of_its_links_should_be_real() -> None:
    assert LINKS.expected == pytest.approx(0.75)
    assert UNCALIBRATED.expected is None
    assert UNCALIBRATED[0].probability is None
    assert LINKS[0].probability == 0.5


def test_evidence_goes_along() -> None:
    links = Links(("a", "b"), ("c", "d"), LINKS.scores[:2], None, {"distance": [2, None]})
    assert links[1:].evidence == {"distance": [None]}
    assert links[0].evidence == {"distance": 2}
    assert links.to_arrow()["distance"].to_pylist() == [2, None]
    assert links.to_arrow().schema.field("distance").type == pa.int64()
    assert links.to_csv().splitlines()[1] == "a,c,,0.9,2"


def test_a_long_list_is_cut_when_printed() -> None:
    many = Links(("a",) * 30, ("b",) * 30, np.ones(30, np.float32))
    assert repr(many).endswith("... 10 more")


def test_csv_keeps_names_as_they_are() -> None:
    rows = list(csv.reader(io.StringIO(LINKS.to_csv())))
    assert rows[0] == ["source", "target", "probability", "score"]
    assert [row[:2] for row in rows[1:]] == [
        ["Anna", "Bob"],
        ["=cmd()", "<script>"],
        ['a,"b"', "é\n2"],
    ]
    assert [float(row[3]) for row in rows[1:]] == pytest.approx([0.9, 0.5, 0.1])


def test_arrow_has_the_same_columns() -> None:
    table = LINKS.to_arrow()
    assert table.column_names == ["source", "target", "probability", "score"]
    assert table["source"].to_pylist() == list(LINKS.sources)
    assert LINKS.to_dict()["target"] == list(LINKS.targets)


def test_it_is_a_sequence() -> None:
    assert len(LINKS) == 3
    assert LINKS[-1].score == pytest.approx(0.1)
    assert [link.source for link in LINKS] == list(LINKS.sources)
    assert isinstance(LINKS[1:], Links)
    with pytest.raises(IndexError):
        LINKS[3]
