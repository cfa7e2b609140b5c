"""A run as the trainer records it, with plausible numbers."""

import copy
import math

import numpy as np
import pytest

RUN = {
    "format": 1,
    "status": "finished",
    "command": "cgcl train cora --epochs 200 --seed 0",
    "folder": "runs/cora-1",
    "graph": {
        "title": "cora",
        "nodes": 2708,
        "links": 5278,
        "features": 1433,
        "feature_nonzeros": 49216,
        "fingerprint": "9f2c41d07be8a6553190",
        "notes": ["151 repeated links merged.", "3 self-links dropped."],
    },
    "split": {"train": 4488, "val": 263, "test": 527},
    "config": {
        "preset": "quick",
        "hidden": 128,
        "views": "disjoint",
        "lr": 0.01,
        "weight_decay": 1e-05,
        "dropout": 0.8,
        "decoder_dropout": 0.2,
        "epochs": 200,
        "patience": None,
        "deterministic": True,
        "seed": 0,
    },
    "versions": {"cgcl": "0.1.0", "python": "3.12.8", "torch": "2.13.0", "numpy": "2.3.4"},
    "device": "cpu",
    "threads": 2,
    "parameters": 191937,
    "best_epoch": 120,
    "epochs": 200,
    "val": {"auc": 0.95712, "ap": 0.96233},
    "test": {
        "auc": 0.96804,
        "ap": 0.97019,
        "hits@10": 0.7135,
        "hits@50": 0.9127,
        "hits@100": 0.9564,
        "mrr": 0.3217,
    },
    "stopped": None,
    "started": "2025-11-15T09:00:00+00:00",
    "seconds": 42.7,
}


def make_history(epochs=200, views=2):
    noise = np.random.default_rng(0).normal(0, 1, (epochs + 1, 4))
    history = []
    for epoch in range(1, epochs + 1):
        left = math.exp(-epoch / 40)
        entry = {
            "epoch": epoch,
            "losses": [
                0.72 + 0.66 * left + 0.02 * noise[epoch, 0],
                0.74 + 0.64 * left + 0.02 * noise[epoch, 1],
            ][:views],
        }
        if epoch % 5 == 0:
            slump = 0.00012 * max(0, epoch - 120)
            entry["val"] = {
                "auc": 0.957 - 0.22 * left - slump + 0.002 * noise[epoch, 2],
                "ap": 0.962 - 0.20 * left - slump + 0.002 * noise[epoch, 3],
            }
            entry["consistency"] = {
                "views": -0.335,
                "reconstructions": -0.330 + 0.03 * left,
                "view_1": -0.300 - 0.02 * left,
                "view_2": -0.304 - 0.02 * left,
                "gap": 0.03,
            }
        history.append(entry)
    return history


@pytest.fixture
def run():
    return copy.deepcopy(RUN)


@pytest.fixture
def history():
    return make_history()


@pytest.fixture
def scores():
    generator = np.random.default_rng(0)
    return generator.beta(5, 1.3, 527), generator.beta(1.2, 4.5, 527)
