"""Maxima and minima along rows: NaN and the signs of zeros, wherever they stand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.platforms.cpu.one_kernel import run_kernel
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module

LENGTHS = (16, 33, 64, 250, 512, 1043)
"""Below, at and above one set of accumulators, with and without a rest."""


def extremes(opcode: str, dtype: str, rows: int, length: int) -> HloModule:
    start = "-inf" if opcode == "maximum" else "inf"
    text = f"""HloModule extremes
reduction {{
  a = {dtype}[] parameter(0)
  b = {dtype}[] parameter(1)
  ROOT c = {dtype}[] {opcode}(a, b)
}}
ENTRY e {{
  x = {dtype}[{rows},{length}] parameter(0)
  start = {dtype}[] constant({start})
  ROOT r = {dtype}[{rows}] reduce(x, start), dimensions={{1}}, to_apply=reduction
}}"""
    return parse_module(text)


def want(opcode: str, x: np.ndarray) -> np.ndarray:
    """By the rule: NaN if there is one, and of zeros the one whose sign is further out."""
    found = x.max(axis=1) if opcode == "maximum" else x.min(axis=1)
    sign = np.signbit(x)
    negative = sign.all(axis=1) if opcode == "maximum" else (sign & (x == 0)).any(axis=1)
    return np.where(found == 0, np.where(negative, -0.0, 0.0).astype(x.dtype), found)


def same(got: np.ndarray, expected: np.ndarray) -> bool:
    nan = np.isnan(expected)
    signs = np.signbit(got) == np.signbit(expected)
    return bool(((got == expected) & signs | nan & np.isnan(got)).all())


@pytest.mark.long
@pytest.mark.parametrize("nbytes", [32, 64])
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
@pytest.mark.parametrize("opcode", ["maximum", "minimum"])
def test_one_unusual_element_at_each_place(
    opcode: str, dtype: str, length: int, nbytes: int
) -> None:
    """In row n, element n is a NaN or a zero of the other sign."""
    kind = np.dtype({"f32": "float32", "f64": "float64", "f16": "float16"}[dtype])
    side = -1.0 if opcode == "maximum" else 1.0
    outward = np.random.default_rng(length).uniform(1, 2, (length, length)) * side
    module = extremes(opcode, dtype, length, length)
    for background, unusual in (
        (outward, np.nan),
        (outward, 0.0),
        (outward, -0.0),
        (np.full_like(outward, 0.0), -0.0),
        (np.full_like(outward, -0.0), 0.0),
        (np.full_like(outward, -np.inf), -np.nan),
        (np.full_like(outward, np.inf), np.nan),
    ):
        x = background.astype(kind)
        np.fill_diagonal(x, unusual)
        (got,) = run_kernel(module, x, nbytes=nbytes)
        assert same(got, want(opcode, x)), unusual


@pytest.mark.parametrize("opcode", ["maximum", "minimum"])
def test_rows_of_nothing_but_infinities(opcode: str) -> None:
    x = np.array([[np.inf] * 512, [-np.inf] * 512], np.float32)
    (got,) = run_kernel(extremes(opcode, "f32", 2, 512), x)
    np.testing.assert_array_equal(got, [np.inf, -np.inf])
