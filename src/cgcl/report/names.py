"""Names from a user's file, so that a reader sees what is there and nothing else happens."""

from __future__ import annotations

import unicodedata

__all__ = ["legible"]

# Control, surrogate, private, unassigned, format, line and paragraph separators: they show as
# nothing, as a box, or turn the rest of the line around.
_HIDDEN = {"Cc", "Cs", "Co", "Cn", "Cf", "Zl", "Zp"}
# The joiners of emoji and of Persian.
_JOINERS = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"


def legible(text: str, limit: int = 100) -> str:
    r"""Return `text` on one line of at most `limit` characters, hidden characters escaped.

    A joiner between two characters beyond ASCII stays: it is part of an emoji or of a word.

    Example:
        >>> legible("report\u202egnp.exe")
        'report\\u202egnp.exe'
        >>> legible("abcdefgh", limit=5)
        'abcd…'
    """
    # Escaping can only make text longer, so a very long name is cut before it.
    start = text[: limit + 1]
    shown = "".join(
        character if _is_plain(start, place) else character.encode("unicode_escape").decode()
        for place, character in enumerate(start)
    )
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _is_plain(text: str, place: int) -> bool:
    """Tell whether the character at `place` can be shown as it is."""
    character = text[place]
    if character in _JOINERS:
        around = text[place - 1 : place] + text[place + 1 : place + 2]
        return len(around) == 2 and not any(
            side.isascii() or unicodedata.category(side) in _HIDDEN for side in around
        )
    return unicodedata.category(character) not in _HIDDEN
