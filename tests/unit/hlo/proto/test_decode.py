"""The decoder: what it accepts, what it refuses, and that it says where."""

import math
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.growth import growth
from xladev.errors import ProtoError
from xladev.hlo.proto.decode import MAX_DEPTH, decode
from xladev.hlo.proto.encode import encode
from xladev.hlo.proto.message import Message
from xladev.hlo.proto.schema import ENUM_TYPES, MESSAGES, FieldKind
from xladev.hlo.proto.wire import varint

MODULE = MESSAGES["HloModuleProto"]


def sized(tag: int, data: bytes) -> bytes:
    return varint(tag << 3 | 2) + varint(len(data)) + data


def instruction(**fields: object) -> bytes:
    computation = encode(
        "HloComputationProto",
        {"name": "main", "instructions": [encode("HloInstructionProto", fields)]},
    )
    return encode("HloModuleProto", {"name": "m", "computations": [computation]})


def first_instruction(module: Message) -> Message:
    return module.children("computations")[0].children("instructions")[0]


def test_every_field_names_a_known_message_or_enum() -> None:
    for message in MESSAGES.values():
        assert len({f.number for f in message.fields.values()}) == len(message.fields)
        assert not {f.number for f in message.fields.values()} & message.ignored
        for field in message.fields.values():
            if field.kind is FieldKind.MESSAGE:
                assert field.type_name in MESSAGES
            elif field.kind is FieldKind.ENUM:
                assert field.type_name in ENUM_TYPES


def test_scalars_lists_and_parts() -> None:
    data = instruction(name="a", id=7, dimensions=(3, -1), epsilon=0.5, channel_id=-2)
    found = first_instruction(decode(data, MODULE))
    assert found.text("name") == "a"
    assert found.integer("id") == 7
    assert found.integers("dimensions") == (3, -1)
    assert found.real("epsilon") == 0.5
    assert found.integer("channel_id") == -2
    assert found.child("window") is None
    assert not found.flag("is_stable")


def test_a_nan_is_no_number() -> None:
    found = first_instruction(decode(instruction(name="a", epsilon=math.nan), MODULE))
    with pytest.raises(ProtoError, match="epsilon is NaN") as caught:
        found.real("epsilon")
    assert "HloInstructionProto" in str(caught.value.where)


def test_lists_may_be_packed_or_not() -> None:
    unpacked = b"".join(varint(14 << 3) + varint(n) for n in (3, 4))
    both = unpacked + sized(14, varint(5) + varint(300))
    found = decode(both, MESSAGES["HloInstructionProto"])
    assert found.integers("dimensions") == (3, 4, 5, 300)


def test_of_a_repeated_scalar_the_last_counts_and_parts_merge() -> None:
    twice = encode("Window", {}) + varint(1 << 3 | 2) + varint(0)
    assert len(decode(twice, MESSAGES["Window"]).children("dimensions")) == 1
    ids = varint(35 << 3) + varint(1) + varint(35 << 3) + varint(2)
    assert decode(ids, MESSAGES["HloInstructionProto"]).integer("id") == 2
    parts = sized(62, b"") + sized(62, encode("CholeskyOptions", {"lower": True}))
    options = decode(parts, MESSAGES["HloInstructionProto"]).child("cholesky_options")
    assert options is not None and options.flag("lower")


def test_zeros_with_presence_are_told_from_unset() -> None:
    data = encode("HloInstructionProto", {"cross_program_prefetch_index": 0, "id": 0})
    found = decode(data, MESSAGES["HloInstructionProto"])
    assert found.has("cross_program_prefetch_index")
    assert not found.has("id")


def test_an_undeclared_name_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(KeyError):
        decode(b"", MODULE).text("nmae")


def test_ignored_and_informative_unknown_fields_are_skipped() -> None:
    profile = sized(13, b"anything") + varint(900 << 3) + varint(1)
    fixed = varint(901 << 3 | 1) + bytes(8) + varint(902 << 3 | 5) + bytes(4)
    assert decode(profile + fixed, MODULE).values == {}


@pytest.mark.parametrize(
    "data, what",
    [
        (sized(1, b"abc")[:-1], "runs past the end"),
        (varint(5 << 3), "ends within a value"),
        (varint(5 << 3) + b"\x80", "ends within a value"),
        (varint(1 << 3 | 2) + varint(2**40), "runs past the end"),
        (varint(1 << 3 | 2) + varint(2**63), "runs past the end"),
        (sized(1, b"\xff\xfe"), "not valid UTF-8"),
        (varint(0 << 3) + b"\0", "field number 0"),
        (varint(1 << 40), "is not valid"),
        (varint(30 << 3 | 3), "wire type 3"),
        (varint(30 << 3 | 7), "wire type 7"),
        (varint(30 << 3 | 1) + bytes(3), "runs past the end"),
        (varint(30 << 3 | 2) + varint(9) + bytes(3), "runs past the end"),
        (b"\xff" * 11, "more than"),
    ],
)
def test_malformed_bytes(data: bytes, what: str) -> None:
    with pytest.raises(ProtoError, match=what) as caught:
        decode(data, MODULE)
    assert "byte" in str(caught.value.where)


def test_errors_name_byte_and_path() -> None:
    bad = instruction(name="dot.3", window=b"\x0a\x05abc")
    with pytest.raises(ProtoError) as caught:
        decode(bad, MODULE)
    assert caught.value.where is not None
    assert f"of {len(bad)}" in caught.value.where
    path = "HloModuleProto.computations[0] (main).instructions[0] (dot.3).window"
    assert path in caught.value.where


def test_an_unknown_field_of_an_instruction_is_refused_by_name() -> None:
    newer = sized(3, sized(1, b"main") + sized(2, sized(1, b"new.1") + varint(900 << 3) + b"\1"))
    with pytest.raises(ProtoError, match="unknown field, number 900") as caught:
        decode(newer, MODULE)
    assert "(new.1)" in str(caught.value.where)


def nested(depth: int) -> bytes:
    data = b""
    for _ in range(depth):
        data = sized(4, data)
    return data


def test_depth_is_bounded() -> None:
    assert decode(nested(MAX_DEPTH), MESSAGES["ShapeProto"]).children("tuple_shapes")
    with pytest.raises(ProtoError, match="nested more than"):
        decode(nested(MAX_DEPTH + 1), MESSAGES["ShapeProto"])
    with pytest.raises(ProtoError, match="nested more than"):
        decode(nested(4000), MESSAGES["ShapeProto"])


def test_a_claimed_length_allocates_nothing() -> None:
    tracemalloc.start()
    try:
        for data in (
            varint(1 << 3 | 2) + varint(2**62),
            sized(3, varint(2 << 3 | 2) + varint(2**61)),
        ):
            with pytest.raises(ProtoError):
                decode(data, MODULE)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.serial
@pytest.mark.parametrize("piece", ["1a00", "1a021200", "3801", "1a030a0161"])
def test_time_and_memory_grow_with_the_bytes(piece: str) -> None:
    """Hostile repetition costs a bounded number of bytes and microseconds per byte given."""
    data = bytes.fromhex(piece) * 50_000
    tracemalloc.start()
    try:
        decode(data, MODULE)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 250 * len(data)
    units = bytes.fromhex(piece)
    assert growth(lambda data: decode(data, MODULE), lambda n: units * n, 10_000, 80_000) < 1.5


@given(st.binary(max_size=200))
def test_random_bytes_only_raise_proto_errors(data: bytes) -> None:
    for name in ("HloModuleProto", "HloInstructionProto", "ShapeProto", "LiteralProto"):
        try:
            decode(data, MESSAGES[name])
        except ProtoError as failure:
            assert failure.where


def test_an_unknown_number_of_an_enum() -> None:
    found = decode(varint(75 << 3) + varint(9), MESSAGES["HloInstructionProto"])
    with pytest.raises(ProtoError, match="PaddingType has no value 9") as caught:
        found.enum("padding_type")
    assert "PADDING_SAME" in str(caught.value.hint)


@pytest.mark.parametrize(
    "message, fields, what",
    [
        ("HloInstructionProto", {"id": 2**64}, "id"),
        ("HloInstructionProto", {"id": "seven"}, "id"),
        ("HloInstructionProto", {"name": "\ud800"}, "name"),
        ("HloInstructionProto", {"fft_type": "DFT"}, "fft_type"),
        ("Window", {"dimensions": [3]}, "dimensions"),
    ],
)
def test_values_that_a_field_cannot_hold(
    message: str, fields: dict[str, object], what: str
) -> None:
    with pytest.raises(ProtoError, match=f"{message}.{what}"):
        encode(message, fields)


def test_fields_are_written_in_order_of_their_numbers() -> None:
    data = encode("HloInstructionProto", {"id": 1, "opcode": "add", "name": "a"})
    assert data == sized(1, b"a") + sized(2, b"add") + varint(35 << 3) + b"\1"


def test_negative_zero_is_written() -> None:
    assert encode("Statistic", {"stat_val": -0.0}) != b""
    assert encode("Statistic", {"stat_val": 0.0}) == b""
