"""The contract of a link predictor, as a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from cgcl.testing import checks
from cgcl.testing.predictor import ContractError, Make

CHECKS: dict[str, Callable[[Make], None]] = {
    name: check for name, check in vars(checks).items() if name.startswith("check_")
}
"""Every check by its name; the first line of its docstring is the promise."""


def checks_of(
    make: Make, *, declared: frozenset[str] = frozenset()
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the name of each check and a function that runs it, for a test case each.

    Args:
        make: Returns an unfitted predictor; takes `val`, `test` and `seed` by name.
        declared: Checks that this predictor by its nature cannot keep, besides those that it
            names itself in `declared_exceptions`. They are left out.

    Raises:
        ContractError: A declared exception is not the name of a check.

    Example:
        >>> from cgcl.predict import LinkPredictor
        >>> dict(checks_of(LinkPredictor))["check_constructor_stores_only"]()
    """
    exceptions = declared | frozenset(getattr(make(), "declared_exceptions", ()))
    unknown = sorted(exceptions - CHECKS.keys())
    if unknown:
        raise ContractError(
            f"Declared exceptions that are not checks: {', '.join(unknown)}.\n"
            f"The checks are: {', '.join(CHECKS)}."
        )
    return ((name, partial(CHECKS[name], make)) for name in CHECKS if name not in exceptions)


def check_link_predictor(make: Make, *, declared: frozenset[str] = frozenset()) -> None:
    """Run all checks and say which promises are not kept.

    Args:
        make: Returns an unfitted predictor; takes `val`, `test` and `seed` by name, such as
            `lambda **settings: LinkPredictor(epochs=30, hidden=16, **settings)`.
        declared: Checks that this predictor by its nature cannot keep, besides those that it
            names itself in `declared_exceptions`.

    Raises:
        ContractError: A promise is not kept, or a declared exception is not a check.
    """
    broken: list[str] = []
    asked = list(checks_of(make, declared=declared))
    for name, check in asked:
        try:
            check()
        except ContractError as error:
            broken.append(f"{name}: {promise_of(name)}\n    {error}.")
        except Exception as error:
            broken.append(f"{name}: {promise_of(name)}\n    raised {type(error).__name__}: {error}")
    if broken:
        head = f"{make()!r} breaks {len(broken)} of {len(asked)} promises:"
        raise ContractError("\n".join([head, *(f"- {text}" for text in broken)]))


def promise_of(name: str) -> str:
    """Return what a check promises, in a sentence."""
    return (CHECKS[name].__doc__ or "").splitlines()[0]
