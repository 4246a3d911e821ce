"""Values to bytes and back."""

import ml_dtypes
import numpy as np
import pytest

from xladev.errors import ProcessError
from xladev.runtime.distributed.nested_data import decode, encode


def test_round_trip():
    value = [1, "a", (np.arange(6).reshape(2, 3), [np.float32(2) * np.ones((), np.float32)])]
    number, text, (first, (second,)) = decode(encode(value))
    assert (number, text, second.shape) == (1, "a", ())
    np.testing.assert_array_equal(first, value[2][0])


@pytest.mark.parametrize("dtype", [np.bool_, np.complex64, ml_dtypes.bfloat16, ml_dtypes.int4])
def test_dtypes(dtype):
    (got,) = decode(encode([np.ones((2, 2), dtype)]))
    assert got.dtype == dtype
    assert (got == np.ones((2, 2), dtype)).all()


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff" * 8, encode([np.ones(3)])[:-1], encode([1])[:9],
     encode([np.ones(3)]).replace(b"float64", b"strange")],
)  # fmt: skip
def test_damage_is_an_error(data):
    with pytest.raises(ProcessError, match="damaged"):
        decode(data)
