"""How far a correct backend may be from the evaluator: measured, not guessed.

A program is evaluated again with noise: after each instruction whose OpDef allows rounding
differences, the result is moved by as much as a correct backend might differ there. How far the
program's results move says how much of a difference is rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

from xladev.hlo.bounded import Bounded, to_live
from xladev.hlo.custom_calls.registry import find
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.literal import Array, Value
from xladev.hlo.multi_device import evaluate_replicated, topology_of
from xladev.hlo.nested_values import flattened
from xladev.hlo.opdef import Tolerance

_ULPS: Mapping[Tolerance, float] = MappingProxyType(
    {Tolerance.ROUNDED: 1.0, Tolerance.FUNCTION: 4.0, Tolerance.SUM: 16.0, Tolerance.SOLVER: 64.0}
)
"""Units in the last place that a backend may be off, of the scale that the class names."""

_NARROW = 2.0**-10
"""Epsilon of f16: floats as coarse as that are computed in f32 and rounded once."""
_F32_EPS = 2.0**-23
_BLIND = 2.0**30
"""Complex exponentials of products that large have no digit that two ways of rounding share."""
_PLAIN = HloEvaluator()


@dataclass(frozen=True, slots=True)
class NoisyEvaluator(HloEvaluator):
    """An evaluator whose inexact results are moved at random, within what is allowed.

    Attributes:
        generator: source of the noise.
        unknown: stands for elements that overflow in between, or mix infinities.
        coarse_sums: True if sums may be accumulated in the type of the result, however narrow.
        sign: -1 for the mirror image of the noise, so that what is moved off an edge (a branch
            cut, a zero) on one side in one round is moved off it on the other in the next.
    """

    generator: np.random.Generator = field(default_factory=np.random.default_rng)
    unknown: float = np.nan
    sign: float = 1.0
    coarse_sums: bool = False

    def value(self, instruction: HloInstruction, operands: tuple[Value, ...]) -> Value:
        """The value, moved."""
        # zero-argument super() does not work in slotted dataclasses
        value = HloEvaluator.value(self, instruction, operands)
        ulps = _ULPS.get(_tolerance(instruction), 0.0)
        if not ulps or (instruction.called and all(map(_is_exact, instruction.called))):
            return value
        return _moved(self, instruction, value, operands, ulps)


def _tolerance(instruction: HloInstruction) -> Tolerance:
    if instruction.opcode == "custom-call":
        return find(instruction["custom_call_target"]).tolerance
    if instruction.opcode.startswith("batch-norm"):
        return Tolerance.SOLVER
    return instruction.op.tolerance


def _is_exact(computation: HloComputation) -> bool:
    """True for reducers that only choose, such as a maximum: their order changes nothing."""
    return all(
        i.op.tolerance is Tolerance.EXACT and all(map(_is_exact, i.called))
        for i in computation.instructions
    )


def _moved(
    evaluator: NoisyEvaluator,
    instruction: HloInstruction,
    value: Value,
    operands: tuple[Value, ...],
    ulps: float,
) -> Value:
    tolerance = _tolerance(instruction)
    if tolerance is Tolerance.SUM and not isinstance(value, tuple):
        scale = _sum_scale(evaluator, instruction, value, operands)
        coarse = evaluator.coarse_sums or _accumulates_narrow(instruction)
        return _with_noise(evaluator, value, scale, ulps, coarse=coarse)
    if tolerance is Tolerance.SUM or tolerance is Tolerance.SOLVER:
        parts = value if isinstance(value, tuple) else (value,)
        if instruction.opcode == "reduce":
            return _moved_sums(evaluator, instruction, parts, operands, ulps)
        scale = max((_largest(v) for v in (*parts, *operands)), default=0.0)
        coarse = tolerance is Tolerance.SUM and evaluator.coarse_sums
        moved = tuple(_with_noise(evaluator, v, scale, ulps, coarse=coarse) for v in parts)
        return moved if isinstance(value, tuple) else moved[0]
    if not is_float(value):
        return value
    size = np.abs(wide(value))
    if value.dtype.kind == "c":
        with np.errstate(all="ignore"):
            size = size * _sharpness(instruction, operands)
        size = np.where(_is_vague(instruction, operands), np.inf, size)
    else:
        size = np.where(np.isfinite(size), size, 0.0)
    return _with_noise(evaluator, value, size, ulps)


def _moved_sums(
    evaluator: NoisyEvaluator,
    instruction: HloInstruction,
    parts: tuple[Value, ...],
    operands: tuple[Value, ...],
    ulps: float,
) -> tuple[Value, ...]:
    """The results of a reduction of several arrays, each by the sizes of what it was made of."""
    moved = []
    for number, part in enumerate(parts):
        terms, start = operands[number], operands[len(parts) + number]
        scale: Any = 0.0
        if is_float(terms):
            with np.errstate(all="ignore"):
                scale = np.abs(wide(start)) + np.sum(
                    np.abs(wide(terms)), axis=tuple(instruction["dimensions"])
                )
        moved.append(_with_noise(evaluator, part, scale, ulps, coarse=evaluator.coarse_sums))
    return tuple(moved)


def _accumulates_narrow(instruction: HloInstruction) -> bool:
    """True for products whose algorithm asks for sums in a float narrower than f32."""
    if "algorithm" not in instruction.op.by_name:
        return False
    kept = str(instruction["algorithm"]).removesuffix("_fast_accum").rpartition("_")[2]
    return kept in ("f16", "bf16", "f8")


def _sharpness(instruction: HloInstruction, operands: tuple[Value, ...]) -> Any:
    """How many times the rounding of a result that of the angle and logarithm on the way counts.

    exp2 and power of complex numbers are exponentials of products, whose rounding grows with them.
    """
    with np.errstate(all="ignore"):
        if instruction.opcode == "exp2":
            return 1 + np.abs(wide(operands[0]))
        if instruction.opcode == "power":
            base, exponent = map(wide, operands)
            turn = np.abs(exponent) * np.abs(np.log(np.where(base == 0, 1, base)))
            return 1 + np.where(np.isnan(turn), 0.0, turn)
    return 1.0


def _is_vague(instruction: HloInstruction, operands: tuple[Value, ...]) -> Any:
    """Where a complex result is not settled.

    Functions of infinities and NaN follow C99 (Annex G) in the evaluator, and not everywhere else;
    products and quotients, written out, may leave the range of their parts.
    """
    if instruction.op.tolerance is Tolerance.FUNCTION:
        blind = _sharpness(instruction, operands) > _BLIND
        return np.logical_or.reduce([~np.isfinite(o) for o in operands]) | blind
    if instruction.opcode not in ("multiply", "divide"):
        return False
    sizes = [np.abs(o.real) + np.abs(o.imag) for o in operands]
    with np.errstate(all="ignore"):
        product = sizes[0] * sizes[1]
        if instruction.opcode == "multiply":
            return ~np.isfinite(product)
        square = sizes[1] * sizes[1]
        return ~np.isfinite(product) | ~np.isfinite(square) | (square == 0)


def _sum_scale(
    evaluator: NoisyEvaluator,
    instruction: HloInstruction,
    value: Value,
    operands: tuple[Value, ...],
) -> Any:
    """Sums of absolute terms: infinite where a sum in another order may overflow."""
    if not is_float(value):
        return 0.0
    scale = np.maximum(np.abs(wide(value)), _smallest(value))
    evaluate = instruction.op.evaluate
    terms = [o for o in operands if is_float(o)]  # the others are indices and sizes
    if evaluate is None or not terms:
        return scale
    if _mixes_infinities(instruction) and not all(map(_is_finite, terms)):
        return np.full(value.shape, np.inf)
    if instruction.opcode == "scaled-dot" and np.isinf(max(map(_largest, terms))):
        # scaled operands may overflow, in a narrower type, before they are multiplied
        return np.full(value.shape, np.inf)
    total = _of_sizes(evaluator, instruction, operands, np.abs)
    if any(map(_multiplies, instruction.called)):
        scale = np.where(_leaves_range(evaluator, instruction, operands), np.inf, scale)
    return np.maximum(scale, total)


def _of_sizes(
    evaluator: NoisyEvaluator,
    instruction: HloInstruction,
    operands: tuple[Value, ...],
    size: Callable[[Array], Array],
) -> Any:
    """Magnitude of the value that sizes of the terms give; of no other floats, which select."""
    chosen = [
        size(o) if is_float(o) and not (number == 0 and "select" in instruction.attrs) else o
        for number, o in enumerate(operands)
    ]
    evaluate = instruction.op.evaluate
    with np.errstate(all="ignore"):
        total = None if evaluate is None else evaluate(evaluator, instruction, tuple(chosen))
        return np.abs(wide(total)) if isinstance(total, np.ndarray) else 0.0


def _multiplies(computation: HloComputation) -> bool:
    return any(
        i.opcode == "multiply" or any(map(_multiplies, i.called)) for i in computation.instructions
    )


def _leaves_range(
    evaluator: NoisyEvaluator, instruction: HloInstruction, operands: tuple[Value, ...]
) -> Any:
    """Where a product, taken in another order, may overflow or underflow on the way."""

    def at_least_one(terms: Array) -> Array:
        sizes = np.abs(terms)
        return np.maximum(sizes, sizes.dtype.type(1))

    def at_most_one(terms: Array) -> Array:
        sizes = np.abs(terms)
        return np.minimum(sizes, sizes.dtype.type(1))

    most = _of_sizes(evaluator, instruction, operands, at_least_one)
    least = _of_sizes(evaluator, instruction, operands, at_most_one)
    smallest = max(_smallest_normal(o) for o in operands)
    return (~np.isfinite(most) & (least < 1)) | ((most > 1) & (least < smallest))


def _smallest_normal(value: Value) -> float:
    if isinstance(value, Bounded) or not is_float(value):
        return 0.0
    return float(ml_dtypes.finfo(value.dtype).smallest_normal)  # type: ignore[no-untyped-call]


def _mixes_infinities(instruction: HloInstruction) -> bool:
    """True where infinities meet zeros that only some backends multiply them by.

    Padding of a convolution is such a zero, and so is the imaginary part of the factor 1 that
    BLAS, and with it the evaluator, applies to products of complex matrices.
    """
    if instruction.opcode == "convolution":
        return True
    return "dot" in instruction.opcode and instruction.shape.element_type.is_complex


def _is_finite(value: Value) -> bool:
    return bool(np.isfinite(wide(value)).all())


def is_float(value: Value) -> bool:
    """True for arrays of real or complex floats."""
    return isinstance(value, np.ndarray) and value.dtype.kind not in "iub" and eps_of(value) > 0


def _largest(value: Value) -> float:
    """The largest magnitude; infinite where squares of elements would be no ordinary numbers."""
    if isinstance(value, Bounded) or not is_float(value) or not value.size:
        return 0.0
    with np.errstate(all="ignore"):
        largest = float(np.max(np.abs(wide(value))))
    part_nbytes = value.dtype.itemsize // (2 if value.dtype.kind == "c" else 1)
    narrow = np.finfo(np.float64 if part_nbytes >= 8 else np.float32)
    return largest if largest < float(narrow.max) ** 0.5 / 1024 else np.inf


def _with_noise(
    evaluator: NoisyEvaluator, value: Value, scale: Any, ulps: float, *, coarse: bool = False
) -> Value:
    """The value moved by some units in the last place of ``scale``; unknown where that is inf."""
    if isinstance(value, Bounded) or not is_float(value):
        return value
    exact = wide(value)
    with np.errstate(all="ignore"):
        vague = np.asarray(scale) > 0 if value.dtype.kind != "c" else True
        least = np.where(vague, _smallest(value), 0.0)
        step = _step(value, scale, least, ulps, coarse)
        moved = exact + evaluator.sign * _noise(evaluator.generator, value) * step
        moved = np.where(np.isfinite(exact) & np.isfinite(step), moved, exact)
        moved = np.where(np.isinf(scale), evaluator.unknown, moved)
        return np.asarray(moved.astype(value.dtype))


def _step(value: Array, scale: Any, least: Any, ulps: float, coarse: bool) -> Any:
    """How far a value may move; a narrow one, computed in f32, by one unit of its own."""
    if coarse or not is_narrow(value):
        return ulps * np.maximum(scale * eps_of(value), least)
    own = eps_of(value) * 2.0 ** np.floor(np.log2(np.abs(wide(value))))
    return np.maximum(np.maximum(own, least), ulps * _F32_EPS * scale)


def is_narrow(value: Array) -> bool:
    """True for floats so coarse that backends compute in f32 and round once."""
    return eps_of(value) >= _NARROW


def eps_of(value: Array) -> float:
    """Distance from 1 to the next number; 0 for types without fractions."""
    try:
        return float(ml_dtypes.finfo(value.dtype).eps)  # type: ignore[no-untyped-call]
    except ValueError:
        return 0.0


def _noise(generator: np.random.Generator, value: Array) -> Array:
    """Of either sign, and never so small that rounding takes it away; for both complex parts."""
    dims = (2, *value.shape)
    sign = generator.integers(0, 2, dims) * 2 - 1
    real, imag = sign * generator.uniform(0.75, 1.5, dims)
    return np.asarray(real + 1j * imag if value.dtype.kind == "c" else real)


def _smallest(value: Value) -> float:
    """Smallest positive number of a float type: products underflow in steps of it."""
    if isinstance(value, Bounded) or not is_float(value):
        return 0.0
    return float(ml_dtypes.finfo(value.dtype).smallest_subnormal)  # type: ignore[no-untyped-call]


def wide(value: Array) -> Array:
    """The same in f64 or c128."""
    return np.asarray(value, np.complex128 if value.dtype.kind == "c" else np.float64)


def evaluated(
    module: HloModule, arguments: Sequence[Value], evaluator: HloEvaluator = _PLAIN
) -> list[Array]:
    """The arrays of the result, live parts of dynamic ones; of all devices, one after the other.

    Every device is given the same arguments.
    """
    count = len(topology_of(module).devices)
    if count == 1:
        values = [evaluator.run(module, *arguments)]
    else:
        rows = [arguments] * count
        values = list(evaluate_replicated(module, rows, evaluator=evaluator))
    shape = module.entry.root.shape
    return [np.asarray(x) for value in values for x in leaves(to_live(value, shape))]


def leaves(value: Value) -> list[Value]:
    """The arrays of a value, in order; tokens left out."""
    return [array for array in flattened(value) if array is not None]
