"""A list of scored links that speaks the user's names."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Link", "Links"]


@dataclass(frozen=True)
class Link:
    """One scored pair."""

    source: str
    target: str
    score: float


@dataclass(frozen=True, eq=False, repr=False)
class Links(Sequence[Link]):
    """Scored pairs; prints as a table, converts to CSV and Arrow."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    scores: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401
        if isinstance(index, slice):
            return Links(self.sources[index], self.targets[index], self.scores[index])
        return Link(self.sources[index], self.targets[index], float(self.scores[index]))

    def __iter__(self) -> Iterator[Link]:
        return (self[number] for number in range(len(self)))

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as lists."""
        return {
            "source": list(self.sources),
            "target": list(self.targets),
            "score": self.scores.tolist(),
        }

    def to_csv(self) -> str:
        """Return the links as CSV with a header; names are written as they are."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["source", "target", "score"])
        writer.writerows((link.source, link.target, f"{link.score:.8g}") for link in self)
        return text.getvalue()

    def to_arrow(self) -> pyarrow.Table:
        """Return the links as an Arrow table."""
        import pyarrow as pa

        return pa.table(
            {
                "source": pa.array(self.sources, pa.string()),
                "target": pa.array(self.targets, pa.string()),
                "score": self.scores,
            }
        )

    def __repr__(self) -> str:
        shown = self[:20]
        widths = [
            max([len(title), *map(len, names)])
            for title, names in (("source", shown.sources), ("target", shown.targets))
        ]
        rows = [("source", "target", "score")]
        rows += [(link.source, link.target, f"{link.score:.4f}") for link in shown]
        lines = [f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>6}" for a, b, c in rows]
        if len(self) > len(shown):
            lines.append(f"... {len(self) - len(shown):,} more")
        return "\n".join(lines)
