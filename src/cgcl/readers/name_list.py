"""Names of nodes from a text file, one a line."""

from __future__ import annotations

from pathlib import Path

from cgcl.errors import GraphFormatError
from cgcl.graph.wording import shown
from cgcl.readers.node_names import MAX_NAME_LENGTH
from cgcl.readers.regular_file import check_text, read_bytes

__all__ = ["read_names"]


def read_names(path: Path) -> list[str]:
    """Return the names in a file, in their order; empty lines are passed over.

    A name is the whole line as it is written: blanks, commas and quotes belong to it.

    Raises:
        GraphFormatError: It is not a text file, holds no name, or one that is too long.
    """
    content = read_bytes(path)
    check_text(path.name, content)
    names: list[str] = []
    # Not splitlines, which also breaks lines at characters that a name may hold.
    text = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    for number, name in enumerate(text.split("\n"), start=1):
        if len(name) > MAX_NAME_LENGTH:
            raise GraphFormatError(
                f"{path.name}, line {number}: a name of {len(name):,} characters, "
                f"'{shown(name, 40)}'.\nNames may have up to {MAX_NAME_LENGTH:,}; "
                f"write one a line."
            )
        if name:
            names.append(name)
    if not names:
        raise GraphFormatError(f"{path.name} is empty.\nExpected the name of a node on each line.")
    return names
