"""Settings by name, as scikit-learn's tools expect them."""

from __future__ import annotations

import inspect
from typing import Any, Self

from cgcl.errors import ConfigError

__all__ = ["Params"]


class Params:
    """The constructor's arguments, kept as attributes of the same names."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return the settings by name."""
        names = inspect.signature(type(self)).parameters
        return {name: getattr(self, name) for name in names}

    def set_params(self, **params: Any) -> Self:  # noqa: ANN401
        """Change settings by name and return the predictor.

        Raises:
            ConfigError: There is no setting of that name.
        """
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ConfigError(f"There is no setting {name!r}. Known: {', '.join(known)}.")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value != defaults[name].default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"
