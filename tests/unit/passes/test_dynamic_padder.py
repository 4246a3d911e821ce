"""The static form of a dynamic program gives its live part, whatever is beyond."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.passes.checks import leaves, listing, random_value
from xladev.hlo.bounded import Bounded, from_live, to_live
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.shape import Shape
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes.dynamic_padder import DynamicPadder

COMPUTATIONS = """
add { p0 = f32[] parameter(0)  p1 = f32[] parameter(1)  ROOT p2 = f32[] add(p0, p1) }
mul { q0 = f32[] parameter(0)  q1 = f32[] parameter(1)  ROOT q2 = f32[] multiply(q0, q1) }
max { m0 = f32[] parameter(0)  m1 = f32[] parameter(1)  ROOT m2 = f32[] maximum(m0, m1) }
far { w0 = f32[] parameter(0)  w1 = f32[] parameter(1)  w2 = f32[] abs(w0)  w3 = f32[] abs(w1)
      w4 = pred[] compare(w2, w3), direction=GE  ROOT w5 = f32[] select(w4, w0, w1) }
lt { l0 = f32[] parameter(0)  l1 = f32[] parameter(1)
     ROOT l2 = pred[] compare(l0, l1), direction=LT }
by { k0 = f32[] parameter(0)  k1 = f32[] parameter(1)  k2 = s32[] parameter(2)
     k3 = s32[] parameter(3)  ROOT k4 = pred[] compare(k0, k1), direction=GT }
arg { a0 = f32[] parameter(0)  a1 = s32[] parameter(1)  a2 = f32[] parameter(2)
      a3 = s32[] parameter(3)  a4 = pred[] compare(a0, a2), direction=GE
      a5 = f32[] select(a4, a0, a2)  a6 = s32[] select(a4, a1, a3)
      ROOT a7 = (f32[], s32[]) tuple(a5, a6) }
body { b0 = (s32[], f32[<=5]) parameter(0)  b1 = s32[] get-tuple-element(b0), index=0
       b2 = f32[<=5] get-tuple-element(b0), index=1  b3 = s32[] constant(1)
       b4 = s32[] add(b1, b3)  b5 = f32[<=5] negate(b2)
       b6 = s32[] get-dimension-size(b5), dimensions={0}  b7 = s32[] subtract(b6, b3)
       b8 = s32[] maximum(b7, b3)  b9 = f32[<=5] set-dimension-size(b5, b8), dimensions={0}
       ROOT b10 = (s32[], f32[<=5]) tuple(b4, b9) }
cond { c0 = (s32[], f32[<=5]) parameter(0)  c1 = s32[] get-tuple-element(c0), index=0
       c2 = s32[] constant(2)  ROOT c3 = pred[] compare(c1, c2), direction=LT }
left { d0 = f32[<=5] parameter(0)  ROOT d1 = f32[<=5] sine(d0) }
whole { w6 = f32[<=5] parameter(0)  w7 = s32[] constant(5)
        ROOT w8 = f32[5] set-dimension-size(w6, w7), dimensions={0} }
right { e0 = f32[<=5] parameter(0)  e1 = s32[] constant(2)
        ROOT e2 = f32[<=5] set-dimension-size(e0, e1), dimensions={0} }
"""

V, M = "f32[<=5]", "f32[<=5,3]"
CASES: dict[str, str] = {
    "elementwise": f"x = {V} parameter(0)  y = {V} parameter(1)  ROOT r = {V} multiply(x, y)",
    "size": f"x = {V} parameter(0)  ROOT r = s32[] get-dimension-size(x), dimensions={{0}}",
    "cut": f"x = f32[5] parameter(0)  n = s32[] constant(2)\n"
    f"ROOT r = {V} set-dimension-size(x, n), dimensions={{0}}",
    "grow": f"x = {V} parameter(0)  n = s32[] constant(5)\n"
    f"ROOT r = f32[5] set-dimension-size(x, n), dimensions={{0}}",
    "transpose": f"x = {M} parameter(0)  ROOT r = f32[3,<=5] transpose(x), dimensions={{1,0}}",
    "broadcast": f"x = {V} parameter(0)  ROOT r = f32[2,<=5] broadcast(x), dimensions={{1}}",
    "reverse": f"x = {M} parameter(0)  ROOT r = {M} reverse(x), dimensions={{0,1}}",
    "slice": f"x = {V} parameter(0)  ROOT r = f32[<=2] slice(x), slice={{[1:5:2]}}",
    "pad": f"x = {V} parameter(0)  z = f32[] parameter(1)\n"
    "ROOT r = f32[<=12] pad(x, z), padding=1_2_1",
    "crop": f"x = {V} parameter(0)  z = f32[] parameter(1)\n"
    "ROOT r = f32[<=3] pad(x, z), padding=-1_-1",
    "concatenate": f"x = {V} parameter(0)  y = {V} parameter(1)  z = f32[2] parameter(2)\n"
    "ROOT r = f32[<=12] concatenate(x, z, y), dimensions={0}",
    "concatenate beside": f"x = {M} parameter(0)  y = {M} parameter(1)\n"
    "ROOT r = f32[<=5,6] concatenate(x, y), dimensions={1}",
    "merge": f"x = {M} parameter(0)  ROOT r = f32[<=15] reshape(x)",
    "merge minor": "x = f32[3,<=5] parameter(0)  ROOT r = f32[<=15] reshape(x)",
    "add ones": f"x = {V} parameter(0)  ROOT r = f32[1,<=5,1] reshape(x)",
    "split": "x = f32[<=6] parameter(0)  n = s32[] constant(4)\n"
    "y = f32[<=6] set-dimension-size(x, n), dimensions={0}\nROOT r = f32[<=3,2] reshape(y)",
    "dynamic reshape": "x = f32[<=6] parameter(0)  n = s32[] constant(4)\n"
    "y = f32[<=6] set-dimension-size(x, n), dimensions={0}  two = s32[] constant(2)\n"
    "ROOT r = f32[<=2,<=3] dynamic-reshape(y, two, two)",
    "dot": f"x = {V} parameter(0)  y = f32[<=5,4] parameter(1)\n"
    "ROOT r = f32[4] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    "dot, free": f"x = {M} parameter(0)  y = f32[3,4] parameter(1)\n"
    "ROOT r = f32[<=5,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "convolution": "x = f32[2,<=7,3] parameter(0)  y = f32[3,3,4] parameter(1)\n"
    "ROOT r = f32[2,<=4,4] convolution(x, y), window={size=3 stride=2 pad=1_1}, "
    "dim_labels=b0f_0io->b0f",
    "sum": f"x = {M} parameter(0)  z = f32[] parameter(1)\n"
    "ROOT r = f32[3] reduce(x, z), dimensions={0}, to_apply=add",
    "product": f"x = {M} parameter(0)  z = f32[] parameter(1)\n"
    "ROOT r = f32[3] reduce(x, z), dimensions={0}, to_apply=mul",
    "maximum, kept": f"x = {M} parameter(0)  z = f32[] parameter(1)\n"
    f"ROOT r = {V} reduce(x, z), dimensions={{1}}, to_apply=max",
    "any reducer": f"x = {M} parameter(0)  z = f32[] parameter(1)\n"
    "ROOT r = f32[] reduce(x, z), dimensions={0,1}, to_apply=far",
    "arg max": f"x = {V} parameter(0)  i = s32[<=5] parameter(1)  z = f32[] parameter(2)\n"
    "n = s32[] constant(-1)\n"
    "ROOT r = (f32[], s32[]) reduce(x, i, z, n), dimensions={0}, to_apply=arg",
    "window": "x = f32[<=7] parameter(0)  z = f32[] parameter(1)\n"
    "ROOT r = f32[<=7] reduce-window(x, z), window={size=3 pad=2_0}, to_apply=add",
    "sort": f"x = {V} parameter(0)  ROOT r = {V} sort(x), dimensions={{0}}, to_apply=lt",
    "sort by key": f"x = {M} parameter(0)  i = s32[<=5,3] parameter(1)\n"
    f"ROOT r = ({M}, s32[<=5,3]) sort(x, i), dimensions={{0}}, is_stable=true, to_apply=by",
    "sort beside": f"x = {M} parameter(0)  ROOT r = {M} sort(x), dimensions={{1}}, to_apply=lt",
    "gather": f"x = {M} parameter(0)  i = s32[4] parameter(1)\n"
    "ROOT r = f32[4,3] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, "
    "start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}",
    "gather, indices": "x = f32[6,3] parameter(0)  i = s32[<=4] parameter(1)\n"
    "ROOT r = f32[<=4,3] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, "
    "start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}",
    "scatter": "x = f32[6] parameter(0)  i = s32[<=4] parameter(1)  u = f32[<=4] parameter(2)\n"
    "ROOT r = f32[6] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
    "dynamic-slice": f"x = {V} parameter(0)  i = s32[] parameter(1)\n"
    "ROOT r = f32[1] dynamic-slice(x, i), dynamic_slice_sizes={1}",
    "dynamic-update-slice": f"x = {V} parameter(0)  u = f32[1] parameter(1)\n"
    f"i = s32[] parameter(2)  ROOT r = {V} dynamic-update-slice(x, u, i)",
    "loop": f"x = {V} parameter(0)  z = s32[] constant(0)  t = (s32[], {V}) tuple(z, x)\n"
    f"ROOT r = (s32[], {V}) while(t), condition=cond, body=body",
    "branch": f"x = {V} parameter(0)  p = s32[] parameter(1)\n"
    f"ROOT r = {V} conditional(p, x, x), branch_computations={{left, right}}",
    "branch of pred, sizes of its own": f"x = {V} parameter(0)  p = pred[] parameter(1)\n"
    f"ROOT r = {V} conditional(p, x, x), true_computation=whole, false_computation=right",
    "call": f"x = {V} parameter(0)  ROOT r = {V} call(x), to_apply=right",
    "no rule": f"x = {V} parameter(0)  y = {V} negate(x)\nROOT r = (f32[2], s32[2]) topk(y), k=2",
    "tuples": f"x = (f32[2], {V}) parameter(0)  a = {V} get-tuple-element(x), index=1\n"
    f"b = {V} negate(a)  ROOT r = ({V}, (f32[2], {V})) tuple(b, x)",
}


def entry(body: str) -> HloModule:
    return parse_module(f"HloModule m\n{COMPUTATIONS}\nENTRY main {{ {body} }}")


def dynamic_value(shape: Shape, size: int, rng: np.random.Generator) -> Any:
    """A value whose dynamic dimensions have one live size; garbage is beyond."""
    if shape.is_tuple:
        return tuple(dynamic_value(s, size, rng) for s in shape.tuple_shapes)
    array = random_value(shape, rng)
    if not shape.is_dynamic:
        return array
    sizes = tuple(min(size, n) for n, f in zip(shape.dims, shape.dynamic, strict=True) if f)
    live = np.zeros(shape.dims, np.bool_)
    live[
        tuple(
            slice(min(size, n) if f else n) for n, f in zip(shape.dims, shape.dynamic, strict=True)
        )
    ] = True
    junk = np.array(np.nan if array.dtype.kind == "f" else 3).astype(array.dtype)
    return Bounded(np.where(live, array, junk), sizes)


def flat(values: list[Any], shapes: list[Shape]) -> tuple[list[Any], list[Any]]:
    """Static values, and sizes of their dynamic dimensions."""
    sizes: list[Any] = []

    def static(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(static, value))
        if isinstance(value, Bounded):
            sizes.extend(np.asarray(s, np.int32) for s in value.sizes)
            return value.array
        return value

    return [static(v) for v in values], sizes


def padded_value(module: HloModule, after: HloModule, values: list[Any]) -> Any:
    """What the static module gives, seen as a value of the dynamic one."""
    static, sizes = flat(values, [p.shape for p in module.entry.parameters])
    result = HloEvaluator().run(after, *static, *sizes)
    shape = module.entry.root.shape
    if after.entry.root.shape.equal_ignoring_layout(shape.static()):
        return result
    whole, *rest = result
    left = iter(rest)
    return _bounded(whole, shape, left)


def _bounded(value: Any, shape: Shape, sizes: Any) -> Any:
    if shape.is_tuple:
        return tuple(_bounded(v, s, sizes) for v, s in zip(value, shape.tuple_shapes, strict=True))
    if not shape.is_dynamic:
        return value
    return Bounded(value, tuple(int(next(sizes)) for f in shape.dynamic if f))


@pytest.mark.parametrize("size", [1, 2, 4, 5])
@pytest.mark.parametrize("name", CASES)
def test_the_live_part_is_the_same(name: str, size: int, seed: int) -> None:
    module = entry(CASES[name])
    after = DynamicPadder().run(module)
    verify(after)
    if name != "no rule":
        dynamic = [i for c in after.computations for i in c.instructions if i.shape.is_dynamic]
        assert not dynamic, listing(after)
    rng = np.random.default_rng(seed)
    values = [dynamic_value(p.shape, size, rng) for p in module.entry.parameters]
    if name == "no rule" and size < 2:
        return
    shape = module.entry.root.shape
    wanted = leaves(to_live(HloEvaluator().run(module, *values), shape))
    found = leaves(to_live(padded_value(module, after, values), shape))
    for want, got in zip(wanted, found, strict=True):
        assert want.shape == got.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_sizes_follow_the_leaves_and_aliases_their_results() -> None:
    module = parse_module(
        "HloModule m, input_output_alias={ {0}: (1, {}, may-alias) }\n"
        f"ENTRY e {{ n = f32[] parameter(0)  x = {V} parameter(1)  y = {M} parameter(2)\n"
        f"a = {V} negate(x)  ROOT t = ({V}, {M}) tuple(a, y) }}"
    )
    after = DynamicPadder().run(module)
    verify(after)
    shapes = [str(p.shape.without_layout()) for p in after.entry.parameters]
    assert shapes == ["f32[]", "f32[5]", "f32[5,3]", "s32[]", "s32[]"]
    assert str(after.entry.root.shape.without_layout()) == ("((f32[5], f32[5,3]), s32[], s32[])")
    assert after.header.aliases[0].output_index == (0, 0)


def test_static_programs_are_left_alone() -> None:
    module = parse_module("HloModule m\nENTRY e { x = f32[5] parameter(0)  ROOT r = negate(x) }")
    assert DynamicPadder().run(module) is module


def test_bounded_values_are_what_the_helper_makes() -> None:
    shape = parse_module(f"x = {V} parameter(0)").entry.root.shape
    value = Bounded(np.arange(5, dtype=np.float32), (2,))
    np.testing.assert_array_equal(from_live(to_live(value, shape), shape).array, [0, 1, 0, 0, 0])
