"""Accumulations along any dimension, in either direction, in blocks or left to the backend."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.passes.windows.test_combiner import opcode, window
from xladev.hlo import dtype as dt
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.shape import array
from xladev.passes.expansions.emit import Emitter
from xladev.passes.windows.accumulation import Accumulation, Spares, padded_along
from xladev.passes.windows.combiner import combiner_of


def accumulated(dims: tuple[int, ...], axis: int, backward: bool, spares: Spares) -> HloModule:
    combiner = combiner_of(window(opcode("add", "s32"), t="s32"))
    assert combiner is not None
    e = Emitter("m")
    x = e.parameter(array(dt.S32, dims))
    (made,) = Accumulation(e, combiner, spares, backward).along([x], axis)
    return e.module(made)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(
    ("dims", "axis"), [((1,), 0), ((32,), 0), ((33,), 0), ((2100,), 0), ((3, 100, 5), 1)]
)
def test_sums_up_to_each_element(dims: tuple[int, ...], axis: int, backward: bool) -> None:
    module = accumulated(dims, axis, backward, None)
    x = np.random.default_rng(0).integers(-9, 9, dims, np.int32)
    turned = np.flip(x, axis) if backward else x
    wanted = np.cumsum(turned, axis, dtype=np.int32)
    wanted = np.flip(wanted, axis) if backward else wanted
    np.testing.assert_array_equal(HloEvaluator().run(module, x), wanted)
    assert "reduce-window" not in {i.opcode for i in module.entry.instructions}


def _is_along_last(i: HloInstruction) -> bool:
    return i["window"][-1].size > 1


def test_what_the_backend_accumulates_along_rows_is_moved_there() -> None:
    module = accumulated((40, 3), 0, False, _is_along_last)
    assert {"transpose", "reduce-window"} <= {i.opcode for i in module.entry.instructions}
    x = np.arange(120, dtype=np.int32).reshape(40, 3)
    np.testing.assert_array_equal(HloEvaluator().run(module, x), x.cumsum(0))


def test_padding_is_neutral_and_may_be_negative() -> None:
    combiner = combiner_of(window(opcode("maximum")))
    assert combiner is not None
    e = Emitter("m")
    x = e.parameter(array(dt.F32, (3,)))
    (made,) = padded_along(e, combiner, [x], 0, 2, -1)
    found = HloEvaluator().run(e.module(made), np.array([1, 2, 3], np.float32))
    np.testing.assert_array_equal(found, [-np.inf, -np.inf, 1, 2])
