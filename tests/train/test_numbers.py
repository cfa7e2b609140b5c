"""What a version of a method's numbers stands for: small runs on a CPU, written down beside it."""

import pytest
import torch

from cgcl.methods.settings import TrainedSettings
from cgcl.methods.table import METHODS, method_named
from cgcl.split import random_split
from cgcl.testing.graphs import planted_partition
from cgcl.train.config import Resources, RunConfig
from cgcl.train.fit import fit

Numbers = tuple[int, list[float], list[float]]
# By method: the version, the last loss of each epoch, and mean and deviation of the test logits.
NUMBERS: dict[str, Numbers] = {
    "cgcl": (1, [1.36672, 1.347, 1.29233], [0.0748228, 0.265969]),
    "cgcl-rank": (1, [6.61107, 6.16211, 6.11326], [-1.07631, 1.84159]),
    "graphsage": (1, [1.47158, 1.73905, 0.728743], [-1.39503, 2.02226]),
    "vgae": (1, [4.47846, 3.6486, 3.25417], [0.209998, 0.147483]),
    "seal": (1, [0.688543, 0.65758, 0.556631], [-0.140178, 0.893734]),
    "s3grl": (2, [0.60442, 0.47557, 0.436609], [-0.165736, 0.106078]),
    "s2gae": (1, [1.38702, 1.37628, 1.34511], [0.0173823, 0.0171302]),
    "maskgae": (1, [1.575, 1.53562, 1.56526], [0.0138803, 0.025448]),
    "ncn": (2, [1.53986, 1.56125, 1.28944], [0.162558, 0.490415]),
    "gcn": (1, [1.35266, 1.34766, 1.15564], [0.0872107, 0.311345]),
    "mlp": (1, [1.3896, 1.38529, 1.38519], [0.0619865, 0.0258051]),
    "common-neighbours": (1, [], [-5.46138, 7.39268]),
    "adamic-adar": (1, [], [-5.96182, 6.95187]),
    "resource-allocation": (1, [], [-9.84873, 9.61811]),
    "preferential-attachment": (1, [], [-2.55718, 0.369594]),
    "katz": (1, [], [-12.421, 3.52954]),
    "pagerank": (1, [], [-4.39581, 1.10166]),
    "three-step-paths": (1, [], [0.269652, 5.52501]),
    "item-cosine": (1, [], [-2.05869, 7.24504]),
}
# What another processor or number of threads makes of the same steps differs by less.
LOSSES, TRAINED, COUNTED = 1e-5, 1e-2, 1e-6


def numbers(name: str) -> Numbers:
    """Return what a short run with a method's own settings gives, to six digits."""
    graph = planted_partition()
    split = random_split(graph, 0.05, 0.1, seed=0)
    method = method_named(name)
    short = {"epochs": 3} if issubclass(method.settings, TrainedSettings) else {}
    recipe, resources = RunConfig.for_graph(name, short, graph), Resources("cpu", threads=1)
    found = fit(graph, split, recipe, resources, measure_test=False, top_of_list=False)
    pairs = torch.cat([split.test, split.test_negatives], dim=1)
    logits = found.scorer(split.train).logits(pairs).double()
    losses = [epoch["losses"][-1] for epoch in found.history]
    own = (losses, [float(logits.mean()), float(logits.std())])
    return (method.version, *([float(f"{value:.6g}") for value in values] for values in own))


@pytest.mark.parametrize("name", METHODS)
def test_numbers_change_with_their_version_alone(name: str, monkeypatch) -> None:
    """Splits, draws, losses, steps and scores; a GPU is held to them by tests of its engines."""
    monkeypatch.setenv("CGCL_CACHE", "off")
    version, losses, logits = NUMBERS[name]
    now = numbers(name)
    rounding = TRAINED if losses else COUNTED
    is_same = now[1] == pytest.approx(losses, rel=LOSSES)
    is_same &= now[2] == pytest.approx(logits, rel=rounding, abs=rounding / 10)
    if not is_same or now[0] != version:
        pytest.fail(
            f"version {version} of {name} has other numbers. If that is meant, raise `version` of "
            f"its Method, put the line below here, run `make tables`, and see in docs/measured.md "
            f'which results are older now:\n    "{name}": {now},'
        )
