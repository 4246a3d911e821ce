"""cholesky, triangular-solve and fft: against what defines them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.tools.rejections import assert_rejected, result_of
from tests.tools.single_op import run

BOTH = [True, False]
TRANSPOSES = ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"]
DTYPES = [np.float32, np.float64, np.complex64, np.complex128]


def random(rng: np.random.Generator, dims: tuple[int, ...], dtype: Any) -> Any:
    values = rng.normal(size=dims)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.normal(size=dims)
    return values.astype(dtype)


def epsilon(dtype: Any) -> float:
    return float(np.finfo(dtype).eps)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_cholesky_reads_and_writes_one_triangle(lower: bool, dtype: Any, seed: int) -> None:
    a = random(np.random.default_rng(seed), (2, 3, 5, 5), dtype)
    spd = a @ np.conj(a.swapaxes(-1, -2)) + 5 * np.eye(5, dtype=dtype)
    triangle = np.tril if lower else np.triu
    other = np.triu if lower else np.tril
    spoiled = spd + other(np.full((5, 5), 99, dtype), 1 if lower else -1)
    got = run("cholesky", spoiled, lower=lower)
    assert got.dtype == dtype and (got == triangle(got)).all()
    adjoint = np.conj(got.swapaxes(-1, -2))
    whole = got @ adjoint if lower else adjoint @ got
    np.testing.assert_allclose(whole, spd, rtol=0, atol=100 * epsilon(dtype))


def test_a_matrix_that_is_not_positive_definite_gives_nan() -> None:
    a = np.stack([np.eye(3), -np.eye(3), np.diag([1.0, 0, 1]), np.eye(3)]).astype(np.float32)
    got = run("cholesky", a, lower=True)
    assert np.isnan(got).any((1, 2)).tolist() == [False, True, True, False]
    assert np.isnan(got[1][np.tril_indices(3)]).all()


def test_cholesky_of_nothing() -> None:
    assert run("cholesky", np.zeros((2, 0, 0), np.float32), lower=True).shape == (2, 0, 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("options", list(product(BOTH, BOTH, BOTH, TRANSPOSES)))
def test_triangular_solve(dtype: Any, options: tuple[bool, bool, bool, str], seed: int) -> None:
    left, lower, unit, transpose = options
    rng = np.random.default_rng(seed)
    a = random(rng, (2, 4, 4), dtype) + 4 * np.eye(4, dtype=dtype)
    b = random(rng, (2, 4, 3) if left else (2, 3, 4), dtype)
    x = run(
        "triangular-solve", a, b, left_side=left, lower=lower, unit_diagonal=unit,
        transpose_a=transpose,
    )  # fmt: skip
    t = np.tril(a) if lower else np.triu(a)
    if unit:
        t = t - t * np.eye(4, dtype=dtype) + np.eye(4, dtype=dtype)
    if transpose != "NO_TRANSPOSE":
        t = t.swapaxes(-1, -2)
    if transpose == "ADJOINT":
        t = np.conj(t)
    assert x.dtype == dtype
    np.testing.assert_allclose(t @ x if left else x @ t, b, atol=1000 * epsilon(dtype))


def test_a_singular_system_gives_no_error() -> None:
    a, b = np.zeros((2, 2), np.float32), np.ones((2, 1), np.float32)
    assert not np.isfinite(run("triangular-solve", a, b, left_side=True, lower=True)).any()


def dft(x: Any, axis: int, sign: int) -> Any:
    """The discrete Fourier transform along one dimension, by its definition."""
    n = x.shape[axis]
    k = np.arange(n)
    matrix = np.exp(sign * 2j * np.pi * np.outer(k, k) / n)
    return np.moveaxis(np.tensordot(matrix, np.moveaxis(x, axis, 0), 1), 0, axis)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("last", [6, 7])
def test_fourier_transforms(rank: int, wide: bool, last: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    length = (4, 5, last)[-rank:]
    real, complex_ = (np.float64, np.complex128) if wide else (np.float32, np.complex64)
    atol = 1e-12 if wide else 1e-4
    x, z = random(rng, (2, *length), real), random(rng, (2, *length), complex_)
    forward, backward = z, z
    for axis in range(1, rank + 1):
        forward, backward = dft(forward, axis, -1), dft(backward, axis, 1)

    def fft(kind: str, values: Any) -> Any:
        return run("fft", values, fft_type=kind, fft_length=length)

    np.testing.assert_allclose(fft("FFT", z), forward, atol=atol)
    np.testing.assert_allclose(fft("IFFT", z), backward / np.prod(length), atol=atol)
    half = fft("RFFT", x)
    assert half.dtype == complex_
    np.testing.assert_allclose(
        half, fft("FFT", x.astype(complex_))[..., : last // 2 + 1], atol=atol
    )
    back = fft("IRFFT", half)
    assert back.dtype == real
    np.testing.assert_allclose(back, x, atol=atol)


def test_fourier_transform_of_nothing() -> None:
    got = run("fft", np.zeros((0, 4), np.complex64), fft_type="FFT", fft_length=(4,))
    assert got.shape == (0, 4)


FFT: dict[str, Any] = {"fft_type": "FFT", "fft_length": (4,)}
SOLVE = {"left_side": True}


@pytest.mark.parametrize(
    ("constraint", "opcode", "operands", "attrs"),
    [
        ("cholesky_operand", "cholesky", ("token",), {}),
        ("cholesky_c1", "cholesky", ("s32[2,2]",), {}),
        ("cholesky_c3", "cholesky", ("f32[2,3]",), {}),
        ("cholesky_c3", "cholesky", ("f32[2]",), {}),
        ("triangular_solve_c1", "triangular-solve", ("s32[2,2]", "s32[2,1]"), SOLVE),
        ("triangular_solve_c1", "triangular-solve", ("f32[2,2]", "f64[2,1]"), SOLVE),
        ("triangular_solve_c2", "triangular-solve", ("f32[3,2,2]", "f32[4,2,1]"), SOLVE),
        ("triangular_solve_c2", "triangular-solve", ("f32[2,2]", "f32[2]"), SOLVE),
        ("triangular_solve_c3", "triangular-solve", ("f32[2,3]", "f32[2,1]"), SOLVE),
        ("triangular_solve_c3", "triangular-solve", ("f32[2,2]", "f32[3,1]"), SOLVE),
        ("triangular_solve_c5", "triangular-solve", ("f32[2,2]", "f32[2,2]"), {"transpose_a": "X"}),
        ("fft_c1", "fft", ("c64[4]",), {**FFT, "fft_type": "DCT"}),
        ("fft_c1", "fft", ("c64[4]",), {**FFT, "fft_length": (4, 4)}),
        ("fft_c2", "fft", ("f32[4]",), FFT),
        ("fft_c2", "fft", ("c64[4]",), {**FFT, "fft_type": "RFFT"}),
        ("fft_c3", "fft", ("c64[4]",), {**FFT, "fft_length": ()}),
        ("fft_c3", "fft", ("c64[5]",), FFT),
        ("fft_c4", "fft", ("f32[5]",), {**FFT, "fft_type": "RFFT"}),
        ("fft_c5", "fft", ("c64[4]",), {**FFT, "fft_type": "IRFFT"}),
    ],
)  # fmt: skip
def test_rejects(
    constraint: str, opcode: str, operands: tuple[str, ...], attrs: dict[str, Any]
) -> None:
    assert_rejected(constraint, opcode, *operands, **attrs)


def test_shapes() -> None:
    half = {"fft_type": "RFFT", "fft_length": (6,)}
    assert result_of("fft", "f32[<=3,6]", **half) == "c64[<=3,4]"
    assert result_of("fft", "c128[3,4]", fft_type="IRFFT", fft_length=(6,)) == "f64[3,6]"
