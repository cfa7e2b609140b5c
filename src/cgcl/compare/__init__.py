"""Methods side by side: the same splits, the same pairs, one table, and what chance explains.

Import from the modules; `cgcl.compare.plan` is free of heavy imports, the others are not.
"""

__all__: list[str] = []
