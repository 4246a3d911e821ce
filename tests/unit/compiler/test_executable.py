"""Executables: round trip, damage, foreign targets, signatures, contract values."""

import dataclasses
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xladev.compiler.contract import HostOnlyCompiler
from xladev.compiler.description import DeviceDescription, MemorySpace
from xladev.compiler.executable import BLOB_ALIGNMENT, MAGIC, Executable
from xladev.compiler.options import CompileOptions
from xladev.compiler.shape_json import shape_from_json, shape_to_json
from xladev.compiler.signature import FORMAT_VERSION, Alias, Signature
from xladev.compiler.support import YES, Support, no
from xladev.errors import ArgumentError, FormatError, UnsupportedError
from xladev.hlo import dtype as dt
from xladev.hlo.shape import (
    TOKEN_SHAPE,
    Layout,
    Shape,
    SplitConfig,
    Tile,
    array,
    row_major,
    tuple_of,
)

A = array(dt.F32, (2, 3), layout=Layout((0, 1), tiles=(Tile((8, 128)),), memory_space=1))
D = array(dt.S4, (5, 4), dynamic=(True, False), layout=Layout((1, 0), element_bits=4))
SIGNATURE = Signature(
    "step",
    "npu",
    (A, tuple_of(D, TOKEN_SHAPE)),
    tuple_of(A, D),
    target="v2",
    aliases=(Alias(0, 0, must=True),),
    scratch_nbytes=4096,
    num_replicas=2,
)
EXECUTABLE = Executable(SIGNATURE, bytes(range(256)))
WITH_BLOBS = Executable(SIGNATURE, b"code", (b"weights" * 20, memoryview(b""), b"more"))


def test_round_trip():
    assert Executable.from_bytes(EXECUTABLE.to_bytes()) == EXECUTABLE
    empty = Executable(Signature("e", "p", (), tuple_of()), b"")
    assert Executable.from_bytes(empty.to_bytes()) == empty
    assert EXECUTABLE.to_bytes() == EXECUTABLE.to_bytes()


def test_digests_tell_payloads_and_blobs_apart_and_are_computed_once(monkeypatch):
    others = [
        dataclasses.replace(WITH_BLOBS, payload=b"cod2"),
        dataclasses.replace(WITH_BLOBS, blobs=(*WITH_BLOBS.blobs[:-1], b"mor2")),
    ]
    assert len({each.digest() for each in (WITH_BLOBS, *others)}) == 3
    monkeypatch.setattr("xladev.compiler.executable.content_digest", None)
    assert len(WITH_BLOBS.digest()) == 32


def test_blobs_are_aligned_in_the_file_and_no_copies():
    data = WITH_BLOBS.to_bytes()
    read = Executable.from_bytes(data)
    assert read == WITH_BLOBS
    assert read.nbytes == len(b"code") + 140 + 4
    assert data.index(b"weights") % BLOB_ALIGNMENT == data.index(b"more") % BLOB_ALIGNMENT == 0
    assert all(isinstance(blob, memoryview) and blob.obj is data for blob in read.blobs)
    assert any(piece is WITH_BLOBS.blobs[0] for piece in WITH_BLOBS.pieces())


def test_the_flat_buffers_of_a_launch():
    assert SIGNATURE.argument_shapes == (A, D, TOKEN_SHAPE, array(dt.S32))
    assert SIGNATURE.result_shapes == (A, D, array(dt.S32))


@pytest.mark.parametrize("executable", [EXECUTABLE, WITH_BLOBS])
def test_every_flipped_byte_is_noticed(executable):
    data = executable.to_bytes()
    for at in random.Random(0).sample(range(len(data)), 200):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        with pytest.raises(FormatError):
            Executable.from_bytes(bytes(damaged))


@pytest.mark.parametrize("executable", [EXECUTABLE, WITH_BLOBS])
def test_every_truncation_and_tail_is_noticed(executable):
    data = executable.to_bytes()
    for length in (*range(80), len(data) // 2, len(data) - 1):
        with pytest.raises(FormatError):
            Executable.from_bytes(data[:length])
    with pytest.raises(FormatError, match="tail"):
        Executable.from_bytes(data + b"x")


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_cleanly(data):
    for prefix in (b"", MAGIC, MAGIC + FORMAT_VERSION.to_bytes(4, "little")):
        with pytest.raises(FormatError):
            Executable.from_bytes(prefix + data)


def test_another_version_is_named():
    data = bytearray(EXECUTABLE.to_bytes())
    data[len(MAGIC)] = 77
    with pytest.raises(FormatError, match="version 77") as info:
        Executable.from_bytes(bytes(data))
    assert f"version {FORMAT_VERSION}" in info.value.why


def test_loading_is_checked_against_platform_and_target():
    EXECUTABLE.check_target("npu", "v2")
    EXECUTABLE.check_target("npu", "")
    with pytest.raises(FormatError, match="compiled for platform 'npu'"):
        EXECUTABLE.check_target("gpu", "v2")
    with pytest.raises(FormatError, match="compiled for target 'v2'"):
        EXECUTABLE.check_target("npu", "v3")
    old = Executable(dataclasses.replace(SIGNATURE, format_version=0), b"")
    with pytest.raises(FormatError, match="version 0"):
        old.check_target("npu", "v2")


@pytest.mark.parametrize("alias", [Alias(3, 0), Alias(0, 9), Alias(-1, 0)])
def test_aliases_name_existing_buffers(alias):
    with pytest.raises(FormatError, match="does not have"):
        dataclasses.replace(SIGNATURE, aliases=(alias,))


def test_aliases_share_no_buffer():
    for second in (Alias(0, 1), Alias(1, 0)):
        with pytest.raises(FormatError, match="share a buffer"):
            dataclasses.replace(SIGNATURE, aliases=(Alias(0, 0), second))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", 3),
        ("parameters", 5),
        ("parameters", [{"type": "f99"}]),
        ("result", None),
        ("result", {"type": "f32", "dims": [-5]}),
        ("result", {"type": "f32", "dims": [2**61, 2**61]}),
        ("result", {"type": "f32", "dims": ["2"]}),
        ("result", {"type": "f32", "dims": [2], "dynamic": [True, True]}),
        ("result", {"type": "f32", "dims": [2], "layout": {"order": [1]}}),
        ("aliases", [[0]]),
        ("aliases", [[0, -1, True]]),
        ("scratch_nbytes", -1),
        ("scratch_nbytes", 2**70),
        ("scratch_nbytes", True),
    ],
)
def test_damaged_signatures_are_refused(field, value):
    data = json.loads(json.dumps(SIGNATURE.to_json())) | {field: value}
    with pytest.raises(FormatError):
        Signature.from_json(data)


def test_missing_fields_and_other_values_are_refused():
    for key in SIGNATURE.to_json():
        data = SIGNATURE.to_json()
        del data[key]
        with pytest.raises(FormatError):
            Signature.from_json(data)
    for data in (None, [], "x", 3):
        with pytest.raises(FormatError):
            Signature.from_json(data)


def test_deep_shapes_are_refused():
    data = {"type": "f32"}
    for _ in range(100):
        data = {"type": "tuple", "parts": [data]}
    with pytest.raises(FormatError):
        shape_from_json(data)


@pytest.mark.parametrize("shape", [A, D, TOKEN_SHAPE, tuple_of(), tuple_of(A, tuple_of(D))])
def test_shapes_as_json(shape):
    assert shape_from_json(json.loads(json.dumps(shape_to_json(shape)))) == shape


def test_layouts_without_dense_form_are_not_stored():
    layout = Layout((0,), split_configs=(SplitConfig(0, (1,)),))
    with pytest.raises(FormatError, match="no dense layout"):
        shape_to_json(Shape(dt.F32, (4,), layout))


# Values of the contract


def test_support_is_a_condition_with_a_reason():
    assert YES
    assert not no("f64 is not in hardware")
    assert no("x").reason == "x"
    with pytest.raises(ArgumentError, match="without a reason"):
        Support(False)


def test_descriptions_are_checked():
    assert not DeviceDescription().host_addressable
    two = DeviceDescription(memory_spaces=(MemorySpace(), MemorySpace("pinned_host")))
    assert two.memory_space(1).name == "pinned_host"
    for index in (-1, 2):
        with pytest.raises(ArgumentError, match="no memory space"):
            two.memory_space(index)
    with pytest.raises(ArgumentError, match="unknown dtypes"):
        DeviceDescription(dtypes=frozenset({"f32", "f31"}))
    with pytest.raises(ArgumentError, match="no memory space"):
        DeviceDescription(memory_spaces=())
    with pytest.raises(ArgumentError, match="no power of two"):
        MemorySpace(alignment=48)


def test_defaults_of_a_compiler():
    compiler = HostOnlyCompiler()
    assert compiler.describe("v2").target == "v2"
    assert compiler.device_layout(A) == row_major(2)
    assert compiler.pipeline(CompileOptions()) is None
    assert not compiler.can_fuse(None, None)
    with pytest.raises(UnsupportedError, match="exports no 'object' files"):
        compiler.export(EXECUTABLE, "object")
