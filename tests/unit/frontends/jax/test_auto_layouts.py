"""Orders that are left to the compiler: no transpose moves data for them."""

import numpy as np
import pytest

from xladev.frontends.jax.auto_layouts import chosen
from xladev.frontends.jax.entry_interface import BufferPlacement, EntryInterface, with_places
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.text import parse_module

AUTO, DEFAULT = BufferPlacement(is_auto=True), BufferPlacement()


def orders(body, parameters, results, header=""):
    module = parse_module(f"HloModule m{header}\nENTRY e {{\n{body}\n}}")
    found = chosen(module, EntryInterface(tuple(parameters), tuple(results)))
    assert not any(place.is_auto for place in (*found.parameters, *found.results))
    return module, found


X = "x = f32[2,3,4] parameter(0)"
TURNED = f"{X}  t = f32[4,2,3] transpose(x), dimensions={{2,0,1}}"
TWICE = f"{TURNED}  two = f32[] constant(2)  b = f32[4,2,3] broadcast(two), dimensions={{}}"


@pytest.mark.parametrize(
    ("body", "order"),
    [
        (f"{X}  ROOT r = f32[2,3,4] negate(x)", ()),
        (f"{TURNED}  ROOT r = f32[4,2,3] negate(t)", (1, 2, 0)),
        (f"{TWICE}  ROOT r = f32[4,2,3] multiply(b, t)", (1, 2, 0)),
        (f"{TURNED}  ROOT r = f32[2,4,3] transpose(t), dimensions={{1,0,2}}", (0, 2, 1)),
        (f"{TURNED}  ROOT r = f32[2,3,4] transpose(t), dimensions={{1,2,0}}", ()),
        (f"{TURNED}  y = f32[4,2,3] parameter(1)  ROOT r = f32[4,2,3] add(t, y)", ()),
        (f"{TURNED}  ROOT r = f32[8,3] reshape(t)", ()),
    ],
)
def test_a_result_lies_as_what_it_is_a_transpose_of(body, order):
    count = body.count("parameter(")
    module, found = orders(body, [DEFAULT] * count, [AUTO])
    assert found.results[0].order == order
    x = [np.arange(24, dtype=np.float32).reshape(p.shape.dims) for p in module.entry.parameters]
    want = np.asarray(HloEvaluator().run(module, *x))
    moved = with_places(module, found)
    got = np.asarray(HloEvaluator().run(moved, *x))
    np.testing.assert_array_equal(got, want.transpose(order) if order else want)


def test_an_argument_lies_as_its_transposes_read_it():
    _, found = orders(f"{TURNED}  ROOT r = f32[4,2,3] negate(t)", [AUTO], [DEFAULT])
    assert found.parameters[0].order == (2, 0, 1)
    assert found.results[0].order == ()


def test_where_both_are_open_the_argument_stays_row_major():
    _, found = orders(
        f"{X}  ROOT r = f32[4,3,2] transpose(x), dimensions={{2,1,0}}", [AUTO], [AUTO]
    )
    assert (found.parameters[0].order, found.results[0].order) == ((), (2, 1, 0))


def test_readers_that_differ_leave_an_argument_row_major():
    body = f"{TURNED}  n = f32[2,3,4] negate(x)  ROOT r = (f32[4,2,3], f32[2,3,4]) tuple(t, n)"
    _, found = orders(body, [AUTO], [DEFAULT, DEFAULT])
    assert found.parameters[0].order == ()


def test_what_shares_memory_with_an_argument_stays_as_it_is():
    body = "x = f32[3,3] parameter(0)  ROOT r = f32[3,3] transpose(x), dimensions={1,0}"
    for result in (AUTO, DEFAULT):
        _, found = orders(body, [AUTO], [result], ", input_output_alias={ {}: (0, {}, may-alias) }")
        assert found.results[0].order == found.parameters[0].order == ()


def test_the_order_of_an_argument_that_was_asked_for_counts():
    given = BufferPlacement(order=(1, 0, 2))
    _, found = orders(f"{X}  ROOT r = f32[2,3,4] negate(x)", [given], [AUTO])
    assert found.results[0].order == (1, 0, 2)
