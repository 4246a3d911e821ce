"""Transforms that take transposes and factors into their kernels."""

from __future__ import annotations

import numpy as np
import pytest

from xladev.client import compile as compile_for
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.fourier.description import Fourier, fourier_at
from xladev.platforms.cpu.fourier_fusion import FourierFusion

COLUMNS = """
ENTRY e {{ x = c64[8,6,10] parameter(0)
  a = c64[6,10,8] transpose(x), dimensions={{1,2,0}}
  b = c64[6,10,8] fft(a), fft_type={kind}, fft_length={{8}}
  c = c64[8,6,10] transpose(b), dimensions={{2,0,1}}
  s = c64[] constant((0.25, 0))
  t = c64[8,6,10] broadcast(s), dimensions={{}}
  ROOT r = c64[8,6,10] multiply(c, t) }}"""
TWO = """
ENTRY e { x = c64[8,6,10] parameter(0)
  a = c64[10,8,6] transpose(x), dimensions={2,0,1}
  b = c64[10,8,6] fft(a), fft_type=FFT, fft_length={8,6}
  ROOT c = c64[8,6,10] transpose(b), dimensions={1,2,0} }"""
SCALED = """
ENTRY e {{ x = {before} parameter(0)
  b = {after} fft(x), fft_type={kind}, fft_length={{{length}}}
  s = {scalar} constant({number})
  t = {after} broadcast(s), dimensions={{}}
  ROOT r = {after} multiply(t, b) }}"""


def fused(text: str) -> tuple[HloModule, Fourier | None]:
    """A module after the pass, and what its root is as a kernel."""
    module = FourierFusion().run(parse_module("HloModule m\n" + text))
    root = module.entry.root
    return module, fourier_at(root["calls"].root) if root.opcode == "fusion" else None


def run(text: str, *values: np.ndarray) -> np.ndarray:
    """What a program gives on the processor."""
    result = compile_for(parse_module("HloModule m\n" + text), "cpu")(*values)
    return np.asarray(result.numpy())  # type: ignore[union-attr]


def drawn(seed: int, dims: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(dims) + 1j * rng.standard_normal(dims)).astype(np.complex64)


@pytest.mark.parametrize("kind", ["FFT", "IFFT"])
def test_another_dimension_is_transformed_where_it_is(kind: str, seed: int) -> None:
    text, x = COLUMNS.format(kind=kind), drawn(seed, (8, 6, 10))
    _, found = fused(text)
    assert found == Fourier(kind, (8, 6, 10), (0,), 8, 4, 0.25)
    transform = {"FFT": np.fft.fft, "IFFT": np.fft.ifft}[kind]
    np.testing.assert_allclose(run(text, x), 0.25 * transform(x, axis=0), atol=2e-6)


def test_so_are_two(seed: int) -> None:
    x = drawn(seed, (8, 6, 10))
    _, found = fused(TWO)
    assert found == Fourier("FFT", (8, 6, 10), (0, 1), 6, 4, 1.0)
    np.testing.assert_allclose(run(TWO, x), np.fft.fft2(x, axes=(0, 1)), atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "before", "after", "length"),
    [
        ("FFT", "c64[5,12]", "c64[5,12]", "12"),
        ("IFFT", "c64[5,12]", "c64[5,12]", "5,12"),
        ("RFFT", "f32[5,12]", "c64[5,7]", "12"),
        ("RFFT", "f32[5,9]", "c64[5,5]", "9"),
        ("RFFT", "f32[5,12]", "c64[5,7]", "5,12"),
        ("IRFFT", "c64[5,7]", "f32[5,12]", "12"),
        ("IRFFT", "c64[5,5]", "f32[5,9]", "5,9"),
    ],
)
def test_a_factor_is_part_of_the_kernel(
    kind: str, before: str, after: str, length: str, seed: int
) -> None:
    is_complex = after.startswith("c64")
    how = {"before": before, "after": after, "kind": kind, "length": length}
    how |= {"scalar": after[:3] + "[]", "number": "(-3, 0)" if is_complex else "-3"}
    text = SCALED.format(**how)
    dims = tuple(int(n) for n in before[4:-1].split(","))
    x = drawn(seed, dims) if before[0] == "c" else drawn(seed, dims).real.copy()
    assert fused(text)[1] is not None
    lengths = [int(n) for n in length.split(",")]
    transform = {
        "FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn,
    }[kind]  # fmt: skip
    wanted = -3 * transform(x, s=lengths, axes=range(-len(lengths), 0))
    np.testing.assert_allclose(run(text, x), wanted, atol=1e-4)


@pytest.mark.parametrize(
    "change",
    [
        ("(0.25, 0)", "(0.25, 1)"),  # no real factor
        ("dimensions={2,0,1}", "dimensions={2,1,0}"),  # other dimensions change places
    ],
)
def test_what_is_no_such_kernel_is_still_right(change: tuple[str, str], seed: int) -> None:
    text = COLUMNS.format(kind="FFT").replace(*change)
    text = text.replace("c64[8,6,10] transpose(b)", "c64[8,10,6] transpose(b)")\
        if change[0].startswith("dim") else text  # fmt: skip
    if change[0].startswith("dim"):
        text = text.split("  s = ")[0].replace("  c = ", "  ROOT c = ") + "}"
    x = drawn(seed, (8, 6, 10))
    made = np.fft.fft(x, axis=0)
    wanted = made.transpose(0, 2, 1) if change[0].startswith("dim") else (0.25 + 1j) * made
    np.testing.assert_allclose(run(text, x), wanted, atol=1e-5)


def test_a_transform_that_is_used_twice_stays_apart() -> None:
    text = COLUMNS.format(kind="FFT").replace("ROOT r", "q")[:-1]
    text += "  ROOT o = (c64[8,6,10], c64[6,10,8]) tuple(q, b) }"
    module, _ = fused(text)
    assert not any(i.opcode == "fusion" for i in module.entry.instructions)


def test_a_transposed_scalar_is_no_transform() -> None:
    """A transpose without dimensions has no such attribute."""
    text = "ENTRY e { k = f32[] parameter(0)\n ROOT t = f32[] transpose(k), dimensions={} }"
    assert fourier_at(parse_module(text).entry.root) is None
