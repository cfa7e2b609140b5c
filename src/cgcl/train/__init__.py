"""Time passes.

Import from the modules: `cgcl.train.config` is free of heavy imports, the others are not.
"""

__all__: list[str] = []
