"""bitcasts of tiled and packed layouts, held against packing and unpacking by NumPy."""

import numpy as np
import pytest

from tests.unit.passes.expansions.single import assert_exact, expanded
from xladev.hlo.physical import pack, unpack
from xladev.hlo.shape import Shape
from xladev.hlo.text import parse_module, parse_shape

PAIRS = [
    ("f32[3,5]{1,0:T(2,2)}", "f32[24]"),
    ("f32[24]", "f32[3,5]{0,1:T(2,2)(2,1)}"),
    ("f32[5,7]{1,0:T(4,2)}", "f32[4,8,2]{0,2,1}"),
    ("bf16[5,7]{1,0:T(8,128)(2,1)}", "u8[2048]"),
    ("s4[3,5]{1,0:E(4)}", "u8[8]"),
    ("u8[8]", "s4[3,5]{0,1:E(4)}"),
    ("s4[3,5]{1,0:T(2,2)E(4)}", "u4[24]{0:E(4)}"),
    ("pred[3,3]{0,1:T(2,2)}", "pred[16]"),
    ("u32[6]", "s2[4,24]{1,0:T(2,4)E(2)}"),
    ("f32[2,3]{1,0:T(2,2,2)}", "f32[16]"),
    ("c64[3]{0:T(2)}", "c64[2,2]{0,1}"),
]


def ramp(shape: Shape) -> np.ndarray:
    return (np.arange(shape.size) % 7).reshape(shape.dims).astype(shape.element_type.np)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_same_bytes(source: str, target: str) -> None:
    before, after = parse_shape(source), parse_shape(target)
    x = ramp(before)
    wanted = unpack(pack(x, before), after)
    assert_exact(f"r = {target} bitcast({source} x)", wanted, x)


@pytest.mark.parametrize(
    "text",
    [
        "r = f32[2,3]{0,1} bitcast(f32[6] x)",
        "r = f32[2,8]{1,0:T(*,8)} bitcast(f32[16] x)",
        "r = pred[16] bitcast(u8[4,4]{0,1:T(2,2)} x)",
    ],
)
def test_others_are_left_alone(text: str) -> None:
    with pytest.raises(AssertionError, match="nothing expands"):
        expanded(parse_module(text))
