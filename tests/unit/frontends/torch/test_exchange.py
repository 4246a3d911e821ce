"""Views of parameters are made once, follow where the parameter lies, and end with it."""

import gc
import weakref

import pytest

torch = pytest.importorskip("torch")

from xladev.frontends.torch.exchange import taker
from xladev.frontends.torch.layouts import Place
from xladev.hlo.dtype import F32
from xladev.hlo.shape import array


def place(*dims: int, order: tuple[int, ...] | None = None) -> Place:
    return Place(array(F32, dims), order or tuple(range(len(dims))))


def test_the_view_of_a_parameter_is_made_once() -> None:
    take = taker(place(4))
    parameter = torch.nn.Parameter(torch.arange(4.0))
    first = take(parameter)
    assert take(parameter) is first
    with torch.no_grad():
        parameter.add_(1)
    assert take(parameter).tolist() == [1, 2, 3, 4]


def test_a_parameter_that_lies_elsewhere_has_another_view() -> None:
    take = taker(place(4))
    parameter = torch.nn.Parameter(torch.arange(4.0))
    take(parameter)
    parameter.data = torch.ones(4)
    assert take(parameter).tolist() == [1, 1, 1, 1]
    other = torch.nn.Parameter(torch.zeros(4))
    assert take(other).tolist() == [0, 0, 0, 0]
    assert take(parameter).tolist() == [1, 1, 1, 1]


def test_a_copy_is_never_kept() -> None:
    """A parameter that does not lie as the program wants it is copied in each call."""
    take = taker(place(4))
    parameter = torch.nn.Parameter(torch.arange(8.0)[::2])
    assert not parameter.is_contiguous()
    take(parameter)
    with torch.no_grad():
        parameter.zero_()
    assert take(parameter).tolist() == [0, 0, 0, 0]


def test_other_tensors_are_looked_at_in_each_call() -> None:
    take = taker(place(4))
    tensor = torch.arange(4.0)
    assert take(tensor) is not take(tensor)


def test_memory_of_a_parameter_that_is_gone_is_given_back() -> None:
    take = taker(place(4))
    parameter = torch.nn.Parameter(torch.arange(4.0))
    view = weakref.ref(take(parameter))
    assert view() is not None
    del parameter
    gc.collect()
    assert view() is None
