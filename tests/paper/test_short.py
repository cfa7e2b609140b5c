"""Every short cell of another row is there, and reached means within half a point of print."""

import importlib
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "experiments"))
short, tables, page = map(importlib.import_module, ["short", "tables", "reproduce.page"])


def cells_of(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_short_cell_of_another_row_is_there_and_judged_by_what_is_printed() -> None:
    reproduced = tables.reproduced()
    rows = cells_of(short.short_table(reproduced))
    own = (cell for cell in reproduced.table("table1").cells if cell.place.protocol == "splits")
    below = [x for x in own if x.difference is not None and x.difference < -page.NEAR]
    wanted = [cell for cell in below if cell.place.row != "cgcl"]
    assert len(rows) == len(wanted) == len({tuple(row[:4]) for row in rows})
    for row in rows:
        printed = float(row[4].split()[0])
        reached = (float(cell.split()[0]) if cell else 0.0 for cell in row[6:10])
        least = printed - page.NEAR - 1e-9
        near = [name for name, one in zip(short.NAMES, reached, strict=True) if one >= least]
        assert row[-1] == (", ".join(near) or "none")
