"""A list of scored links that speaks the user's names."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow

INTERVAL = ("probability_low", "probability_high")
"""The columns with the ends of the 95 % interval, where the calibration knows one."""
_SHOWN = 20
_MOST_MORE = 4


@dataclass(frozen=True)
class Link:
    """One scored pair."""

    source: str
    target: str
    probability: float | None
    """The calibrated probability; None if the predictor has no calibration."""
    score: float
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """What speaks for the link, by column; empty if nobody asked."""
    interval: tuple[float, float] | None = None
    """The 95 % interval of the probability; None if the calibration knows none."""


@dataclass(frozen=True, eq=False, repr=False)
class Links(Sequence[Link]):
    """Scored pairs; prints as a table, converts to CSV, Arrow and pandas."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    scores: npt.NDArray[np.float32]
    probabilities: npt.NDArray[np.float64] | None = None
    """Calibrated probabilities, or None if the predictor has no calibration."""
    evidence: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Further columns, such as shared_neighbours; each as long as the list."""
    found: str = ""
    """How the list was found: by scoring every pair, or among which candidates."""
    prior: float | None = None
    """The base rate of the probabilities: the share of unknown pairs that are links."""
    intervals: npt.NDArray[np.float64] | None = None
    """The 95 % intervals of the probabilities, lower ends and upper ends, [2, n]."""

    @property
    def expected(self) -> float | None:
        """How many of these links should be real: the sum of their probabilities."""
        return None if self.probabilities is None else float(self.probabilities.sum())

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401
        if isinstance(index, slice):
            return Links(
                self.sources[index],
                self.targets[index],
                self.scores[index],
                None if self.probabilities is None else self.probabilities[index],
                {name: column[index] for name, column in self.evidence.items()},
                self.found,
                self.prior,
                None if self.intervals is None else self.intervals[:, index],
            )
        probability = None if self.probabilities is None else float(self.probabilities[index])
        interval = None if self.intervals is None else self.intervals[:, index].tolist()
        return Link(
            self.sources[index],
            self.targets[index],
            probability,
            float(self.scores[index]),
            {name: column[index] for name, column in self.evidence.items()},
            interval and (interval[0], interval[1]),
        )

    def __iter__(self) -> Iterator[Link]:
        return (self[number] for number in range(len(self)))

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as lists; a probability that is not known is None."""
        if self.probabilities is None:
            probabilities: list[float | None] = [None] * len(self)
        else:
            probabilities = self.probabilities.tolist()
        ends = {} if self.intervals is None else dict(zip(INTERVAL, self.intervals, strict=True))
        return {
            "source": list(self.sources),
            "target": list(self.targets),
            "probability": probabilities,
            "score": self.scores.tolist(),
            **{name: column.tolist() for name, column in ends.items()},
            **{name: list(column) for name, column in self.evidence.items()},
        }

    def to_csv(self) -> str:
        """Return the links as CSV with a header; names are written as they are."""
        text = _Lines()
        writer = csv.writer(text, lineterminator="\r\n")
        # The shortest text that is the same float32 again: 0.9, not 0.89999998.
        columns = {**self.to_dict(), "score": [str(score) for score in self.scores]}
        writer.writerow(columns)
        writer.writerows(
            [f"{cell:.8g}" if isinstance(cell, float) else cell for cell in row]
            for row in zip(*columns.values(), strict=True)
        )
        return "".join(text.lines)

    def to_arrow(self) -> pyarrow.Table:
        """Return the links as an Arrow table."""
        import pyarrow as pa

        # Named types: an empty list, or one of Nones, would say nothing of what it holds.
        types = {"score": pa.float32(), "known": pa.bool_()}
        types |= dict.fromkeys(("probability", *INTERVAL), pa.float64())
        types |= dict.fromkeys(("shared_neighbours", "common_features", "distance"), pa.int64())
        columns = self.to_dict().items()
        return pa.table({name: pa.array(c, types.get(name, pa.string())) for name, c in columns})

    def to_pandas(self) -> Any:  # noqa: ANN401
        """Return the links as a pandas data frame; pandas must be installed."""
        return self.to_arrow().to_pandas()

    def __repr__(self) -> str:
        rows = [self._titles(), *self._rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if number < 2 else cell.rjust(width)
                for number, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        if len(self) > _SHOWN:
            lines.append(f"... {len(self) - _SHOWN:,} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the table as notebooks show it; names are text, never markup."""
        head = "".join(f"<th>{escape(title)}</th>" for title in self._titles())
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self._rows()
        )
        more = f"<p>{len(self) - _SHOWN:,} more</p>" if len(self) > _SHOWN else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"

    def _titles(self) -> list[str]:
        return ["source", "target", "probability", "score", *self.evidence]

    def _rows(self) -> list[list[str]]:
        """Return the cells of the links that are shown."""
        links = list(self[:_SHOWN])
        probabilities = told_apart([link.probability for link in links], decimals)
        scores = told_apart([link.score for link in links], decimals)
        return [
            [
                link.source,
                link.target,
                probability,
                score,
                *("" if cell is None else str(cell) for cell in link.evidence.values()),
            ]
            for link, probability, score in zip(links, probabilities, scores, strict=True)
        ]


class _Lines:
    """Takes rows that end in CR LF, so that a CR in a name is quoted too, and ends them in LF."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, row: str) -> None:
        self.lines.append(row.removesuffix("\r\n") + "\n")


def told_apart(
    values: Sequence[float | None], write: Callable[[float | None, int], str]
) -> list[str]:
    """Return a column of numbers as text, with more digits than usual if equals would not be equal.

    So many more, at most four, that numbers which differ look different; all have as many.

    Example:
        >>> told_apart([0.25, 0.18342, 0.18339], decimals)
        ['0.25000', '0.18342', '0.18339']

    Args:
        values: The numbers, None where there is none.
        write: Writes one of them with so many digits more than usual.
    """
    texts = [write(value, 0) for value in values]
    for more in range(1, _MOST_MORE + 1):
        if len(set(texts)) == len(set(values)):
            break
        texts = [write(value, more) for value in values]
    return texts


def decimals(value: float | None, more: int = 0) -> str:
    """Return a number between 0 and 1 with four decimals, if it is not too small for them.

    Example:
        >>> [decimals(value) for value in (0.5, 0.00021, None)]
        ['0.5000', '2.1e-04', '']
    """
    if value is None:
        return ""
    # Small probabilities are the rule: 0.0002 must not become 0.00.
    if 0 < value < 0.001:
        return f"{value:.{1 + more}e}"
    text = f"{value:.{4 + more}f}"
    # Nearly is not quite: what is below 1 must not become 1.
    return f">0.{'9' * (4 + more)}" if value < 1 and float(text) == 1 else text
