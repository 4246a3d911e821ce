"""Writes are refused where the host refuses them, and allowed where it allows them."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.usefixtures("npu"),
    pytest.mark.filterwarnings("ignore:Use of:UserWarning"),
]


def at(x: Any) -> Any:
    return torch.tensor([0, 1], device=x.device)


CASES: dict[str, Callable[[Any], Any]] = {
    "add_": lambda x: x.expand(4, 4).add_(1),
    "add_ of a tensor": lambda x: x.expand(4, 4).add_(x.clone()),
    "copy_": lambda x: x.expand(4, 4).copy_(x.clone()),
    "cumsum_": lambda x: x.expand(4, 4).cumsum_(0),
    "index_add_": lambda x: x.expand(4, 4).index_add_(0, at(x), x.expand(2, 4).clone()),
    "scatter_": lambda x: x.expand(4, 4).scatter_(0, at(x)[None], 1.0),
    "an operator with out": lambda x: torch.add(x.clone(), 1, out=x.expand(4, 4)),
    "a list": lambda x: torch._foreach_add_([x.expand(4, 4)], 1),
    "tril_": lambda x: x.expand(1, 4).tril_(),
    "fill_": lambda x: x.expand(4, 4).fill_(1),
    "a transposed one": lambda x: x.view(2, 2).t().add_(1),
    "a size of one": lambda x: x[:1].expand(1).add_(1),
    "a shifted copy": lambda x: x[1:].copy_(x[:-1]),
    "a shifted sum": lambda x: x[1:].add_(x[:-1]),
    "a shifted multiplication by rows": lambda x: x[1:].view(3, 1).mul_(x[:-1].view(3, 1)),
    "itself": lambda x: x.mul_(x),
    "a view of itself": lambda x: x.view(2, 2).mul_(x.view(2, 2)),
    "itself transposed": lambda x: x.view(2, 2).mul_(x.view(2, 2).t()),
    "what lies beside": lambda x: x[2:].add_(x[:2]),
    "what lies between": lambda x: x[::2].add_(x[1::2]),
    "its own index": lambda x: x[:2].index_add_(0, at(x), x[:2]),
    "an index of another": lambda x: x[:2].index_add_(0, at(x), x[2:]),
    "numbers": lambda x: x.add_(1).mul_(2.5).sub_(1, alpha=2).div_(2, rounding_mode="floor"),
    "whole numbers by a half": lambda x: x.to(torch.int32).mul_(1.5),
    "comparison": lambda x: x.gt_(1),
}


@pytest.mark.parametrize("name", CASES)
def test_a_write(name: str) -> None:
    outcomes: list[Any] = []
    for device in ("cpu", "npu"):
        x = torch.tensor([1.0, 2.0, 3.0, 4.0], device=device)
        try:
            CASES[name](x)
        except RuntimeError as error:
            text = str(error).removeprefix("[ARGUMENT] ").removeprefix("[HLO_SHAPE] ")
            outcomes.append((text[:60], x.tolist()))
        else:
            outcomes.append(("", x.tolist()))
    assert outcomes[0] == outcomes[1]


def test_numbers_stay_parameters_of_programs() -> None:
    from xladev import torch as door

    for factor in (1.5, 2.5, 3.5):
        x = torch.ones(3, device="npu", dtype=torch.bfloat16)
        x.mul_(factor)
        assert x.dtype is torch.bfloat16 and x.tolist() == [factor] * 3
    assert door.report().compiled <= 2


LAYOUTS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "an index of a permuted view": (lambda x: x.t(), lambda v: v.index_add_(0, at(v), v[:2] + 1)),
    "columns": (lambda x: x[:, :2], lambda v: v.add_(1)),
    "a row of columns": (lambda x: x[:, 1:], lambda v: v[0].zero_()),
    "a transposed operand": (lambda x: x.view(3, 2), lambda v: v.copy_(v.clone().t().t() + 1)),
    "a cumulative sum": (lambda x: x.t(), lambda v: v.cumsum_(0)),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_tensors_and_bases_lie_where_they_lay(name: str) -> None:
    view, write = LAYOUTS[name]
    found: list[Any] = []
    for device in ("cpu", "npu"):
        x = torch.arange(6.0, device=device).view(2, 3)
        seen = view(x)
        write(seen)
        told: list[Any] = [x.tolist(), seen.tolist()]
        for each in (x, seen):
            try:
                told.append(each.view(-1).tolist())
            except RuntimeError:
                told.append("refused")
            each.reshape(-1)[0] = 9
            told.append((each.tolist(), each.stride(), x.tolist()))
        found.append(told)
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["masked_fill_", "index_add_", "cumsum_"])
def test_a_view_lies_where_it_lay_before_it_is_read(name: str) -> None:
    for device in ("cpu", "npu"):
        x = torch.arange(6.0).view(2, 3).to(device)
        seen = x.t()
        if name == "masked_fill_":
            seen.masked_fill_(seen.detach() > 2, -1)
        elif name == "index_add_":
            seen.index_add_(0, at(x)[:1], torch.ones(1, 2, device=device))
        else:
            seen.cumsum_(0)
        assert seen.stride() == (1, 3)
        with pytest.raises(RuntimeError, match="view size is not compatible"):
            seen.view(-1)


def test_a_new_tensor_that_is_strided_lies_where_it_lay() -> None:
    found: list[Any] = []
    for device in ("cpu", "npu"):
        x = torch.arange(8.0, device=device).view(2, 2, 2).clone().transpose_(0, -1)
        x.index_add_(0, at(x)[:1], x[:1].clone())
        found.append((x.stride(), x.reshape(-1).tolist(), x.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("writes_lists", [False, True])
def test_values_between_writes_are_not_kept(writes_lists: bool) -> None:
    from xladev import torch as door

    x = torch.ones(1000, device="npu")
    door.step()
    before = torch.npu.memory_allocated()
    for _ in range(3):
        if writes_lists:
            torch._foreach_mul_([x], 2)
            torch._foreach_add_([x], 1)
        else:
            x.mul_(2).add_(1)
        door.step()
        assert torch.npu.memory_allocated() == before
    assert x.tolist() == [15.0] * 1000


BY_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "mul_": lambda x: x.mul_(2),
    "div_": lambda x: x.div_(2),
    "div_ rounded": lambda x: x.div_(2, rounding_mode="floor"),
    "mul_ of a bool": lambda x: x.mul_(True),
    "mul_ of bf16": lambda x: x.to(torch.bfloat16).mul_(1.5),
    "mul_ of one element of bf16": lambda x: x.sum().to(torch.bfloat16).mul_(1.5),
    "add_": lambda x: x.add_(2),
    "pow_": lambda x: x.pow_(2),
    "fmod_": lambda x: x.fmod_(2),
    "mul with out": lambda x: torch.mul(x, 2, out=x.detach().clone()),
}


@pytest.mark.parametrize("name", BY_NUMBERS)
def test_what_a_number_saves_is_freed_as_on_the_host(name: str) -> None:
    outcomes = []
    for device in ("cpu", "npu"):
        leaf = torch.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
        told = []
        try:
            y = BY_NUMBERS[name](leaf.clone())
            told.append((y.tolist(), y.dtype, y.grad_fn.name()))
            y.sum().backward()
            told.append(leaf.grad.tolist())
            y.sum().backward()
        except RuntimeError as error:
            told.append(str(error)[:50])
        outcomes.append(told)
    assert outcomes[0] == outcomes[1]
