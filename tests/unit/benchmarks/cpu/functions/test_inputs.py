"""Arguments of rows: types, and matrices of a form."""

import numpy as np

from benchmarks.cpu.functions.inputs import INPUTS, Input, made


def test_matrices_of_a_form() -> None:
    shape, dtype = (5, 12, 12), "float32"
    positive, symmetric, lower, regular = (
        made("row", [Input(shape, dtype, form=form)])[0]
        for form in ("positive", "symmetric", "lower", "regular")
    )
    assert {a.dtype.name for a in (positive, symmetric, lower, regular)} == {"float32"}
    assert np.linalg.eigvalsh(positive).min() > 0.5
    assert np.array_equal(symmetric, symmetric.swapaxes(-1, -2))
    assert np.array_equal(lower, np.tril(lower))
    assert np.linalg.cond(regular).max() < 100


def test_transforms_take_what_they_are_of() -> None:
    kinds = {
        ("rfft", "float32"): ((4, 9), "float32"), ("fft", "float64"): ((4, 9), "complex128"),
        ("irfft", "float32"): ((4, 5), "complex64"),
    }  # fmt: skip
    for (op, dtype), (shape, wanted) in kinds.items():
        (made_of,) = INPUTS["fft"]({"op": op, "shape": [4, 9], "dtype": dtype})
        assert (made_of.shape, made_of.dtype) == (shape, wanted)
    (drawn,) = made("row", [Input((1000,), "complex64")])
    assert 0.8 < np.abs(drawn.imag).std() / np.abs(drawn.real).std() < 1.25
