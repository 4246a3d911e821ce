"""Constants keep every bit, whatever their type, layout and nesting."""

from dataclasses import replace

import numpy as np
import pytest

import xladev
from tests.tools import oracle
from xladev.errors import LiteralError, ProtoError
from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.literal import Literal
from xladev.hlo.opset import OPSET
from xladev.hlo.proto import read_module, write_module
from xladev.hlo.proto.decode import decode
from xladev.hlo.proto.encode import encode
from xladev.hlo.proto.literals import read_literal, write_literal
from xladev.hlo.proto.schema import MESSAGES
from xladev.hlo.proto.shapes import write_shape
from xladev.hlo.shape import TOKEN_SHAPE, Layout, Shape, array, tuple_of

NOT_IN_THE_ORACLE = {dt.F6E2M3FN, dt.F6E3M2FN, dt.S1, dt.U1}
"""Types on which jaxlib 0.12 aborts when it writes a proto, or which it refuses to read."""


def any_bits(element_type: PrimitiveType, size: int, seed: int) -> np.ndarray:
    """Elements with random bits: NaN payloads, denormals and all."""
    rng = np.random.default_rng(seed)
    if element_type is dt.PRED:
        return rng.integers(0, 2, size).astype(np.bool_)
    data = rng.integers(0, 256, size * element_type.np.itemsize, dtype=np.uint8)
    if element_type.bits < 8:
        data &= np.uint8((1 << element_type.bits) - 1)
    return data.view(element_type.np)


def literal(element_type: PrimitiveType, dims: tuple[int, ...], seed: int) -> Literal:
    shape = array(element_type, dims).with_default_layout()
    return Literal(shape, any_bits(element_type, shape.size, seed).reshape(dims))


def again(value: Literal) -> Literal:
    return read_literal(decode(write_literal(value), MESSAGES["LiteralProto"]))


def constant_module(value: Literal) -> HloModule:
    root = HloInstruction(OPSET["constant"], value.shape, (), {"literal": value}, "c")
    return HloModule("m", HloComputation("main", (root,), root))


@pytest.mark.parametrize("element_type", dt.ARRAY_TYPES, ids=str)
@pytest.mark.parametrize("dims", [(), (0,), (1,), (7,), (3, 5), (2, 0, 3), (2, 3, 4)], ids=str)
def test_every_type_keeps_its_bits(
    element_type: PrimitiveType, dims: tuple[int, ...], seed: int
) -> None:
    value = literal(element_type, dims, seed)
    assert again(value) == value


@pytest.mark.parametrize("element_type", dt.INTEGERS, ids=str)
def test_extreme_integers(element_type: PrimitiveType) -> None:
    low = -(1 << element_type.bits - 1) if element_type.is_signed else 0
    high = (1 << element_type.bits - element_type.is_signed) - 1
    value = Literal(
        array(element_type, (3,)).with_default_layout(),
        np.array([low, high, 0]).astype(element_type.np)
        if element_type.bits < 64
        else np.array([low, high, 0], element_type.np),
    )
    assert again(value) == value


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)], ids=str)
def test_layouts(order: tuple[int, ...], seed: int) -> None:
    shape = array(dt.F32, (2, 3, 4), layout=Layout(order))
    value = Literal(shape, any_bits(dt.F32, 24, seed).reshape(2, 3, 4))
    assert again(value) == value


def test_a_column_major_literal_is_stored_by_columns() -> None:
    shape = array(dt.U8, (2, 3), layout=Layout((0, 1)))
    value = Literal(shape, np.array([[1, 2, 3], [4, 5, 6]], np.uint8))
    stored = decode(write_literal(value), MESSAGES["LiteralProto"])
    assert stored.data("u8s") == bytes([1, 4, 2, 5, 3, 6])


def test_tuples_and_tokens(seed: int) -> None:
    parts = (literal(dt.F32, (2,), seed), Literal(TOKEN_SHAPE), literal(dt.PRED, (), seed))
    inner = Literal(tuple_of(*(p.shape for p in parts)), parts=parts)
    outer = Literal(tuple_of(inner.shape, parts[0].shape), parts=(inner, parts[0]))
    assert again(outer) == outer
    assert again(Literal(tuple_of())) == Literal(tuple_of())


def test_a_million_elements(seed: int) -> None:
    value = literal(dt.S64, (1000, 1000), seed)
    assert again(value) == value


def test_unpacked_numbers_are_read() -> None:
    shape = write_shape(array(dt.S32, (2,)).with_default_layout())
    unpacked = encode("LiteralProto", {"shape": shape}) + bytes([4 << 3, 5, 4 << 3, 6])
    found = read_literal(decode(unpacked, MESSAGES["LiteralProto"]))
    assert found.value.tolist() == [5, 6]


def stored(shape: Shape, **fields: object) -> bytes:
    return encode("LiteralProto", {"shape": write_shape(shape), **fields})


@pytest.mark.parametrize(
    "data, what",
    [
        (stored(array(dt.F32, (2,)), f32s=bytes(4)), "1 elements, not 2"),
        (stored(array(dt.F32, (2,)), f32s=bytes(7)), "no whole number"),
        (stored(array(dt.F32, (2**40,)), f32s=bytes(8)), "2 elements, not"),
        (stored(array(dt.S32, (2,)), s32s=b"\x01\x80"), "cut short"),
        (stored(array(dt.S32, (1,)), s32s=b"\xff" * 10 + b"\x01"), "64 bits"),
        (stored(array(dt.S32, (1,)), s32s=b"\xff" * 30), "cut short"),
        (stored(tuple_of(array(dt.F32))), "has 0"),
        (stored(array(dt.F32, (2,)), f32s=bytes(8), dynamic_sizes=(1,)), "bound"),
        (encode("LiteralProto", {"f32s": bytes(4)}), "no shape"),
    ],
)
def test_what_does_not_fit_is_an_error(data: bytes, what: str) -> None:
    with pytest.raises(ProtoError, match=what):
        read_literal(decode(data, MESSAGES["LiteralProto"]))


def test_an_elided_value_cannot_be_written() -> None:
    with pytest.raises(LiteralError, match="elided"):
        write_module(constant_module(Literal(array(dt.F32, (2,)), elided=True)))


def test_xla_reads_the_same_bits(seed: int) -> None:
    values = [literal(t, (3, 5), seed) for t in dt.ARRAY_TYPES if t not in NOT_IN_THE_ORACLE]
    modules = [write_module(constant_module(value)) for value in values]
    for value, proto in zip(values, oracle.rewritten(modules), strict=True):
        assert isinstance(proto, bytes), (value.shape, proto)
        assert read_module(proto).entry.root["literal"] == value


@pytest.mark.parametrize("element_type", [dt.F32, dt.BF16, dt.S8, dt.C128], ids=str)
@pytest.mark.parametrize("offset", range(3))
def test_long_constants_are_read_where_they_are(
    element_type: PrimitiveType, offset: int, seed: int
) -> None:
    """At any address in the data, without a copy; short ones let the data go."""
    long, short = literal(element_type, (70_000,), seed), literal(element_type, (9,), seed)
    data = write_module(replace(constant_module(long), name="m" * (1 + offset)))
    read = read_module(data).entry.root["literal"]
    assert read == long and read.bits() == long.bits() and read.digest() == long.digest()
    assert np.shares_memory(read.array, np.frombuffer(data, np.uint8))
    assert not read.array.flags.writeable
    data = write_module(constant_module(short))
    found = read_module(data).entry.root["literal"].array
    assert not np.shares_memory(found, np.frombuffer(data, np.uint8))


@pytest.mark.parametrize("length", range(1, 5))
def test_programs_compute_with_constants_at_any_address(length: int, seed: int) -> None:
    b = HloBuilder("e")
    x = b.parameter(array(dt.F32, (40, 512)))
    y = b.constant(np.random.default_rng(seed).random((600, 512), dtype=np.float32))
    b.op("dot", x, y, lhs_contracting_dims=(1,), rhs_contracting_dims=(1,))
    module = replace(b.module(), name="m" * length)
    given = np.random.default_rng(seed + 1).random((40, 512), dtype=np.float32)
    wanted = xladev.compile(module, "cpu")(given).numpy()
    read = read_module(write_module(module))
    assert xladev.compile(read, "cpu")(given).numpy().tobytes() == wanted.tobytes()
    evaluated = HloEvaluator().run(read, given)
    assert np.array_equal(evaluated, HloEvaluator().run(module, given))
