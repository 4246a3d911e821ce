"""Special functions in f64, compared with mpmath at random places."""

from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest

from xladev.frontends.torch.lower import special
from xladev.frontends.torch.lower.value import TensorBuilder, Value
from xladev.hlo import dtype as dt
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.shape import array

COUNT = 40
FUNCTIONS: dict[str, tuple[Callable[[Value], Value], Callable[[float], float], float, float]] = {
    "erfc": (special.erfc, mp.erfc, -4, 20),
    "erfcx": (special.erfcx, lambda x: mp.exp(mp.mpf(x) ** 2) * mp.erfc(x), -3, 200),
    "erfinv": (special.erfinv, mp.erfinv, -0.9999, 0.9999),
    "lgamma": (special.lgamma, lambda x: mp.log(abs(mp.gamma(x))), -5, 60),
    "digamma": (special.digamma, mp.digamma, -5, 60),
    "trigamma": (special.trigamma, lambda x: mp.polygamma(1, x), -5, 60),
    "i0e": (special.i0e, lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), -50, 50),
    "i1e": (special.i1e, lambda x: mp.exp(-abs(x)) * mp.besseli(1, x), -50, 50),
    "k0e": (special.k0e, lambda x: mp.exp(x) * mp.besselk(0, x), 0.01, 30),
    "k1e": (special.k1e, lambda x: mp.exp(x) * mp.besselk(1, x), 0.01, 30),
    "j0": (special.j0, lambda x: mp.besselj(0, x), -60, 60),
    "j1": (special.j1, lambda x: mp.besselj(1, x), -60, 60),
    "y0": (special.y0, lambda x: mp.bessely(0, x), 0.01, 60),
    "y1": (special.y1, lambda x: mp.bessely(1, x), 0.01, 60),
    "airy": (special.airy, mp.airyai, -30, 12),
}


def test_digamma_at_its_poles() -> None:
    x = np.array([0.0, -0.0, -1.0, -7.0])
    b = TensorBuilder("t")
    result = special.digamma(Value(b, b.parameter(array(dt.F64, x.shape))))
    found = np.asarray(HloEvaluator().run(b.module(result.node), x))
    np.testing.assert_array_equal(found, [-np.inf, np.inf, np.nan, np.nan])  # as torch's


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_mpmaths(name: str) -> None:
    function, reference, low, high = FUNCTIONS[name]
    x = np.random.default_rng(7).uniform(low, high, COUNT)
    b = TensorBuilder("t")
    result = function(Value(b, b.parameter(array(dt.F64, (COUNT,)))))
    found = np.asarray(HloEvaluator().run(b.module(result.node), x))
    wanted = np.array([float(reference(float(each))) for each in x])
    np.testing.assert_allclose(found, wanted, rtol=2e-11, atol=2e-13)
