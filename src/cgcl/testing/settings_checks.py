"""Promises about settings: they are stored, spoken and copied as scikit-learn's tools expect."""

from __future__ import annotations

import ast
from typing import Any

from cgcl.errors import CGCLError
from cgcl.testing.graphs import groups
from cgcl.testing.predictor import Make, expect

__all__ = [
    "check_constructor_stores_only",
    "check_repr_round_trip",
    "check_settings_round_trip",
    "check_wrong_settings_are_refused_by_fit",
]


def check_constructor_stores_only(make: Make) -> None:
    """The constructor stores its settings under their names, unchanged, and does nothing else."""
    predictor = make(seed=7, val=0.25)
    settings = predictor.get_params()
    expect(
        vars(predictor) == settings,
        f"no attributes but the settings {sorted(settings)}",
        sorted(vars(predictor)),
    )
    found = settings.get("seed"), settings.get("val")
    expect(found == (7, 0.25), "seed 7 and val 0.25 as they were given", found)


def check_wrong_settings_are_refused_by_fit(make: Make) -> None:
    """A setting that makes no sense is stored, and refused by fit with a CGCLError."""
    predictor = make(val=2.0)
    try:
        predictor.fit(groups())
    except CGCLError:
        return
    expect(False, "fit to refuse val=2.0 with a CGCLError", "no error")


def check_settings_round_trip(make: Make) -> None:
    """Settings travel by get_params, set_params and sklearn's clone, none lost or changed."""
    from sklearn.base import clone

    predictor: Any = make(seed=3)
    settings = predictor.get_params()
    kind: Any = type(predictor)
    for how, copy in (
        ("a new one with get_params()", kind(**settings)),
        ("sklearn.base.clone", clone(predictor)),
    ):
        expect(copy is not predictor, f"{how} to be another object", "the same one")
        expect(copy.get_params() == settings, f"the settings {settings} by {how}", copy)
    expect(predictor.set_params(seed=4) is predictor, "set_params to return self", "another object")
    found = predictor.get_params()["seed"]
    expect(found == 4, "seed 4 after set_params(seed=4)", found)
    try:
        predictor.set_params(no_such_setting=1)
    except (CGCLError, ValueError):
        return
    expect(False, "set_params to refuse a setting that does not exist", "no error")


def check_repr_round_trip(make: Make) -> None:
    """The repr is a call that builds the same predictor: its class and its changed settings."""
    predictor = make(seed=7)
    text = repr(predictor)
    kind: Any = type(predictor)
    named, settings = False, dict[str, Any]()
    try:
        call = ast.parse(text, mode="eval").body
        named = isinstance(call, ast.Call) and ast.unparse(call.func) == kind.__name__
        keywords = call.keywords if isinstance(call, ast.Call) else []
        settings = {str(word.arg): ast.literal_eval(word.value) for word in keywords}
    except (SyntaxError, ValueError):
        expect(False, f"a repr that can be read, such as {kind.__name__}(seed=7)", text)
    expect(named, f"a repr such as {kind.__name__}(seed=7)", text)
    rebuilt = kind(**settings).get_params()
    expect(rebuilt == predictor.get_params(), "a repr that names every changed setting", text)
