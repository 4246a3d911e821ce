"""Nested values: flattening and nesting undo each other."""

import numpy as np

from xladev.hlo.nested_values import flattened, nested
from xladev.hlo.text import parse_module

MODULE = parse_module("""
ENTRY e {
  p = (f32[2], ((s32[3], token[]), ()), pred[]) parameter(0)
  ROOT r = f32[2] get-tuple-element(p), index=0
}""")
SHAPE = MODULE.entry.parameters[0].shape


def test_nested_and_flattened_are_the_inverse_of_each_other():
    arrays = [np.float32([1, 2]), np.int32([3]), None, True]
    given = iter(arrays)
    value = nested(SHAPE, lambda _: next(given))
    assert value == (arrays[0], ((arrays[1], None), ()), True)
    assert all(a is b for a, b in zip(flattened(value), arrays, strict=True))


def test_each_array_is_taken_by_its_shape():
    value = nested(SHAPE, lambda shape: shape.to_string(layout=False))
    assert value == ("f32[2]", (("s32[3]", "token[]"), ()), "pred[]")


def test_an_array_alone_is_not_nested():
    part = SHAPE.tuple_shapes[0]
    assert nested(part, lambda shape: shape) is part
    assert flattened(part) == [part]
