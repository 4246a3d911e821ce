"""Messages and arrays between coordinator and peers."""

import io
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from benchmarks.cpu.wire import load_arrays, receive, save_arrays, send


def test_messages_round_trip() -> None:
    stream = io.BytesIO()
    send(stream, {"op": "run", "calls": 3})
    send(stream, {})
    stream.seek(0)
    assert receive(stream) == {"op": "run", "calls": 3}
    assert receive(stream) == {}
    assert receive(stream) is None


def test_half_a_message_is_an_end() -> None:
    assert receive(io.BytesIO(b'{"op": "ru')) is None


@pytest.mark.parametrize(
    "dtype", ["float32", "bool", "int8", "complex128", ml_dtypes.bfloat16, ml_dtypes.float8_e5m2]
)
def test_arrays_round_trip(tmp_path: Path, dtype: object) -> None:
    arrays = [np.arange(6).reshape(2, 3).astype(dtype), np.ones((), dtype), np.ones((0, 2), dtype)]
    save_arrays(tmp_path / "a.npz", arrays)
    loaded = load_arrays(tmp_path / "a.npz")
    assert [(a.dtype, a.shape, a.tobytes()) for a in loaded] == [
        (a.dtype, a.shape, a.tobytes()) for a in arrays
    ]
