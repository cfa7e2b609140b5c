import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Keep small computations from waiting for each other's threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def nothing_from_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Surroundings that were kept by an earlier run would hide how they are cut out."""
    monkeypatch.setenv("CGCL_CACHE", "off")
