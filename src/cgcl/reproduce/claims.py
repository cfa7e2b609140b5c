"""Every claim of the paper with what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import indent
from typing import get_args

from cgcl.reproduce import claim_measures, claim_tables
from cgcl.reproduce.page import Reproduced
from cgcl.reproduce.verdict import Check, Verdict, Word
from cgcl.reproduce.words import markdown_table

__all__ = ["CHECKS", "claims_markdown", "verdict_of"]

_UNTESTED = Verdict("not tested", "")
# What no run decides, because a test does.
_BY_TEST = {
    "views_complementary": Verdict(
        "holds",
        "By construction, in every reading: `tests/model/test_views.py`. With `disjoint` no link "
        "is in both, with `shared` half of them are.",
    ),
    "loss_bounded": Verdict(
        "does not hold",
        "With sigmoids as targets, the letter of Eq. 8, the loss is above the interval that "
        "Theorem 1 gives -C whatever the logits are, and has no upper bound: "
        "`tests/paper/test_theory.py`.",
    ),
    "data_processing": Verdict(
        "does not hold", "A counterexample is a test: `tests/paper/test_theory.py`."
    ),
}
CHECKS: dict[str, Check] = {**claim_tables.CHECKS, **claim_measures.CHECKS}


def verdict_of(claim: str, reproduced: Reproduced) -> Verdict:
    """Return what became of a claim, by its name in `paper.toml`."""
    if claim in CHECKS:
        return CHECKS[claim].verdict(reproduced)
    return _BY_TEST.get(claim, _UNTESTED)


def claims_markdown(reproduced: Reproduced) -> str:
    """Return all claims under their verdicts, and how many there are of each."""
    lines: dict[Word, list[str]] = {word: [] for word in get_args(Word)}
    for claim in reproduced.paper["claims"]:
        verdict = verdict_of(claim["id"], reproduced)
        ground = verdict.evidence or f"It would take this: {_lowered(claim['checked_by'])}"
        text = f"- **{claim['claim']}** ({claim['section']}) {ground}"
        lines[verdict.word].append(text + _table(verdict.numbers))
    counts = [f"{word}: {len(own)}" for word, own in lines.items() if own]
    parts = [f"Of {sum(map(len, lines.values()))} claims, {', '.join(counts)}."]
    for word, own in lines.items():
        if own:
            parts += [f"### {word.capitalize()}", "\n".join(own).rstrip()]
    return "\n\n".join(parts)


def _table(numbers: Sequence[Sequence[str]]) -> str:
    """Return numbers as a table that belongs to an item of a list."""
    if not numbers:
        return ""
    head, *rows = numbers
    return f"\n\n{indent(markdown_table(head, rows), '  ')}\n"


def _lowered(sentence: str) -> str:
    """Return a sentence that goes on after a colon; names keep their capitals."""
    first = sentence.split()[0]
    return sentence if first.isupper() else sentence[0].lower() + sentence[1:]
