"""Places of slices and selects: constants of a first program, parameters of the next ones."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn

import xladev
import xladev.torch
from xladev.frontends.torch.device import program

STEPS = 20


@pytest.fixture
def d(npu: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The device, which has no program yet."""
    monkeypatch.setattr(program, "_programs", {})
    return npu


def read_rows(d: str) -> Callable[[int], Any]:
    data = torch.arange(200.0).reshape(50, 4).to(d)
    return lambda i: data[2 * i : 2 * i + 3].sum(1)


def read_columns(d: str) -> Callable[[int], Any]:
    data = torch.arange(200.0).reshape(4, 50).to(d)
    return lambda i: data[1:, 2 * i : 2 * i + 3] * 2


def read_block(d: str) -> Callable[[int], Any]:
    data = torch.arange(900.0).reshape(30, 30).to(d)
    return lambda i: data[i : i + 4, -5 - i : -1 - i].contiguous()


def read_narrow(d: str) -> Callable[[int], Any]:
    data = torch.arange(150).reshape(5, 30).t().to(d)
    return lambda i: data.narrow(0, i, 7) + data.narrow_copy(0, i + 1, 7)


def select_row(d: str) -> Callable[[int], Any]:
    data = torch.arange(200.0).reshape(50, 4).to(d)
    return lambda i: data[i] + data[-1 - i] + torch.select(data, 0, i + 1)


def select_element(d: str) -> Callable[[int], Any]:
    data = torch.arange(900.0).reshape(30, 30).to(d)
    return lambda i: data[i, 29 - i]


def select_of_slice(d: str) -> Callable[[int], Any]:
    data = torch.arange(1800.0).reshape(30, 30, 2).to(d)
    return lambda i: data[i : i + 3].transpose(0, 1)[i]


def write_rows(d: str) -> Callable[[int], Any]:
    data, new = torch.zeros(50, 4).to(d), torch.arange(8.0).reshape(2, 4).to(d)

    def step(i: int) -> Any:
        data[2 * i : 2 * i + 2] = new + float(i)
        return data

    return step


def write_row(d: str) -> Callable[[int], Any]:
    data = torch.zeros(4, 30).to(d)

    def step(i: int) -> Any:
        data[:, i] = data[:, i - 1] + 1
        return data

    return step


def write_element(d: str) -> Callable[[int], Any]:
    data = torch.zeros(30, 30, dtype=torch.int64).to(d)

    def step(i: int) -> Any:
        data[i, 29 - i] = 7
        return data

    return step


def add_in_place(d: str) -> Callable[[int], Any]:
    data = torch.zeros(30, 30).to(d)

    def step(i: int) -> Any:
        block = data[i : i + 4, i + 2 : i + 5]
        block.add_(1).mul_(1.5)
        return block.sum() + data

    return step


def gradient_of_slice(d: str) -> Callable[[int], Any]:
    weight = torch.arange(120.0).reshape(30, 4).to(d).requires_grad_()

    def step(i: int) -> Any:
        weight.grad = None
        (weight[i : i + 5] ** 2).sum().backward()
        return weight.grad

    return step


def gradient_of_select(d: str) -> Callable[[int], Any]:
    weight = torch.arange(120.0).reshape(4, 30).to(d).requires_grad_()

    def step(i: int) -> Any:
        weight.grad = None
        (weight[:, i] ** 2).sum().backward()
        return weight.grad

    return step


def gradient_of_write(d: str) -> Callable[[int], Any]:
    weight = torch.arange(4.0).to(d).requires_grad_()

    def step(i: int) -> Any:
        weight.grad = None
        data = torch.ones(30, 4).to(d)
        data[i + 1] = weight * 2
        data[i : i + 3] *= weight
        (data**2).sum().backward()
        return weight.grad

    return step


def train(d: str) -> Callable[[int], Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 9)).to(d)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    words = torch.randint(0, 9, (100, 2)).to(d)

    def step(i: int) -> Any:
        optimizer.zero_grad()
        inputs, wanted = words[4 * i : 4 * i + 4], words[4 * i + 1 : 4 * i + 5].reshape(-1)
        loss = nn.functional.cross_entropy(model(inputs).reshape(-1, 9), wanted)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


LOOPS = [
    read_rows, read_columns, read_block, read_narrow, select_row, select_element, select_of_slice,
    write_rows, write_row, write_element, add_in_place, gradient_of_slice, gradient_of_select,
    gradient_of_write, train,
]  # fmt: skip


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_nothing_is_compiled_after_the_third_step(loop: Any, d: str) -> None:
    there, here = loop(d), loop("cpu")
    compiled = []
    for i in range(STEPS):
        if loop is select_of_slice:
            i %= 3
        found, wanted = there(i), here(i)
        assert found.stride() == wanted.stride()
        assert found.storage_offset() == wanted.storage_offset()
        torch.testing.assert_close(found.cpu(), wanted)
        compiled.append(xladev.torch.report().compiled)
    assert compiled[2] == compiled[-1], compiled
    assert compiled[-1] <= 3, compiled
    assert not xladev.torch.report().host


def test_a_place_that_stays_is_a_constant(d: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program's first run, and places that are the same in each, have no parameter."""
    seen: list[str] = []
    compiled = xladev.client.compile

    def look(module: Any, *rest: Any) -> Any:
        seen.append(xladev.print_module(module))
        return compiled(module, *rest)

    monkeypatch.setattr("xladev.client.compile", look)
    data = torch.arange(90.0).reshape(15, 6).to(d)
    for i in (4, 5, 7):
        q, k, v = data[i : i + 3].split(2, 1)
        assert (q * k - v).tolist() == [
            [36 * r**2 + 6 * r * (2 + 2 * c - 1) + c * (2 + c) - 4 - c for c in (0, 1)]
            for r in range(i, i + 3)
        ]
        head = data[2:5, 1]
        assert head.tolist() == [13, 19, 25]
    first, of_head, second = seen
    assert "dynamic-slice" not in first + of_head
    assert second.count("dynamic-slice(") == 1
    assert "s64[1]" in second


def test_a_place_is_opened_when_it_first_differs(d: str) -> None:
    """Two loops, one within the other: one program for each place that has moved."""
    data = torch.arange(36.0).reshape(6, 6).to(d)
    counts = []
    for i in range(4):
        for j in range(4):
            assert (data[i] + data[j : j + 1, 0]).tolist() == [6 * i + k + 6 * j for k in range(6)]
            counts.append(xladev.torch.report().compiled)
    assert counts[0] == 1 and counts[1] == counts[3] == 2 and counts[4] == counts[-1] == 3


def test_a_length_is_a_program_of_its_own(d: str) -> None:
    data = torch.arange(20).to(d)
    for start in (0, 8, 16):
        assert data[start : start + 8].tolist() == list(range(start, min(start + 8, 20)))
    assert xladev.torch.report().compiled == 3


def test_each_operator_alone_has_two_programs(d: str) -> None:
    xladev.torch.set_eager(True)
    try:
        data = torch.arange(40.0).reshape(10, 4).to(d)
        for i in range(8):
            assert data[i : i + 2].tolist() == [[4.0 * r + c for c in range(4)] for r in (i, i + 1)]
        assert xladev.torch.report().compiled == 2
    finally:
        xladev.torch.set_eager(False)


@pytest.mark.parametrize("index", [5, -6])
def test_an_index_out_of_range_is_refused_as_on_the_host(index: int, d: str) -> None:
    for device in ("cpu", d):
        with pytest.raises(IndexError):
            torch.zeros(5, 2).to(device)[index]
