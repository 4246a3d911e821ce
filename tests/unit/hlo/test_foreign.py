"""Files that are no HLO: the error names what they are, and says what to do."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

import xladev
from xladev.errors import FormatError, ParseError, ProtoError
from xladev.hlo.foreign import foreign_format
from xladev.hlo.load import load
from xladev.hlo.proto import write_module
from xladev.hlo.proto.wire import varint
from xladev.hlo.text import parse_module

ADD = "HloModule m\nENTRY e { x = f32[] parameter(0) ROOT r = f32[] add(x, x) }"


def _npz() -> bytes:
    made = io.BytesIO()
    np.savez(made, in_0000=np.zeros(3))
    return made.getvalue()


def _npy() -> bytes:
    made = io.BytesIO()
    np.save(made, np.zeros(3))
    return made.getvalue()


def _zip(*names: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    return made.getvalue()


def _tar() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("program.pb"))
    return made.getvalue()


def field(number: int, data: bytes) -> bytes:
    """A field of protobuf with a length."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def _node(name: bytes, operation: bytes) -> bytes:
    return field(1, field(1, name) + field(2, operation) + field(5, b"shape"))


SAFETENSORS = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
MLIR = """#loc = loc("f.py":1:2)
module @jit_f attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> { return %arg0 : tensor<4xf32> }
}"""
BYTECODE = b"ML\xefR\rStableHLO_v1.15.0\x00\x01\x1f\x05\x01"
EXPORTED = b"<\0\0\0" + bytes(60) + len(BYTECODE).to_bytes(4, "little") + BYTECODE + bytes(8)

FORMATS = {
    "empty": (b"", "is empty", "write the program"),
    "blank": (b" \n\n", "is empty", "write the program"),
    "gzip": (gzip.compress(ADD.encode()), "compressed by gzip", "gunzip"),
    "npz": (_npz(), "an npz file", "--inputs FILE.npz"),
    "npy": (_npy(), "a NumPy array", "--inputs FILE.npz"),
    "zip": (_zip("a.txt"), "a zip archive", "unpack"),
    "damaged zip": (_zip("a.txt")[:20], "a zip archive", "unpack"),
    "pt": (_zip("model/data.pkl", "model/data/0"), "a PyTorch file", "torch.export.save"),
    "pt2": (_zip("archive_format", "models/model.json"), "a program of torch.export", "xladev run"),
    "keras": (_zip("config.json", "model.weights.h5"), "a Keras model", "get_compiler_ir"),
    "pickle": (pickle.dumps({"w": 1}), "a pickle", "torch.export.save"),
    "safetensors": (
        len(SAFETENSORS).to_bytes(8, "little") + SAFETENSORS + bytes(4),
        "a safetensors file",
        "weights",
    ),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(40), "an HDF5 file", "weights"),
    "onnx": (
        b"\x08\x08" + field(2, b"pytorch") + field(7, field(2, b"graph")),
        "an ONNX model",
        "does not read ONNX",
    ),
    "saved model": (
        b"\x08\x01" + field(2, field(1, field(4, b"serve"))),
        "a TensorFlow SavedModel",
        "get_compiler_ir",
    ),
    "graph def": (
        _node(b"x", b"Placeholder") + _node(b"y", b"Identity") + field(4, b"\x08\x1b"),
        "a TensorFlow GraphDef",
        "get_compiler_ir",
    ),
    "tflite": (b"\x1c\0\0\0TFL3" + bytes(40), "a TensorFlow Lite model", "get_compiler_ir"),
    "tar": (_tar(), "a tar archive", "unpack"),
    "mlir": (MLIR.encode(), "StableHLO (MLIR text)", "xladev convert FILE -o FILE.pb"),
    "bytecode": (BYTECODE, "StableHLO (MLIR bytecode)", "xladev convert FILE -o FILE.pb"),
    "export": (EXPORTED, "an artefact of jax.export", "xladev convert FILE -o FILE.pb"),
    "jaxpr": (b"{ lambda ; a:f32[4]. let b:f32[4] = sin a in (b,) }", "a jaxpr", "jax.jit(f)"),
    "python": (b"import jax\n\ndef f(x):\n  return x\n", "Python source", "jax.jit(f)"),
    "text format": (b'hlo_module {\n  name: "m"\n}\n', "protobuf's text format", "Serialize"),
    "page": (b"<!DOCTYPE html><html></html>", "a web page", "download"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS", "git lfs"),
    "elf": (b"\x7fELF\x02\x01\x01" + bytes(60), "machine code", "compiled from"),
    "json": (b'{"a": 1}', "JSON", "text or proto"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_what_it_is_and_what_to_do(name: str, tmp_path: Path) -> None:
    data, what, next_step = FORMATS[name]
    path = tmp_path / "given"
    path.write_bytes(data)
    with pytest.raises(FormatError) as caught:
        load(path)
    assert str(path) in caught.value.what and what in caught.value.what
    assert next_step in str(caught.value.hint)
    with pytest.raises(FormatError, match="the data is"):
        load(data)


def test_stablehlo_within_is_found() -> None:
    for data, code in ((BYTECODE, BYTECODE), (EXPORTED, BYTECODE), (MLIR.encode(), MLIR.encode())):
        found = foreign_format(data)
        assert found is not None and found.stablehlo == code


def test_a_compiled_program_is_for_load_executable(tmp_path: Path) -> None:
    path = tmp_path / "add.xladev"
    xladev.compile(ADD.encode(), "interpreter").save(path)
    with pytest.raises(FormatError) as caught:
        load(path)
    assert "load_executable" in str(caught.value.hint)


def test_folders(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="is a folder"):
        load(tmp_path)
    (tmp_path / "step.pb").write_bytes(b"")
    with pytest.raises(FormatError) as caught:
        load(tmp_path)
    assert "such as step.pb" in str(caught.value.hint)
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(FormatError, match="a TensorFlow SavedModel"):
        load(tmp_path)


def test_hlo_is_hlo_whatever_it_looks_like() -> None:
    """A computation may be called module, and errors in HLO are told as such."""
    text = "module { x = f32[] parameter(0) ROOT r = f32[] add(x, x) }"
    assert load(text.encode()).entry.name == "module"
    for wrapped in (field(1, write_module(parse_module(ADD))),):
        assert load(wrapped) == parse_module(ADD)
        assert load(field(1, wrapped)) == parse_module(ADD)  # a HloSnapshot
    with pytest.raises(ParseError, match="unknown opcode"):
        load(ADD.replace("add", "stablehlo.add").encode())
    with pytest.raises(ProtoError):
        load(write_module(parse_module(ADD))[:-3])
