"""Bag-of-words features stay sparse from the file to the last score."""

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cgcl.predict import LinkPredictor
from cgcl.readers import load_dataset


class LargestDense(TorchDispatchMode):
    """Notes the shape of every dense tensor that any operation gives back."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: set[tuple[int, ...]] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None) -> Any:
        out = func(*args, **(kwargs or {}))
        for value in out if isinstance(out, tuple | list) else [out]:
            if isinstance(value, torch.Tensor) and value.layout == torch.strided:
                self.shapes.add(tuple(value.shape))
        return out


@pytest.mark.parametrize(
    ("method", "most"), [("cgcl", 2708 * 1433 / 2), ("cgcl-rank", 1024 * 2708)]
)
def test_no_dense_copy_of_the_features_is_ever_made(
    tmp_path, monkeypatch, method: str, most: float
) -> None:
    """Nor anything of that size; of CGCL-rank the scores of a step are the largest."""
    # In a graph as small as this the scores of all pairs are kept, which are more.
    monkeypatch.setattr("cgcl.train.top_of_list._TABLE", 0)
    with LargestDense() as seen:
        graph = load_dataset("cora")
        predictor = LinkPredictor(method, hidden=8, epochs=3, track_consistency=True).fit(graph)
        predictor.save(tmp_path)
        LinkPredictor.load(tmp_path).links_of("35", 3)
    assert (2708, 8) in seen.shapes  # embeddings were seen, so the net works
    assert not {shape for shape in seen.shapes if shape in ((2708, 1433), (1433, 2708))}
    assert max(torch.Size(shape).numel() for shape in seen.shapes) <= most
