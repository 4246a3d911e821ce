"""Lists of numbers, texts and arrays as bytes: no code runs where they are read."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

from xladev.errors import ProcessError
from xladev.hlo import dtype as dt
from xladev.runtime.distributed.transport import Data

_LENGTH = struct.Struct("<Q")
_TYPES = {str(t.np): t.np for t in dt.ARRAY_TYPES}


def encode(value: Any) -> bytes:
    """The bytes of nested lists and tuples of numbers, texts and arrays."""
    blobs: list[bytes] = []

    def shown(item: Any) -> Any:
        if isinstance(item, (np.ndarray, np.generic)):
            blobs.append(np.ascontiguousarray(item).tobytes())
            return {"dtype": str(item.dtype), "shape": item.shape}
        if isinstance(item, (list, tuple)):
            return [shown(part) for part in item]
        return item

    head = json.dumps(shown(value)).encode()
    return b"".join((_LENGTH.pack(len(head)), head, *blobs))


def decode(data: Data) -> Any:
    """What `encode` was given, with tuples for lists.

    Raises:
        ProcessError: the bytes are damaged.
    """
    view = memoryview(data).cast("B")
    try:
        (length,) = _LENGTH.unpack_from(view)
        at = _LENGTH.size + length
        shown = json.loads(bytes(view[_LENGTH.size : at]))
        return _Reader(view, at).value(shown)
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise ProcessError("damaged data of another process", why=str(error)) from error


class _Reader:
    """Takes arrays from the bytes, in their order."""

    def __init__(self, view: memoryview, at: int) -> None:
        self._view, self._at = view, at

    def value(self, shown: Any) -> Any:
        if isinstance(shown, dict):
            return self._array(_TYPES[shown["dtype"]], tuple(shown["shape"]))
        if isinstance(shown, list):
            return tuple(self.value(part) for part in shown)
        return shown

    def _array(self, dtype: Any, shape: tuple[int, ...]) -> Any:
        count = int(np.prod(shape, dtype=np.int64))
        nbytes = count * np.dtype(dtype).itemsize
        data = self._view[self._at : self._at + nbytes]
        self._at += nbytes
        return np.frombuffer(data, np.uint8).view(dtype).reshape(shape)
