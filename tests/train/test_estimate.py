import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from cgcl.errors import ResourceError
from cgcl.graph import Graph
from cgcl.graph.features import SPARSE_UP_TO
from cgcl.memory import free_memory
from cgcl.methods.settings import CGCLSettings, RankSettings
from cgcl.train.config import Resources, SplitConfig
from cgcl.train.estimate import Estimate, estimate_graph, measure_speed, require_memory

# Nodes, links, features, nonzeros.
CORA = (2708, 5278, 1433, 49216)
MODEL, SHARES = CGCLSettings(), SplitConfig()


def estimate(nodes, links, features, nonzeros, *told, is_sparse=None, **more) -> Estimate:
    """Estimate for a graph of which nothing is known but its sizes."""
    sparse = nonzeros <= SPARSE_UP_TO * nodes * features if is_sparse is None else is_sparse
    sizes = {"num_nodes": nodes, "num_edges": links, "num_features": features}
    graph = SimpleNamespace(**sizes, num_nonzeros=nonzeros, is_sparse=sparse)
    return estimate_graph(graph, *told, **more)


def test_each_thread_has_a_block_and_the_readable_engine_all_pairs() -> None:
    def parts(**resources) -> dict[str, int]:
        model = CGCLSettings(hidden=16)
        found = estimate(10_000, 100_000, 40, 50, model, SHARES, resources=Resources(**resources))
        return dict(found.parts)

    assert parts(threads=1)["pairs"] == 6 * 4 * 2**19  # blocks of 2^19 entries
    assert parts(threads=3)["pairs"] == 3 * parts(threads=1)["pairs"]
    assert parts(threads=3)["nodes"] == (5 + 3) * 4 * 10_000 * 16
    assert parts(threads=3, engine="plain")["pairs"] == 6 * 4 * 85_000 * 16
    assert parts(threads=3, engine="plain")["nodes"] == parts(threads=1)["nodes"]
    fast, readable = (
        estimate(*CORA, MODEL, SHARES, resources=Resources(threads=1, engine=engine))
        for engine in ("auto", "plain")
    )
    assert readable.epoch_seconds == pytest.approx(2.2 * fast.epoch_seconds)


def test_features_are_dense_when_most_entries_are_not_zero() -> None:
    dense = estimate(100, 1000, 40, 1001, MODEL, SHARES)
    assert dense.parts["features"] == 4 * 4 * 100 * 40
    assert estimate(100, 1000, 40, 1000, MODEL, SHARES).parts["features"] == 3 * 20 * 1000
    forced = estimate(100, 1000, 40, 1001, MODEL, SHARES, is_sparse=True)
    assert forced.parts["features"] == 3 * 20 * 1001
    full, sparse = (
        estimate(1000, 1000, 400, 400_000, MODEL, SHARES, is_sparse=is_sparse)
        for is_sparse in (False, True)
    )
    assert full.epoch_seconds < sparse.epoch_seconds
    few, more = (
        estimate(1000, 1000, count, 1000 * count, replace(MODEL, hidden=1024), SHARES)
        for count in (400, 500)
    )
    assert few.epoch_seconds < more.epoch_seconds


def test_the_scores_of_a_step_are_kept_and_a_block_of_them_computed() -> None:
    """All scores are kept where they are few; a block holds 2^20 of them, or one row."""
    few, many = (
        estimate(nodes, 10 * nodes, 40, 50, RankSettings(), SHARES) for nodes in (100, 2_000_000)
    )
    assert few.parts["pairs"] == 4 * (100 * 100 + 6 * 2**20)
    assert many.parts["pairs"] == 4 * 6 * 2_000_000


def test_time_follows_epochs_turns_looks_and_the_machine() -> None:
    usual = estimate(*CORA, MODEL, SHARES)
    assert estimate(*CORA, MODEL, SHARES, speed=4.0).seconds == pytest.approx(usual.seconds / 4)
    longer = estimate(*CORA, replace(MODEL, epochs=400), SHARES)
    assert longer.seconds == pytest.approx(usual.seconds + 200 * usual.epoch_seconds)
    assert longer.memory_bytes == usual.memory_bytes
    one = estimate(*CORA, replace(MODEL, views="one"), SHARES)
    assert one.epoch_seconds == pytest.approx(usual.epoch_seconds * (1 + 0.05) / (2 + 0.05))
    looking = estimate(*CORA, replace(MODEL, evaluate_every=1), SHARES)
    assert looking.epoch_seconds == pytest.approx(usual.epoch_seconds * 2.5 / 2.05)
    inner = estimate(*CORA, replace(MODEL, product="inner"), SHARES)
    assert inner.epoch_seconds < usual.epoch_seconds
    assert inner.seconds < usual.seconds
    assert inner.memory_bytes < usual.memory_bytes


def test_the_calibration_takes_its_time_unless_there_is_none() -> None:
    def calibration(nodes: int, hidden: int, val: float = 0.05) -> float:
        settings = CGCLSettings(hidden=hidden)
        found = estimate(nodes, 5278, 100, 1000, settings, SplitConfig(val=val))
        return found.seconds - settings.epochs * found.epoch_seconds

    assert calibration(2708, 128, val=0.0) == pytest.approx(0, abs=1e-9)
    # All 2708 * 2707 / 2 pairs, then 2^24 of more, fewer if each takes longer.
    for nodes, hidden, pairs in (
        (2708, 128, 3_665_278),
        (10_000, 128, 2**24),
        (10_000, 512, 2**17),
        (10_000, 8192, 10**4),
    ):
        each = (0.37 * 3.8e-9 + 3.8e-11 / 3 * hidden) * hidden
        assert calibration(nodes, hidden) == pytest.approx(pairs * each)


def test_a_graph_is_estimated_as_it_is_stored(cora: Graph) -> None:
    assert estimate_graph(cora, MODEL, SHARES) == estimate(*CORA, MODEL, SHARES)
    dense = Graph.from_pairs("g", cora.names, cora.edges, cora.x.to_dense())
    assert estimate_graph(dense, MODEL, SHARES).parts["features"] == 4 * 4 * 2708 * 1433


def test_estimates_agree_with_the_measurements_on_record(project: Path) -> None:
    """The record is written by benchmarks/estimate.py; the formula must still fit it."""
    sizes = {
        "cora": CORA,
        "citeseer": (3327, 4552, 3703, 105165),
        "pubmed": (19717, 44324, 500, 988031),
        "photo": (7650, 119081, 745, 1979909),
    }
    record = json.loads((project / "benchmarks" / "results" / "estimate.json").read_text())
    assert len(record["cases"]) >= 6
    for case in record["cases"]:
        kind = {"cgcl": CGCLSettings, "cgcl-rank": RankSettings}[case["method"]]
        found = estimate(*sizes[case["dataset"]], kind(**case["settings"]), SHARES)
        ratio = found.memory_bytes / case["measured"]["peak_bytes"]
        assert 1 / 1.5 < ratio < 1.5, case
        assert 1 / 2 < found.epoch_seconds / case["measured"]["epoch_seconds"] < 2, case


def test_too_little_memory_is_refused_with_a_width_that_fits() -> None:
    size = (1_000_000, 10_000_000, 500, 10_000_000)
    big = estimate(*size, CGCLSettings(hidden=512), SHARES)
    with pytest.raises(ResourceError) as error:
        require_memory(big, free=int(8e9))
    assert str(error.value) == (
        "Training needs about 14.3 GB of memory at `hidden=512`; 8.0 GB are free, and a fifth of "
        "them must stay so.\nTry `hidden=128`, which needs about 5.0 GB."
    )
    smaller = estimate(*size, CGCLSettings(hidden=128), SHARES)
    assert big.narrower[128] == smaller.memory_bytes
    with pytest.raises(ResourceError, match="Try `hidden=128`,"):
        require_memory(big, free=int(smaller.training_bytes / 0.8) + 1)
    with pytest.raises(ResourceError, match="Try `hidden=64`,"):
        require_memory(big, free=int(smaller.training_bytes / 0.8) - 1)
    require_memory(smaller, free=int(40e9))
    require_memory(big, free=int(big.training_bytes / 0.8) + 1)
    with pytest.raises(ResourceError):
        require_memory(big, free=int(big.training_bytes / 0.8) - 1)
    with pytest.raises(ResourceError, match="use fewer links or features, or a machine with more"):
        require_memory(big, free=10**8)
    require_memory(estimate(34, 78, 34, 34, MODEL, SHARES))


def test_the_speed_of_the_machine_is_a_positive_number_and_leaves_no_trace() -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    assert measure_speed(Resources(threads=1)) > 0
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")


@pytest.mark.parametrize("place", ["group", "."])
def test_the_limit_of_a_container_counts(tmp_path: Path, place: str) -> None:
    own = tmp_path / "own"
    own.write_text("0::/group\n")
    stat = "anon 5\ninactive_file 300"
    write(tmp_path / "v2" / place, memory__max="5000", memory__current="4100", memory__stat=stat)
    assert free_memory(tmp_path / "v2", own) == 1200
    own.write_text("5:cpu,memory:/group\n1:name=systemd:/x\n0::/\n")
    write(
        tmp_path / "v1" / "memory" / place,
        memory__limit_in_bytes="5000",
        memory__usage_in_bytes="4900",
        memory__stat="inactive_file 77\ntotal_inactive_file 50",
    )
    assert free_memory(tmp_path / "v1", own) == 150


def test_without_a_limit_the_machine_counts(tmp_path: Path) -> None:
    own = tmp_path / "own"
    machine = free_memory(tmp_path, own)  # there is no such file
    assert machine > 10**7
    own.write_text("0::/\n")
    write(tmp_path, memory__max="max", memory__current="4100")
    assert free_memory(tmp_path, own) > machine / 2
    write(tmp_path, memory__max="4000", memory__current="4100")
    assert free_memory(tmp_path, own) == 0
