"""How far a correct backend may be from the evaluator: measured, not guessed.

A program is evaluated again with noise: after each instruction whose OpDef allows rounding
differences, the result is moved by as much as a correct backend might differ there. How far the
program's results move says how much of a difference is rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

from xladev.hlo.bounded import Bounded
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.literal import Array, Value
from xladev.hlo.opdef import Tolerance

_ULPS: Mapping[Tolerance, float] = MappingProxyType(
    {Tolerance.ROUNDED: 1.0, Tolerance.FUNCTION: 4.0, Tolerance.SUM: 16.0, Tolerance.SOLVER: 64.0}
)
"""Units in the last place that a backend may be off, of the scale that the class names."""

ROUNDS = 3
_FACTOR = 8.0


@dataclass(frozen=True, slots=True)
class NoisyEvaluator(HloEvaluator):
    """An evaluator whose inexact results are moved at random, within what is allowed.

    Attributes:
        generator: source of the noise.
    """

    generator: Any = None

    def instruction(
        self,
        instruction: HloInstruction,
        values: Mapping[HloInstruction, Value],
        arguments: Sequence[Value],
    ) -> Value:
        """The value, moved."""
        # zero-argument super() does not work in slotted dataclasses
        value = HloEvaluator.instruction(self, instruction, values, arguments)
        ulps = _ULPS.get(instruction.op.tolerance, 0.0)
        if not ulps:
            return value
        operands = tuple(values[o] for o in instruction.operands)
        return _moved(self, instruction, value, operands, ulps)


def _moved(
    evaluator: NoisyEvaluator,
    instruction: HloInstruction,
    value: Value,
    operands: tuple[Value, ...],
    ulps: float,
) -> Value:
    if isinstance(value, tuple):
        scale = max((_largest(v) for v in value), default=0.0)
        return tuple(_with_noise(evaluator, v, scale, ulps) for v in value)
    if instruction.op.tolerance is Tolerance.SUM:
        scale = np.maximum(np.abs(_wide(value)), _sum_scale(evaluator, instruction, operands))
        return _with_noise(evaluator, value, scale, ulps)
    if instruction.op.tolerance is Tolerance.SOLVER:
        return _with_noise(evaluator, value, _largest(value), ulps)
    return _with_noise(evaluator, value, np.abs(_wide(value)), ulps)


def _sum_scale(
    evaluator: NoisyEvaluator, instruction: HloInstruction, operands: tuple[Value, ...]
) -> Any:
    """Sums of absolute terms, where the opcode sums; the largest element elsewhere."""
    evaluate = instruction.op.evaluate
    if evaluate is None or not all(_is_float(o) for o in operands):
        return 0.0
    with np.errstate(all="ignore"):
        scale = evaluate(evaluator, instruction, tuple(np.abs(o) for o in operands))
    return np.abs(_wide(scale)) if isinstance(scale, np.ndarray) else 0.0


def _is_float(value: Value) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind not in "iub" and _eps(value) > 0


def _largest(value: Value) -> float:
    if isinstance(value, Bounded) or not _is_float(value) or not value.size:
        return 0.0
    wide = np.abs(_wide(value))
    return float(np.max(np.where(np.isfinite(wide), wide, 0)))


def _with_noise(evaluator: NoisyEvaluator, value: Value, scale: Any, ulps: float) -> Value:
    if isinstance(value, Bounded) or not _is_float(value):
        return value
    noise = evaluator.generator.uniform(-1, 1, value.shape) * ulps * _eps(value)
    with np.errstate(all="ignore"):
        return np.asarray((_wide(value) + noise * scale).astype(value.dtype))


def _eps(value: Array) -> float:
    try:
        return float(ml_dtypes.finfo(value.dtype).eps)  # type: ignore[no-untyped-call]
    except ValueError:
        return 0.0


def _wide(value: Array) -> Array:
    return np.asarray(value, np.complex128 if value.dtype.kind == "c" else np.float64)


def leaves(value: Value) -> list[Value]:
    """The arrays of a value, in order; tokens left out."""
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in leaves(part)]
    return [] if value is None else [value]


def allowed_differences(
    module: HloModule, arguments: Sequence[Value], wanted: Sequence[Array], seed: int = 0
) -> list[Array]:
    """For each result, how far each element may be off; 0 where it must be exact."""
    spread = [np.zeros(w.shape) for w in wanted]
    for number in range(ROUNDS):
        generator = np.random.default_rng((seed, number))
        noisy = leaves(NoisyEvaluator(generator=generator).run(module, *arguments))
        for at, (moved, want) in enumerate(zip(noisy, wanted, strict=True)):
            with np.errstate(all="ignore"):
                distance = np.abs(_wide(moved) - _wide(want))
            moved_off = np.isfinite(_wide(moved)) != np.isfinite(_wide(want))
            distance = np.where(moved_off, np.inf, np.nan_to_num(distance, nan=0.0, posinf=0.0))
            spread[at] = np.maximum(spread[at], distance)
    return [np.where(s > 0, _FACTOR * np.maximum(s, _smoothed(s)), 0.0) for s in spread]


def _smoothed(spread: Array) -> float:
    """The typical spread of a result: noise may by chance have missed one element."""
    finite = spread[np.isfinite(spread)]
    return float(np.median(finite)) if finite.size else 0.0
