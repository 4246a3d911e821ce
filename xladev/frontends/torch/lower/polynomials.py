"""Orthogonal polynomials whose degree is an array: recurrences up to the highest degree."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xladev.frontends.torch.lower.loops import repeat_while
from xladev.frontends.torch.lower.promotion import operand
from xladev.frontends.torch.lower.table import Family, Function
from xladev.frontends.torch.lower.value import Number, TensorBuilder, Value
from xladev.hlo.shape import Shape

POLYNOMIALS = Family("polynomials", "Orthogonal polynomials.", wide=True)

Step = Callable[[Value, Value, Value, Value], Value]
"""The next polynomial, from its degree, x, and the two before (the later one first)."""

_MOST = 2000


def recurrence(n: Value, x: Value, first: Value, step: Step) -> Value:
    """The polynomial of degree n, of which those of degrees 0 (which is 1) and 1 are given."""
    start = [x.builder.scalar(1, n.dtype), x, n, x.like(1), first, n.eq(0).where(1, first)]

    def going(v: Sequence[Value]) -> Value:
        top = v[2].reduce("maximum", 0, range(v[2].rank))
        return v[0].lt(top.minimum(_MOST))

    def body(v: Sequence[Value]) -> list[Value]:
        k, at, wanted, before, now, kept = v
        k = k + 1
        degree_here = k.expand(at.dims)
        following = step(degree_here, at, now, before)
        return [k, at, wanted, now, following, wanted.eq(k).where(following, kept)]

    found = repeat_while(start, going, body)[5]
    return n.lt(0).where(0, found)


def _twice(_: Value, x: Value, now: Value, before: Value) -> Value:
    return x * 2 * now - before


def _shifted(_: Value, x: Value, now: Value, before: Value) -> Value:
    return (x * 2 - 1) * 2 * now - before


def _hermite(k: Value, x: Value, now: Value, before: Value) -> Value:
    return x * 2 * now - (k - 1) * 2 * before


def _hermite_e(k: Value, x: Value, now: Value, before: Value) -> Value:
    return x * now - (k - 1) * before


def _laguerre(k: Value, x: Value, now: Value, before: Value) -> Value:
    return ((k * 2 - 1 - x) * now - (k - 1) * before) / k


def _legendre(k: Value, x: Value, now: Value, before: Value) -> Value:
    return ((k * 2 - 1) * x * now - (k - 1) * before) / k


_KINDS: dict[str, tuple[Callable[[Value], Value], Step, str]] = {
    "chebyshev_polynomial_t": (lambda x: x, _twice, "Chebyshev's, first kind."),
    "chebyshev_polynomial_u": (lambda x: x * 2, _twice, "Chebyshev's, second kind."),
    "chebyshev_polynomial_v": (lambda x: x * 2 - 1, _twice, "Chebyshev's, third kind."),
    "chebyshev_polynomial_w": (lambda x: x * 2 + 1, _twice, "Chebyshev's, fourth kind."),
    "shifted_chebyshev_polynomial_t": (lambda x: x * 2 - 1, _shifted, "First kind, on [0, 1]."),
    "shifted_chebyshev_polynomial_u": (lambda x: x * 4 - 2, _shifted, "Second kind, on [0, 1]."),
    "shifted_chebyshev_polynomial_v": (lambda x: x * 4 - 3, _shifted, "Third kind, on [0, 1]."),
    "shifted_chebyshev_polynomial_w": (lambda x: x * 4 - 1, _shifted, "Fourth kind, on [0, 1]."),
    "hermite_polynomial_h": (lambda x: x * 2, _hermite, "Hermite's, physicists'."),
    "hermite_polynomial_he": (lambda x: x, _hermite_e, "Hermite's, probabilists'."),
    "laguerre_polynomial_l": (lambda x: 1 - x, _laguerre, "Laguerre's."),
    "legendre_polynomial_p": (lambda x: x, _legendre, "Legendre's."),
}


def _lowering(first: Callable[[Value], Value], step: Step, what: str) -> Function:
    def lower(b: TensorBuilder, out: Shape, x: Value | Number, n: Value | Number) -> Value:
        to = out.element_type
        degree = operand(b, n, to, out.dims)
        whole = degree.lt(0).where(degree.op("ceil"), degree.floor())
        at = operand(b, x, to, out.dims)
        return recurrence(whole, at, first(at), step)

    lower.__doc__ = what
    return lower


for _name, (_first, _step, _what) in _KINDS.items():
    for _overload in ("default", "x_scalar", "n_scalar"):
        POLYNOMIALS.add(
            f"special_{_name}.{_overload}",
            _lowering(_first, _step, _what),
            sample=f"special.{_name}",
        )
