"""Modules and arrays as bytes, to be sent to a child process and back."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from xladev.errors import FormatError
from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Array
from xladev.hlo.proto.reader import read_module
from xladev.hlo.proto.writer import write_module

_SIZE = struct.Struct("<Q")


def pack(
    head: dict[str, Any], arrays: Sequence[Array] = (), module: HloModule | None = None
) -> bytes:
    """A message: plain data, arrays of any element type, and perhaps a module."""
    proto = b"" if module is None else write_module(module)
    stored = [np.ascontiguousarray(a) for a in arrays]
    facts = {
        **head,
        "module_nbytes": len(proto),
        "arrays": [
            [dt.by_numpy(a.dtype).name, list(np.shape(array))]
            for a, array in zip(stored, arrays, strict=True)
        ],
    }
    text = json.dumps(facts).encode()
    return b"".join([_SIZE.pack(len(text)), text, proto, *(a.tobytes() for a in stored)])


def unpack(message: bytes) -> tuple[dict[str, Any], list[Array], bytes]:
    """What `pack` was given: plain data, arrays, and the serialized module.

    Raises:
        FormatError: the message is cut off.
    """
    (size,) = _SIZE.unpack_from(message)
    head: dict[str, Any] = json.loads(message[_SIZE.size : _SIZE.size + size])
    at = _SIZE.size + size
    proto = message[at : at + head["module_nbytes"]]
    at += head["module_nbytes"]
    arrays: list[Array] = []
    for name, dims in head["arrays"]:
        kind = dt.by_name(name).np
        count = int(np.prod(dims, dtype=np.int64))
        if at + count * kind.itemsize > len(message):
            raise FormatError(f"a message of {len(message)} bytes ends within its arrays")
        arrays.append(np.frombuffer(message, kind, count, at).reshape(dims))
        at += count * kind.itemsize
    return head, arrays, proto


def unpack_module(proto: bytes) -> HloModule:
    """The module of a message."""
    return read_module(proto)
