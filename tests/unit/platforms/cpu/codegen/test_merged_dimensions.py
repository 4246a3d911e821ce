"""Dimensions of kernels that become one: which ones, and the same values."""

from dataclasses import replace

import numpy as np
import pytest

from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.platforms.cpu.codegen.merged_dimensions import with_merged_dimensions

ADD = """add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }"""

CASES = {
    "all of them": ("x = f32[2,3,4] parameter(0)  ROOT y = f32[2,3,4] negate(x)", "24", "24"),
    "a row along channels": (
        """x = f32[2,3,4,5] parameter(0)  s = f32[3] parameter(1)
        b = f32[2,3,4,5] broadcast(s), dimensions={1}  ROOT y = f32[2,3,4,5] multiply(x, b)""",
        "2,3,20", "2,3,20",
    ),
    "rows and columns apart": (
        """x = f32[2,3,4,5] parameter(0)  s = f32[3,5] parameter(1)
        b = f32[2,3,4,5] broadcast(s), dimensions={1,3}  ROOT y = f32[2,3,4,5] multiply(x, b)""",
        "2,3,4,5", "2,3,4,5",
    ),
    "neighbours of a broadcast": (
        """x = f32[2,3,4,5] parameter(0)  s = f32[3,4] parameter(1)
        b = f32[2,3,4,5] broadcast(s), dimensions={1,2}  ROOT y = f32[2,3,4,5] multiply(x, b)""",
        "2,12,5", "2,12,5",
    ),
    "a scalar": (
        """x = f32[2,3,4] parameter(0)  s = f32[] parameter(1)
        b = f32[2,3,4] broadcast(s), dimensions={}  ROOT y = f32[2,3,4] multiply(x, b)""",
        "24", "24",
    ),
    "two broadcasts": (
        """s = f32[3] parameter(0)  t = f32[4] parameter(1)
        b = f32[2,3,4,5] broadcast(s), dimensions={1}  c = f32[2,3,4,5] broadcast(t), dimensions={2}
        ROOT y = f32[2,3,4,5] multiply(b, c)""",
        "3", "2,3,4,5",
    ),
    "a reduction of pixels": (
        """x = f32[2,3,4,5] parameter(0)  z = f32[] constant(0)  n = f32[2,3,4,5] negate(x)
        ROOT y = f32[2,3] reduce(n, z), dimensions={2,3}, to_apply=add""",
        "6,20", "6",
    ),
    "a reduction around": (
        """x = f32[2,3,4,5] parameter(0)  z = f32[] constant(0)
        ROOT y = f32[3] reduce(x, z), dimensions={0,2,3}, to_apply=add""",
        "2,3,20", "3",
    ),
    "reduced apart": (
        """x = f32[2,3,4,5] parameter(0)  z = f32[] constant(0)
        ROOT y = f32[2,4] reduce(x, z), dimensions={1,3}, to_apply=add""",
        "2,3,4,5", "2,4",
    ),
    "transposed together": (
        """x = f32[2,3,4,5] parameter(0)  n = f32[2,3,4,5] negate(x)
        ROOT y = f32[3,4,5,2] transpose(n), dimensions={1,2,3,0}""",
        "2,60", "60,2",
    ),
    "transposed apart": (
        """x = f32[2,3,4,5] parameter(0)
        ROOT y = f32[5,3,4,2] transpose(x), dimensions={3,1,2,0}""",
        "2,12,5", "5,12,2",
    ),
    "several results": (
        """x = f32[2,3,4,5] parameter(0)  s = f32[3] parameter(1)
        b = f32[2,3,4,5] broadcast(s), dimensions={1}  n = f32[2,3,4,5] add(x, b)
        e = f32[2,3,4,5] cosine(n)  ROOT y = (f32[2,3,4,5], f32[2,3,4,5]) tuple(n, e)""",
        "2,3,20", "2,3,20",
    ),
    "numbers along rows": (
        """x = f32[2,3,4,5] parameter(0)  i = f32[2,3,4,5] iota(), iota_dimension=3
        ROOT y = f32[2,3,4,5] add(x, i)""",
        "24,5", "24,5",
    ),
    "numbers along columns": (
        """x = f32[2,3,4,5] parameter(0)  i = f32[2,3,4,5] iota(), iota_dimension=1
        ROOT y = f32[2,3,4,5] add(x, i)""",
        "2,3,20", "2,3,20",
    ),
    "a constant": (
        """x = f32[2,2,2] parameter(0)
        c = f32[2,2,2] constant({{{1,2},{3,4}},{{5,6},{7,8}}})  ROOT y = f32[2,2,2] add(x, c)""",
        "8", "8",
    ),
    "another layout": (
        "x = f32[2,3,4]{1,2,0} parameter(0)  ROOT y = f32[2,3,4]{1,2,0} negate(x)",
        "2,3,4", "2,3,4",
    ),
    "what moves elements": (
        """x = f32[2,3,4,5] parameter(0)  r = f32[2,3,4,5] reverse(x), dimensions={3}
        ROOT y = f32[2,3,4,5] add(x, r)""",
        "24,5", "24,5",
    ),
    "what turns another dimension": (
        "x = f32[2,3,4,5] parameter(0)  ROOT y = f32[2,3,4,5] reverse(x), dimensions={1}",
        "2,3,20", "2,3,20",
    ),
    "a slice of rows": (
        """x = f32[2,3,4,5] parameter(0)
        ROOT y = f32[2,2,4,5] slice(x), slice={[0:2],[1:3],[0:4],[0:5]}""",
        "2,60", "2,40",
    ),
    "every other row": (
        """x = f32[2,3,4,5] parameter(0)
        ROOT y = f32[2,2,4,5] slice(x), slice={[0:2],[0:3:2],[0:4],[0:5]}""",
        "2,3,20", "2,2,20",
    ),
    "two slices": (
        """x = f32[2,3,4,5] parameter(0)
        ROOT y = f32[2,2,4,3] slice(x), slice={[0:2],[1:3],[0:4],[2:5]}""",
        "2,12,5", "2,8,3",
    ),
    "arrays one behind another": (
        """x = f32[2,3,4,5] parameter(0)  z = f32[2,1,4,5] parameter(1)
        ROOT y = f32[2,4,4,5] concatenate(x, z), dimensions={1}""",
        "2,3,20", "2,4,20",
    ),
    "seams between vectors": (
        """x = f32[2,3,8,8] parameter(0)  z = f32[2,1,8,8] parameter(1)
        ROOT y = f32[2,4,8,8] concatenate(x, z), dimensions={1}""",
        "2,192", "2,256",
    ),
    "beside one another": (
        """x = f32[2,3,4,5] parameter(0)  z = f32[2,3,4,2] parameter(1)
        ROOT y = f32[2,3,4,7] concatenate(x, z), dimensions={3}""",
        "24,5", "24,7",
    ),
    "rows around": (
        """x = f32[2,3,4,5] parameter(0)  z = f32[] parameter(1)
        ROOT y = f32[2,4,4,5] pad(x, z), padding=0_0x2_-1x0_0x0_0""",
        "2,3,20", "2,4,20",
    ),
    "padding of whole vectors": (
        """x = f32[2,3,8,8] parameter(0)  z = f32[] parameter(1)
        ROOT y = f32[2,4,8,8] pad(x, z), padding=0_0x2_-1x0_0x0_0""",
        "2,192", "2,256",
    ),
    "rows between": (
        """x = f32[2,3,4,5] parameter(0)  z = f32[] parameter(1)
        ROOT y = f32[2,5,4,5] pad(x, z), padding=0_0x0_0_1x0_0x0_0""",
        "2,3,20", "2,5,20",
    ),
    "a slice whose start is computed": (
        """x = f32[2,3,4,5] parameter(0)  n = s32[] parameter(1)  z = s32[] constant(3)
        ROOT y = f32[2,2,4,5] dynamic-slice(x, z, n, n, z), dynamic_slice_sizes={2,2,4,5}""",
        "2,3,20", "2,2,20",
    ),
    "windows of rows": (
        """x = f32[2,3,4,5] parameter(0)  z = f32[] constant(0)
        ROOT y = f32[2,3,4,5] reduce-window(x, z), to_apply=add,
          window={size=1x2x1x1 pad=0_0x1_0x0_0x0_0}""",
        "2,3,20", "2,3,20",
    ),
    "windows of pixels": (
        """x = f32[2,3,4,5] parameter(0)  z = f32[] constant(0)
        ROOT y = f32[2,3,3,4] reduce-window(x, z), to_apply=add, window={size=1x1x2x2}""",
        "6,4,5", "6,3,4",
    ),
    "a choice by a scalar": (
        """p = pred[] parameter(1)  x = f32[2,3,4] parameter(0)  n = f32[2,3,4] negate(x)
        ROOT y = f32[2,3,4] select(p, x, n)""",
        "24", "24",
    ),
    "results that stay alike": (
        """x = f32[2,3,4] parameter(0)  f = f32[24] reshape(x)  g = f32[2,3,4] reshape(f)
        n = f32[2,3,4] negate(x)  ROOT y = (f32[2,3,4], f32[2,3,4]) tuple(g, n)""",
        "2,3,4", "2,3,4",
    ),
    "other types": (
        """x = f32[2,3,4] parameter(0)  c = s32[2,3,4] convert(x)  z = s32[] constant(1)
        b = s32[2,3,4] broadcast(z), dimensions={}
        ROOT y = pred[2,3,4] compare(c, b), direction=GT""",
        "24", "24",
    ),
}  # fmt: skip


def merged(text: str) -> tuple[HloModule, HloModule]:
    module = parse_module(f"HloModule m\n{ADD}\nENTRY e {{ {text} }}")
    return module, replace(module, entry=with_merged_dimensions(module.entry))


def dims(shape: object) -> str:
    return ",".join(map(str, shape.dims))


@pytest.mark.parametrize("name", CASES)
def test_what_merges(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    text, operand, result = CASES[name]
    module, made = merged(text)
    verify(made)
    leaf = made.entry.root.shape
    leaf = leaf.tuple_shapes[0] if leaf.is_tuple else leaf
    assert (dims(made.entry.parameters[0].shape), dims(leaf)) == (operand, result)
    arguments = [
        (10 * rng.standard_normal(p.shape.dims)).astype(p.shape.element_type.np)
        for p in module.entry.parameters
    ]
    wanted = HloEvaluator().run(module, *arguments)
    shaped = [
        a.reshape(p.shape.dims) for a, p in zip(arguments, made.entry.parameters, strict=True)
    ]
    got = HloEvaluator().run(made, *shaped)
    pairs = zip(got, wanted, strict=True) if isinstance(wanted, tuple) else [(got, wanted)]
    for a, b in pairs:
        np.testing.assert_allclose(np.ravel(a), np.ravel(b), rtol=1e-6, atol=1e-5)


def test_nothing_is_rebuilt_where_nothing_merges() -> None:
    module, made = merged(CASES["rows and columns apart"][0])
    assert made.entry is module.entry
