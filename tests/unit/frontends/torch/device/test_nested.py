"""Nested tensors are refused where they would be made, for torch reads memory of theirs."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.usefixtures("npu"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning"),
]


def parts(device: str = "npu") -> list[Any]:
    return [torch.rand(2, 3, device=device), torch.rand(4, 3, device=device)]


MADE: dict[str, Callable[[], Any]] = {
    "of numbers": lambda: torch.nested.nested_tensor([[1.0, 2.0], [3.0]], device="npu"),
    "of tensors": lambda: torch.nested.nested_tensor(parts()),
    "as": lambda: torch.nested.as_nested_tensor(parts()),
    "with a gradient": lambda: torch.nested.nested_tensor(parts(), requires_grad=True),
    "of the host's parts": lambda: torch.nested.as_nested_tensor(parts("cpu"), device="npu"),
    "the host's": lambda: torch.nested.nested_tensor(parts("cpu")).to("npu"),
    "jagged": lambda: torch.nested.nested_tensor(parts(), layout=torch.jagged),
    "jagged, of values": lambda: torch.nested.nested_tensor_from_jagged(
        torch.rand(6, 3, device="npu"), torch.tensor([0, 2, 6], device="npu")
    ),
    "of a mask": lambda: torch._nested_tensor_from_mask(
        torch.rand(2, 3, 4, device="npu"), torch.ones(2, 3, device="npu", dtype=torch.bool)
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_a_nested_tensor(name: str) -> None:
    with pytest.raises(NotImplementedError, match="no nested tensors") as caught:
        MADE[name]()
    assert all(f"\n  {part}: " in str(caught.value) for part in ("where", "why", "next"))


def test_those_of_the_host_are_as_before() -> None:
    for layout in (torch.strided, torch.jagged):
        found = torch.nested.nested_tensor(parts("cpu"), layout=layout)
        assert [tuple(each.shape) for each in found.unbind()] == [(2, 3), (4, 3)]
