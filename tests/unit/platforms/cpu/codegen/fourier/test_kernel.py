"""Transforms as kernels, against NumPy's in its longest floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.platforms.cpu.one_kernel import run_kernel
from xladev.client import compile as compile_for
from xladev.compiler.options import CompileOptions
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen import sharing
from xladev.platforms.cpu.codegen.fourier.large import LARGE, halves_of

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
    module = module_of(kind, values.shape, lengths, dtype)
    (got,) = run_kernel(module, values, nbytes=nbytes, calls="fft.")
    return got


def module_of(kind: str, shape: tuple[int, ...], lengths: tuple[int, ...], dtype: str) -> HloModule:
    """An fft of an operand of such a shape."""
    real, _, _, _ = TYPES[dtype]
    dims = list(shape)
    if kind in ("RFFT", "IRFFT"):
        dims[-1] = lengths[-1] // 2 + 1 if kind == "RFFT" else lengths[-1]
    before = ",".join(map(str, shape))
    after = ",".join(map(str, dims))
    types = (real if kind == "RFFT" else dtype), (real if kind == "IRFFT" else dtype)
    length = ",".join(map(str, lengths))
    return parse_module(f"""HloModule m
    ENTRY main {{ x = {types[0]}[{before}] parameter(0)
      ROOT r = {types[1]}[{after}] fft(x), fft_type={kind}, fft_length={{{length}}} }}""")


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


KINDS = tuple(TRANSFORMS)
SHAPES: list[tuple[tuple[int, ...], int]] = [
    ((5, 8), 2), ((3, 4, 6), 3), ((2, 3, 4, 5), 2), ((17, 19), 2), ((34, 37, 9), 3), ((64, 33), 2),
    ((8, 8, 1), 3), ((1, 8, 8), 3), ((40, 50), 1), ((130, 7, 2), 2),
]  # fmt: skip
"""Dimensions of signals, and how many of them are transformed."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [*range(1, 18), 20, 35, 37, 64, 97, 100, 134, 202, 360, 997, 1024])
def test_rows(n: int, kind: str, seed: int) -> None:
    check(np.random.default_rng(seed), kind, (3, n), 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dims", "rank"), SHAPES)
def test_dimensions(dims: tuple[int, ...], rank: int, kind: str, seed: int) -> None:
    check(np.random.default_rng(seed), kind, dims, rank)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 16, 15, 97, 256, 1000])
def test_doubles(n: int, kind: str, seed: int) -> None:
    check(np.random.default_rng(seed), kind, (3, n), 1, "c128")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("dims", "rank"), [((LARGE,), 1), ((2, LARGE * 3), 1), ((2, 2 * LARGE), 2)]
)
def test_long_rows(dims: tuple[int, ...], rank: int, kind: str, seed: int) -> None:
    assert halves_of(dims[-1] if kind in ("FFT", "IFFT") else dims[-1] // 2) or kind != "FFT"
    check(np.random.default_rng(seed), kind, dims, rank)


@pytest.mark.parametrize("nbytes", [4, 8, 16, 32])
@pytest.mark.parametrize("kind", KINDS)
def test_other_vectors(kind: str, nbytes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for dims, rank in (((5, 64), 1), ((9, 45), 2), ((3, 37), 1), ((20, 5), 1)):
        check(rng, kind, dims, rank, "c64", nbytes)
        check(rng, kind, dims, rank, "c128", nbytes)


@pytest.mark.long
@pytest.mark.parametrize("start", range(4))
def test_random_shapes(start: int, seed: int) -> None:
    rng = np.random.default_rng((seed, start))
    for _ in range(12):
        rank = int(rng.integers(1, 4))
        most = {1: 3000, 2: 90, 3: 24}[rank]
        dims = tuple(int(n) for n in rng.integers(1, most, rank))
        batch = tuple(int(n) for n in rng.integers(1, 6, int(rng.integers(0, 3))))
        check(rng, str(rng.choice(KINDS)), (*batch, *dims), rank, str(rng.choice(list(TYPES))))


@pytest.mark.parametrize("n", [16, 96, 97, 250])
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_other_rows_know_nothing_of_nan(n: int, wrong: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for kind in KINDS:
        shape = (37, n // 2 + 1 if kind == "IRFFT" else n)
        values = rng.standard_normal(shape).astype(np.float32 if kind == "RFFT" else np.complex64)
        clean = run(kind, values, (n,), "c64")
        values[20, 1] = wrong
        got = run(kind, values, (n,), "c64")
        assert not np.isfinite(got[20]).all()
        np.testing.assert_array_equal(np.delete(got, 20, 0), np.delete(clean, 20, 0))


@pytest.mark.parametrize("n", [1, 2, 7, 8, 97, 360])
def test_imaginary_parts_that_real_signals_cannot_have_are_ignored(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (3, n // 2 + 1)
    values = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)
    changed = values.copy()
    changed[:, 0] = changed[:, 0].real + 99j
    if n % 2 == 0:
        changed[:, -1] = changed[:, -1].real + 99j
    got = run("IRFFT", changed, (n,), "c64")
    np.testing.assert_array_equal(got, run("IRFFT", values, (n,), "c64"))


@pytest.mark.parametrize("n", [2, 9, 64, 97, 360])
def test_the_ends_of_real_spectra_are_real(n: int, seed: int) -> None:
    values = np.random.default_rng(seed).standard_normal((3, n)).astype(np.float32)
    got = run("RFFT", values, (n,), "c64")
    assert not got[:, 0].imag.any()
    assert n % 2 or not got[:, -1].imag.any()


def test_empty_arrays() -> None:
    for kind, dims, length in (("FFT", (0, 4), 4), ("IRFFT", (0, 3), 4), ("RFFT", (0, 4), 4)):
        values = np.zeros(dims, np.float32 if kind == "RFFT" else np.complex64)
        module = module_of(kind, dims, (length,), "c64")
        assert run_kernel(module, values)[0].size == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("dims", "rank"),
    [((40, 60), 2), ((300, 8), 1), ((9, 97), 1), ((4 * LARGE,), 1), ((5, 6, 7), 3)],
)
def test_any_number_of_threads_gives_the_same_bits(
    dims: tuple[int, ...], rank: int, kind: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "LEAST_NS", 0.0)
    monkeypatch.setattr(sharing, "LEAST_PART_NS", 0.0)
    shape = (*dims[:-1], dims[-1] // 2 + 1) if kind == "IRFFT" else dims
    values = np.random.default_rng(seed).standard_normal((2, *shape)).astype(np.float32)
    values = values[0] if kind == "RFFT" else values[0] + 1j * values[1]
    module = module_of(kind, values.shape, dims[len(dims) - rank :], "c64")
    results = []
    for threads in (1, 2, 3, 7):
        program = compile_for(module, "cpu", CompileOptions(threads=threads))
        results.append(np.array(program(values).numpy()))  # type: ignore[union-attr]
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])
