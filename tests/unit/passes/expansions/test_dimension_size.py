"""Sizes of static dimensions, asked for and set."""

import numpy as np
import pytest

from tests.unit.passes.expansions.single import assert_exact, expanded
from xladev import client
from xladev.hlo.text import parse_module

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("dimension", [0, 1])
def test_the_size_of_a_dimension_is_a_constant(dimension: int) -> None:
    text = f"r = s32[] get-dimension-size(f32[2,3] x), dimensions={{{dimension}}}"
    assert_exact(text, 0, X)
    assert expanded(parse_module(text)).root.opcode == "constant"


def test_setting_a_size_to_its_bound_changes_nothing() -> None:
    text = "r = f32[2,3] set-dimension-size(f32[2,3] x, s32[] n), dimensions={1}"
    assert_exact(text, 0, X, np.int32(3))
    assert expanded(parse_module(text)).root.opcode == "parameter"


@pytest.mark.parametrize(
    "text",
    [
        "r = s32[] get-dimension-size(f32[<=3] x), dimensions={0}",
        "r = f32[<=3] set-dimension-size(f32[3] x, s32[] n), dimensions={0}",
        "r = f32[3] set-dimension-size(f32[<=3] x, s32[] n), dimensions={0}",
    ],
)
def test_dynamic_shapes_are_left_alone(text: str) -> None:
    with pytest.raises(AssertionError, match="nothing expands"):
        expanded(parse_module(text))


def test_a_top_k_of_tensorflow_needs_no_host() -> None:
    made = client.compile(
        b"""HloModule m
        ENTRY e {
          x = f32[4] parameter(0)
          cut = f32[3] slice(x), slice={[0:3]}
          three = s32[] constant(3)
          ROOT r = f32[3] set-dimension-size(cut, three), dimensions={0}
        }""",
        "cpu",
    )
    assert not made.program.fallbacks
    assert np.asarray(made(np.arange(4, dtype=np.float32))).tolist() == [0, 1, 2]


def test_a_reshape_to_static_sizes_is_one() -> None:
    text = "r = f32[3,2] dynamic-reshape(f32[2,3] x, s32[] a, s32[] b)"
    assert_exact(text, X.reshape(3, 2), X, np.int32(3), np.int32(2))
    assert expanded(parse_module(text)).root.opcode == "reshape"
