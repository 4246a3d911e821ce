"""Elements that are the same: NaN among them, whatever its bits."""

import warnings

import ml_dtypes
import numpy as np

from xladev.testing.differential import equal_elements


def test_a_comparison_with_nan_gives_no_warning() -> None:
    """A signalling NaN raises the processor's flag, of which NumPy warns where it is told to."""
    bits = np.array([0x7F81, 0x7FC0, 0x3F80, 0x0000, 0x8000], np.uint16)
    x = bits.view(ml_dtypes.bfloat16)
    y = bits[::-1].copy().view(ml_dtypes.bfloat16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert equal_elements(x, x).all()
        assert equal_elements(x, y).tolist() == [False, False, True, False, False]


def test_where_there_is_no_nan_a_zero_has_no_sign() -> None:
    for dtype, same in ((ml_dtypes.float6_e2m3fn, True), (ml_dtypes.float8_e5m2, False)):
        zeros = np.array([0.0, -0.0]).astype(dtype)
        assert equal_elements(zeros, zeros[::-1].copy()).all() == same
