"""How values from a user's file are shown in messages: short, printable, on one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def _is_printable(text: str, place: int) -> bool:
    return text[place].isprintable()


def shown(text: str, limit: int = 60, is_plain: Callable[[str, int], bool] = _is_printable) -> str:
    r"""Return `text` on one line, unprintable characters escaped, at most `limit` characters.

    Example:
        >>> shown("Anna\tBob")
        'Anna\\tBob'
        >>> shown("abcdefgh", limit=5)
        'abcd…'
    """
    # Escaping can only make text longer, so a cell of many megabytes is cut before it.
    start = text[: limit + 1]
    clean = "".join(
        c if is_plain(start, place) else c.encode("unicode_escape").decode()
        for place, c in enumerate(start)
    )
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def counted(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun, and what follows from the count, such as the verb.

    Example:
        >>> counted(1, "link"), counted(4488, "link"), counted(2, "link is", "links are")
        ('1 link', '4,488 links', '2 links are')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(items: Sequence[str], limit: int = 5, *, quoted: bool = True) -> str:
    """Return up to `limit` items with commas between, and how many more there are.

    Example:
        >>> listed(["a", "b", "c"], limit=2)
        "'a', 'b' and 1 more"
    """
    parts = [f"'{shown(item)}'" if quoted else shown(item) for item in items[:limit]]
    more = f" and {len(items) - limit:,} more" if len(items) > limit else ""
    return ", ".join(parts) + more


def joined(parts: Sequence[str]) -> str:
    """Return a list as a sentence's part.

    Example:
        >>> joined(["one", "two", "three"])
        'one, two and three'
    """
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
