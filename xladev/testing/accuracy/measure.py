"""The largest error of one function over many inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from xladev.client import compile
from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.literal import Array
from xladev.hlo.shape import array
from xladev.testing.accuracy.errors import F32, F64, errors_in_ulps
from xladev.testing.accuracy.truth import Promise, true_values
from xladev.testing.random_inputs import special_values

COUNT = 1 << 18
"""Inputs of one call: what is computed with them stays in a cache."""
ALL = 1 << 32
"""How many bit patterns f32 has."""

Inputs = tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class Worst:
    """The largest error that was seen.

    Attributes:
        inputs: how many were tried.
        ulps: the largest error, in units in the last place: half a one where all results are the
            nearest; infinite for NaN in place of a number.
        at: where.
        got: what the platform gives there.
    """

    inputs: int = 0
    ulps: float = 0.5
    at: tuple[float, ...] = ()
    got: float = 0.0


def compiled(promise: Promise, dtype: PrimitiveType, platform: str) -> Callable[..., Array]:
    """The function of `COUNT` elements on a platform."""
    b = HloBuilder("function")
    shape = array(dtype, (COUNT,))
    operands = [b.parameter(shape) for _ in range(promise.arity)]
    run = compile(b.module(b.op(promise.opcode, *operands)), platform)
    return lambda *inputs: np.asarray(run(*inputs))


def worst_of(
    promise: Promise, dtype: PrimitiveType, platform: str, inputs: Iterable[Inputs]
) -> Iterator[Worst]:
    """What is known after each block of inputs.

    Args:
        promise: the function.
        dtype: f32 or f64.
        platform: what is measured.
        inputs: blocks of `COUNT` elements for each operand.
    """
    run, worst = compiled(promise, dtype, platform), Worst()
    is_wide = dtype is dt.F64
    form, wide = (F64, np.longdouble) if is_wide else (F32, np.float64)
    for operands in inputs:
        got = run(*operands)
        true = true_values(promise, operands, wide)
        worst = replace(worst, inputs=worst.inputs + got.size)
        places = _not_nearest(got, true)
        if places.size:
            errors = errors_in_ulps(got[places], true[places], form)
            n = int(np.argmax(errors))
            if errors[n] > worst.ulps:
                at = tuple(float(o[places[n]]) for o in operands)
                worst = replace(worst, ulps=float(errors[n]), at=at, got=float(got[places[n]]))
        yield worst


def _not_nearest(got: Array, true: Array) -> Array:
    """Places of results that are not the truth, rounded; others are off by half a place at most."""
    bits = np.dtype(f"u{got.itemsize}")
    with np.errstate(all="ignore"):
        nearest = true.astype(got.dtype)
    found = np.flatnonzero(nearest.view(bits) != got.view(bits))
    return found[~(np.isnan(nearest[found]) & np.isnan(got[found]))]


def every_f32(stride: int = 1) -> Iterator[Inputs]:
    """All bit patterns, or each so many'th; the last block begins again from the first."""
    for start in range(0, ALL, stride * COUNT):
        codes = np.arange(start, start + stride * COUNT, stride, dtype=np.int64)
        yield ((codes % ALL).astype(np.uint32).view(np.float32),)


def pairs(promise: Promise, count: int, seed: int) -> Iterator[Inputs]:
    """Special values of f32 each with each, then random ones: by their bits, and moderate ones."""
    special = special_values(dt.F32).astype(np.float32)
    first = [each.ravel() for each in np.meshgrid(special, special)]
    yield tuple(np.resize(each, COUNT) for each in first)
    rng = np.random.default_rng(seed)
    for number in range(-(-count // COUNT)):
        if number % 2:
            codes = rng.integers(0, ALL, (promise.arity, COUNT), dtype=np.uint32)
            yield tuple(codes.view(np.float32))
        else:
            yield _moderate(rng)


def _moderate(rng: np.random.Generator) -> Inputs:
    """Bases from 2**-10 to 2**10, exponents for which the power is mostly finite."""
    base = np.exp2(rng.uniform(-10, 10, COUNT))
    other = rng.uniform(-1, 1, COUNT) * np.exp2(rng.uniform(-4, 7, COUNT))
    return base.astype(np.float32), other.astype(np.float32)


def doubles(promise: Promise, count: int, seed: int) -> Iterator[Inputs]:
    """Seeded f64: half of them evenly spread, half by magnitude down to the least."""
    rng = np.random.default_rng(seed)
    low, high = promise.limits
    for number in range(-(-count // COUNT)):
        yield tuple(_drawn(rng, low, high, number % 2 == 0) for _ in range(promise.arity))


def _drawn(rng: np.random.Generator, low: float, high: float, evenly: bool) -> Array:
    if evenly:
        return low + rng.random(COUNT) * (high - low)
    sizes = np.exp2(rng.uniform(-300, np.log2(max(abs(low), abs(high))), COUNT))
    signed = np.where(rng.random(COUNT) < 0.5, -sizes, sizes) if low < 0 else sizes
    return np.clip(signed, low, high)


def wrongly_rounded(promise: Promise, narrow: PrimitiveType, platform: str) -> int:
    """How many of all inputs of bf16 or f16 give another result than f32's, rounded."""
    codes = np.resize(np.arange(1 << 16, dtype=np.uint32).astype(np.uint16), COUNT)
    x = codes.view(narrow.np)
    operands: Sequence[Array] = (x,) * promise.arity
    got = compiled(promise, narrow, platform)(*operands)
    wide = compiled(promise, dt.F32, platform)(*[o.astype(np.float32) for o in operands])
    with np.errstate(all="ignore"):
        want = wide.astype(narrow.np)
        differ = (got != want) & ~(np.isnan(got) & np.isnan(want))
    return int(differ[: 1 << 16].sum())
