"""Names the format of a file that is no HLO, and says what makes HLO of it.

Looked at only after the readers of HLO have refused the contents: what they read is HLO, whatever
else it looks like.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

STABLEHLO: Final = "StableHLO"
"""What a file is that the JAX front end converts."""

_LOOKED_AT: Final = 1 << 16
_MLIR: Final = b"ML\xefR"
_VECTOR_LENGTH: Final = 4
_FROM_JAX: Final = (
    "jax.jit(f).lower(*arguments).compiler_ir('hlo').as_serialized_hlo_module_proto() is HLO"
)
_CONVERT: Final = "`xladev run` and `xladev convert FILE -o FILE.pb` read it where jaxlib is"
_TORCH: Final = (
    "export the program from PyTorch: torch.export.save(torch.export.export(model, arguments), "
    "'FILE.pt2')"
)
_EXPORTED: Final = "`xladev run` and `xladev convert FILE -o FILE.pb` read it where torch is"
_TENSORFLOW: Final = (
    "export the function from TensorFlow: tf.function(f, jit_compile=True)"
    ".experimental_get_compiler_ir(*arguments)(stage='hlo_serialized')"
)
_ARRAYS: Final = "`xladev run PROGRAM --inputs FILE.npz` gives a program the arrays of a file"
_WEIGHTS: Final = f"it holds weights and no program; {_FROM_JAX}"


@dataclass(frozen=True, slots=True)
class Foreign:
    """A format that is not HLO.

    Attributes:
        what: the file is, with its article.
        hint: what to do next.
        stablehlo: the StableHLO in it, as MLIR of any form; None if there is none.
        exported: the file itself, if it is a program of torch.export.
    """

    what: str
    hint: str
    stablehlo: bytes | None = None
    exported: bytes | None = None


def foreign_format(data: bytes) -> Foreign | None:
    """The format of contents that are no HLO; None if nobody knows it."""
    if not data.strip():
        return Foreign("empty", "write the program to it again: the export may have failed")
    for begins, what, hint in _MAGIC:
        if data.startswith(begins):
            return Foreign(what, hint)
    return next((found for look in _LOOKS if (found := look(data)) is not None), None)


def foreign_folder(path: Path) -> Foreign:
    """What a folder is that was given for a file."""
    if (path / "saved_model.pb").is_file():
        return Foreign("a TensorFlow SavedModel", _TENSORFLOW)
    programs = sorted(p.name for p in path.glob("*") if p.suffix in (".pb", ".hlo", ".txt"))
    hint = f"name one of its files, such as {programs[0]}" if programs else "name a file"
    return Foreign("a folder", hint)


_MAGIC: Final[tuple[tuple[bytes, str, str], ...]] = (
    (b"\x1f\x8b", "compressed by gzip", "gunzip it first"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", "unzstd it first"),
    (b"\xfd7zXZ", "compressed by xz", "unxz it first"),
    (b"BZh", "compressed by bzip2", "bunzip2 it first"),
    (b"\x93NUMPY", "a NumPy array", _ARRAYS),
    (b"\x89HDF\r\n", "an HDF5 file, such as Keras writes", _WEIGHTS),
    (b"\x7fELF", "machine code (ELF)", "give the program that it was compiled from"),
    (b"BC\xc0\xde", "LLVM bitcode", "give the HLO that it was compiled from"),
    (b"XLADEVP\0", "a program that xladev has compiled", "xladev.load_executable(path) runs it"),
)
"""(how a file begins, what it is, what to do)."""


def _zip(data: bytes) -> Foreign | None:
    if not data.startswith(b"PK"):
        return None
    try:
        names = zipfile.ZipFile(io.BytesIO(data)).namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        names = []
    if any(name.endswith(".npy") for name in names):
        return Foreign("an npz file", _ARRAYS)
    if any(name.endswith("models/model.json") for name in names):
        return Foreign("a program of torch.export", _EXPORTED, exported=data)
    if any(name.endswith(("data.pkl", "archive_format")) for name in names):
        return Foreign("a PyTorch file", _TORCH)
    if any(name.startswith(("config.json", "model.weights")) for name in names):
        return Foreign("a Keras model", _TENSORFLOW)
    return Foreign("a zip archive", "unpack it, and give the program in it")


def _exported(data: bytes) -> Foreign | None:
    """MLIR bytecode, by itself or in what `jax.export` serializes."""
    at = data.find(_MLIR, 0, _LOOKED_AT)
    if at < 0:
        return None
    if at == 0:
        return Foreign("StableHLO (MLIR bytecode)", f"{_CONVERT}; {_FROM_JAX}", data)
    length = int.from_bytes(data[at - _VECTOR_LENGTH : at], "little")
    if at < _VECTOR_LENGTH or not 0 < length <= len(data) - at:
        return None
    return Foreign(
        "an artefact of jax.export, which holds StableHLO",
        f"{_CONVERT}; {_FROM_JAX}",
        data[at : at + length],
    )


_MLIR_TEXT: Final = re.compile(
    rb"(?:\s|//[^\n]*\n|#\w+ *=[^\n]*\n)*(?:builtin\.)?(?:module\b|func\.func\b)"
)
_MLIR_WORDS: Final = re.compile(rb"\b(?:func\.func|stablehlo\.|mhlo\.|vhlo\.|chlo\.|sdy\.)")


def _mlir_text(data: bytes) -> Foreign | None:
    if _MLIR_TEXT.match(data) is None or _MLIR_WORDS.search(data) is None:
        return None
    return Foreign("StableHLO (MLIR text)", f"{_CONVERT}; {_FROM_JAX}", data)


def _pickle(data: bytes) -> Foreign | None:
    is_pickle = data[:1] == b"\x80" and data[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")
    what = "a pickle, such as torch.save writes; it was not opened, as that may run code"
    return Foreign(what, _TORCH) if is_pickle else None


def _safetensors(data: bytes) -> Foreign | None:
    length = int.from_bytes(data[:8], "little")
    is_one = data[8:10] == b'{"' and length <= len(data) - 8
    return Foreign("a safetensors file", _WEIGHTS) if is_one else None


def _tflite(data: bytes) -> Foreign | None:
    return Foreign("a TensorFlow Lite model", _TENSORFLOW) if data[4:8] == b"TFL3" else None


_TAR_AT: Final = 257


def _tar(data: bytes) -> Foreign | None:
    if data[_TAR_AT : _TAR_AT + 5] != b"ustar":
        return None
    return Foreign("a tar archive", "unpack it, and give the program in it")


_SAVED_MODEL: Final = b"\x08\x01\x12"
_ONNX: Final = re.compile(rb"\x08[\x03-\x20](?:[\x12\x1a\x22\x32\x3a\x42])", re.DOTALL)
_ONNX_HINT: Final = (
    "export the program from where the model was made (JAX, PyTorch, TensorFlow) as HLO or "
    "StableHLO: xladev does not read ONNX"
)


def _protobuf(data: bytes) -> Foreign | None:
    """Models of TensorFlow and ONNX: protobuf says nothing of itself but numbers of fields."""
    if data.startswith(_SAVED_MODEL) and b"serve" in data:
        return Foreign("a TensorFlow SavedModel", _TENSORFLOW)
    if _ONNX.match(data):
        return Foreign("an ONNX model", _ONNX_HINT)
    if _GRAPH_NODE.match(data):
        return Foreign("a TensorFlow GraphDef", _TENSORFLOW)
    return None


_GRAPH_NODE: Final = re.compile(
    rb"\n[\x04-\xff](?:[\x80-\xff]*[\x00-\x7f])??\n[\x01-\x7f][\w./>-]+?\x12.(?:Placeholder|Const|"
    rb"NoOp|VarHandleOp|VariableV2|ReadVariableOp|PartitionedCall|StatefulPartitionedCall|Identity)",
    re.DOTALL,
)
"""A node: its name, then its operation."""


def _text(data: bytes) -> Foreign | None:
    head = data[:_LOOKED_AT].lstrip()
    for pattern, what, hint in _TEXTS:
        if pattern.match(head):
            return Foreign(what, hint)
    return None


_TEXTS: Final = (
    (re.compile(rb"\{ *lambda\b"), "a jaxpr", _FROM_JAX),
    (re.compile(rb"<(?:!doctype|html|\?xml)", re.IGNORECASE), "a web page", "download the file"),
    (re.compile(rb'version https://git-lfs'), "a pointer of Git LFS", "git lfs pull"),
    (re.compile(rb"(?:hlo_module|hlo) *\{|name: *\""), "protobuf's text format",
     "serialize the message: SerializeToString() of the HloModuleProto"),
    (re.compile(rb"(?:import|from|def|class|@\w+) "), "Python source", _FROM_JAX),
    (re.compile(rb'[\[{]\s*"'), "JSON", "give the HLO of the program, as text or proto"),
)  # fmt: skip
"""(how a text begins, what it is, what to do)."""
_LOOKS: Final[tuple[Callable[[bytes], Foreign | None], ...]] = (
    _zip, _exported, _mlir_text, _pickle, _safetensors, _tflite, _tar, _protobuf, _text,
)  # fmt: skip
