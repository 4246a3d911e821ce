"""Loop nests in tiles: where they are chosen, and that they visit every element once."""

from __future__ import annotations

import numpy as np
import pytest

from xladev.client import compile as compile_for
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.tiling import LoopTile, tile_of


def tile(text: str) -> LoopTile | None:
    root = parse_module(f"HloModule m\nENTRY e {{ {text} }}").entry.root
    return tile_of([root], root.shape)


def transpose(operand: str, result: str, order: str) -> str:
    return f"p = {operand} parameter(0)  ROOT r = {result} transpose(p), dimensions={{{order}}}"


def test_a_large_transpose_goes_in_tiles_of_a_line() -> None:
    assert tile(transpose("f32[512,512]", "f32[512,512]", "1,0")) == LoopTile(0, 1, 16, 8)
    assert tile(transpose("s8[2048,2048]", "s8[2048,2048]", "1,0")) == LoopTile(0, 1, 64, 8)
    batched = transpose("f64[4,512,8,256]", "f64[4,256,8,512]", "0,3,2,1")
    assert tile(batched) == LoopTile(1, 3, 8, 8)


@pytest.mark.parametrize(
    "text",
    [
        transpose("f32[64,64]", "f32[64,64]", "1,0"),  # near lines are fetched ahead
        transpose("f32[64,1024]", "f32[1024,64]", "1,0").replace("1024", "1040"),  # all stay
        transpose("f32[512,4,512]", "f32[4,512,512]", "1,0,2"),  # along the lines
        transpose("f32[512,512]{0,1}", "f32[512,512]{1,0}", "1,0"),
        "p = f32[512,512] parameter(0)  ROOT r = f32[512,512] negate(p)",
        "p = f32[512] parameter(0)  ROOT r = f32[512,512] broadcast(p), dimensions={0}",
        "p = f32[] parameter(0)  ROOT r = f32[] negate(p)",
    ],
)
def test_others_go_along_rows(text: str) -> None:
    assert tile(text) is None


def test_the_transpose_may_lie_behind_other_instructions() -> None:
    text = """p = f32[512,512] parameter(0)  q = f32[512] parameter(1)
      n = f32[512,512] negate(p)  t = f32[512,512] transpose(n), dimensions={1,0}
      b = f32[512,512] broadcast(q), dimensions={1}
      s = f32[512,512] add(t, b)  ROOT r = f32[500,512] slice(s), slice={[4:504], [0:512]}"""
    assert tile(text) == LoopTile(0, 1, 16, 8)


SHAPES = [
    ((512, 512), (1, 0)), ((521, 1030), (1, 0)), ((2, 517, 3, 512), (0, 3, 2, 1)),
    ((530, 1, 513), (2, 1, 0)), ((1, 520, 260, 2), (3, 2, 0, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("dims", "order"), SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_every_element_arrives(dims: tuple[int, ...], order: tuple[int, ...], dtype: type) -> None:
    x = np.arange(np.prod(dims)).reshape(dims).astype(dtype)
    name = {"float32": "f32", "float64": "f64", "int8": "s8"}[np.dtype(dtype).name]
    want = x.transpose(order)
    operand, result = (f"{name}[{','.join(map(str, a.shape))}]" for a in (x, want))
    text = f"""p = {operand} parameter(0)  q = {result} parameter(1)
      t = {result} transpose(p), dimensions={{{",".join(map(str, order))}}}
      ROOT r = {result} subtract(t, q)"""
    run = compile_for(parse_module(f"HloModule m\nENTRY e {{ {text} }}"), "cpu")
    np.testing.assert_array_equal(np.asarray(run(x, np.ones_like(want))), want - want.dtype.type(1))
