"""Links have no direction here: what a source says about it is dropped, and said."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import torch

from cgcl.errors import ConfigError, GraphContentError
from cgcl.readers.edge_table import EdgeTable

__all__ = ["DROPPED", "drop_direction"]

DROPPED = "Direction dropped: links are treated as undirected."


def drop_direction(
    table: EdgeTable, directed: Literal["drop", "error"] = "drop"
) -> tuple[EdgeTable, tuple[str, ...]]:
    """Return the links, sorted and smaller node first, with a note if they had a direction.

    A source may say that its links are directed. If it does not say, links of which some are listed
    in both directions and some in one only look directed.

    Args:
        table: The links.
        directed: "error" refuses links with a direction.

    Raises:
        GraphContentError: The links are directed, and that was to be refused.
        ConfigError: `directed` is neither of the two words.
    """
    if directed not in ("drop", "error"):
        raise ConfigError(f"directed must be 'drop' or 'error', found {directed!r}.")
    if table.is_directed is False or table.pairs.shape[1] == 0:
        return table, ()
    code, shift = _coded(table)
    both, single = _count_ways(code, shift)
    found = DROPPED if table.is_directed else ""
    if not table.is_directed and both and single:
        found = f"{_links(both)} listed in both directions, {single:,} in one. {DROPPED}"
    if found and directed == "error":
        reason = found.removesuffix(DROPPED).strip() or "The source says that links are directed."
        raise GraphContentError(
            f"{reason}\nThis method knows undirected links only. "
            f"Leave out `directed=error` to drop the direction."
        )
    notes = (found,) if found else ()
    if table.times is not None:  # they belong to the rows in the order they have
        return table, notes
    if table.lists_both_ways and both and not single:
        # Each link once, so that no note counts its second direction as a repetition.
        code = code[(code & 1).astype(bool) | _is_loop(code, shift)]
    link = code >> 1
    pairs = np.stack([link >> shift, link & ((1 << shift) - 1)])
    return replace(table, pairs=torch.from_numpy(pairs)), notes


def _coded(table: EdgeTable) -> tuple[np.ndarray, int]:
    """Return a number per row, sorted: smaller node, larger node, then whether in that order.

    Both directions of a link are side by side, and the shift tells the two nodes apart.
    """
    shift = len(table.names).bit_length()
    source, target = table.pairs.numpy()
    code = (np.minimum(source, target) << shift) | np.maximum(source, target)
    return np.sort((code << 1) | (source < target)), shift


def _is_loop(code: np.ndarray, shift: int) -> np.ndarray:
    return (code >> (shift + 1)) == ((code >> 1) & ((1 << shift) - 1))


def _count_ways(code: np.ndarray, shift: int) -> tuple[int, int]:
    """Return how many links are listed in both directions, and how many in one."""
    is_new = np.ones(len(code), dtype=bool)
    np.not_equal(code[1:], code[:-1], out=is_new[1:])
    distinct = code[is_new]
    both = int(((distinct[1:] >> 1) == (distinct[:-1] >> 1)).sum())
    return both, len(distinct) - 2 * both - int(_is_loop(distinct, shift).sum())


def _links(count: int) -> str:
    return f"{count:,} link{' is' if count == 1 else 's are'}"
