"""`out=` as on the host: it takes the result's sizes, and is refused where it does not fit."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("npu")

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, out: torch.add(x, x, out=out),
    "diag": lambda x, out: torch.diag(x, out=out),
    "mm": lambda x, out: torch.mm(x, x, out=out),
    "cat": lambda x, out: torch.cat([x, x], out=out),
    "sum": lambda x, out: torch.sum(x, 0, out=out),
    "view_copy": lambda x, out: torch.view_copy(x, (16,), out=out),
    "ones": lambda x, out: torch.ones(2, 3, out=out),
    "arange": lambda x, out: torch.arange(5, out=out),
    "linspace": lambda x, out: torch.linspace(0, 1, 5, out=out),
    "eye": lambda x, out: torch.eye(3, out=out),
    "full": lambda x, out: torch.full((2,), 7.0, out=out),
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("made", ["empty", "tensor"])
def test_out_takes_the_sizes_of_the_result(name: str, made: str) -> None:
    host = torch.arange(16.0).reshape(4, 4)

    def out(device: str) -> Any:
        return torch.empty(0, device=device) if made == "empty" else torch.tensor((), device=device)

    expected, found = out("cpu"), out("npu")
    OPERATORS[name](host, expected)
    OPERATORS[name](host.to("npu"), found)
    assert found.shape == expected.shape
    assert found.stride() == expected.stride()
    assert torch.equal(found.cpu(), expected)


def test_random_numbers_are_written_to_out() -> None:
    out = torch.zeros(3, 3, device="npu")
    torch.rand(3, 3, out=out)
    assert ((out > 0) & (out < 1)).all()


def test_a_type_that_does_not_hold_the_result_is_refused() -> None:
    x = torch.full((2, 2), 0.5, device="npu")
    whole = torch.ones(2, 2, dtype=torch.int64, device="npu")
    with pytest.raises(RuntimeError, match="result type Float can't be cast .* type Long"):
        torch.add(x, x, out=whole)
    assert whole.tolist() == [[1, 1], [1, 1]]
    wide = torch.empty(2, 2, dtype=torch.float64, device="npu")
    assert torch.add(x, x, out=wide) is wide
    assert wide.tolist() == [[1, 1], [1, 1]]


def test_another_device_is_refused() -> None:
    host, x = torch.ones(2), torch.ones(2, device="npu")
    for operand, out in ((x, host), (host, x)):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            torch.add(operand, operand, out=out)
    assert torch.add(x, torch.tensor(2.0), out=torch.empty(2, device="npu")).tolist() == [3, 3]


def test_nothing_is_written_to_a_tensor_without_elements() -> None:
    empty = torch.empty(3, 0, 2, dtype=torch.complex64, device="npu")
    assert empty.stride() == (2, 2, 1)
    torch.view_as_real(empty).uniform_(0, 1)
    torch.empty(1, 0, device="npu").expand(3, 0).add_(1)
