"""Random arguments for a program, from a seed, kept legal for what the program does with them.

Values are small and of both signs. Parameters that reach a square root, a logarithm or an index
through operations that only move data are drawn from the range where those are meaningful. Wild
arguments ignore that: NaN, infinities, extremes, random bits, indices out of bounds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from xladev.errors import ArgumentError
from xladev.hlo.dtype import ARRAY_TYPES, PRED, Kind, PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule, reachable
from xladev.hlo.literal import Value
from xladev.hlo.shape import UNBOUNDED, Shape, ShapeIndex, array

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """The range that a value should be drawn from.

    Attributes:
        low: smallest value; None for no limit.
        high: largest value; None for no limit.
        nonzero: True if zero is to be avoided.
        positive_definite: True if the last two dimensions are to hold such matrices.
    """

    low: float | None = None
    high: float | None = None
    nonzero: bool = False
    positive_definite: bool = False

    def meet(self, other: Limits) -> Limits:
        """The range that satisfies both."""
        lows = [x for x in (self.low, other.low) if x is not None]
        highs = [x for x in (self.high, other.high) if x is not None]
        return Limits(
            max(lows, default=None),
            min(highs, default=None),
            self.nonzero or other.nonzero,
            self.positive_definite or other.positive_definite,
        )


FREE = Limits()
_UNBOUNDED_SIZE = 8
_Leaf = tuple[HloInstruction, ShapeIndex]
_Known = dict[HloComputation, dict[_Leaf, Limits]]

_PASS_ON = frozenset({
    "reshape", "broadcast", "transpose", "copy", "bitcast", "reverse", "slice", "convert",
    "concatenate", "opt-barrier", "dynamic-slice", "gather",
})  # fmt: skip
_DOMAINS: Mapping[str, Mapping[int, Limits]] = MappingProxyType(
    {
        "sqrt": {0: Limits(low=0.0)},
        "rsqrt": {0: Limits(low=0.1)},
        "log": {0: Limits(low=0.1)},
        "log2": {0: Limits(low=0.1)},
        "log-plus-one": {0: Limits(low=-0.5)},
        "acos": {0: Limits(-1.0, 1.0)},
        "asin": {0: Limits(-1.0, 1.0)},
        "atanh": {0: Limits(-0.9, 0.9)},
        "acosh": {0: Limits(low=1.0)},
        "power": {0: Limits(low=0.0)},
        "divide": {1: Limits(nonzero=True)},
        "remainder": {1: Limits(nonzero=True)},
        "cholesky": {0: Limits(positive_definite=True)},
        "triangular-solve": {0: Limits(positive_definite=True)},
        "batch-norm-inference": {4: Limits(low=0.1)},
        "batch-norm-grad": {3: Limits(low=0.1)},
    }
)


def random_arguments(module: HloModule, seed: int = 0, *, wild: bool = False) -> list[Value]:
    """One value per parameter of the entry: an array, or a tuple of them; None for a token.

    Args:
        module: a program; dynamic dimensions get a random size.
        seed: fixes the values.
        wild: any bits that a program can be given, wherever its meaning is defined for them.

    Raises:
        ArgumentError: there is no memory for arrays that large.
    """
    generator = np.random.default_rng(seed)
    limits = parameter_limits(module.entry)

    def draw(declared: Shape, limit: Limits) -> Value:
        shape = _live_shape(generator, declared) if declared.is_dynamic else declared
        try:
            return drawn(shape, limit)
        except MemoryError as error:
            raise ArgumentError(
                f"random numbers for {declared} take too much memory",
                where=module.name,
                why=f"{shape} has {shape.nbytes} bytes: {error}",
                hint="give the arguments, or make the program smaller",
            ) from error

    def drawn(shape: Shape, limit: Limits) -> Value:
        # NumPy refuses it, of size zero too, with a ValueError that says less
        if 16 * prod(n or 1 for n in shape.dims) > sys.maxsize:
            raise MemoryError(f"dimensions {shape.dims}")
        if wild and not limit.positive_definite and generator.random() < 0.7:
            return wild_array(generator, shape)
        return random_array(generator, shape, limit)

    def limits_of(parameter: HloInstruction) -> Callable[[ShapeIndex], Limits]:
        return lambda at: limits.get((parameter, at), FREE)

    return [_random_value(draw, p.shape, (), limits_of(p)) for p in module.entry.parameters]


def parameter_limits(computation: HloComputation) -> dict[_Leaf, Limits]:
    """Limits of each leaf of each value, found by walking from users to operands once."""
    known: _Known = {}
    for each in reachable(computation):
        known[each] = _limits_within(each, known)
    return known[computation]


def _limits_within(computation: HloComputation, known: _Known) -> dict[_Leaf, Limits]:
    """See `parameter_limits`; those of called computations are known."""
    limits: dict[_Leaf, Limits] = {}
    for instruction in reversed(computation.instructions):
        for number, operand in enumerate(instruction.operands):
            for index, limit in _wanted(instruction, number, operand, limits, known):
                key = (operand, index)
                limits[key] = limits.get(key, FREE).meet(limit)
    return limits


def _wanted(
    user: HloInstruction,
    number: int,
    operand: HloInstruction,
    limits: dict[_Leaf, Limits],
    known: _Known,
) -> list[tuple[ShapeIndex, Limits]]:
    """What one use asks of the leaves of an operand."""
    opcode = user.opcode
    if opcode == "get-tuple-element":
        return [((user["index"], *at), limit) for (i, at), limit in limits.items() if i is user]
    if opcode == "tuple":
        return [
            (at[1:], limit) for (i, at), limit in limits.items() if i is user and at[0] == number
        ]
    if opcode in ("call", "fusion"):
        inner = user.called[0]
        parameter = inner.parameters[number]
        return [(at, x) for (i, at), x in known[inner].items() if i is parameter]
    if opcode == "while":
        return [
            (at, x) for c in user.called for (i, at), x in known[c].items() if i is c.parameters[0]
        ]
    own = _index_limits(user, number) or _DOMAINS.get(opcode, {}).get(number)
    found: list[tuple[ShapeIndex, Limits]] = [] if own is None else [((), own)]
    data = number == 0 or opcode == "concatenate"
    if opcode in _PASS_ON and data and (user, ()) in limits:
        found.append(((), limits[user, ()]))
    return found


def _index_limits(user: HloInstruction, number: int) -> Limits | None:
    """The range of indices into an operand, where the operand is one."""
    if user.opcode == "dynamic-slice" and number >= 1:
        return _starts(user.operands[0].shape, user.shape, number - 1)
    if user.opcode == "dynamic-update-slice" and number >= 2:
        return _starts(user.shape, user.operands[1].shape, number - 2)
    if user.opcode == "gather" and number == 1:
        dims = [user.operands[0].shape.dims[d] for d in user["start_index_map"]]
        return Limits(0, max(min(dims, default=1) - 1, 0))
    if user.opcode == "scatter" and number == (len(user.operands) - 1) // 2:
        dims = [user.operands[0].shape.dims[d] for d in user["scatter_dims_to_operand_dims"]]
        return Limits(0, max(min(dims, default=1) - 1, 0))
    return None


def _starts(whole: Shape, window: Shape, dimension: int) -> Limits:
    if dimension >= whole.rank:
        return Limits(0, 0)
    return Limits(0, max(whole.dims[dimension] - window.dims[dimension], 0))


def _live_shape(generator: np.random.Generator, shape: Shape) -> Shape:
    """The shape with a size drawn for each dynamic dimension, a small one where it has no bound."""
    bounds = [_UNBOUNDED_SIZE if size == UNBOUNDED else size for size in shape.dims]
    dims = [
        int(generator.integers(0, size + 1)) if shape.is_dynamic_dimension(d) else size
        for d, size in enumerate(bounds)
    ]
    return array(shape.element_type, dims)


def _random_value(
    draw: Callable[[Shape, Limits], Value],
    shape: Shape,
    at: ShapeIndex,
    limits: Callable[[ShapeIndex], Limits],
) -> Value:
    if shape.is_tuple:
        return tuple(
            _random_value(draw, part, (*at, n), limits) for n, part in enumerate(shape.tuple_shapes)
        )
    return draw(shape, limits(at)) if shape.is_array else None


def random_array(generator: np.random.Generator, shape: Shape, limits: Limits = FREE) -> Array:
    """One array of a shape, within limits."""
    dtype = shape.element_type
    if dtype.kind is Kind.PRED:
        return generator.integers(0, 2, shape.dims).astype(np.bool_)
    if dtype.is_integral:
        return _random_integers(generator, dtype, shape.dims, limits)
    values = _random_floats(generator, dtype, shape.dims, limits)
    if limits.positive_definite and shape.rank >= 2 and shape.dims[-1] == shape.dims[-2]:
        values = _positive_definite(values)
    with np.errstate(all="ignore"):
        return values.astype(dtype.np)


def _random_integers(
    generator: np.random.Generator, dtype: PrimitiveType, dims: tuple[int, ...], limits: Limits
) -> Array:
    signed = dtype.is_signed
    least = -(2 ** (dtype.bits - 1)) if signed else 0
    most = 2 ** (dtype.bits - (1 if signed else 0)) - 1
    low = max(least, -8 if limits.low is None else int(limits.low))
    high = min(most, 8 if limits.high is None else int(limits.high))
    values = generator.integers(low, max(high, low) + 1, dims)
    if limits.nonzero and most > 0:
        values = np.where(values == 0, 1, values)
    return values.astype(dtype.np)


def _random_floats(
    generator: np.random.Generator, dtype: PrimitiveType, dims: tuple[int, ...], limits: Limits
) -> Array:
    low = -1.0 if limits.low is None else limits.low
    high = max(1.0, low + 1.0) if limits.high is None else max(limits.high, low)
    values = np.asarray(generator.uniform(low, high, dims))
    if limits.nonzero:
        values = np.where(np.abs(values) < 0.1, np.copysign(0.5, values), values)
    if dtype.is_complex:
        return np.asarray(values + 1j * generator.uniform(-1, 1, dims))
    return values


def _positive_definite(values: Array) -> Array:
    size = values.shape[-1]
    product = values @ np.swapaxes(values.conj(), -1, -2)
    return np.asarray(product / max(size, 1) + np.eye(size))


def wild_array(generator: np.random.Generator, shape: Shape) -> Array:
    """An array of ordinary numbers with special ones among them, or of random bits."""
    dtype = shape.element_type
    values = random_array(generator, shape)
    if dtype.kind is Kind.PRED:
        return values
    share = generator.choice((0.05, 0.3, 1.0))
    chosen = generator.random(shape.dims) < share
    if generator.random() < 0.3:
        return np.where(chosen, _random_bits(generator, dtype, shape.dims), values)
    specials = _SPECIALS[dtype]
    return np.where(chosen, specials[generator.integers(0, len(specials), shape.dims)], values)


def _random_bits(
    generator: np.random.Generator, dtype: PrimitiveType, dims: tuple[int, ...]
) -> Array:
    """Every bit pattern of the type is as likely as any other."""
    size = int(np.prod(dims)) * dtype.host_nbytes
    raw = np.frombuffer(generator.bytes(size), np.uint8)
    if dtype.bits >= 8:
        return raw.view(dtype.np).reshape(dims)
    codes = np.arange(2**dtype.bits, dtype=np.uint8)
    if dtype.is_float:
        return codes.view(dtype.np)[raw % len(codes)].reshape(dims)
    low = -(2 ** (dtype.bits - 1)) if dtype.is_signed else 0
    return (raw.astype(np.int16) % len(codes) + low).astype(dtype.np).reshape(dims)


def _special_values(dtype: PrimitiveType) -> Array:
    """Zeros, ones, extremes, infinities, NaN and subnormals: those that the type has."""
    if dtype.is_integral:
        least = -(2 ** (dtype.bits - 1)) if dtype.is_signed else 0
        most = 2 ** (dtype.bits - (1 if dtype.is_signed else 0)) - 1
        kept = [x for x in (least, least + 1, -1, 0, 1, 2, most - 1, most) if least <= x <= most]
        return np.array(kept, np.uint64 if least == 0 else np.int64).astype(dtype.np)
    info = ml_dtypes.finfo(dtype.np)  # type: ignore[no-untyped-call]
    parts = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan]
    extremes = (info.max, info.min, info.smallest_normal, info.smallest_subnormal)
    parts += [float(x) for x in extremes]
    with np.errstate(all="ignore"):
        reals = np.array([np.float64(x) for x in parts]).astype(dtype.component.np)
    if not dtype.is_complex:
        return reals
    pairs = np.empty((len(reals), len(reals)), dtype.np)
    pairs.real, pairs.imag = np.meshgrid(reals, reals)
    return pairs.reshape(-1)


_SPECIALS: Mapping[PrimitiveType, Array] = MappingProxyType(
    {t: _special_values(t) for t in ARRAY_TYPES if t is not PRED}
)


def special_values(dtype: PrimitiveType) -> Array:
    """Zeros, ones, extremes, infinities, NaN and subnormals of any type of numbers."""
    return _SPECIALS[dtype]
