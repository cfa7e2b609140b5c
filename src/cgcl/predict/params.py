"""Settings by name, as scikit-learn's tools expect them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Self

from cgcl.methods.table import is_method, method_named, no_such_setting

__all__ = ["Params"]


class Params:
    """Settings as attributes of the same names: the constructor's arguments, and the method's.

    A subclass stores its own arguments in its constructor and hands the rest, the settings of its
    `method`, to `_store`. The method's other settings are there with their defaults.
    """

    method: str

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return the settings by name: the predictor's own, then all of the method's."""
        names = [*self._own_names(), *self._method_names()]
        return {name: getattr(self, name) for name in names}

    def set_params(self, **params: Any) -> Self:  # noqa: ANN401
        """Change settings by name and return the predictor.

        Another method brings its own settings, with their defaults.

        Raises:
            ConfigError: There is no setting of that name.
        """
        own = self._own_names()
        if params.get("method", self.method) != self.method:
            for name in self._method_names():
                delattr(self, name)
            self.method = params["method"]
            self._store({})
        more = {name: value for name, value in params.items() if name not in own}
        self._require_settings(more)
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def _store(self, settings: Mapping[str, Any]) -> None:
        """Keep the settings of the method; an unknown method is refused later, by fit.

        Raises:
            ConfigError: The method has no setting of that name.
        """
        self._require_settings(settings)
        for name, value in {**_defaults_of(self.method), **settings}.items():
            setattr(self, name, value)

    def _require_settings(self, settings: Mapping[str, Any]) -> None:
        known = _defaults_of(self.method)
        unknown = [name for name in settings if name not in known]
        if unknown and is_method(self.method):
            raise no_such_setting(self.method, unknown, [*self._own_names(), *known])

    def _own_names(self) -> list[str]:
        parameters = inspect.signature(type(self)).parameters.values()
        return [p.name for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD]

    def _method_names(self) -> list[str]:
        """Return the names of the method's settings; of an unknown one those that were given."""
        if is_method(self.method):
            return list(_defaults_of(self.method))
        own = self._own_names()
        return [n for n in vars(self) if n not in own and not n.startswith("_") and n[-1] != "_"]

    def __repr__(self) -> str:
        parameters = inspect.signature(type(self)).parameters
        defaults = {name: parameters[name].default for name in self._own_names()}
        defaults |= _defaults_of(self.method)
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if name not in defaults or value != defaults[name]
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


def _defaults_of(method: str) -> dict[str, Any]:
    if not is_method(method):
        return {}
    known = method_named(method)
    # None leaves the choice to the method's rule.
    return {
        field.name: None if field.name in known.ruled else field.default
        for field in fields(known.settings)
    }
