"""Complex quotients by real numbers: each part rounded once, what is not finite as in full ones."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from xladev.client import compile
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.text import parse_module

BY_REAL = """HloModule m
ENTRY e {{ z = {z}[{n}] parameter(0)
  d = {t}[{n}] parameter(1)
  w = {z}[{n}] convert(d)
  ROOT q = {z}[{n}] divide(z, w) }}"""
TYPES = {"c64": ("f32", np.complex64), "c128": ("f64", np.complex128)}
EXTREMES = [0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 3e38, 1e-45, -1e-40]


def numbers(real: np.ndarray, imag: np.ndarray, dtype: str) -> np.ndarray:
    result = np.empty(real.shape, TYPES[dtype][1])
    result.real, result.imag = real, imag
    return result


@pytest.mark.parametrize("dtype", TYPES)
def test_parts_are_rounded_once(dtype: str) -> None:
    a, c, d = np.random.default_rng(1).standard_normal((3, 4097))
    z = numbers(a, c, dtype)
    divisor = d.astype(z.real.dtype)
    module = parse_module(BY_REAL.format(z=dtype, t=TYPES[dtype][0], n=4097))
    found = np.asarray(compile(module, "cpu")(z, divisor))
    np.testing.assert_array_equal(found.real, z.real / divisor)
    np.testing.assert_array_equal(found.imag, z.imag / divisor)


@pytest.mark.parametrize("dtype", TYPES)
def test_extremes_are_those_of_the_evaluator(dtype: str) -> None:
    a, c, d = np.array(list(product(EXTREMES, repeat=3))).T
    z = numbers(a, c, dtype)
    divisor = d.astype(z.real.dtype)
    module = parse_module(BY_REAL.format(z=dtype, t=TYPES[dtype][0], n=len(a)))
    found = np.asarray(compile(module, "cpu")(z, divisor))
    wanted = np.asarray(HloEvaluator().run(module, z, divisor))
    least = np.finfo(divisor.dtype).smallest_subnormal
    for x, y in ((found.real, wanted.real), (found.imag, wanted.imag)):
        np.testing.assert_allclose(x, y, rtol=4 * np.finfo(x.dtype).eps, atol=least)
