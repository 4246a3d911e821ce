"""What coordinator and peers say to each other: JSON lines, and arrays in files.

Needs NumPy alone (ml_dtypes where an array is of such a type), so that it works in any peer's
Python.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Message = dict[str, Any]

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def send(stream: IO[bytes], message: Mapping[str, Any]) -> None:
    """Writes one message."""
    stream.write(json.dumps(message).encode() + b"\n")
    stream.flush()


def receive(stream: IO[bytes]) -> Message | None:
    """The next message; None when the other side has gone."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        return None
    message: Message = json.loads(line)
    return message


def save_arrays(path: Path, arrays: Sequence[Array]) -> None:
    """Writes arrays of any dtype, ml_dtypes' included, which npz alone cannot hold."""
    names = [a.dtype.name for a in arrays]
    plain = [_plain(np.asarray(a)) for a in arrays]
    stored = {f"a{i:04}": a for i, a in enumerate(plain)}
    np.savez(path, allow_pickle=False, names=np.array(json.dumps(names)), **stored)


def load_arrays(path: Path) -> list[Array]:
    """What `save_arrays` wrote."""
    with np.load(path) as stored:
        names = json.loads(str(stored["names"]))
        arrays = [stored[f"a{i:04}"] for i in range(len(names))]
    return [a.view(named_dtype(n)) for a, n in zip(arrays, names, strict=True)]


def named_dtype(name: str) -> np.dtype[Any]:
    """A dtype of NumPy, or of ml_dtypes, by its name."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def _plain(array: Array) -> Array:
    """The array, as unsigned integers of its width where the dtype is no builtin one."""
    return array if array.dtype.isbuiltin == 1 else array.view(_UNSIGNED[array.dtype.itemsize])
