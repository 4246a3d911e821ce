"""Every element of the small types, and many of the large ones, through text and back."""

import numpy as np
import pytest

from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.literal import Literal, literal_of
from xladev.hlo.shape import array
from xladev.hlo.text.cursor import Cursor
from xladev.hlo.text.literals import literal_text, parse_literal_at
from xladev.hlo.text.numbers import bits_dtype, format_elements, parse_elements

SMALL = [t for t in dt.FLOATS if t.bits <= 16]


def patterns(element_type: PrimitiveType, seed: int) -> np.ndarray:
    """Every bit pattern of a small type; random ones and the extremes of a large type."""
    if element_type.bits <= 16:
        return np.arange(1 << element_type.bits, dtype=bits_dtype(element_type))
    draw = np.random.default_rng(seed)
    some = draw.integers(0, 1 << 63, 4000, dtype=np.uint64) << np.uint64(1)
    some >>= np.uint64(64 - element_type.bits)
    edges = np.array([0, 1, 2, (1 << element_type.bits - 1) + 1], np.uint64)
    return np.concatenate([edges, some]).astype(bits_dtype(element_type))


@pytest.mark.parametrize("element_type", dt.FLOATS, ids=str)
def test_floats_keep_their_bits(element_type: PrimitiveType, seed: int) -> None:
    bits = patterns(element_type, seed)
    texts = format_elements(bits.view(element_type.np), element_type)
    again = parse_elements(texts, element_type).view(bits_dtype(element_type))
    different = np.flatnonzero(again != bits)
    assert not different.size, [(hex(bits[i]), texts[i]) for i in different[:5]]


@pytest.mark.parametrize("element_type", [t for t in dt.INTEGERS if t.bits <= 8], ids=str)
def test_integers_keep_their_values(element_type: PrimitiveType) -> None:
    low = -(1 << element_type.bits - 1) if element_type.is_signed else 0
    values = np.arange(low, low + (1 << element_type.bits)).astype(element_type.np)
    texts = format_elements(values, element_type)
    assert parse_elements(texts, element_type).tolist() == values.tolist()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"), (1.0, "1"), (-0.0, "-0.0"), (1e-5, "1e-05"), (16777216.0, "1.6777216e+07"),
        (3.4028235e38, "3.4028235e+38"), (1e-45, "1e-45"), (float("nan"), "nan"),
        (float("-inf"), "-inf"),
    ],
)  # fmt: skip
def test_floats_have_their_shortest_spelling(value: float, text: str) -> None:
    assert format_elements(np.array([value], np.float32), dt.F32) == [text]


def test_a_spelling_that_would_be_rounded_twice_is_longer() -> None:
    halfway = np.array([0x15AE43FE], np.uint32).view(np.float32)
    (text,) = format_elements(halfway, dt.F32)
    assert np.float32(float(text)) == halfway[0]


@pytest.mark.parametrize(
    ("text", "bits"),
    [("nan", 0x7FC00000), ("-nan", 0xFFC00000), ("nan(0x1)", 0x7F800001),
     ("-nan(0x400001)", 0xFFC00001), ("5.", 0x40A00000), ("-0", 0x80000000)],
)  # fmt: skip
def test_nans_and_signs_are_as_in_xla(text: str, bits: int) -> None:
    assert parse_elements([text], dt.F32).view(np.uint32).tolist() == [bits]


SHAPES = [(), (1,), (3,), (2, 3), (2, 1, 2), (0,), (0, 3), (2, 0), (2, 2, 0, 3)]


@pytest.mark.parametrize("dims", SHAPES, ids=str)
@pytest.mark.parametrize("element_type", [dt.F32, dt.C64, dt.PRED, dt.S4, dt.BF16], ids=str)
def test_literals_of_every_rank(dims: tuple[int, ...], element_type: PrimitiveType) -> None:
    values = np.resize(np.array([0, 1, 1, 0, 1]), dims).astype(element_type.np)
    literal = Literal(array(element_type, dims), values)
    text = literal_text(literal)
    assert parse_literal_at(Cursor(text), literal.shape) == literal


def test_large_constants_can_be_left_out() -> None:
    small, large = literal_of([1.0] * 10), literal_of([1.0] * 11)
    assert literal_text(small, largest=10) != "{...}"
    assert literal_text(large, largest=10) == "{...}"
    assert parse_literal_at(Cursor("{...}"), large.shape).elided


def test_many_empty_rows_are_not_spelled_out() -> None:
    huge = Literal(array(dt.F32, (1 << 40, 0)), np.empty((1 << 40, 0), np.float32))
    assert literal_text(huge) == "{}"
    assert parse_literal_at(Cursor("{}"), huge.shape) == huge


def test_comments_may_stand_between_elements() -> None:
    shape = array(dt.S32, (2, 2))
    literal = parse_literal_at(Cursor("{ /*i0=0*/ {1, /*x*/ 2}, // row\n {3, 4} }"), shape)
    assert literal.value.tolist() == [[1, 2], [3, 4]]
