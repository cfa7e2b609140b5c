"""Two processes that train together do what one does, each link once."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
import torch

from cgcl.counter_rng import base_key, epoch_key, permuted
from cgcl.errors import ConfigError, ResourceError
from cgcl.graph.pairs import encode
from cgcl.methods.cgcl import BATCHES, CrossViewLearner
from cgcl.methods.method import Epoch, Ranks, TrainingGraph
from cgcl.methods.settings import CGCLSettings
from cgcl.seeds import seeded
from cgcl.split import random_split
from cgcl.testing.graphs import groups
from cgcl.train import ranks as module
from cgcl.train.config import Resources, RunConfig
from cgcl.train.execution import resolve_device
from cgcl.train.fit import fit

TOLD = {"hidden": 8, "batch": 40, "epochs": 5, "evaluate_every": 5}
SURE = {"input_dropout": 0.0, "decoder_dropout": 0.0}
# What a process does: fit, and leave weights, losses and what it tested.
SCRIPT = """
import json, sys
from cgcl.split import random_split
from cgcl.testing.graphs import groups
from cgcl.train.config import Resources, RunConfig
from cgcl.train.fit import fit
graph = groups()
split = random_split(graph, 0.05, 0.1, 0)
recipe = RunConfig.of("cgcl", json.loads(sys.argv[1]))
found = fit(graph, split, recipe, Resources("cpu", threads=1))
weights = {name: own.tolist() for name, own in found.learner.state_dict().items()}
with open(sys.argv[2], "w") as file:
    json.dump([weights, found.history, found.val, found.test], file)
"""


def free_port() -> int:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return own.getsockname()[1]


def together(folder: Path, count: int, **told) -> list[list]:
    """Return what each of some processes left behind."""
    port, files = str(free_port()), [folder / f"{rank}.json" for rank in range(count)]
    base = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    base |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    words = [sys.executable, "-c", SCRIPT, json.dumps(TOLD | told)]
    running = [
        subprocess.Popen([*words, str(file)], env=os.environ | base | {"RANK": str(rank)})
        for rank, file in enumerate(files)
    ]
    assert [one.wait(timeout=100) for one in running] == [0] * count
    return [json.loads(file.read_text()) for file in files]


def test_weights_and_losses_of_two_are_those_of_one(tmp_path: Path) -> None:
    """Five epochs of six batches: thirty steps, without coins that each process throws itself."""
    first, second = together(tmp_path, 2, **SURE)
    graph = groups()
    split = random_split(graph, 0.05, 0.1, 0)
    alone = fit(graph, split, RunConfig.of("cgcl", TOLD | SURE), Resources("cpu", threads=1))
    steps = -(-split.train.shape[1] // TOLD["batch"]) * TOLD["epochs"]
    assert steps >= 20
    for name, own in alone.learner.state_dict().items():
        for found in (first, second):
            torch.testing.assert_close(torch.tensor(found[0][name]), own, rtol=1e-5, atol=1e-5)
    losses = [loss for line in alone.history for loss in line["losses"]]
    for found in (first, second):
        theirs = [loss for line in found[1] for loss in line["losses"]]
        assert theirs == pytest.approx(losses, rel=1e-5)
        assert found[2] == alone.val
    assert first[3] == pytest.approx(alone.test, rel=1e-4)
    assert second[3] is None  # the first one tells


@pytest.mark.parametrize("count", [1, 2, 3, 50])
def test_ranks_ask_for_each_link_of_a_batch_once(count: int) -> None:
    graph = groups()
    known, batch = TrainingGraph(graph.num_nodes, graph.edges, graph.x), 40
    with seeded(0, "weights"):
        learner = CrossViewLearner(
            graph.num_features, CGCLSettings(hidden=8, batch=batch, **SURE)
        ).train()
    epochs = [Epoch(2, 0, Ranks(rank, count)) for rank in range(count)]
    losses = [torch.stack(list(learner.steps(known, own))).detach() for own in epochs]
    whole = torch.stack(list(learner.steps(known, Epoch(2, 0)))).detach()
    torch.testing.assert_close(torch.stack(losses).mean(dim=0), whole)
    m = known.links.shape[1]
    order = permuted(torch.arange(m), m, epoch_key(base_key(0, BATCHES), 2))
    dealt = [part for slots in torch.arange(m).split(batch) for part in slots.tensor_split(count)]
    assert sorted(encode(*known.links[:, order[torch.cat(dealt)]], graph.num_nodes).tolist()) == (
        sorted(encode(*known.links, graph.num_nodes).tolist())
    )


@pytest.mark.parametrize("told", [{"batch": 0}, {"method": "cgcl-rank"}])
def test_only_what_can_be_dealt_out_is_trained_by_several(told, monkeypatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    name = told.get("method", "cgcl")
    recipe = RunConfig.of(name, {key: own for key, own in told.items() if key != "method"})
    graph = groups()
    with pytest.raises(ConfigError, match="2 processes were started, and they can deal out"):
        fit(graph, random_split(graph, 0.05, 0.1, 0), recipe, Resources("cpu"))


def test_others_that_never_come_are_waited_for_and_then_told(monkeypatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", timedelta(seconds=1))
    told = {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.0.1"}
    for name, value in (told | {"MASTER_PORT": str(free_port())}).items():
        monkeypatch.setenv(name, value)
    recipe, graph = RunConfig.of("cgcl", TOLD), groups()
    with pytest.raises(ResourceError, match="Another process does not answer"):
        fit(graph, random_split(graph, 0.05, 0.1, 0), recipe, Resources("cpu"))
    assert module.present_ranks() == Ranks()


def test_each_process_has_the_card_of_its_own_number(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert resolve_device(Resources("cuda")) == torch.device("cuda", 1)
    assert resolve_device(Resources("auto")) == torch.device("cuda", 1)
    assert resolve_device(Resources("cuda:0")) == torch.device("cuda", 0)
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(ResourceError, match=r"Only 2 CUDA device\(s\) found; you asked for cuda:2"):
        resolve_device(Resources("cuda"))


def test_alone_nothing_is_asked_of_anyone() -> None:
    assert module.present_ranks() == Ranks()
    assert module.from_first(lambda: 3) == 3
    assert module.any_rank(True)
    assert not module.any_rank(False)
    values = torch.tensor([1.0])
    assert module.mean_over_ranks(values) is values


def test_torchrun_trains_and_goes_on_after_a_rank_was_killed(tmp_path: Path) -> None:
    """The second process is killed once it has learned; torchrun starts both again."""
    links = tmp_path / "links.csv"
    graph = groups()
    rows = [f"{graph.names[a]},{graph.names[b]}" for a, b in graph.edges.T.tolist()]
    links.write_text("source,target\n" + "\n".join(rows))
    features = tmp_path / "features.csv"
    columns = ",".join(f"x{number}" for number in range(graph.num_features))
    lines = [
        ",".join([name, *(f"{value:.5f}" for value in row)])
        for name, row in zip(graph.names, graph.x.to_dense().tolist(), strict=True)
    ]
    features.write_text("\n".join([f"node,{columns}", *lines]))
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts", "1"]
    words += ["--nproc-per-node", "2", "-m", "cgcl", "train", str(links), "--features"]
    words += [str(features), "--method", "cgcl", "--batch", "40", "--hidden", "8", "--epochs"]
    words += ["80", "--evaluate-every", "40", "--checkpoint-every", "0", "--threads", "1"]
    words += ["--no-compare", "--out", str(tmp_path / "runs")]
    env = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    run = subprocess.Popen(
        words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    folder = tmp_path / "runs" / "links-1"
    wait_for(lambda: records(folder) >= 5, run)
    follower = next(pid for pid in children(run.pid) if environment(pid).get("RANK") == "1")
    os.kill(follower, signal.SIGKILL)
    out, err = run.communicate(timeout=200)
    assert run.returncode == 0, err
    assert out.strip().splitlines()[-1].endswith("runs/links-1")
    told = json.loads((folder / "run.json").read_text())
    assert told["status"] == "finished"
    assert told["epochs"] == 80
    assert {own.name for own in (tmp_path / "runs").iterdir()} == {"links-1"}
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    epochs = [json.loads(line)["epoch"] for line in lines]
    assert epochs == list(range(1, 81))
    assert told["test"]["auc"] > 0.8


def wait_for(is_there, process: subprocess.Popen) -> None:
    """Look until something is there, as long as a process lives."""
    while not is_there():
        with suppress(subprocess.TimeoutExpired):
            pytest.fail(str(process.communicate(timeout=0.02)))


def records(folder: Path) -> int:
    file = folder / "metrics.jsonl"
    return file.read_text().count("\n") if file.exists() else 0


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(own) for own in text.split()]


def environment(pid: int) -> dict[str, str]:
    parts = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(part.split("=", 1) for part in parts if "=" in part)
