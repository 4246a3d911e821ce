"""Physical layout: sizes, packing, tiles, against element-by-element addresses."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xladev.errors import LiteralError, UnsupportedError
from xladev.hlo import dtype as dt
from xladev.hlo.physical import is_plain, pack, physical_nbytes, unpack
from xladev.hlo.shape import COMBINE_DIMENSION, TOKEN_SHAPE, Layout, Shape, Tile, row_major
from xladev.hlo.text import parse_module


def address(shape, index):
    """Element offset of one index, straight from XLA's definition of tiled layouts."""
    order = shape.minor_to_major[::-1]
    dims, at = [shape.dims[i] for i in order], [index[i] for i in order]
    for tile in shape.layout.tiles if shape.layout else ():
        t = tile.dims
        while len(dims) < len(t):
            dims, at = [1, *dims], [0, *at]
        outer = len(dims) - len(t)
        pairs = list(zip(dims[outer:], at[outer:], t, strict=True))
        dims = dims[:outer] + [-(-d // n) for d, _, n in pairs] + list(t)
        at = at[:outer] + [i // n for _, i, n in pairs] + [i % n for _, i, n in pairs]
    offset = 0
    for d, i in zip(dims, at, strict=True):
        offset = offset * d + i
    return offset, int(np.prod(dims))


@st.composite
def shapes(draw):
    dims = tuple(draw(st.lists(st.integers(1, 5), max_size=4)))
    order = tuple(draw(st.permutations(range(len(dims)))))
    tile = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(lambda t: Tile(tuple(t)))
    tiles = tuple(draw(st.lists(tile, max_size=2)))
    return Shape(dt.S16, dims, Layout(order, tiles=tiles))


@settings(max_examples=200)
@given(shapes())
def test_every_element_lies_where_the_definition_says(shape):
    array = np.arange(1, 1 + shape.size, dtype=np.int16).reshape(shape.dims)
    packed = pack(array, shape)
    flat = packed.view(np.int16)
    for index in itertools.product(*map(range, shape.dims)):
        offset, total = address(shape, index)
        assert flat[offset] == array[index]
        assert total * 2 == packed.nbytes == physical_nbytes(shape)
    assert unpack(packed, shape).tobytes() == array.tobytes()


@pytest.mark.parametrize("layout", ["{1,0:SC(1:2,4)}", "{1,0:D(S)}", "{1,0:T(*,4)}"])
def test_a_layout_without_a_dense_form_is_refused_with_its_place(layout):
    text = f"HloModule m\nENTRY e {{ ROOT x = f32[4,8]{layout} parameter(0) }}"
    shape = parse_module(text).entry.parameters[0].shape
    with pytest.raises(UnsupportedError) as info:
        physical_nbytes(shape)
    assert info.value.where == f"shape f32[4,8]{layout}"


@given(st.sampled_from([1, 2, 4]), st.integers(0, 20), st.booleans())
def test_sub_byte_elements_are_packed_low_bits_first(bits, count, signed):
    kind = {
        (1, 0): dt.U1,
        (1, 1): dt.S1,
        (2, 0): dt.U2,
        (2, 1): dt.S2,
        (4, 0): dt.U4,
        (4, 1): dt.S4,
    }
    element = kind[bits, int(signed)]
    values = (np.arange(count) % (1 << bits)) - (1 << (bits - 1) if signed else 0)
    array = values.astype(np.int8).astype(element.np)
    shape = Shape(element, (count,), Layout((0,), element_bits=bits))
    packed = pack(array, shape)
    assert packed.nbytes == physical_nbytes(shape) == -(-count * bits // 8)
    number = int.from_bytes(packed.tobytes(), "little")
    for i, value in enumerate(values):
        assert (number >> (i * bits)) & ((1 << bits) - 1) == int(value) % (1 << bits)
    np.testing.assert_array_equal(unpack(packed, shape).astype(np.int8), values)


def test_plain_layouts_are_views():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    for layout in (None, row_major(2), Layout((1, 0), memory_space=1)):
        shape = Shape(dt.F32, (2, 3), layout)
        assert is_plain(shape)
        packed = pack(array, shape)
        assert np.shares_memory(packed, array)
        assert np.shares_memory(unpack(packed, shape), array)
    assert not is_plain(Shape(dt.F32, (2, 3), Layout((0, 1))))
    assert not is_plain(Shape(dt.S4, (2,), Layout((0,), element_bits=4)))


def test_sub_byte_types_take_a_byte_each_unless_the_layout_says_otherwise():
    assert physical_nbytes(Shape(dt.S4, (5,))) == 5
    assert physical_nbytes(Shape(dt.F4E2M1FN, (5,), Layout((0,), element_bits=4))) == 3
    assert physical_nbytes(TOKEN_SHAPE) == 0


def test_strided_and_scalar_arrays():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)[::-2, ::3]
    shape = Shape(dt.F32, array.shape)
    assert unpack(pack(array, shape), shape).tobytes() == array.tobytes()
    scalar = np.float64(2.5)
    assert unpack(pack(np.asarray(scalar), Shape(dt.F64)), Shape(dt.F64)) == scalar


def test_special_values_keep_their_bits():
    bits = np.array([0x7FC1, 0x0001, 0x8000, 0xFF80], np.uint16)
    array = bits.view(ml_dtypes.bfloat16)
    shape = Shape(dt.BF16, (4,), Layout((0,), tiles=(Tile((3,)),)))
    np.testing.assert_array_equal(unpack(pack(array, shape), shape).view(np.uint16), bits)


def test_what_does_not_fit_is_refused():
    with pytest.raises(LiteralError, match="does not fit"):
        pack(np.zeros(3, np.float32), Shape(dt.F32, (4,)))
    with pytest.raises(LiteralError, match="does not fit"):
        pack(np.zeros(4, np.int32), Shape(dt.F32, (4,)))


@pytest.mark.parametrize(
    "layout",
    [
        Layout((0,), dim_level_types=("C",)),
        Layout((0,), tiles=(Tile((COMBINE_DIMENSION,)),)),
        Layout((0,), metadata_prefix_bytes=8),
    ],
    ids=str,
)
def test_layouts_without_dense_form_are_refused(layout):
    with pytest.raises(UnsupportedError):
        physical_nbytes(Shape(dt.F32, (4,), layout))


def test_a_tile_of_no_dimensions_changes_nothing():
    shape = Shape(dt.F32, (), Layout((), tiles=(Tile(()),)))
    assert unpack(pack(np.asarray(np.float32(2.5)), shape), shape) == 2.5
    shape = Shape(dt.F32, (2,), Layout((0,), tiles=(Tile(()),)))
    np.testing.assert_array_equal(unpack(pack(np.ones(2, np.float32), shape), shape), [1, 1])
