"""Experiments: methods compared, settings searched, a paper reproduced.

Results are lines of one append-only log each (`log`), made by one runner (`runner`). Import from
the modules; `plan` and `study` are free of heavy imports, the others are not.
"""

from __future__ import annotations

__all__: list[str] = []
