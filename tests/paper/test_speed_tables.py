"""The speed benchmarks do what docs/speed.md says, and its tables say what the lines say."""

import ast
import importlib
import json
import re
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgcl.model import CGCL, symmetric
from cgcl.seeds import seeded

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT / "experiments"), str(ROOT / "benchmarks" / "speed")]
speed_tables = importlib.import_module("speed")
breakdown, epochs, floor, measuring, plain_pyg, scaling, startup = map(
    importlib.import_module,
    ["breakdown", "epochs", "floor", "measuring", "plain_pyg", "scaling", "startup"],
)
TABLES = speed_tables.TABLES

GPU = {"on": "cuda", "device": "Some GPU", "processor": "Some CPU", "threads": 2}
GPU |= {"versions": {"torch": "2.0"}, "graph": "cora"}
FAILED = {"kind": "epoch", "failure": "out of time", **GPU}
ALONE = {"kind": "epoch", "way": "fast", "hidden": 512, **epochs.summary([0.7], None), **GPU}
UNPAIRED = {"kind": "accuracy", "seed": 2, "asked_engine": "auto", "test": {"auc": 0.5}, **GPU}
UNPAIRED |= {"epochs": 800, "views": "directed", "lr": 0.005, "precision": "tf32"}


def test_without_lines_or_anything_beside_them_every_table_says_so(tmp_path, monkeypatch) -> None:
    """What the tables say of the committed lines is compared by tests/e2e/test_readme.py."""
    lines_of = partial(speed_tables.lines_of, results=tmp_path)
    monkeypatch.setattr(speed_tables, "lines_of", lines_of)
    for lines in ([], [FAILED], [ALONE], [UNPAIRED]):
        (tmp_path / "speed.jsonl").write_text("".join(f"{json.dumps(own)}\n" for own in lines))
        assert {make() for make in TABLES.values()} == {"Not measured yet."}
        assert not any(draw() for draw in speed_tables.IMAGES.values())


@given(st.floats(-2, 2), st.floats(1e-3, 1e3))
def test_slope_is_the_power(power: float, factor: float) -> None:
    sizes = [10**4, 3 * 10**4, 10**6]
    found = scaling.slope(sizes, [factor * size**power for size in sizes])
    assert found == pytest.approx(power, abs=1e-6)


def test_a_ratio_is_that_of_the_same_round() -> None:
    # Rounds of 100 / 50, 300 / 100 and 200 / 20: ratios 2, 3 and 10.
    found = epochs.summary([50.0, 100.0, 20.0], [100.0, 300.0, 200.0])
    assert (found["ms"], found["ms_smallest"], found["ratio"]) == (50.0, 20.0, 3.0)
    assert epochs.summary([50.0], None)["ratio"] is None


# What the benchmarks measure.


@pytest.fixture
def small() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    links, nodes = scaling.random_links(400)
    return torch.rand(nodes, 12, generator=generator), symmetric(links)


def test_plain_pyg_scores_every_entry_of_the_half_it_does_not_see(small, monkeypatch) -> None:
    x, edge_index = small
    model = plain_pyg.PlainModel(x.shape[1], 16)
    seen, scored = [], []
    encode, decode = model.encode, model.decode
    monkeypatch.setattr(model, "encode", lambda x, e: (seen.append(e), encode(x, e))[1])
    monkeypatch.setattr(model, "decode", lambda z, p: (scored.append(p), decode(z, p))[1])
    losses = plain_pyg.plain_epoch(model, plain_pyg.plain_optimizer(model), x, edge_index)
    assert len(losses) == len(seen) == 2
    entries = set(map(tuple, edge_index.T.tolist()))
    for turn in range(2):
        encoded, hidden, unlinked = (
            list(map(tuple, pairs.T.tolist()))
            for pairs in (seen[turn], scored[2 * turn], scored[2 * turn + 1])
        )
        assert sorted(encoded + hidden) == sorted(entries)
        assert len(unlinked) == len(hidden)
        assert not entries & set(unlinked)
    assert torch.equal(seen[0], scored[2])


def test_plain_pyg_learns() -> None:
    groups = torch.arange(36) // 12
    links = torch.combinations(torch.arange(36), 2).T
    links = links[:, groups[links[0]] == groups[links[1]]]
    x = torch.nn.functional.one_hot(groups).float().repeat(1, 8)
    with seeded(0, "weights"):
        model = plain_pyg.PlainModel(x.shape[1], 32)
        optimizer = plain_pyg.plain_optimizer(model)
        losses = [plain_pyg.plain_epoch(model, optimizer, x, symmetric(links)) for _ in range(40)]
    assert sum(losses[-1]) < 0.5 * sum(losses[0])


def test_every_way_is_timed_in_every_round() -> None:
    ways = ["plain PyG", "readable", "fast", "fast, directed"]
    request = {"graph": "cora", "data_root": None, "device": "cpu", "threads": 1, "hidden": 4}
    request |= {"rounds": 2, "burst": 0.0, "ways": ways}
    found = epochs.time_all(request, measuring.Clock(600))
    assert [found[way]["engine"] for way in ways[:2]] == ["PyG", "plain"]
    assert all(len(found[way]["ms"]) == 2 and min(found[way]["ms"]) > 0 for way in ways)


def test_an_epochs_time_is_shared_by_the_epochs_of_a_run(monkeypatch) -> None:
    now = iter([10.0, 10.4, 10.9, 12.0])  # the start, a look after each run, the end
    monkeypatch.setattr(measuring.time, "perf_counter", lambda: next(now))
    runs = iter([3, 5])
    found = measuring.burst_ms(lambda: next(runs), 0.5, torch.device("cpu"))
    assert found == pytest.approx(1000 * 2.0 / 8)


def test_a_child_that_dies_is_a_failure_and_no_error(tmp_path) -> None:
    script = tmp_path / "dies.py"
    script.write_text("raise SystemExit(3)")
    assert measuring.in_child(str(script), {"threads": 1}, 60) == {"failure": "ended with 3"}
    script.write_text("print('noise'); print('{\"ms\": 1.5}')")
    assert measuring.in_child(str(script), {"threads": 1}, 60) == {"ms": 1.5}


@settings(deadline=None)
@given(st.integers(1_000, 30_000), st.integers(0, 5))
def test_random_links_are_as_many_as_asked_and_skewed(count: int, seed: int) -> None:
    links, nodes = scaling.random_links(count, seed)
    codes = links[0] * nodes + links[1]
    assert links.shape == (2, count)
    assert (links[0] < links[1]).all()
    assert int(links.max()) < nodes
    assert int(links[0].max()) > 0.7 * nodes  # a cut at the tail would leave these nodes alone
    assert (codes[1:] > codes[:-1]).all()
    assert torch.equal(links, scaling.random_links(count, seed)[0])
    degrees = torch.bincount(links.reshape(-1), minlength=nodes)
    assert degrees.max() > 3 * degrees.float().mean()


def test_the_floor_of_a_graph_worked_by_hand() -> None:
    # 2 nodes, 3 features, none of them zero, 5 links, width 4: 10 pairs an epoch, 20 if directed.
    work = floor.work_of(2, 3, 6, 5, 4, "disjoint")
    assert work["decoder"].flops == 3 * 10 * 4 * 4
    assert floor.work_of(2, 3, 6, 5, 4, "directed")["decoder"].flops == 3 * 20 * 4 * 4
    # Two steps, X W and its gradient, two operations for each of 1.2 entries and 4 columns.
    assert work["features"].flops == pytest.approx(2 * 2 * 2 * 1.2 * 4)
    # What is left of X is 14.4 bytes, Z 32, W 48: a product reads two and writes the third.
    assert work["features"].bytes == pytest.approx(2 * 2 * (14.4 + 32 + 48))
    weights = sum(weight.numel() for weight in CGCL(3, 4).parameters())
    assert work["optimizer"].bytes == 2 * 7 * 4 * weights
    machine = floor.Machine(tflops=480e-12, tb_per_s=1e-12)  # 480 operations, 1 byte a second
    ms = floor.floor_ms(work, machine)
    assert ms["decoder"] == pytest.approx(1000 * 2 * 2 * 32)  # moving takes longer than computing
    quick = floor.Machine(tflops=1e-12, tb_per_s=1)
    assert floor.floor_ms(work, quick)["decoder"] == pytest.approx(1000 * 480)


def event(name: str, spent: float, parent=None, sequence: int = -1, backward: bool = False):
    about = {"cpu_parent": parent, "sequence_nr": sequence, "fwd_thread": int(backward)}
    return SimpleNamespace(name=name, self_cpu_time_total=spent, **about)


def test_backward_operators_belong_to_the_part_of_their_forward_ones() -> None:
    encoding = event("part: features", 0)
    spreading = event("part: propagation", 0, encoding)
    back = event("MmBackward0", 5, sequence=7, backward=True)
    found = breakdown.shares(
        [
            encoding,
            spreading,
            event("aten::mm", 10, encoding, sequence=7),
            event("aten::sparse_mm", 20, spreading, sequence=8),
            back,
            event("aten::mm", 15, back),
            event("Optimizer.step#Adam.step", 30),
            event("aten::nobody", 20),
        ]
    )
    parts = {"features": 0.3, "propagation": 0.2, "optimizer": 0.3, "other": 0.2}
    assert found == {"decoder": 0.0, "draws": 0.0, **parts}


def test_functions_to_watch_exist_and_are_put_back() -> None:
    encoder = importlib.import_module("cgcl.model.encoder")
    before = encoder.propagate
    with breakdown.watching(breakdown.WATCHED):
        assert encoder.propagate is not before
    assert encoder.propagate is before


def test_every_kernel_belongs_to_a_part() -> None:
    engines = ROOT / "src" / "cgcl" / "train" / "engines"
    sources = "".join(path.read_text() for path in (engines / "kernels").glob("*.py"))
    defined = set(re.findall(r"^@triton\.jit.*\ndef (\w+)", sources, re.MULTILINE))
    # Those that an engine names are launched; the others are parts of them.
    nodes = [n for path in engines.glob("*.py") for n in ast.walk(ast.parse(path.read_text()))]
    imports = [n for n in nodes if isinstance(n, ast.ImportFrom) and "kernels" in (n.module or "")]
    named = {name.name for own in imports for name in own.names}  # modules, or kernels themselves
    named |= {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in named
    }
    kernels = defined & named
    assert {"adam_step", "propagate"} <= kernels
    for kernel in kernels:
        assert breakdown.part_of_kernel(kernel) != "other", kernel
    assert breakdown.part_of_kernel("nvjet_tst_128x256_64x4") == "features"
    assert breakdown.part_of_kernel("Memset (Device)") == "other"


def test_imports_are_found_in_what_python_writes() -> None:
    written = (
        "import time: self [us] | cumulative | imported package\n"
        "import time:       100 |        100 |   scipy.sparse._base\n"
        "import time:       100 |        200 | networkx_like\n"
        "a line of the program that says networkx\n"
    )
    found = startup.imported(written)
    assert [name for name, is_there in found.items() if is_there] == ["scipy"]


def test_every_command_of_the_page_is_a_script_with_these_options() -> None:
    page = (ROOT / "docs" / "speed.md").read_text()
    commands = re.findall(r"^python (benchmarks/speed/\w+\.py)((?:.*\\\n)*.*)$", page, re.MULTILINE)
    assert len(commands) >= 8
    for script, words in commands:
        source = (ROOT / script).read_text() + (ROOT / "benchmarks/speed/measuring.py").read_text()
        for option in re.findall(r"--[a-z-]+", words):
            assert f'"{option}"' in source, (script, option)
    assert set(re.findall(r"<!-- table (speed[\w-]*) -->", page)) == set(TABLES)
