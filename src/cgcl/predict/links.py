"""A list of scored links that speaks the user's names."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow

INTERVAL = ("probability_low", "probability_high")
"""The columns with the ends of the 95 % interval, where the calibration knows one."""
_TYPES = {
    "score": "float32",
    "known": "bool",
    **dict.fromkeys(("probability", *INTERVAL), "float64"),
    **dict.fromkeys(("shared_neighbours", "common_features", "distance"), "int64"),
}
"""What Arrow calls the type of each column that does not hold text."""
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
        ends, score = (self.sources[index], self.targets[index]), self.scores[index]
        chance = None if self.probabilities is None else self.probabilities[index]
        evidence = {name: column[index] for name, column in self.evidence.items()}
        interval = None if self.intervals is None else self.intervals[:, index]
        if isinstance(index, slice):
            return Links(*ends, score, chance, evidence, self.found, self.prior, interval)
        chance = None if chance is None else float(chance)
        bounds = None if interval is None else tuple(interval.tolist())
        return Link(*ends, chance, float(score), evidence, bounds)

    def __iter__(self) -> Iterator[Link]:
        return (self[number] for number in range(len(self)))

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as lists; a probability that is not known is None."""
        nothing, intervals = [None] * len(self), self.intervals
        ends = () if intervals is None else zip(INTERVAL, intervals.tolist(), strict=True)
        return {
            "source": list(self.sources),
            "target": list(self.targets),
            "probability": nothing if self.probabilities is None else self.probabilities.tolist(),
            "score": self.scores.tolist(),
            **dict(ends),
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
        return "".join(text)

    def to_arrow(self) -> pyarrow.Table:
        """Return the links as an Arrow table."""
        import pyarrow as pa

        columns = self.to_dict()
        return pa.table(columns, schema_of(columns))

    def to_pandas(self) -> Any:  # noqa: ANN401
        """Return the links as a pandas data frame; pandas must be installed."""
        return self.to_arrow().to_pandas()

    def __repr__(self) -> str:
        columns = self._shown()
        rows = [tuple(columns), *zip(*columns.values(), strict=True)]
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
        columns = self._shown()
        head = "".join(f"<th>{escape(title)}</th>" for title in columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in zip(*columns.values(), strict=True)
        )
        more = f"<p>{len(self) - _SHOWN:,} more</p>" if len(self) > _SHOWN else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"

    def _shown(self) -> dict[str, list[str]]:
        """Return the cells of the links that are shown, by column; the interval is not."""
        columns = self[:_SHOWN].to_dict()
        return {name: cells(column) for name, column in columns.items() if name not in INTERVAL}


class _Lines(list[str]):
    """Takes rows that end in CR LF, so that a CR in a name is quoted too, and ends them in LF."""

    def write(self, row: str) -> None:
        self.append(row.removesuffix("\r\n") + "\n")


def schema_of(columns: Iterable[str]) -> pyarrow.Schema:
    """Return the types of columns: an empty list, or one of Nones, says nothing of what it holds.

    Args:
        columns: Their names; whatever is not known holds text.
    """
    import pyarrow as pa

    return pa.schema([(name, pa.type_for_alias(_TYPES.get(name, "string"))) for name in columns])


def cells(column: Sequence[Any]) -> list[str]:
    """Return a column as text: numbers told apart, nothing where nothing is known.

    Example:
        >>> cells([0.5, None]), cells([2, None, "Bob"])
        (['0.5000', ''], ['2', '', 'Bob'])
    """
    if any(isinstance(cell, float) for cell in column):
        return told_apart(column, decimals)
    return ["" if cell is None else str(cell) for cell in column]


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
