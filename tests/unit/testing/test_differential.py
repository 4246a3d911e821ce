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
