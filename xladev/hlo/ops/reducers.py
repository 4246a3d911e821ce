"""Combining many elements with a computation: in one NumPy call, or one after another.

HLO leaves the order of a reduction free. The evaluator reduces the elements in row-major order,
with the accumulator on the left: ``reducer(reducer(init, x0), x1)...``. From `TREE_FROM` elements
on it combines neighbours pairwise, in order, and the initial value last, on the left. Reducers
that are one commutative and associative opcode go through NumPy, where floats accumulate in a
wider type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from xladev.hlo.dtype import PrimitiveType, by_numpy
from xladev.hlo.ir import HloComputation
from xladev.hlo.literal import Array, Value
from xladev.hlo.numerics.precision import widen
from xladev.hlo.opdef import Evaluation
from xladev.hlo.ops.accumulation import accumulator, rounded

TREE_FROM = 1024
"""Number of elements from which a general reducer combines them pairwise."""

_UFUNCS: Mapping[str, tuple[np.ufunc, np.ufunc]] = {
    # opcode: the ufunc for numbers, and for pred
    "add": (np.add, np.logical_or),
    "multiply": (np.multiply, np.logical_and),
    "maximum": (np.maximum, np.logical_or),
    "minimum": (np.minimum, np.logical_and),
    "and": (np.bitwise_and, np.logical_and),
    "or": (np.bitwise_or, np.logical_or),
    "xor": (np.bitwise_xor, np.logical_xor),
}
_REAL_ONLY = frozenset({"maximum", "minimum"})


@dataclass(frozen=True, slots=True)
class Monoid:
    """A commutative and associative opcode on one element type, as a NumPy ufunc."""

    ufunc: np.ufunc
    element_type: PrimitiveType

    @property
    def wide(self) -> np.dtype[Any]:
        """The dtype that intermediate results are kept in."""
        return accumulator(self.element_type)

    @property
    def orders_zeros(self) -> bool:
        """True where -0 is below +0, which the ufunc does not know."""
        return self.ufunc in (np.maximum, np.minimum) and self.element_type.is_float

    @property
    def _beginning(self) -> dict[str, Any]:
        """What a sum begins with: NumPy's 0 would be the sum of zeros that are all negative."""
        if self.ufunc is not np.add:
            return {}
        if self.element_type.is_complex:
            return {"initial": complex(-0.0, -0.0)}
        return {"initial": -0.0} if self.element_type.is_float else {}

    def reduce(self, values: Array, init: Array, axes: tuple[int, ...]) -> Array:
        """Combines ``values`` along ``axes`` and with ``init``; rounds once."""
        if not axes:
            wide = values.astype(self.wide)
            total: Any = np.asarray(self.ufunc(init.astype(self.wide), wide))
            if self.orders_zeros:
                start = np.broadcast_to(init.astype(self.wide), wide.shape)
                total = self._with_signed_zeros(total, wide, start, ())
            return rounded(total, self.element_type)
        kept = [n for i, n in enumerate(values.shape) if i not in axes]
        start = np.broadcast_to(init.astype(self.wide), kept)
        if any(values.shape[axis] == 0 for axis in axes):
            return rounded(start.copy(), self.element_type)
        # Rounding of narrow floats: ufunc.reduce casts in blocks, so no wide copy is made.
        dtype = None if self.wide == np.bool_ else self.wide
        found = self.ufunc.reduce(values, axis=axes, dtype=dtype, **self._beginning)
        total = np.asarray(self.ufunc(start, found))
        if self.orders_zeros:
            total = self._with_signed_zeros(total, values, start, axes)
        return rounded(total, self.element_type)

    def _with_signed_zeros(
        self, total: Array, values: Array, start: Array, axes: tuple[int, ...]
    ) -> Array:
        """The total with zeros of the right sign."""
        if not (total == 0).any():
            return total
        wanted = np.signbit if self.ufunc is np.minimum else _is_positive
        wide = widen(values)
        found = ((wide == 0) & wanted(wide)).any(axes) | ((start == 0) & wanted(start))
        zero = np.where(found == (self.ufunc is np.minimum), -0.0, 0.0)
        return np.where(total == 0, zero, total).astype(total.dtype)


def _is_positive(values: Array) -> Array:
    return ~np.signbit(values)


def monoid_of(computation: HloComputation) -> Monoid | None:
    """The monoid that a reducer of two scalars is; None where it is something else."""
    root, parameters = computation.root, computation.parameters
    if root.opcode not in _UFUNCS or len(parameters) != 2 or set(root.operands) != set(parameters):
        return None
    types = {i.shape.element_type for i in (root, *parameters)}
    if len(types) != 1 or any(not p.shape.is_scalar for p in parameters):
        return None
    (element_type,) = types
    if element_type.is_complex and root.opcode in _REAL_ONLY:
        return None
    numbers, flags = _UFUNCS[root.opcode]
    return Monoid(flags if element_type.np == np.bool_ else numbers, element_type)


def monoid_opcodes(computation: HloComputation) -> tuple[str, ...]:
    """The opcodes of a reducer of several arrays, each with its own monoid; () if it is none."""
    root, parameters = computation.root, computation.parameters
    count = len(parameters) // 2
    if root.opcode != "tuple" or len(root.operands) != count:
        return ()
    pairs = zip(root.operands, parameters[:count], parameters[count:], strict=True)
    known = all(
        part.opcode in _UFUNCS
        and set(part.operands) == {left, right}
        and not (part.shape.element_type.is_complex and part.opcode in _REAL_ONLY)
        for part, left, right in pairs
    )
    return tuple(part.opcode for part in root.operands) if known else ()


def keeps_elements(computation: HloComputation) -> bool:
    """True if each result of a reducer of several arrays is one of its two elements there.

    So is that of the largest element and its index. To combine something with itself changes
    nothing then, and initial values may take part several times.
    """
    root, parameters = computation.root, computation.parameters
    count = len(parameters) // 2
    if root.opcode != "tuple" or len(root.operands) != count:
        return False
    pairs = zip(root.operands, parameters[:count], parameters[count:], strict=True)
    return all(
        part.opcode == "select" and set(part.operands[1:]) == {left, right}
        for part, left, right in pairs
    )


def reduce_axes(
    evaluation: Evaluation,
    reducer: HloComputation,
    values: Sequence[Array],
    inits: Sequence[Array],
    axes: tuple[int, ...],
) -> tuple[Array, ...]:
    """Combines elements along ``axes`` with any reducer.

    Args:
        evaluation: runs the reducer.
        reducer: takes accumulators, then values, all scalars; gives accumulators.
        values: arrays of equal dimensions.
        inits: one scalar per array.
        axes: dimensions to combine.

    Returns:
        One array per value, of the reducer's result types, without the dimensions ``axes``.
    """
    monoid = monoid_of(reducer) if len(values) == 1 else None
    if monoid is not None and monoid.element_type is by_numpy(values[0].dtype):
        return (monoid.reduce(values[0], inits[0], axes),)
    fronts = [np.moveaxis(value, axes, range(len(axes))) for value in values]
    return reduce_in_order(evaluation, reducer, fronts, inits, len(axes))


def reduce_in_order(
    evaluation: Evaluation,
    reducer: HloComputation,
    values: Sequence[Array],
    inits: Sequence[Array],
    rank: int,
) -> tuple[Array, ...]:
    """Combines along the first ``rank`` dimensions, in row-major order, starting from ``inits``."""
    order, kept = values[0].shape[:rank], values[0].shape[rank:]
    wanted = [p.shape.element_type.np for p in reducer.parameters[: len(values)]]
    totals = tuple(
        np.broadcast_to(init, kept).astype(dtype) for init, dtype in zip(inits, wanted, strict=True)
    )
    same = all(value.dtype == dtype for value, dtype in zip(values, wanted, strict=True))
    if prod(order) >= TREE_FROM and same:
        rows = [value.reshape(-1, *kept) for value in values]
        parts = _combine_neighbours(evaluation, reducer, rows)
        return combine(evaluation, reducer, totals, [part[0] for part in parts])
    for at in np.ndindex(*order):
        totals = combine(evaluation, reducer, totals, [np.asarray(v[at]) for v in values])
    return totals


def _combine_neighbours(
    evaluation: Evaluation, reducer: HloComputation, parts: list[Array]
) -> list[Array]:
    """Combines neighbouring rows until one is left; an odd last row waits for the next round."""
    while len(parts[0]) > 1:
        even = len(parts[0]) // 2 * 2
        left, right = [p[0:even:2] for p in parts], [p[1:even:2] for p in parts]
        combined = combine(evaluation, reducer, left, right)
        parts = [np.concatenate([c, p[even:]]) for c, p in zip(combined, parts, strict=True)]
    return parts


def combine(
    evaluation: Evaluation,
    reducer: HloComputation,
    left: Sequence[Array],
    right: Sequence[Array],
) -> tuple[Array, ...]:
    """The reducer on arrays of accumulators and of values, element by element."""
    result: Value = evaluation.apply(reducer, [*left, *right])
    return result if isinstance(result, tuple) else (result,)
