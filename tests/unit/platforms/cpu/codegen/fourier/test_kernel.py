"""Transforms as kernels, against NumPy's in its longest floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.platforms.cpu.one_kernel import run_kernel
from xladev.hlo.text import parse_module

TRANSFORMS: dict[str, Any] = {
    "FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn,
}  # fmt: skip
TYPES: dict[str, tuple[str, Any, Any, float]] = {
    "c64": ("f32", np.float32, np.complex64, 2.0**-23),
    "c128": ("f64", np.float64, np.complex128, 2.0**-52),
}
"""By complex type: the real one, both in NumPy, and the distance from one to the next number."""


def run(
    kind: str, values: np.ndarray, lengths: tuple[int, ...], dtype: str, nbytes: int = 64
) -> np.ndarray:
    """What the kernel gives for an array of the operand's shape."""
    real, _, _, _ = TYPES[dtype]
    dims = list(values.shape)
    if kind in ("RFFT", "IRFFT"):
        dims[-1] = lengths[-1] // 2 + 1 if kind == "RFFT" else lengths[-1]
    before = ",".join(map(str, values.shape))
    after = ",".join(map(str, dims))
    types = (real if kind == "RFFT" else dtype), (real if kind == "IRFFT" else dtype)
    length = ",".join(map(str, lengths))
    module = parse_module(f"""HloModule m
    ENTRY main {{ x = {types[0]}[{before}] parameter(0)
      ROOT r = {types[1]}[{after}] fft(x), fft_type={kind}, fft_length={{{length}}} }}""")
    (got,) = run_kernel(module, values, nbytes=nbytes, calls="fft.")
    return got


def check(
    rng: np.random.Generator, kind: str, dims: tuple[int, ...], rank: int, dtype: str = "c64",
    nbytes: int = 64,
) -> None:  # fmt: skip
    """Compares random numbers; ``dims`` are those of the signal."""
    _, real, full, step = TYPES[dtype]
    shape = (*dims[:-1], dims[-1] // 2 + 1) if kind == "IRFFT" else dims
    values = rng.standard_normal(shape)
    if kind != "RFFT":
        values = values + 1j * rng.standard_normal(shape)
    values = values.astype(real if kind == "RFFT" else full)
    lengths = dims[len(dims) - rank :]
    got = run(kind, values, lengths, dtype, nbytes)
    wide = values.astype(np.longdouble if kind == "RFFT" else np.clongdouble)
    wanted = TRANSFORMS[kind](wide, s=lengths, axes=tuple(range(-rank, 0)))
    error = np.linalg.norm((got - wanted).ravel()) / np.linalg.norm(wanted.ravel())
    assert error < 2 * step, (kind, dims, rank, dtype)


@pytest.mark.parametrize("kind", ["FFT", "IFFT"])
@pytest.mark.parametrize("n", [1, 2, 3, 16, 20, 35, 64, 360, 1024])
def test_rows(n: int, kind: str, seed: int) -> None:
    check(np.random.default_rng(seed), kind, (3, n), 1)


@pytest.mark.parametrize("dims", [(7, 35), (64, 33), (5, 100, 18)])
def test_columns(dims: tuple[int, ...], seed: int) -> None:
    check(np.random.default_rng(seed), "FFT", dims, len(dims))
