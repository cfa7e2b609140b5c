"""Numbers, settings, names and results as a reader wants them."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cgcl.wording import joined

if TYPE_CHECKING:
    from cgcl.metrics.calibration import Calibration
    from cgcl.predict.baselines import Compared

_NOTHING = "\N{EN DASH}"
# The joiners of emoji and of Persian.
_JOINERS = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"

# How the library's messages name a setting, and what it should be.
_SETTING = re.compile(r"(?<!')`([a-z]\w*)(?:=([^`\n]+))?`(?!')")
# What a person sees of a ranking, and by what a method is ahead there.
_TOP = ("node_mrr", "precision@100")
_CALIBRATIONS = {
    "platt": "Platt scaling",
    "bent": "Bent-line scaling",
    "isotonic": "Isotonic regression",
    "temperature": "Temperature scaling",
}


def count(number: int | None) -> str:
    """Return a number with thousands separated, or a dash.

    Example:
        >>> count(10556)
        '10,556'
    """
    return _NOTHING if number is None else f"{number:,}"


def percent(fraction: float | None) -> str:
    r"""Return a fraction as percent with two decimals, or a dash.

    Example:
        >>> percent(0.96804)
        '96.80\xa0%'
    """
    return _NOTHING if fraction is None else f"{100 * fraction:.2f}\N{NO-BREAK SPACE}%"


def setting(value: object) -> str:
    """Return a setting in words.

    Example:
        >>> [setting(value) for value in (None, "", True, 0.01, "disjoint", [64, 32])]
        ['none', 'none', 'yes', '0.01', 'disjoint', '64, 32']
    """
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(setting(item) for item in value)
    return str(value)


def duration(seconds: float) -> str:
    """Return a time span in the two units that matter.

    Example:
        >>> [duration(seconds) for seconds in (12.34, 192, 7380)]
        ['12.3 s', '3 min 12 s', '2 h 3 min']
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def chance(probability: float | None, more: int = 0) -> str:
    r"""Return a probability as percent, with so many digits more than usual.

    Example:
        >>> [chance(p).replace("\xa0", " ") for p in (0.2347, 0.0234, 0.00012345, 1e-9)]
        ['23.5 %', '2.34 %', '0.012 %', '< 0.0001 %']
        >>> [chance(p).replace("\xa0", " ") for p in (0.9978, 0.99999)]
        ['99.78 %', '> 99.99 %']
        >>> [chance(p, 2).replace("\xa0", " ") for p in (0.2347, 0.00012345, 1.5e-9, 0.99999)]
        ['23.470 %', '0.01234 %', '1.50e-07 %', '99.9990 %']
    """
    if probability is None:
        return _NOTHING
    value = 100 * probability
    if value == 0 or value == 100:
        digits = f"{value:.0f}"
    elif value < 1e-4:
        digits = f"{value:.{more}e}" if more else "< 0.0001"
    elif value > 99.99 and not more:
        digits = "> 99.99"
    elif value < 1:
        # Two significant digits, never in scientific notation: value is at least 1e-4.
        digits = f"{float(f'{value:.{2 + more}g}'):.{6 + more}f}".rstrip("0").rstrip(".")
    else:
        digits = f"{value:.{1 + more}f}" if 10 <= value < 99.5 else f"{value:.{2 + more}f}"
        if float(digits) == 100:  # nearly is not quite
            digits = f"> 99.{'9' * (2 + more)}"
    return f"{digits}\N{NO-BREAK SPACE}%"


def chances(probabilities: Sequence[float | None]) -> list[str]:
    """Return probabilities as percent, with so many digits that those which differ look it."""
    from cgcl.predict.links import told_apart

    return told_apart(probabilities, chance)


def about(number: float) -> str:
    """Return an expected number, rounded to what it can mean.

    Example:
        >>> [about(number) for number in (1234.5, 23.4, 1.04, 0.314, 0.001)]
        ['1,234', '23', '1.0', '0.31', 'less than 0.01']
    """
    if number >= 10:
        return f"{number:,.0f}"
    if number >= 1:
        return f"{number:.1f}"
    return f"{number:.2f}" if number >= 0.01 else "less than 0.01"


def base_rate(rate: float) -> str:
    """Return a small rate in the short scientific form.

    Example:
        >>> [base_rate(rate) for rate in (0.00014, 0.000145, 0.25)]
        ['1.4e-4', '1.45e-4', '0.25']
    """
    if not 0 < rate < 0.01:
        return f"{rate:.3g}"
    digits, _, exponent = f"{rate:.2e}".partition("e")
    return f"{float(digits):g}e{int(exponent)}"


def one_in(rate: float) -> str:
    """Return a rate in words.

    Example:
        >>> [one_in(rate) for rate in (0.000145, 0.034, 0.14)]
        ['1 in 6,900', '1 in 29', '14 in 100']
    """
    if rate <= 0:
        return "none"
    if rate >= 0.1:
        return f"{100 * rate:.0f} in 100"
    return f"1 in {float(f'{1 / rate:.2g}'):,.0f}"


def legible(text: str, limit: int = 100) -> str:
    r"""Return `text` on one line of at most `limit` characters, hidden characters escaped.

    A joiner between two characters beyond ASCII stays: it is part of an emoji or of a word.

    Example:
        >>> legible("report\u202egnp.exe")
        'report\\u202egnp.exe'
        >>> legible("abcdefgh", limit=5)
        'abcd…'
    """
    from cgcl.wording import shown

    return shown(text, limit, is_plain=_is_plain)


def _is_plain(text: str, place: int) -> bool:
    """Tell whether the character at `place` can be shown as it is."""
    if text[place] not in _JOINERS:
        return _is_visible(text[place])
    around = text[place - 1 : place] + text[place + 1 : place + 2]
    return len(around) == 2 and all(not side.isascii() and _is_visible(side) for side in around)


def _is_visible(character: str) -> bool:
    """Tell whether a character shows as what it is, as ink or as room.

    Others show as nothing, as a box, or turn the rest of the line around.
    """
    return character.isprintable() or unicodedata.category(character) == "Zs"


@dataclass(frozen=True)
class Standing:
    """Who stands where by one metric; methods that look equal on the page are equal."""

    metric: str
    title: str
    values: Mapping[str, str]
    """By method, as the page writes them; those alone that were measured."""
    leaders: Sequence[str]
    best: str
    ours: str | None
    """What our method has, None if that was not measured."""

    def who(self, verb: str, verb_of_many: str) -> str:
        """Return the names of the leaders with one of two verbs, by how many they are."""
        return f"{joined(self.leaders)} {verb if len(self.leaders) == 1 else verb_of_many}"

    @property
    def is_behind(self) -> bool:
        """Whether ours is behind at the top of the list, which is what people read."""
        return self.metric in _TOP and self.ours is not None and self.ours != self.best


def standings(comparison: Compared) -> list[Standing]:
    """Return the standing by every metric that some method has.

    The top of the list comes first, then the others in the order of mention.
    """
    from cgcl.metrics.table import METRICS, metric_title

    named = (key for result in comparison.results for key in result["metrics"])
    found = []
    for key in dict.fromkeys([*METRICS, *named]):
        measured = {
            result["method"]: value
            for result in comparison.results
            if (value := result["metrics"].get(key)) is not None and math.isfinite(value)
        }
        if measured:
            values = {method: percent(value) for method, value in measured.items()}
            best = percent(max(measured.values()))
            leaders = [method for method, words in values.items() if words == best]
            ours = values.get(comparison.ours)
            found.append(Standing(key, metric_title(key), values, leaders, best, ours))
    return found


def ahead_at_top(comparison: Compared) -> str:
    """Say who is ahead of the run at the top of the list; empty if nobody is.

    It is what people read, so it is said before anything else.
    """
    parts = _by_who(
        (
            f"{one.who('is', 'are')} ahead of {comparison.ours}:",
            f"{one.title} {one.best} against {one.ours}",
        )
        for one in standings(comparison)
        if one.is_behind
    )
    return f"At the top of the list, {'; '.join(parts)}." if parts else ""


def verdict(comparison: Compared) -> str:
    """Say who is best by each metric; methods that look equal on the page share the place.

    Who is behind at the top of the list is called best by nothing.
    """
    ahead = ahead_at_top(comparison)
    verbs = ("has the highest", "have the highest") if ahead else ("is best by", "are best by")
    told = []
    for one in standings(comparison):
        if one.is_behind:
            continue
        if one.best == percent(0.0) and len(one.leaders) > 1:  # nobody is best at finding nothing
            told.append(("Every method is at 0 % by", one.title))
            continue
        behind = one.ours is not None and comparison.ours not in one.leaders
        mine = f"; {comparison.ours} {one.ours}" if behind else ""
        told.append((one.who(*verbs), f"{one.title} ({one.best}{mine})"))
    return " ".join([*([ahead] if ahead else []), *(f"{part}." for part in _by_who(told))])


def _by_who(told: Iterable[tuple[str, str]]) -> list[str]:
    """Return a phrase for each beginning, with all that follows it."""
    phrases: dict[str, list[str]] = {}
    for who, what in told:
        phrases.setdefault(who, []).append(what)
    return [f"{who} {joined(parts)}" for who, parts in phrases.items()]


def calibrator(key: str) -> str:
    """Return the name of a calibration method as the page writes it.

    Example:
        >>> calibrator("platt")
        'Platt scaling'
    """
    return _CALIBRATIONS.get(key, key)


def calibration_choice(calibration: Calibration) -> str:
    """Say which calibrator was kept and why."""
    kept = calibration.method
    left = {name: loss["unexplained"] for name, loss in calibration.losses.items()}
    why = ""
    if kept in left and len(left) > 1:
        lowest = min(left, key=left.__getitem__)
        if left[kept] <= left[lowest]:
            why = f": of {len(left)} methods it leaves the least uncertainty about held-out links"
        elif kept == "bent":
            why = (
                f": {calibrator(lowest)} is ahead of it on held-out links by no more than chance, "
                "and does not follow the highest scores"
            )
        else:
            why = f", although {calibrator(lowest)} does better on held-out links"
    return f"{calibrator(kept)} turned scores into probabilities{why}."


def shift_sentence(shift: Mapping[str, Any]) -> str:
    """Say whether the probabilities hold where more links are encoded than in training."""
    if shift.get("warning"):
        return str(shift["warning"])
    top = shift["top"]
    return (
        "The probabilities hold where more links are encoded than in training: of the validation "
        f"links they promise {about(shift['expected'])} where there are {shift['observed']:,}, and "
        f"among the best {top['pairs']:,} pairs {about(top['expected'])} where there are "
        f"{top['observed']:,}."
    )


def with_flags(text: str) -> str:
    """Return a message for those who use the command line: settings that it names become flags.

    The library names a setting as `name` or `name=value`. What is quoted is a user's own name.

    Example:
        >>> with_flags("Lower `lr`, add `header=False` or use `row_names=FILE`, not '`lr`'.")
        "Lower --lr, add --no-header or use --row-names FILE, not '`lr`'."
    """

    def flag(match: re.Match[str]) -> str:
        name, value = match[1].replace("_", "-"), match[2]
        if value == "False":
            return f"--no-{name}"
        return f"--{name} {value}" if value else f"--{name}"

    return _SETTING.sub(flag, text)
