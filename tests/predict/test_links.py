import csv
import io
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgcl.predict import Links
from cgcl.predict.links import decimals, told_apart
from cgcl.report.words import chance

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


def test_probabilities_that_differ_look_different() -> None:
    """With as many digits as that takes, the same for all."""
    chances = np.array([0.18342, 0.18339, 0.1, 0.1, 2.14e-4, 2.11e-4])
    links = Links(("a",) * 6, ("b",) * 6, np.ones(6, np.float32), chances)
    shown = [line.split()[2] for line in repr(links).splitlines()[1:]]
    assert shown == ["0.18342", "0.18339", "0.10000", "0.10000", "2.14e-04", "2.11e-04"]
    assert "<td>0.18339</td>" in links._repr_html_()


def test_nearly_certain_is_not_certain() -> None:
    assert told_apart([0.99999999999, 1.0], decimals) == [">0.9999", "1.0000"]
    assert chance(0.999999999, 2).replace("\N{NO-BREAK SPACE}", " ") == "> 99.9999 %"
    assert decimals(1 - 1e-12, 4) == ">0.99999999"


@given(st.lists(st.integers(0, 10**8), min_size=1, max_size=30))
def test_numbers_are_told_apart_down_to_eight_decimals(numbers: list[int]) -> None:
    values = [number / 10**8 for number in numbers if number >= 10**5]
    assert len(set(told_apart(values, decimals))) == len(set(values))


def test_intervals_go_along() -> None:
    ends = np.array([[0.4, 0.2, 0.0], [0.6, 0.5, 0.1]])
    links = replace(LINKS, intervals=ends)
    assert links[1].interval == (0.2, 0.5)
    assert links[1:][0].interval == (0.2, 0.5)
    assert LINKS[0].interval is None
    columns = ["source", "target", "probability", "score", "probability_low", "probability_high"]
    assert list(links.to_dict()) == links.to_arrow().column_names == columns
    assert links.to_arrow()["probability_high"].to_pylist() == [0.6, 0.5, 0.1]
    assert links.to_csv().splitlines()[1] == "Anna,Bob,0.5,0.9,0.4,0.6"
    assert LINKS.to_arrow().column_names == columns[:4]


def test_a_notebook_shows_names_as_text_and_a_long_list_is_cut() -> None:
    assert "<td>&lt;script&gt;</td>" in LINKS._repr_html_()
    many = Links(("a",) * 30, ("b",) * 30, np.ones(30, np.float32))
    assert repr(many).endswith("... 10 more")
    assert "<p>10 more</p>" in many._repr_html_()


def test_evidence_goes_along() -> None:
    links = Links(("a", "b"), ("c", "d"), LINKS.scores[:2], None, {"distance": [2, None]})
    assert links[1:].evidence == {"distance": [None]}
    assert links[0].evidence == {"distance": 2}
    assert links.to_arrow()["distance"].to_pylist() == [2, None]
    assert links.to_arrow().schema.field("distance").type == pa.int64()
    assert links.to_csv().splitlines()[1] == "a,c,,0.9,2"


def test_csv_keeps_names_as_they_are() -> None:
    rows = list(csv.reader(io.StringIO(LINKS.to_csv())))
    assert rows[0] == ["source", "target", "probability", "score"]
    ends = zip(LINKS.sources, LINKS.targets, strict=True)
    assert [row[:2] for row in rows[1:]] == list(map(list, ends))
    assert [float(row[3]) for row in rows[1:]] == pytest.approx([0.9, 0.5, 0.1])


def test_it_is_a_sequence_that_knows_how_many_of_its_links_should_be_real() -> None:
    assert (len(LINKS), LINKS.expected) == (3, pytest.approx(0.75))
    assert LINKS[-1].score == pytest.approx(0.1)
    assert (UNCALIBRATED.expected, UNCALIBRATED[0].probability) == (None, None)
    assert [link.source for link in LINKS] == list(LINKS.sources)
    assert isinstance(LINKS[1:], Links)
    with pytest.raises(IndexError):
        LINKS[3]
