"""The table of collectives: what it says is what communicators are told, and what they give."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from xladev.errors import ArgumentError
from xladev.hlo import dtype as dt
from xladev.hlo.shape import array
from xladev.runtime.collectives.collective_table import (
    COLLECTIVES,
    CollectiveCall,
    checked_result_shape,
    rank_results,
)
from xladev.runtime.collectives.one_call import OneCallCommunicator
from xladev.runtime.communicator import Communicator

SIZE = 2
SHAPE = array(dt.S32, (4, 2))
CALLS = {
    "all-reduce": CollectiveCall("all-reduce", SHAPE, reduction="add"),
    "all-gather": CollectiveCall("all-gather", SHAPE, (1,)),
    "reduce-scatter": CollectiveCall("reduce-scatter", SHAPE, (0,), reduction="maximum"),
    "all-to-all": CollectiveCall("all-to-all", SHAPE, (0, 1)),
    "collective-permute": CollectiveCall("collective-permute", SHAPE, pairs=((0, 1),)),
    "collective-broadcast": CollectiveCall("collective-broadcast", SHAPE, root=1),
    "collective-reduce": CollectiveCall("collective-reduce", SHAPE, root=1, reduction="add"),
}
RESULTS = {
    "all-reduce": (4, 2),
    "all-gather": (4, 4),
    "reduce-scatter": (2, 2),
    "all-to-all": (2, 4),
    "collective-permute": (4, 2),
    "collective-broadcast": (4, 2),
    "collective-reduce": (4, 2),
}


class Told(OneCallCommunicator):
    """Remembers what it is told."""

    def __init__(self):
        self.calls = []

    @property
    def size(self):
        return SIZE

    def run(self, who, operand, result, call):
        self.calls.append(call)

    def ragged_all_to_all(self, who, operand, result, shape, result_shape, slices):
        raise NotImplementedError


def test_every_call_is_tried():
    assert CALLS.keys() == RESULTS.keys() == COLLECTIVES.keys()


@pytest.mark.parametrize("opcode", COLLECTIVES)
def test_a_function_and_its_call_say_the_same(opcode):
    communicator, call = Told(), CALLS[opcode]
    function = getattr(communicator, COLLECTIVES[opcode].function)
    function(None, None, None, call.shape, *call.arguments)
    assert communicator.calls == [call]


def test_all_functions_of_the_contract_are_in_the_table():
    functions = {name for name in Communicator.__abstractmethods__ if name != "size"}
    told = {kind.function for kind in COLLECTIVES.values()}
    assert functions - told == {"ragged_all_to_all"}
    for kind in COLLECTIVES.values():
        ours = inspect.signature(getattr(OneCallCommunicator, kind.function))
        assert ours == inspect.signature(getattr(Communicator, kind.function))


@pytest.mark.parametrize("opcode", COLLECTIVES)
def test_results_have_the_shape_that_is_told(opcode):
    arrays = [np.arange(8, dtype=np.int32).reshape(4, 2) + rank for rank in range(SIZE)]
    wanted = checked_result_shape(CALLS[opcode], SIZE, "c")
    assert wanted.dims == RESULTS[opcode]
    for result in rank_results(CALLS[opcode], arrays):
        assert result is None or result.shape == wanted.dims


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (CollectiveCall("all-reduce", SHAPE, reduction="median"), "unknown reduction"),
        (CollectiveCall("reduce-scatter", array(dt.F32, (3,)), (0,), reduction="add"), "split"),
        (CollectiveCall("collective-reduce", SHAPE, root=2, reduction="add"), "rank 2"),
        (CollectiveCall("collective-permute", SHAPE, pairs=((0, 1), (0, 0))), "twice"),
        (CollectiveCall("collective-permute", SHAPE, pairs=((0, 1), (1, 1))), "twice"),
        (CollectiveCall("collective-permute", SHAPE, pairs=((0, 2),)), "outside"),
        (CollectiveCall("collective-permute", SHAPE, pairs=((-1, 0),)), "outside"),
    ],
)
def test_wrong_calls_are_refused(call, message):
    with pytest.raises(ArgumentError, match=message):
        checked_result_shape(call, SIZE, "c")


def test_ranks_agree_on_all_but_the_order_of_pairs_and_the_reduction():
    one, other = (
        CollectiveCall("collective-permute", SHAPE, pairs=p)
        for p in (((0, 1), (1, 0)), ((1, 0), (0, 1)))
    )
    assert one.agreement == other.agreement
    assert CALLS["all-gather"].agreement != CollectiveCall("all-gather", SHAPE, (0,)).agreement
    assert CALLS["all-reduce"].agreement == ("all-reduce", "s32", (4, 2))
