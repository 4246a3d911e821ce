"""`out=` as on the host: it takes the result's sizes, and is refused where it does not fit."""

import warnings
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


def test_some_operators_write_to_the_type_of_the_result_alone() -> None:
    x = torch.ones(2, 2, device="npu")
    wide = torch.zeros(2, 2, dtype=torch.float64, device="npu")
    at = torch.zeros(2, 2, dtype=torch.int64, device="npu")
    for write in (torch.mm, lambda x, _, out: torch.gather(x, 0, at, out=out)):
        with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
            write(x, x, out=wide)
    assert wide.tolist() == [[0, 0], [0, 0]]
    assert torch.sum(x, 0, out=wide[0]).tolist() == [2, 2]


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


def test_operators_that_no_form_without_elements_tells_of() -> None:
    x = torch.ones(2, 2, device="npu")
    with pytest.raises(RuntimeError, match="scalar type Long"):
        torch.nonzero(x, out=torch.empty(4, 2, device="npu"))
    for write in (torch.triu, torch.neg, torch.round):
        with pytest.raises(RuntimeError, match="scalar type Float but got scalar type Double"):
            write(x, out=torch.empty(2, 2, dtype=torch.float64, device="npu"))


COMPLEX: dict[str, Callable[[Any], Any]] = {
    "fill_": lambda x: x.fill_(1j),
    "masked_fill_": lambda x: x.masked_fill_(x > 0, 1j),
    "index_fill_": lambda x: x.index_fill_(0, torch.tensor([0], device=x.device), 1j),
    "add_": lambda x: x.add_(1j),
    "add_ of a tensor": lambda x: x.add_(x * 1j),
    "full": lambda x: torch.full((2,), 1j, dtype=torch.float32, device=x.device),
    "scatter_": lambda x: x.scatter_(0, torch.zeros(2, 2, dtype=torch.int64, device="npu"), 1j),
    "constant_pad_nd": lambda x: torch.constant_pad_nd(x, [1, 1], 1j),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_a_number_with_two_parts_is_refused(name: str) -> None:
    x = torch.ones(2, 2, device="npu")
    with pytest.raises(RuntimeError, match="cannot be converted|not supported|can't be cast"):
        COMPLEX[name](x)
    assert x.tolist() == [[1, 1], [1, 1]]


def test_numbers_beyond_a_type_are_refused() -> None:
    for dtype, number in ((torch.uint8, 300), (torch.float16, 1e6), (torch.int32, float("nan"))):
        x = torch.ones(2, dtype=dtype, device="npu")
        with pytest.raises(RuntimeError, match="without overflow"):
            x.fill_(number)
    assert torch.ones(2, dtype=torch.uint8, device="npu").fill_(-1).tolist() == [255, 255]
    assert torch.full((1,), float("inf"), dtype=torch.float16, device="npu").isinf().all()


def test_a_view_of_other_sizes_is_refused_before_it_is_written() -> None:
    x, base = torch.ones(4, 4, device="npu"), torch.zeros(4, 5, 4, device="npu")
    for view in (base[:, :3], base[:0, 0]):
        shape = view.shape
        with pytest.raises(RuntimeError, match="out= has sizes"):
            torch.add(x, x, out=view)
        assert view.shape == shape
        assert not view.any()
    torch.add(x, x, out=base[:, 3])
    assert base.sum().item() == 32


def test_new_sizes_of_what_has_elements_are_warned_of() -> None:
    x = torch.ones(4, 4, device="npu")
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        assert torch.add(x, x, out=torch.ones(3, device="npu")).shape == (4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.add(x, x, out=torch.empty(0, device="npu"))
        torch.add(x, x, out=torch.empty(4, 4, device="npu"))
