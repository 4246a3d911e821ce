"""What this machine's processors can do at most, measured: arithmetic by type, and memory.

Arithmetic is measured as fused multiply-adds of whole vectors between registers, memory as copies
of arrays that no cache holds; both on all threads at once. A thread's rate is by its own processor
time, so that other processes make little difference.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from threading import Barrier
from types import MappingProxyType

import numpy as np

from xladev.compiler.description import DeviceDescription
from xladev.errors import OptionError
from xladev.platforms.cpu.engine import LoadedObject, target_traits, vector_nbytes
from xladev.platforms.cpu.object_cache import load_cached
from xladev.platforms.cpu.pool import threads_wanted

FLOPS_VARIABLE = "XLADEV_CPU_PEAK_FLOPS"
"""Operations on f32 per second of all threads together; unset: measured."""
BANDWIDTH_VARIABLE = "XLADEV_CPU_BANDWIDTH"
"""Bytes per second that all threads together read and write; unset: measured."""

_CHAINS = 12
"""Multiply-adds that do not wait for each other: the latency of one times two units, and more."""
_ITERATIONS = 100_000
_COPIED_NBYTES = 32 << 20
_ROUNDS = 4

Work = Callable[[], float]
"""Does a piece of work; how much it was."""


def with_rates(description: DeviceDescription) -> DeviceDescription:
    """The description with rates by type and the memory's bandwidth.

    Raises:
        OptionError: a variable that fixes a rate is no positive number.
    """
    f32 = _given(FLOPS_VARIABLE)
    rates = _arithmetic() if f32 is None else {"f32": f32, "f64": f32 / 2}
    bandwidth = _given(BANDWIDTH_VARIABLE) or _bandwidth()
    memory = replace(description.memory_spaces[0], bandwidth=bandwidth)
    peaks = MappingProxyType(_by_type(rates["f32"], rates["f64"]))
    return replace(
        description, peak_flops=peaks, memory_spaces=(memory, *description.memory_spaces[1:])
    )


def _given(variable: str) -> float | None:
    text = os.environ.get(variable, "").strip()
    if not text:
        return None
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise OptionError(
            f"{variable} is {text!r}",
            why="it must be a positive number, per second",
            hint=f"unset {variable} to have the rate measured, or write it like 1.5e11",
        )
    return rate


def _by_type(f32: float, f64: float) -> dict[str, float]:
    """Rates of all types: narrow floats are computed in f32, and an integer has no multiply-add."""
    bytewise = 4 * f32 if target_traits().has_byte_products else 2 * f32
    narrow = ("bf16", "f16", *_NARROW_FLOATS)
    rates = dict.fromkeys(narrow, f32) | {"f32": f32, "c64": f32, "f64": f64, "c128": f64}
    for sign in "su":
        rates |= {f"{sign}{bits}": f32 / 2 * 32 / bits for bits in (16, 32, 64)}
        rates |= dict.fromkeys((f"{sign}{bits}" for bits in (1, 2, 4, 8)), bytewise)
    return rates | {"pred": bytewise}


_NARROW_FLOATS = (
    "f8e5m2", "f8e4m3", "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "f8e3m4",
    "f8e8m0fnu", "f6e2m3fn", "f6e3m2fn", "f4e2m1fn",
)  # fmt: skip


@cache
def _arithmetic() -> Mapping[str, float]:
    """Operations per second of f32 and f64."""
    code, _ = load_cached("rates", _text(), 1, tuple(_TYPES))
    f32, f64 = _rates(lambda: _adder(code, "f32"), lambda: _adder(code, "f64"))
    return {"f32": f32, "f64": f64}


@cache
def _bandwidth() -> float:
    (bandwidth,) = _rates(_copier)
    return bandwidth


def _adder(code: LoadedObject, name: str) -> Work:
    lanes = vector_nbytes() // _TYPES[name][1]
    values = np.ones((_CHAINS + 1) * lanes, _TYPES[name][2])
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.address(name))
    address = values.ctypes.data

    def work() -> float:
        values.fill(1.0)
        function(address, _ITERATIONS)
        return 2.0 * lanes * _CHAINS * _ITERATIONS

    return work


def _copier() -> Work:
    source = np.ones(_COPIED_NBYTES // 8)
    target = np.zeros_like(source)

    def work() -> float:
        np.copyto(target, source)
        return 2.0 * source.nbytes

    return work


def _rates(*kinds: Callable[[], Work]) -> list[float]:
    """For each kind of work how much all threads do per second at once, each in its best round.

    The kinds take turns in every round, so that a clock that changes changes their ratio little.
    """
    works = [[prepare() for prepare in kinds] for _ in range(threads_wanted())]
    together = Barrier(len(works))

    def thread(own: list[Work]) -> list[float]:
        best = [0.0] * len(own)
        for _round in range(_ROUNDS):
            for kind, work in enumerate(own):
                together.wait()
                start = time.thread_time_ns()
                done = work()
                rate = done / max(time.thread_time_ns() - start, 1) * 1e9
                best[kind] = max(best[kind], rate)
        return best

    with ThreadPoolExecutor(len(works)) as threads:
        return [sum(rates) for rates in zip(*threads.map(thread, works), strict=True)]


_TYPES: Mapping[str, tuple[str, int, str]] = MappingProxyType(
    {"f32": ("float", 4, "f4"), "f64": ("double", 8, "f8")}
)
"""By type: LLVM's name, its bytes, NumPy's name."""


def _text() -> str:
    return "\n".join(_function(name, llvm, size) for name, (llvm, size, _) in _TYPES.items())


def _function(name: str, scalar: str, nbytes: int) -> str:
    """LLVM text: ``iterations`` times, each chain times a factor plus the factor.

    A processor without such an instruction multiplies and adds.
    """
    lanes = vector_nbytes() // nbytes
    vector, chains = f"<{lanes} x {scalar}>", range(_CHAINS)
    fma = f"@llvm.fmuladd.v{lanes}f{8 * nbytes}"
    lines = [
        f"declare {vector} {fma}({vector}, {vector}, {vector})",
        f"define void @{name}(ptr %values, i64 %iterations) {{\nentry:",
        f"  %factor.at = getelementptr {vector}, ptr %values, i64 {_CHAINS}",
        f"  %factor = load {vector}, ptr %factor.at, align {nbytes}",
    ]
    for c in chains:
        lines.append(f"  %at.{c} = getelementptr {vector}, ptr %values, i64 {c}")
        lines.append(f"  %first.{c} = load {vector}, ptr %at.{c}, align {nbytes}")
    lines.append("  br label %iteration\niteration:")
    lines.append("  %t = phi i64 [ 0, %entry ], [ %next, %iteration ]")
    lines += [
        f"  %c.{c} = phi {vector} [ %first.{c}, %entry ], [ %d.{c}, %iteration ]" for c in chains
    ]
    given = f"{vector} %factor, {vector} %factor"
    lines += [f"  %d.{c} = call {vector} {fma}({vector} %c.{c}, {given})" for c in chains]
    lines.append("  %next = add i64 %t, 1\n  %more = icmp slt i64 %next, %iterations")
    lines.append("  br i1 %more, label %iteration, label %done\ndone:")
    lines += [f"  store {vector} %d.{c}, ptr %at.{c}, align {nbytes}" for c in chains]
    return "\n".join([*lines, "  ret void\n}"])
