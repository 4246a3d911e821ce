"""Random numbers: Philox bits from a seed that each call of the program gets.

The seed comes from torch's generator, so `torch.manual_seed` fixes what a program draws. The
numbers are not those that torch's own CPU kernels draw from it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xladev.frontends.torch.lower.promotion import operand
from xladev.frontends.torch.lower.sorting import sort
from xladev.frontends.torch.lower.table import Family, NotLowered
from xladev.frontends.torch.lower.value import Dims, Number, TensorBuilder, Value
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.shape import Shape, array, tuple_of

RANDOM = Family("random", "Random numbers.", wide=True)
_lowers = RANDOM.lowers

STATE = array(dt.U64, (2,))
"""Shape of the seed that a program with random numbers takes as its last parameter."""

_WORD = {16: dt.U32, 32: dt.U32, 64: dt.U64}
_KEPT = {dt.F64: 53, dt.F32: 24, dt.F16: 11, dt.BF16: 8}
"""How many of a word's bits a number keeps."""


def bits(b: TensorBuilder, dims: Dims, word: PrimitiveType) -> Value:
    """Random words; the state goes on."""
    assert b.random_state is not None, "the program has no seed"
    shape = tuple_of(STATE, array(word, dims))
    both = b.op("rng-bit-generator", b.random_state.node, shape=shape, algorithm="rng_philox")
    b.random_state, words = b.parts(both)
    return words


def uniform(b: TensorBuilder, dims: Dims, to: PrimitiveType) -> Value:
    """Numbers from 0 to just below 1, as many as the type has near 1."""
    word = _WORD[to.bits]
    kept = _KEPT[to]
    words = bits(b, dims, word)
    whole = words.op("shift-right-logical", words.like(word.bits - kept))
    signed = whole.cast(dt.S64 if word is dt.U64 else dt.S32)
    return signed.cast(to) * 2.0**-kept


def normal(b: TensorBuilder, dims: Dims, to: PrimitiveType) -> Value:
    """Numbers of mean 0 and deviation 1, by Box and Muller's method."""
    radius = (1 - uniform(b, dims, to)).log() * -2
    angle = uniform(b, dims, to) * (2 * math.pi)
    return radius.sqrt() * angle.op("cosine")


def exponential(b: TensorBuilder, dims: Dims, to: PrimitiveType) -> Value:
    """Numbers above 0 of mean 1: what a uniform 0 gives is half of what the next number does."""
    drawn = -(1 - uniform(b, dims, to)).log()
    return drawn.maximum(2.0 ** -(_KEPT[to] + 1))


@_lowers("rand.default", "rand_like.default", "rand.generator", sample="rand_like")
def _rand(b: TensorBuilder, out: Shape, *_: Any, **__: Any) -> Value:
    """From 0 to below 1."""
    return uniform(b, out.dims, out.element_type)


@_lowers("randn.default", "randn_like.default", "randn.generator")
def _randn(b: TensorBuilder, out: Shape, *_: Any, **__: Any) -> Value:
    """Mean 0, deviation 1."""
    if out.element_type.is_complex:
        part = out.element_type.component
        real, imaginary = (normal(b, out.dims, part) * math.sqrt(0.5) for _ in range(2))
        return real.op("complex", imaginary)
    return normal(b, out.dims, out.element_type)


def whole_numbers(b: TensorBuilder, out: Shape, low: int, high: int) -> Value:
    """Whole numbers from ``low`` to below ``high``."""
    words = bits(b, out.dims, dt.U64)
    span = max(1, high - low)
    at = words.op("remainder", words.like(span)) if span < 1 << 64 else words
    signed = at.op("bitcast-convert", shape=array(dt.S64, at.dims))
    return (signed + low).cast(out.element_type)


@_lowers("randint.default", wide=False)
def _randint(b: TensorBuilder, out: Shape, high: int, *_: Any, **__: Any) -> Value:
    """Whole numbers below a bound."""
    return whole_numbers(b, out, 0, high)


@_lowers("randint.low", wide=False)
def _randint_low(b: TensorBuilder, out: Shape, low: int, high: int, *_: Any, **__: Any) -> Value:
    """Whole numbers between two bounds."""
    return whole_numbers(b, out, low, high)


@_lowers("randint_like.default", wide=False)
def _randint_like(b: TensorBuilder, out: Shape, _: Value, high: int, **__: Any) -> Value:
    """Whole numbers below a bound, in the sizes of an array."""
    return whole_numbers(b, out, 0, high)


@_lowers("randint_like.low_dtype", wide=False)
def _randint_like_low(
    b: TensorBuilder, out: Shape, _: Value, low: int, high: int, **__: Any
) -> Value:
    """Whole numbers between two bounds, in the sizes of an array."""
    return whole_numbers(b, out, low, high)


@_lowers("random.from", "random.to", "random.default", sample="randint", wide=False)
def _random(b: TensorBuilder, out: Shape, x: Value, *bounds: int | None, **_: Any) -> Value:
    """Whole numbers between two bounds, below one, or all that the type has, in an array's sizes.

    Of floats, whole numbers up to the last of which the type has each.
    """
    to = out.element_type
    low, high = bounds if len(bounds) == 2 else (0, *bounds, None)[:2]
    low = low or 0
    if high is None:
        high = _past_last(to)
    elif not (low < high and _has(to, low) and _has(to, high - 1)):
        raise NotLowered("bounds between which the type has no numbers")
    return whole_numbers(b, out, low, high)


def _has(to: PrimitiveType, number: int) -> bool:
    """Whether a whole number is within a type's range."""
    if to.is_float:
        return to is not dt.F16 or abs(number) <= 65504  # others reach beyond all of int64
    return -(1 << (to.bits - 1)) * to.is_signed <= number < _past_last(to)


def _past_last(to: PrimitiveType) -> int:
    """What comes after the last whole number of those that a type has all of."""
    if to is dt.PRED:
        return 2
    if to.is_float:
        return (1 << _KEPT[to]) + 1
    return 1 << (to.bits - to.is_signed)


@_lowers("randperm.default", sample="randint", wide=False)
def _randperm(b: TensorBuilder, out: Shape, size: int, **_: Any) -> Value:
    """The numbers below a bound in random order."""
    return sort(bits(b, out.dims, dt.U64), 0)[1].cast(out.element_type)


@_lowers("native_dropout.default", sample="nn.functional.dropout")
def _dropout(
    b: TensorBuilder, out: Sequence[Shape], x: Value, rate: float, train: bool | None
) -> list[Value]:
    """Some elements zero and the others scaled, and which were kept."""
    if train is False or rate == 0:
        return [x, b.full(1, dt.PRED, x.dims)]
    if rate == 1:
        return [x * 0, b.full(0, dt.PRED, x.dims)]
    kept = uniform(b, x.dims, dt.F64 if x.dtype is dt.F64 else dt.F32).ge(rate)
    return [kept.where(x, 0) * (1 / (1 - rate)), kept]


@_lowers("bernoulli.default", "bernoulli.Tensor", sample="bernoulli")
def _bernoulli(
    b: TensorBuilder, out: Shape, x: Value, odds: Value | None = None, **_: Any
) -> Value:
    """1 with a probability of each element's own."""
    chance = x if odds is None else odds
    to = chance.dtype if chance.dtype.is_float else dt.F32
    drawn = uniform(b, out.dims, to)
    return drawn.lt(operand(b, chance, to, out.dims)).cast(out.element_type)


@_lowers("bernoulli.p", sample="bernoulli")
def _bernoulli_p(b: TensorBuilder, out: Shape, x: Value, odds: float = 0.5, **_: Any) -> Value:
    """1 with one probability."""
    return uniform(b, out.dims, dt.F32).lt(odds).cast(out.element_type)


@_lowers("normal.float_float", sample="normal.number_mean")
def _normal_numbers(
    b: TensorBuilder, out: Shape, mean: float, deviation: float, *_: Any, **__: Any
) -> Value:
    """Numbers of one mean and deviation."""
    return normal(b, out.dims, out.element_type) * deviation + mean


@_lowers("normal.Tensor_Tensor", "normal.Tensor_float", "normal.float_Tensor", sample="normal")
def _normal_arrays(
    b: TensorBuilder, out: Shape, mean: Value | float, deviation: Value | float = 1.0, **_: Any
) -> Value:
    """Numbers of means and deviations of their own."""
    to = out.element_type
    drawn = normal(b, out.dims, to) * operand(b, deviation, to, out.dims)
    return drawn + operand(b, mean, to, out.dims)


@_lowers("normal_functional.default", sample="normal.in_place")
def _normal_functional(
    b: TensorBuilder, out: Shape, x: Value, mean: float = 0, deviation: float = 1, **_: Any
) -> Value:
    """Numbers of one mean and deviation, in the sizes of an array."""
    return normal(b, out.dims, out.element_type) * deviation + mean


@_lowers("uniform.default")
def _uniform(
    b: TensorBuilder, out: Shape, x: Value, low: float = 0, high: float = 1, **_: Any
) -> Value:
    """Numbers between two bounds, in the sizes of an array."""
    return uniform(b, out.dims, out.element_type) * (high - low) + low


@_lowers("exponential.default")
def _exponential(b: TensorBuilder, out: Shape, x: Value, rate: float = 1, **_: Any) -> Value:
    """Exponentially distributed numbers of a rate."""
    return exponential(b, out.dims, out.element_type) / rate


@_lowers("cauchy.default")
def _cauchy(
    b: TensorBuilder, out: Shape, x: Value, median: float = 0, scale: float = 1, **_: Any
) -> Value:
    """Cauchy-distributed numbers."""
    away = (uniform(b, out.dims, out.element_type) - 0.5) * math.pi
    return away.op("tan") * scale + median


@_lowers("log_normal.default")
def _log_normal(
    b: TensorBuilder, out: Shape, x: Value, mean: float = 1, deviation: float = 2, **_: Any
) -> Value:
    """Numbers whose logarithm is normally distributed."""
    return (normal(b, out.dims, out.element_type) * deviation + mean).exp()


@_lowers("geometric.default")
def _geometric(b: TensorBuilder, out: Shape, x: Value, odds: float, **_: Any) -> Value:
    """How many trials until the first success."""
    to = out.element_type if out.element_type.is_float else dt.F32
    if odds == 1:
        return b.full(1, to, out.dims)
    return (exponential(b, out.dims, to) / -math.log1p(-odds)).op("ceil").maximum(1)


@_lowers("multinomial.default")
def _multinomial(
    b: TensorBuilder, out: Shape, x: Value, count: int, replacement: bool = False, **_: Any
) -> Value:
    """Places drawn with the weights of the last dimension, by the largest of Gumbel's numbers."""
    last = x.rank - 1
    if replacement:
        dims = (*x.dims[:last], count, x.dims[last])
        weights = x.reshape((*x.dims[:last], 1, x.dims[last])).expand(dims)
    else:
        dims, weights = x.dims, x
    race = exponential(b, dims, x.dtype) / weights
    at = sort(race, len(dims) - 1)[1]
    if not replacement:
        return at.slice(last, 0, count)
    return at.slice(len(dims) - 1, 0, 1).reshape(out.dims)


@_lowers("rrelu_with_noise_functional.default", sample="nn.functional.rrelu")
def _rrelu(
    b: TensorBuilder,
    out: Sequence[Shape],
    x: Value,
    noise: Value,
    low: Number = 1 / 8,
    high: Number = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> list[Value]:
    """x where positive, else x times a random slope; and the slopes."""
    if not training:
        return [x.gt(0).where(x, x * ((low + high) / 2)), noise]
    slopes = uniform(b, x.dims, x.dtype) * (high - low) + low
    drawn = x.gt(0).where(1, slopes)
    return [x * drawn, drawn]
