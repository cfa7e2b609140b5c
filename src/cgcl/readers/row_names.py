"""Names for the rows of a matrix that has none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from cgcl.errors import FeatureError, GraphFormatError
from cgcl.graph.wording import shown
from cgcl.readers.regular_file import check_text, read_bytes
from cgcl.readers.table import MAX_NAME_LENGTH

__all__ = ["names_of_rows"]


def names_of_rows(source: Path | Sequence[str] | None, rows: int, place: str) -> list[str]:
    """Return the node of each row.

    Args:
        source: A text file with a name per line, or the names; None for 0, 1, 2, ...
        rows: Number of rows that need one.
        place: What messages call the matrix.

    Raises:
        GraphFormatError: The file is no text, or has an empty or too long line.
        FeatureError: There are more or fewer names than rows, or something is not a name.
    """
    if source is None:
        return [str(row) for row in range(rows)]
    if isinstance(source, Path):
        file, names = source.name, _lines(source)
    else:
        file, names = "the list of names", list(source)
        for row, name in enumerate(names):
            if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH:
                raise FeatureError(
                    f"Row {row:,} of {place} is called {shown(repr(name))}, expected a text of 1 "
                    f"to {MAX_NAME_LENGTH:,} characters."
                )
    if len(names) != rows:
        raise FeatureError(
            f"{place} has {rows:,} row{'' if rows == 1 else 's'}, but {file} has {len(names):,} "
            f"name{'' if len(names) == 1 else 's'}.\n"
            f"Give one name per row, in the order of the rows."
        )
    return names


def _lines(path: Path) -> list[str]:
    content = read_bytes(path)
    check_text(path.name, content)
    lines = re.split(r"\r\n|\r|\n", content.decode("utf-8-sig"))
    if lines[-1] == "":
        lines.pop()
    for number, line in enumerate(lines, start=1):
        if not 0 < len(line) <= MAX_NAME_LENGTH:
            what = f"a node name of {len(line):,} characters" if line else "an empty line"
            raise GraphFormatError(
                f"{path.name}, line {number:,}: {what}, expected one node name per line of up to "
                f"{MAX_NAME_LENGTH:,} characters."
            )
    return lines
