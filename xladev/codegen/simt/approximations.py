"""Approximate instructions of a target, as the emulator computes them: as wrong as they may be.

The emulator computes each in f64, moves the result by as much as the target's documentation allows,
at random, and flushes subnormal numbers where the instruction does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Approximation:
    """One instruction on f32.

    Attributes:
        exact: a line of LLVM that computes f64 ``%r`` from f64 ``%x`` (and ``%y``).
        ulps: most error, in units in the last place of the result.
        relative: most error, in parts of the result, where that is what is documented.
        absolute: error that is allowed besides.
        flushes: whether subnormal operands and results are zeros.
        arity: number of operands.
    """

    exact: str
    ulps: float = 0.0
    relative: float = 0.0
    absolute: float = 0.0
    flushes: bool = False
    arity: int = 1


_C_FUNCTIONS = ("exp2", "log2", "sqrt", "tanh")


def operands(a: Approximation) -> str:
    """The parameters of its primitive."""
    return ", ".join(f"float %{name}" for name in "ab"[: a.arity])


def host_definitions(approximations: Mapping[str, Approximation]) -> dict[str, str]:
    """Definitions of primitives for the emulator, by symbol.

    The error follows from the operand's bits, so that a program gives the same results each time.
    """
    return {symbol: _host(symbol, a) for symbol, a in approximations.items()}


def c_declarations(text: str) -> str:
    """Declarations of the functions of the C library that a module calls."""
    called = [name for name in _C_FUNCTIONS if f"call double @{name}(" in text]
    return "".join(f"declare double @{name}(double)\n" for name in called)


def _host(symbol: str, a: Approximation) -> str:
    names = "ab"[: a.arity]
    flushed = [_flush(n, f"{n}.f") for n in names if a.flushes]
    wide = [
        f"  %{w} = fpext float %{n}{'.f' if a.flushes else ''} to double"
        for n, w in zip(names, "xy", strict=False)
    ]
    last = [_flush("near", "result")] if a.flushes else []
    lines = [*flushed, *wide, f"  {a.exact}", _moved(a), *last]
    return (
        f"define internal float @{symbol}({operands(a)}) alwaysinline {{\n"
        + "\n".join(lines)
        + f"\n  ret float %{'result' if a.flushes else 'near'}\n}}"
    )


def _moved(a: Approximation) -> str:
    """Lines that move ``%r`` by up to the error, and round it; infinities and NaN stay.

    So do zeros and their signs, unless an error is documented for results around them.
    """
    stays = "%special" if a.absolute else "%stays"
    most = a.relative or a.ulps * 2.0**-23
    # of a result in units, error is measured from the power of two below it
    mask = -1 if a.relative else -(1 << 52)
    return f"""  %bits = bitcast float %a to i32
  %mixed = mul i32 %bits, -1640531527
  %high = lshr i32 %mixed, 15
  %hash = xor i32 %mixed, %high
  %unit = sitofp i32 %hash to double
  %error = fmul double %unit, {most * 2.0**-31:.17e}
  %r.bits = bitcast double %r to i64
  %r.kept = and i64 %r.bits, {mask}
  %r.size = bitcast i64 %r.kept to double
  %part = fmul double %error, %r.size
  %fixed = fmul double %unit, {a.absolute * 2.0**-31:.17e}
  %off = fadd double %part, %fixed
  %moved = fadd double %r, %off
  %r.exponent = and i64 %r.bits, {0x7FF << 52}
  %special = icmp eq i64 %r.exponent, {0x7FF << 52}
  %zero = fcmp oeq double %r, 0.0
  %stays = or i1 %special, %zero
  %value = select i1 {stays}, double %r, double %moved
  %near = fptrunc double %value to float"""


def _flush(name: str, result: str) -> str:
    """Lines that make a subnormal number the zero of its sign."""
    return f"""  %{result}.bits = bitcast float %{name} to i32
  %{result}.exponent = and i32 %{result}.bits, {0xFF << 23}
  %{result}.tiny = icmp eq i32 %{result}.exponent, 0
  %{result}.sign = and i32 %{result}.bits, {-(1 << 31)}
  %{result}.kept = select i1 %{result}.tiny, i32 %{result}.sign, i32 %{result}.bits
  %{result} = bitcast i32 %{result}.kept to float"""
