"""What takes and gives arrays with dimensions moved: the same values, opcode by opcode."""

import numpy as np
import pytest

from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.shape import array
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes.expansions.emit import Emitter
from xladev.platforms.cpu.layouts.followers import following, written
from xladev.platforms.cpu.layouts.orders import Span, one, order_with_last, with_last

ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }"
CASES = {
    "unary": ("f32[2,3,4,5] negate(x)", "2,3,4,5", one(1), one(1)),
    "another type": ("s32[2,3,4,5] convert(x)", "2,3,4,5", one(1), one(1)),
    "two operands": ("f32[2,3,4,5] maximum(x, y)", "2,3,4,5", Span(1, 3), Span(1, 3)),
    "a scalar beside": ("f32[2,3,4] clamp(z, x, z)", "2,3,4", one(0), one(0)),
    "pad": ("f32[2,4,4,9] pad(x, z), padding=0_0x1_0x0_0x1_-1_1", "2,3,4,5", one(1), one(1)),
    "slice": (
        "f32[2,2,2,5] slice(x), slice={[0:2],[1:3],[0:4:2],[0:5]}", "2,3,4,5", one(1), one(1),
    ),
    "reverse": ("f32[2,3,4,5] reverse(x), dimensions={1,3}", "2,3,4,5", one(1), one(1)),
    "concatenate": ("f32[2,6,4,5] concatenate(x, y), dimensions={1}", "2,3,4,5", one(1), one(1)),
    "rows joined": ("f32[2,3,8,5] concatenate(x, y), dimensions={2}", "2,3,4,5", one(1), one(1)),
    "pooling": (
        "f32[2,3,2,5] reduce-window(x, z), window={size=1x1x3x1 stride=1x1x2x1 pad=0_0x0_0x1_0x0_0}"
        ", to_apply=add", "2,3,4,5", one(1), one(1),
    ),
    "mean of pixels": (
        "f32[2,3] reduce(x, z), dimensions={2,3}, to_apply=add", "2,3,4,5", one(1), one(1),
    ),
    "sum of rows": (
        "f32[2,3,5] reduce(x, z), dimensions={2}, to_apply=add", "2,3,4,5", one(1), one(1),
    ),
    "sum of channels": (
        "f32[2,4,5] reduce(x, z), dimensions={1}, to_apply=add", "2,3,4,5", one(1), Span(1, 1),
    ),
    "groups": (
        "f32[2,3] reduce(x, z), dimensions={2,3}, to_apply=add", "2,3,4,5", Span(1, 3), one(1),
    ),
    "channels split": ("f32[2,2,3,20] reshape(x)", "2,6,4,5", one(1), Span(1, 3)),
    "channels joined": ("f32[2,12,5] reshape(x)", "2,3,4,5", Span(1, 3), one(1)),
    "pixels joined": ("f32[2,3,20] reshape(x)", "2,3,4,5", one(1), one(1)),
    "ones before": ("f32[1,2,3,1,4] reshape(x)", "2,3,4", one(1), one(2)),
    "transpose": ("f32[5,3,2,4] transpose(x), dimensions={3,1,0,2}", "2,3,4,5", one(1), one(1)),
    "tokens": ("f32[2,20,3] transpose(x), dimensions={0,2,1}", "2,3,20", one(1), one(2)),
}  # fmt: skip
REFUSED = {
    "channels and rows in one": ("f32[2,12,5] reshape(x)", "2,3,4,5", one(1)),
    "neighbours apart": ("f32[2,4,3] transpose(x), dimensions={0,2,1}", "2,3,4", Span(0, 2)),
    "pairs turned round": ("f32[2,4,3] transpose(x), dimensions={0,2,1}", "2,3,4", Span(1, 3)),
    "what nobody knows": ("f32[2,3,4] sort(x), dimensions={2}, to_apply=less", "2,3,4", one(1)),
}
LESS = """less { a = f32[] parameter(0)  b = f32[] parameter(1)
  ROOT l = pred[] compare(a, b), direction=LT }"""


def module_of(text: str, dims: str) -> HloModule:
    operands = f"x = f32[{dims}] parameter(0)  y = f32[{dims}] parameter(1)  z = f32[] parameter(2)"
    return parse_module(f"HloModule m\n{ADD}\n{LESS}\nENTRY e {{ {operands}  ROOT r = {text} }}")


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_the_instruction(name: str, seed: int) -> None:
    text, dims, channels, result = CASES[name]
    module = module_of(text, dims)
    root = module.entry.root
    way = following(root, [o.name for o in root.operands].index("x"), channels)
    assert way is not None
    assert way.result == result
    e, made = Emitter("e"), dict[str, HloInstruction]()
    for p in module.entry.parameters:
        dims_of = with_last(p.shape.dims, channels) if p.shape.rank else ()
        made[p.name] = e.parameter(array(p.shape.element_type, dims_of))
    changed = e.module(written(way, e, root, [made[o.name] for o in root.operands]))
    verify(changed)
    rng = np.random.default_rng(seed)
    values = [10 * rng.standard_normal(p.shape.dims).astype("f") for p in module.entry.parameters]
    moved = [v.transpose(order_with_last(v.ndim, channels)) if v.ndim else v for v in values]
    wanted = HloEvaluator().run(module, *values)
    got = HloEvaluator().run(changed, *(v.copy() for v in moved))
    np.testing.assert_allclose(got, wanted.transpose(order_with_last(wanted.ndim, result)), 1e-5)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    text, dims, channels = REFUSED[name]
    root = module_of(text, dims).entry.root
    way = following(root, 0, channels)
    assert way is None
