"""Small graphs that many tests share."""

import os
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest
import torch

from cgcl.graph import Graph
from cgcl.readers import load_dataset

# Without a GPU, kernels run through Triton's interpreter. It is asked for when they are imported.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"


# What people start has buffers; a signal may come while one is written.
os.environ.pop("PYTHONUNBUFFERED", None)

# Files whose tests have nothing in common and take long: each may run in another process.
APART = ("test_contract.py", "test_readme.py", "test_kernels_compile.py")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file in one process, where they share what they train."""
    for item in items:
        file, _, test = item.nodeid.partition("::")
        # The cases of one method stay together.
        own = test.partition("-")[0] if file.endswith(APART) else ""
        item.add_marker(pytest.mark.xdist_group(f"{file}{own}"))


def clique(nodes: range) -> list[tuple[int, int]]:
    return list(combinations(nodes, 2))


def make_graph(
    num_nodes: int, pairs: list[tuple[int, int]], x: torch.Tensor | None = None
) -> Graph:
    edges = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
    return Graph.from_pairs("toy", [f"n{i:03d}" for i in range(num_nodes)], edges, x)


@pytest.fixture
def two_cliques() -> Graph:
    """Two cliques of ten nodes with one bridge: obvious structure, 91 links."""
    pairs = [*clique(range(10)), *clique(range(10, 20)), (0, 10)]
    return make_graph(20, pairs, torch.eye(20))


@pytest.fixture
def sbm() -> Callable[[int], Graph]:
    """A planted partition: four groups, dense within, sparse between, features tell the group."""

    def build(seed: int) -> Graph:
        generator = torch.Generator().manual_seed(seed)
        group = torch.arange(120) % 4
        chance = torch.where(group[:, None] == group[None, :], 0.4, 0.01)
        links = (torch.rand(120, 120, generator=generator) < chance).triu(1).nonzero().T
        x = torch.nn.functional.one_hot(group, 4).float()
        x = x + 0.5 * torch.rand(120, 4, generator=generator)
        return Graph.from_pairs("sbm", [f"n{i:03d}" for i in range(120)], links, x)

    return build


@pytest.fixture(scope="session")
def cora() -> Graph:
    return load_dataset("cora")


@pytest.fixture(scope="session")
def project() -> Path:
    """The root of the source tree."""
    return Path(__file__).parents[1]
