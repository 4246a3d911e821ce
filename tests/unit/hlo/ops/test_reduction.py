"""reduce, reduce-window and map: any reducer, against reducers written out."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.tools.rejections import assert_rejected, of, result_of
from tests.tools.single_op import run, scalar_computation
from xladev.hlo import dtype as dt
from xladev.hlo.attributes import Window, WindowDim
from xladev.hlo.builder import HloBuilder
from xladev.hlo.ir import HloComputation
from xladev.hlo.ops.reducers import TREE_FROM, monoid_of
from xladev.hlo.shape import array

ADD = scalar_computation("add")


def returns_second(element_type: dt.PrimitiveType = dt.F32) -> HloComputation:
    """A reducer that forgets the accumulator."""
    b = HloBuilder("second")
    b.parameter(array(element_type))
    return b.build(b.parameter(array(element_type)))


def halve_and_add() -> HloComputation:
    """acc / 2 + value: neither commutative nor associative."""
    b = HloBuilder("halve")
    acc, value = b.parameter(array(dt.F32)), b.parameter(array(dt.F32))
    return b.build(b.op("add", b.op("multiply", acc, b.constant(0.5)), value))


def argmax(index: dt.PrimitiveType = dt.U32) -> HloComputation:
    """Larger value with its index; of equal ones the lower index."""
    b = HloBuilder("argmax")
    types = (dt.F32, index, dt.F32, index)
    value, at, other, place = (b.parameter(array(t)) for t in types)
    larger = b.op("compare", value, other, direction="GT")
    equal = b.op("compare", value, other, direction="EQ")
    earlier = b.op("compare", at, place, direction="LT")
    keep = b.op("or", larger, b.op("and", equal, earlier))
    both = (b.op("select", keep, value, other), b.op("select", keep, at, place))
    return b.build(b.op("tuple", *both))


def three() -> HloComputation:
    """A computation of three values."""
    b = HloBuilder("three")
    for _ in range(3):
        first = b.parameter(array(dt.F32))
    return b.build(first)


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (2, 1), (0, 1, 2), ()])
def test_sums_over_any_dimensions(axes: tuple[int, ...]) -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    got = run("reduce", x, np.float32(1), dimensions=axes, to_apply=ADD)
    np.testing.assert_array_equal(got, x.sum(axis=axes) + 1 if axes else x + 1)


REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


@pytest.mark.parametrize("opcode", REDUCTIONS)
@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16", "s8", "u16", "s32", "u64", "s4"])
def test_single_opcodes(opcode: str, kind: str) -> None:
    element_type = dt.by_name(kind)
    x = np.array([[3, 1, 2], [2, 5, 1]]).astype(element_type.np)
    init = np.array(1, element_type.np)
    got = run("reduce", x, init, dimensions=(1,), to_apply=scalar_computation(opcode, element_type))
    want = [reduce(REDUCTIONS[opcode], row, 1) for row in x.astype(np.int64)]
    assert got.dtype == element_type.np
    np.testing.assert_array_equal(got, np.array(want).astype(element_type.np))


@pytest.mark.parametrize("opcode", ["and", "or", "xor", "add", "multiply", "maximum", "minimum"])
def test_pred(opcode: str) -> None:
    x = np.array([[True, True], [True, False], [False, False]])
    init = np.array(opcode in ("and", "multiply", "minimum"))
    got = run("reduce", x, init, dimensions=(1,), to_apply=scalar_computation(opcode, dt.PRED))
    some, every = [True, True, False], [True, False, False]
    odd = [False, True, False]
    assert got.tolist() == {"xor": odd, "or": some, "add": some, "maximum": some}.get(opcode, every)


def test_integer_sums_wrap() -> None:
    x = np.full(300, 100, np.int8)
    got = run("reduce", x, np.int8(0), dimensions=(0,), to_apply=scalar_computation("add", dt.S8))
    assert got == 300 * 100 % 256 - 256 * (300 * 100 % 256 > 127)


def test_nan_wins_every_maximum() -> None:
    x = np.array([1, np.nan, 3], np.float32)
    got = run("reduce", x, np.float32(0), dimensions=(0,), to_apply=scalar_computation("maximum"))
    assert np.isnan(got)


def test_f32_sums_are_rounded_once() -> None:
    x = np.array([2.0**24, 1, 1, 1, 1], np.float32)
    assert run("reduce", x, np.float32(0), dimensions=(0,), to_apply=ADD) == 2**24 + 4


@pytest.mark.parametrize("count", [0, 1, 2, 17, TREE_FROM - 1, TREE_FROM, TREE_FROM + 1, 5001])
def test_the_last_value_wins_and_init_is_on_the_left(count: int) -> None:
    x = np.arange(2 * count, dtype=np.float32).reshape(count, 2)
    got = run("reduce", x, np.float32(-1), dimensions=(0,), to_apply=returns_second())
    assert got.tolist() == (x[-1].tolist() if count else [-1, -1])


def test_other_reducers_go_in_row_major_order() -> None:
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    got = run("reduce", x, np.float32(8), dimensions=(0, 2), to_apply=halve_and_add())
    want = [reduce(lambda a, v: a / 2 + v, x[:, i].reshape(-1).tolist(), 8.0) for i in range(3)]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("count", [1, 100, 3000])
def test_argmax(count: int, seed: int) -> None:
    x = np.random.default_rng(seed).integers(0, 50, (count, 4)).astype(np.float32)
    index = np.broadcast_to(np.arange(count, dtype=np.uint32)[:, None], x.shape).copy()
    value, at = run(
        "reduce", x, index, np.float32(-np.inf), np.uint32(0), dimensions=(0,), to_apply=argmax()
    )
    np.testing.assert_array_equal(value, x.max(0))
    np.testing.assert_array_equal(at, x.argmax(0))


def test_a_reducer_may_have_a_wider_type_than_the_array() -> None:
    x = np.full(3, 0.1, ml_dtypes.bfloat16)
    got = run("reduce", x, ml_dtypes.bfloat16(0), dimensions=(0,), to_apply=ADD)
    assert got.dtype == np.float32 and got == np.float32(3 * float(x[0]))


def test_only_single_opcodes_of_both_parameters_are_monoids() -> None:
    assert monoid_of(ADD) is not None
    assert monoid_of(halve_and_add()) is None
    assert monoid_of(scalar_computation("subtract")) is None
    b = HloBuilder("twice")
    b.parameter(array(dt.F32))
    second = b.parameter(array(dt.F32))
    assert monoid_of(b.build(b.op("add", second, second))) is None


@pytest.mark.parametrize(
    ("constraint", "operands", "attrs"),
    [
        ("reduce_operand", ("token", "f32[]"), {}),
        ("reduce_c1", ("f32[2]", "f32[3]", "f32[]", "f32[]"), {}),
        ("reduce_c2", ("f32[2]", "f32[2]", "f32[]"), {}),
        ("reduce_c2", ("f32[2]", "f32[1]"), {}),
        ("reduce_c4", ("f32[2]", "f32[]"), {"dimensions": (1,)}),
        ("reduce_c5", ("f32[2,2]", "f32[]"), {"dimensions": (0, 0)}),
        ("reduce_c6", ("f32[2]", "f32[2]", "f32[]", "f32[]"), {}),
        ("reduce_c6", ("s32[2]", "s32[]"), {}),
        ("reduce_c6", ("f32[2]", "f32[]"), {"to_apply": three()}),
    ],
)
def test_reduce_rejects(constraint: str, operands: tuple[str, ...], attrs: dict[str, Any]) -> None:
    assert_rejected(
        constraint, "reduce", *operands, **{"dimensions": (0,), "to_apply": ADD, **attrs}
    )


def test_reduce_rejects_a_reducer_of_arrays() -> None:
    b = HloBuilder("arrays")
    body = b.build(b.op("add", b.parameter(of("f32[2]")), b.parameter(of("f32[2]"))))
    assert_rejected("reduce_c6", "reduce", "f32[2]", "f32[]", dimensions=(0,), to_apply=body)


def test_reduce_shapes() -> None:
    attrs = {"dimensions": (1,), "to_apply": ADD}
    assert result_of("reduce", "f32[<=4,5,?]", "f32[]", **attrs) == "f32[<=4,?]"


# reduce-window


def windows_by_loops(x: Any, win: Window, init: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """The definition, with every element of the padded and dilated array looked up by hand."""
    counts = [d.output_size(n) for d, n in zip(win, x.shape, strict=True)]
    out = np.empty(counts, x.dtype)
    for at in np.ndindex(*counts):
        total = init
        for k in np.ndindex(*(d.size for d in win)):
            place = []
            for p, j, d, size in zip(at, k, win, x.shape, strict=True):
                away, rest = divmod(
                    p * d.stride + j * d.window_dilation - d.pad_low, d.base_dilation
                )
                place.append(away if rest == 0 and 0 <= away < size else None)
            total = combine(total, init if None in place else x[tuple(place)])
        out[at] = total
    return out


def random_window(rng: np.random.Generator, rank: int) -> Window:
    return tuple(
        WindowDim(
            int(rng.integers(1, 4)), int(rng.integers(1, 3)), *map(int, rng.integers(-1, 3, 2)),
            *map(int, rng.integers(1, 4, 2)),
        )
        for _ in range(rank)
    )  # fmt: skip


@pytest.mark.parametrize("turn", range(30))
def test_random_windows_are_what_loops_give(turn: int, seed: int) -> None:
    rng = np.random.default_rng([seed, turn])
    rank = int(rng.integers(1, 4))
    win = random_window(rng, rank)
    x = rng.integers(-9, 9, rng.integers(2, 6, rank)).astype(np.float32)
    got = run("reduce-window", x, np.float32(2), window=win, to_apply=ADD)
    np.testing.assert_array_equal(got, windows_by_loops(x, win, 2, lambda a, b: a + b))
    got = run("reduce-window", x, np.float32(2), window=win, to_apply=halve_and_add())
    want = windows_by_loops(x, win, np.float32(2), lambda a, b: np.float32(a / 2 + b))
    np.testing.assert_array_equal(got, want)


def test_reversed_windows_go_the_other_way() -> None:
    win = (WindowDim(3, reversal=True),)
    x = np.arange(5, dtype=np.float32)
    got = run("reduce-window", x, np.float32(0), window=win, to_apply=returns_second())
    assert got.tolist() == [0, 1, 2]


def test_windows_of_pairs() -> None:
    x = np.array([3, 1, 4, 1, 5], np.float32)
    value, at = run(
        "reduce-window", x, np.arange(5, dtype=np.uint32), np.float32(-np.inf), np.uint32(9),
        window=(WindowDim(3, 2, 1, 1),), to_apply=argmax(),
    )  # fmt: skip
    assert value.tolist() == [3, 4, 5] and at.tolist() == [0, 2, 4]


def test_windows_of_every_type() -> None:
    for element_type in (dt.F8E5M2, dt.F8E4M3FN, dt.S4, dt.BF16):
        x = np.arange(4).astype(element_type.np)
        zero, add = np.asarray(0, element_type.np), scalar_computation("add", element_type)
        got = run("reduce-window", x, zero, window=(WindowDim(2),), to_apply=add)
        assert got.astype(np.float32).tolist() == [1, 3, 5]


def test_a_window_larger_than_the_array_gives_nothing() -> None:
    x = np.ones(2, np.float32)
    got = run("reduce-window", x, np.float32(0), window=(WindowDim(3),), to_apply=ADD)
    assert got.shape == (0,)


def test_scalars_have_the_one_empty_window() -> None:
    assert run("reduce-window", np.float32(3), np.float32(1), window=(), to_apply=ADD) == 4


@pytest.mark.parametrize(
    ("constraint", "operands", "win"),
    [
        ("reduce_window_c1", ("f32[2]", "f32[3]", "f32[]", "f32[]"), (WindowDim(2),)),
        ("reduce_window_c2", ("f32[2]", "f32[1]"), (WindowDim(2),)),
        ("reduce_window_c4", ("f32[2]", "f32[]"), ()),
        ("reduce_window_c5", ("f32[2]", "f32[]"), (WindowDim(0),)),
        ("reduce_window_c5", ("f32[2]", "f32[]"), (WindowDim(1, window_dilation=0),)),
        ("reduce_window_c13", ("s32[2]", "s32[]"), (WindowDim(1),)),
    ],
)
def test_reduce_window_rejects(constraint: str, operands: tuple[str, ...], win: Window) -> None:
    assert_rejected(constraint, "reduce-window", *operands, window=win, to_apply=ADD)


# map


def test_map_applies_a_computation_to_each_element() -> None:
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)
    got = run("map", x, y, dimensions=(0, 1), to_apply=halve_and_add())
    np.testing.assert_array_equal(got, x / 2 + y)


def test_map_of_scalars() -> None:
    assert run("map", np.float32(2), np.float32(1), to_apply=halve_and_add()) == 2


def test_map_needs_no_dimensions() -> None:
    x = np.float32([2, 4])
    np.testing.assert_array_equal(run("map", x, x, to_apply=halve_and_add()), [3, 6])


@pytest.mark.parametrize(
    ("constraint", "operands", "dims"),
    [
        ("map_operand", ("token", "f32[2]"), (0,)),
        ("map_c1", (), ()),
        ("map_c1", ("f32[2]", "f32[3]"), (0,)),
        ("map_c3", ("f32[2]", "f32[2]"), (1,)),
        ("map_c3", ("f32[2,2]", "f32[2,2]"), (1, 0)),
        ("map_c4", ("f32[2]",), (0,)),
        ("map_c4", ("s32[2]", "s32[2]"), (0,)),
    ],
)
def test_map_rejects(constraint: str, operands: tuple[str, ...], dims: tuple[int, ...]) -> None:
    assert_rejected(constraint, "map", *operands, dimensions=dims, to_apply=ADD)


@pytest.mark.parametrize(("opcode", "want_negative"), [("maximum", False), ("minimum", True)])
@pytest.mark.parametrize("kind", [np.float32, ml_dtypes.bfloat16])
def test_extremes_order_signed_zeros(opcode: str, want_negative: bool, kind: type) -> None:
    reducer = scalar_computation(opcode, dt.by_numpy(np.dtype(kind)))
    for values in ([0.0, -0.0], [-0.0, 0.0]):
        x = np.array([values, values[::-1]], kind)
        got = run("reduce", x, x[0, 0], dimensions=(1,), to_apply=reducer)
        assert np.signbit(got).tolist() == [want_negative] * 2
        got = run("reduce", x[0], x[0, 1], dimensions=(), to_apply=reducer)
        assert np.signbit(got[0]) == want_negative


@pytest.mark.parametrize("kind", [np.float32, ml_dtypes.bfloat16, np.complex64])
def test_a_sum_of_negative_zeros_is_negative(kind: type) -> None:
    reducer = scalar_computation("add", dt.by_numpy(np.dtype(kind)))
    zeros = -np.zeros((2, 3), kind)
    for init, want in ((zeros[0, 0], True), (-zeros[0, 0], False)):
        got = run("reduce", zeros, init, dimensions=(1,), to_apply=reducer)
        assert np.signbit(np.real(got)).tolist() == [want] * 2
