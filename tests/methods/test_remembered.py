import gc

import torch

from cgcl.methods.method import Known
from cgcl.methods.remembered import Remembered


def test_what_belongs_to_a_graph_goes_with_it() -> None:
    known, other = (Known(2, torch.tensor([[0], [1]])) for _ in range(2))
    remembered: Remembered[str] = Remembered()
    remembered[known], remembered[other] = "one", "other"
    assert (remembered[known], remembered[other]) == ("one", "other")
    del other
    gc.collect()
    assert [*remembered.values()] == ["one"]


def test_a_copy_for_another_process_is_empty() -> None:
    known = Known(2, torch.tensor([[0], [1]]))
    remembered: Remembered[str] = Remembered()
    remembered[known] = "one"
    make, arguments = remembered.__reduce__()
    copy = make(*arguments)
    assert isinstance(copy, Remembered)
    assert len(copy) == 0
