"""Writes to views of expanded tensors and of windows: the base holds what the host's holds."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.usefixtures("npu"),
    pytest.mark.filterwarnings("ignore:Use of:UserWarning"),
]

WRITES: dict[str, Callable[[Any], Any]] = {
    "fill an expanded one": lambda x: x.expand(2, 2, 3).fill_(7),
    "zero a view of it": lambda x: x.expand(2, 2, 3)[:, 1].t().zero_(),
    "fill a row of it": lambda x: x.expand(4, 2, 3)[1].fill_(7),
    "add to a row of it": lambda x: x.expand(4, 2, 3)[3].add_(1),
    "subtract from a row of it": lambda x: x.expand(2, 2, 3)[1].sub_(x.clone()),
    "copy to a row of its detached form": lambda x: x.expand(2, 2, 3).detach()[0].copy_(x + 1),
    "mask": lambda x: x.expand(2, 2, 3).masked_fill_(x > 1, 0),
    "index": lambda x: x.expand(2, 2, 3).__setitem__(torch.tensor([0], device=x.device), 5.0),
    "a base without dimensions": lambda x: x[0, 1].expand(3).fill_(8),
    "dimensions of size 1": lambda x: x[:, :1].expand(2, 3).zero_(),
    "windows with gaps": lambda x: x.unfold(1, 1, 2).mul_(5),
    "one of several windows": lambda x: x.unfold(1, 2, 1)[:, 1].mul_(5),
    "windows of windows": lambda x: x.unfold(1, 1, 2).unfold(0, 1, 1)[1].add_(1),
    "windows written alike": lambda x: x.unfold(1, 2, 1).fill_(3),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("values", [(1.0, 2.0, 3.0), (1e8, float("inf"), float("nan"))])
def test_a_write(name: str, values: tuple[float, ...]) -> None:
    host = torch.tensor([values, values])
    there = host.to("npu")
    whole = there.view(-1)
    for each in (host, there):
        WRITES[name](each)
    torch.testing.assert_close(there.cpu(), host, equal_nan=True, rtol=0, atol=0)
    torch.testing.assert_close(whole.cpu(), host.view(-1), equal_nan=True, rtol=0, atol=0)


def test_the_gradient_of_a_write_to_a_row() -> None:
    found = []
    for device in ("cpu", "npu"):
        leaf = torch.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
        base = leaf * 2
        base.expand(2, 3)[1].mul_(3)
        base.sum().backward()
        found.append((base.tolist(), leaf.grad.tolist()))
    assert found[0] == found[1]


def test_sums_outside_writes_stay_sums() -> None:
    base = torch.tensor([1.0, 2.0], device="npu")
    made = torch.tensor([[2.0, 2.0], [5.0, 2.0]], device="npu")
    assert (base + (made - base).sum([0], keepdim=True)).tolist() == [[6, 2]]
    with torch.no_grad():
        made.sub_(base)
    assert (base + made.sum([0], keepdim=True)).tolist() == [[6, 2]]
