"""The speed benchmarks do what docs/speed.md says, and its tables say what the lines say."""

from __future__ import annotations

import ast
import importlib
import json
import re
import sys
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

CPU = {"on": "cpu", "device": "cpu", "processor": "Some CPU", "threads": 2}
CPU |= {"versions": {"torch": "2.0"}}
GPU = {**CPU, "on": "cuda", "device": "Some GPU"}


def epoch_line(graph: str, way: str, ms: list[float], theirs: list[float] | None, **other) -> dict:
    line = {"kind": "epoch", "graph": graph, "way": way, "hidden": 512, "memory_bytes": 2**30}
    return {**line, **epochs.summary(ms, theirs), **CPU, **other}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Put lines where the tables look for them."""
    original = speed_tables.lines_of
    monkeypatch.setattr(speed_tables, "lines_of", lambda kind: original(kind, tmp_path))

    def put(*lines: dict, name: str = "speed-a.jsonl") -> None:
        with (tmp_path / name).open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)

    return put


def cells_of(table: str, first: str) -> list[str]:
    (row,) = (line for line in table.splitlines() if line.startswith(f"| {first} |"))
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_without_lines_every_table_says_so(write) -> None:
    assert {make() for make in TABLES.values()} == {"Not measured yet."}
    assert not any(draw() for draw in speed_tables.IMAGES.values())


def test_a_ratio_is_that_of_the_same_round() -> None:
    # Rounds of 100 / 50, 300 / 100 and 200 / 20: ratios 2, 3 and 10.
    found = epochs.summary([50.0, 100.0, 20.0], [100.0, 300.0, 200.0])
    assert (found["ms"], found["ms_smallest"], found["ratio"]) == (50.0, 20.0, 3.0)
    assert epochs.summary([50.0], None)["ratio"] is None


def test_cpu_table_sets_ratios_beside_what_was_asked(write) -> None:
    slow = [1000.0, 1000.0]
    write(
        epoch_line("cora", "plain PyG", slow, slow),
        epoch_line("cora", "fast", [900.0, 900.0], slow),  # an earlier measurement
        epoch_line("cora", "fast", [400.0, 400.0], slow),
        epoch_line("photo", "plain PyG", slow, slow),
        epoch_line("photo", "fast", [300.0, 290.0], slow),
        {"kind": "epoch", "graph": "pubmed", "failure": "out of time", **CPU},
    )
    table = TABLES["speed-cpu"]()
    assert cells_of(table, "Cora")[1:7] == ["1,000 (1,000)", "", "400 (400)", "2.5x", "2.5x", "yes"]
    assert cells_of(table, "Photo")[3:7] == ["295 (290)", "3.4x", "3.5x", "**no**"]
    assert "PubMed" not in table
    assert "2 threads of Some CPU, torch 2.0; median of 2 rounds" in table
    assert TABLES["speed-gpu"]() == "Not measured yet."


def test_gpu_tables_set_milliseconds_beside_what_was_asked(write) -> None:
    write(
        epoch_line("cora", "plain PyG", [18.0], [18.0], **GPU),
        epoch_line("cora", "fast", [0.9], [18.0], **GPU),
        epoch_line("computers", "fast", [8.01], [600.0], **GPU),
    )
    table = TABLES["speed-gpu"]()
    assert cells_of(table, "Cora")[3:7] == ["0.900 (0.900)", "20.0x", "0.9", "yes"]
    assert cells_of(table, "Computers")[5:7] == ["8.0", "**no**"]
    assert TABLES["speed-choices"]() == "Not measured yet."
    # Timed again beside other choices, not beside the yardstick: no ratio, no place in the table.
    write(
        epoch_line("cora", "fast, deterministic", [5.0], [18.0], **GPU),
        epoch_line("cora", "fast", [0.7], None, **GPU),
        name="speed-b.jsonl",
    )
    assert TABLES["speed-gpu"]() == table
    cells = cells_of(TABLES["speed-choices"](), "Cora")
    assert (cells[1], cells[4]) == ("0.700 (0.700)", "5.00 (5.00)")


RUN = {"graph": "cora", "epochs": 800, "views": "directed", "lr": 0.005, **GPU}


def accuracy_line(seed: int, engine: str, auc: float) -> dict:
    asked = {"kind": "accuracy", "seed": seed, "asked_engine": engine, "precision": "tf32"}
    return {**RUN, **asked, "test": {"auc": auc}}


def row_line(seed: int, auc: float, test: float = 0.1, seconds: float = 100.0) -> dict:
    figures = {"seed": seed, "auc": auc, "ap": 0.9, "cell_seconds": seconds}
    return {**RUN, "kind": "row", "test": test, "runs": 2, **figures}


def test_accuracy_compares_splits_that_both_engines_have(write) -> None:
    plain = [accuracy_line(seed, "plain", auc) for seed, auc in ((0, 0.960), (1, 0.970))]
    fast = [accuracy_line(seed, "auto", auc) for seed, auc in ((0, 0.961), (1, 0.9714))]
    write(*plain, *fast, accuracy_line(2, "auto", 0.5))  # the other engine has not come to it
    cells = cells_of(TABLES["speed-accuracy"](), "Cora")
    assert cells[3:] == ["2", "96.50 ± 0.71", "96.62 ± 0.74", "+0.120", "0.1", "**no**"]


def test_the_row_adds_up_its_cells_and_serves_as_the_fast_side_of_accuracy(write) -> None:
    write(
        *(row_line(seed, auc) for seed, auc in ((0, 0.961), (1, 0.9714))),
        *(row_line(seed, 0.5, test=0.2, seconds=200.0) for seed in range(2)),
        *(accuracy_line(seed, "plain", auc) for seed, auc in ((0, 0.960), (1, 0.970))),
    )
    table = TABLES["speed-row"]()
    assert "| Cora | 10% | 2 | 96.62 ± 0.74 | 90.00 ± 0.00 | 100.0 |" in table
    assert "5.0 minutes in all, the target is at most 6: yes." in table
    accuracy = cells_of(TABLES["speed-accuracy"](), "Cora")
    assert accuracy[3:6] == ["2", "96.50 ± 0.71", "96.62 ± 0.74"]


EPOCH = epoch_line("computers", "fast", [1.0], [9.0])
STARTUP = {"kind": "startup", "import_torch": 1.5, "import_torch_smallest": 1.4, **CPU}
STARTUP |= {"seconds_smallest": 5.0, "imported": {"scipy": True, "networkx": False}}


@pytest.mark.parametrize(
    ("name", "line", "words"),
    [
        ("speed-cpu", EPOCH | {"memory_bytes": int(1.4 * 2**30)}, "the target: met."),
        ("speed-cpu", EPOCH | {"memory_bytes": int(1.6 * 2**30)}, "**not met**"),
        # Three imports and a second.
        ("speed-startup", STARTUP | {"seconds": 5.5}, "| 5.50 | yes | `scipy` |"),
        ("speed-startup", STARTUP | {"seconds": 5.6}, "| 5.50 | **no** | `scipy` |"),
        ("speed-row", row_line(0, 0.96, seconds=361.0), "the target is at most 6: **no**."),
    ],
)
def test_what_was_measured_is_held_against_what_was_asked(write, name, line, words) -> None:
    write(line)
    assert words in TABLES[name]()


@given(st.floats(-2, 2), st.floats(1e-3, 1e3))
def test_slope_is_the_power(power: float, factor: float) -> None:
    sizes = [10**4, 3 * 10**4, 10**6]
    for fit in (speed_tables.slope, scaling.slope):
        assert fit(sizes, [factor * size**power for size in sizes]) == pytest.approx(
            power, abs=1e-6
        )


@settings(max_examples=20)
@given(st.floats(0.01, 100), st.floats(1.1, 50))
def test_equal_ratios_are_equal_steps_on_the_plot(start: float, ratio: float) -> None:
    values = [start, start * ratio, start * ratio**2]
    svg = speed_tables.log_plot([speed_tables.Curve("a", values, values)], "x", "y", "guide")
    (points,) = re.findall(r'<polyline class="one" points="([^"]*)"', svg)
    x, y = zip(*(map(float, point.split(",")) for point in points.split()), strict=True)
    assert x[1] - x[0] == pytest.approx(x[2] - x[1], abs=0.21)
    assert y[1] - y[0] == pytest.approx(y[2] - y[1], abs=0.21)
    assert x[0] < x[2] <= 406
    assert y[0] > y[2] >= 54


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


def test_random_features_are_few() -> None:
    x = scaling.random_features(500)
    assert x.is_coalesced()
    assert x.shape == (500, 128)
    per_node = torch.bincount(x.indices()[0], minlength=500)
    assert int(per_node.max()) <= 8
    assert int(per_node.min()) >= 1


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


def test_the_floor_of_computers_is_the_known_one() -> None:
    """0.66 TFLOP for `directed`, about 1.5 ms in TF32, computed before there was any code."""
    work = floor.work_of(13_752, 767, 13_752 * 767, 208_983, 512, "directed")["decoder"]
    assert work.flops / 1e12 == pytest.approx(0.66, abs=0.005)
    assert 1.2 < work.ms(floor.Machine(494, 4.8)) < 1.6


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
