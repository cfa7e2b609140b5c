"""Rules of the house that no linter checks."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "src" / "cgcl").rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_functions_stay_short(path: Path) -> None:
    source = path.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
            assert node.end_lineno - node.lineno < 60, node.name


def test_names_say_what_a_module_is_for() -> None:
    vague = {"utils", "helpers", "common", "misc", "manager"}
    assert not vague & {path.stem for path in MODULES}


def test_only_one_module_knows_pickle_and_none_loads_arrays_unsafely() -> None:
    for path in MODULES:
        source = path.read_text()
        if path.name != "planetoid.py":
            assert not re.search(r"^\s*(import|from) (c?pickle|marshal|shelve)\b", source, re.M)
        assert not re.search(
            r"(?<!safetensors\.)torch\.(load|save)\(|\b(np|numpy)\.load\(", source
        ), path
        assert "allow_pickle=True" not in source
        # What only some systems have.
        assert not re.search(r"^\s*(import|from) (fcntl|resource|pwd)\b", source, re.M), path


def test_gradients_never_flow_through_fancy_indexing() -> None:
    """`z[index]` has a backward pass that is not deterministic on several threads."""
    for name in ("encoder.py", "decoder.py", "cgcl.py"):
        tree = ast.parse((ROOT / "src" / "cgcl" / "model" / name).read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
                assert node.value.id not in {"z", "h", "x", "scale"}, ast.unparse(node)
    # Methods also use such names for slices and tuples, which are harmless.
    for path in (ROOT / "src" / "cgcl" / "methods").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
                is_plain = isinstance(node.slice, ast.Constant | ast.Slice | ast.Tuple)
                assert is_plain or node.value.id not in {"z", "h", "x"}, (path, ast.unparse(node))


def test_every_test_that_a_page_names_exists() -> None:
    named = 0
    for page in (ROOT / "docs").rglob("*.md"):
        for path, test in re.findall(r"`([\w/]*test_\w+\.py)(?:::(\w+))?`", page.read_text()):
            file = ROOT / "tests" / path.removeprefix("tests/")
            assert file.exists(), f"{page.name} names {path}"
            assert not test or f"def {test}(" in file.read_text(), f"{page.name} names {test}"
            named += 1
    assert named > 20
