"""select-and-scatter: against loops, with ties, overlaps and padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.tools.rejections import assert_rejected
from tests.tools.single_op import run, scalar_computation
from xladev.hlo import dtype as dt
from xladev.hlo.attributes import Window, WindowDim
from xladev.hlo.builder import HloBuilder
from xladev.hlo.ir import HloComputation
from xladev.hlo.shape import array

GE, GT = (scalar_computation("compare", direction=d) for d in ("GE", "GT"))
OTHER_GE = scalar_computation("compare", dt.S32, direction="GE")
ADD = scalar_computation("add")


def twice_and_add() -> HloComputation:
    """2 * current + update: order matters."""
    b = HloBuilder("twice")
    current, update = b.parameter(array(dt.F32)), b.parameter(array(dt.F32))
    return b.build(b.op("add", b.op("add", current, current), update))


def by_loops(
    x: Any, source: Any, init: float, win: Window, keep: Callable[[Any, Any], bool],
    scatter: Callable[[Any, Any], Any],
) -> Any:  # fmt: skip
    out = np.full(x.shape, init, x.dtype)
    for at in np.ndindex(*source.shape):
        chosen = None
        for k in np.ndindex(*(d.size for d in win)):
            place = tuple(p * d.stride + j - d.pad_low for p, j, d in zip(at, k, win, strict=True))
            if any(not 0 <= i < n for i, n in zip(place, x.shape, strict=True)):
                continue
            if chosen is None or not keep(x[chosen], x[place]):
                chosen = place
        if chosen is not None:
            out[chosen] = scatter(out[chosen], source[at])
    return out


@pytest.mark.parametrize("turn", range(30))
def test_random_windows_are_what_loops_give(turn: int, seed: int) -> None:
    rng = np.random.default_rng([seed, turn])
    rank = int(rng.integers(1, 4))
    win = tuple(
        WindowDim(
            int(rng.integers(1, 4)), int(rng.integers(1, 3)), *map(int, rng.integers(0, 3, 2))
        )
        for _ in range(rank)
    )
    x = rng.integers(0, 4, rng.integers(3, 6, rank)).astype(np.float32)  # many ties
    counts = [d.output_size(n) for d, n in zip(win, x.shape, strict=True)]
    source = rng.integers(-9, 9, counts).astype(np.float32)
    init = np.float32(1)
    for select, keep in ((GE, lambda a, b: a >= b), (GT, lambda a, b: a > b)):
        got = run("select-and-scatter", x, source, init, window=win, select=select, scatter=ADD)
        want = by_loops(x, source, 1, win, keep, lambda a, b: a + b)
        np.testing.assert_array_equal(got, want)
    got = run("select-and-scatter", x, source, init, window=win, select=GE, scatter=twice_and_add())
    want = by_loops(x, source, 1, win, lambda a, b: a >= b, lambda a, b: 2 * a + b)
    np.testing.assert_array_equal(got, want)


def test_the_first_of_equals_is_kept() -> None:
    x, source = np.ones(4, np.float32), np.array([5, 7], np.float32)
    attrs = {"window": (WindowDim(2, 2),), "select": GE, "scatter": ADD}
    got = run("select-and-scatter", x, source, np.float32(0), **attrs)
    assert got.tolist() == [5, 0, 7, 0]


def test_padding_is_never_selected() -> None:
    x, source = np.full(2, -np.inf, np.float32), np.array([5, 7, 9, 11], np.float32)
    attrs = {"window": (WindowDim(2, 1, 2, 1),), "select": GE, "scatter": ADD}
    got = run("select-and-scatter", x, source, np.float32(0), **attrs)
    assert got.tolist() == [7 + 9, 11]


@pytest.mark.parametrize(
    ("constraint", "operands", "attrs"),
    [
        ("select_and_scatter_operand", ("token", "f32[2]", "f32[]"), {}),
        ("select_and_scatter_c1", ("f32[4]", "s32[2]", "f32[]"), {}),
        ("select_and_scatter_c2", ("f32[4]", "f32[3]", "f32[]"), {}),
        ("select_and_scatter_c3", ("f32[4]", "f32[2]", "f32[1]"), {}),
        ("select_and_scatter_c3", ("f32[4]", "f32[2]", "s32[]"), {}),
        ("select_and_scatter_c4", ("f32[4]", "f32[2]", "f32[]"), {"window": ()}),
        ("select_and_scatter_c4", ("f32[4]", "f32[2]", "f32[]"), {"window": (WindowDim(2, 0),)}),
        (
            "select_and_scatter_c4",
            ("f32[4]", "f32[2]", "f32[]"),
            {"window": (WindowDim(2, 2, window_dilation=2),)},
        ),
        ("select_and_scatter_c9", ("f32[4]", "f32[2]", "f32[]"), {"select": ADD}),
        ("select_and_scatter_c9", ("f32[4]", "f32[2]", "f32[]"), {"select": OTHER_GE}),
        ("select_and_scatter_c10", ("f32[4]", "f32[2]", "f32[]"), {"scatter": GE}),
    ],
)
def test_rejects(constraint: str, operands: tuple[str, ...], attrs: dict[str, Any]) -> None:
    plain = {"window": (WindowDim(2, 2),), "select": GE, "scatter": ADD}
    assert_rejected(constraint, "select-and-scatter", *operands, **{**plain, **attrs})
