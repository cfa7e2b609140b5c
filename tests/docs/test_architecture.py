"""The walk through the code names every module, and each but once."""

import re
from pathlib import Path


def test_the_walk_meets_every_module_once(project: Path) -> None:
    page = (project / "docs" / "architecture.md").read_text(encoding="utf-8")
    walk, _, _ = page.partition("## Where to change what")
    package = project / "src" / "cgcl"
    met: list[str] = []
    room = ""
    for name in re.findall(r"`([\w/]+\.py)`", walk):
        # A file without a folder lies in the folder of the one named before it.
        path = name if (package / name).is_file() else f"{room}/{name}"
        assert (package / path).is_file(), f"there is no {name}"
        room = str(Path(path).parent)
        met.append(path)
    modules = {str(path.relative_to(package)) for path in package.rglob("*.py")}
    named = {path for path in modules if not path.endswith(("__init__.py", "__main__.py"))}
    unnamed = sorted(
        p for p in named - set(met) if not p.startswith(("testing/", "train/engines/kernels/"))
    )
    assert not unnamed
    # The first table is the order of reading: nothing comes back in it.
    first, _, _ = walk.partition("## Beside the walk")
    rows = re.findall(r"^\| (`.*?) \|", first, re.MULTILINE)
    in_rows = [name for row in rows for name in re.findall(r"`([\w/]+\.py)`", row)]
    assert len(in_rows) == len(set(in_rows))
