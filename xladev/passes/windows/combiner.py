"""What combines the elements of a window: in any grouping, and what it leaves unchanged.

HLO leaves the order of a reduction free, so a reducer is taken to be associative. One that is no
single opcode is tried on numbers first, and left alone where it plainly is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import ml_dtypes
import numpy as np

from xladev.errors import XladevError
from xladev.hlo.dtype import Kind, PrimitiveType
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.literal import Array, literal_of
from xladev.hlo.nested_values import flattened
from xladev.hlo.ops.reducers import monoid_of
from xladev.hlo.shape import array
from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.expansions.precision import wider_float
from xladev.passes.scalar_bodies import can_write_out, write_out
from xladev.passes.splats import splat_of

_TRIALS = 512
"""Triples of elements on which a reducer is tried."""
_LARGEST = 300.0
_FLOATS = (-inf, -_LARGEST, -3.5, -1.0, -0.25, 0.0, 0.5, 1.0, 2.0, 7.0, 40.0, inf, np.nan)
_INTEGERS = (0, 1, 2, 3, 5, 7, 100, -1, -2, -90)
_ROUNDINGS = 32
"""By how many units of a float's last place both groupings may differ."""
_EXACT_START = frozenset({"maximum", "minimum", "multiply", "and", "or", "xor"})


@dataclass(frozen=True, slots=True)
class Combiner:
    """A reducer of one array or of several, which may combine neighbours in any grouping.

    Attributes:
        reducer: takes accumulators, then values, all scalars; gives accumulators.
        types: element types to combine in, one for each array: f32 for narrower floats.
        neutral: scalars of these types that leave others unchanged, but for the sign of a zero:
            the initial values if they do.
        starts_neutral: whether they do.
        starts: False if the reducer changes no bit by combining a result with the initial values.
    """

    reducer: HloComputation
    types: tuple[PrimitiveType, ...]
    neutral: tuple[Array, ...]
    starts_neutral: bool
    starts: bool

    @property
    def opcode(self) -> str:
        """The one commutative opcode that the reducer is; empty if it is more."""
        return self.reducer.root.opcode if monoid_of(self.reducer) is not None else ""

    def combine(self, e: Emitter, left: Values, right: Values) -> list[HloInstruction]:
        """Arrays of earlier elements with arrays of later ones."""
        dims = left[0].shape.dims
        return flattened(write_out(e, self.reducer, [*left, *right], dims, wide=True))

    def scalars(self, e: Emitter) -> list[HloInstruction]:
        """The neutral elements."""
        pairs = zip(self.neutral, self.types, strict=True)
        return [e.constant(literal_of(value, t)) for value, t in pairs]

    def computation(self) -> HloComputation:
        """The reducer on the types that it combines in."""
        if all(p.shape.element_type in self.types for p in self.reducer.parameters):
            return self.reducer
        e = Emitter(f"{self.reducer.name}.wide")
        parameters = [e.parameter(array(t)) for t in (*self.types, *self.types)]
        made = flattened(write_out(e, self.reducer, parameters, (), wide=True))
        return e.build(e.op("tuple", *made) if self.reducer.root.shape.is_tuple else made[0])


def combiner_of(instruction: HloInstruction) -> Combiner | None:
    """How a reduce-window combines; None if its elements must stay in their order or its types."""
    reducer: HloComputation = instruction["to_apply"]
    count = len(instruction.operands) // 2
    types = tuple(o.shape.element_type for o in instruction.operands[:count])
    results = (reducer.root.shape.tuple_shapes or (reducer.root.shape,)) * 2
    inits = instruction.operands[count:]
    named = [*results, *(p.shape for p in reducer.parameters), *(i.shape for i in inits)]
    if [s.element_type for s in named] != list(types * 5) or not can_write_out(reducer):
        return None
    wide = tuple(wider_float(t) for t in types)
    monoid = monoid_of(reducer)
    if monoid is not None:
        return _of_opcode(reducer, wide[0], types[0], splat_of(inits[0]))
    values = [splat_of(i) for i in inits]
    if any(v is None for v in values) or not _fits(reducer, types, values):
        return None
    pairs = zip(values, wide, strict=True)
    neutral = tuple(np.asarray(v).astype(t.np) for v, t in pairs)
    return Combiner(reducer, wide, neutral, starts_neutral=True, starts=True)


# One opcode


def _of_opcode(
    reducer: HloComputation, wide: PrimitiveType, narrow: PrimitiveType, init: Array | None
) -> Combiner | None:
    opcode = reducer.root.opcode
    neutral = _neutral(opcode, wide)
    if neutral is None:
        return None
    keeps = init is not None and bool(init.astype(wide.np) == neutral)
    if keeps and init is not None:
        neutral = init.astype(wide.np)
    exact = opcode in _EXACT_START or not (narrow.is_float or narrow.is_complex)
    return Combiner(reducer, (wide,), (neutral,), keeps, starts=not keeps or not exact)


def _neutral(opcode: str, element_type: PrimitiveType) -> Array | None:
    """What a commutative opcode leaves others unchanged with."""
    if element_type.is_float or element_type.is_complex:
        values: dict[str, complex] = {"add": -0.0, "multiply": 1, "maximum": -inf, "minimum": inf}
        found = values.get(opcode)
    elif element_type.kind is Kind.PRED:
        found = opcode in ("multiply", "and", "minimum")
    else:
        found = _integer(opcode, element_type)
    return None if found is None else np.asarray(found).astype(element_type.np)


def _integer(opcode: str, t: PrimitiveType) -> int | None:
    least = -(1 << (t.bits - 1)) if t.is_signed else 0
    greatest = least + (1 << t.bits) - 1
    ones = -1 if t.is_signed else greatest
    table = {"add": 0, "or": 0, "xor": 0, "multiply": 1, "and": ones}
    return {**table, "maximum": least, "minimum": greatest}.get(opcode)


# Other reducers, by trial


def _fits(
    reducer: HloComputation, types: Sequence[PrimitiveType], inits: Sequence[Array | None]
) -> bool:
    """True if the reducer is associative, and the initial values neutral, as far as trials show."""
    rng = np.random.default_rng(0)
    a, b, c = ([_drawn(rng, t) for t in types] for _ in range(3))
    starts = [np.broadcast_to(np.asarray(i), (_TRIALS,)) for i in inits]
    try:
        left = _applied(reducer, _applied(reducer, a, b), c)
        right = _applied(reducer, a, _applied(reducer, b, c))
        kept = _applied(reducer, starts, a), _applied(reducer, a, starts)
    except XladevError:
        return False
    pairs = ((left, right), (kept[0], a), (kept[1], a))
    return all(_agree(x, y) for found, wanted in pairs for x, y in zip(found, wanted, strict=True))


def _drawn(rng: np.random.Generator, t: PrimitiveType) -> Array:
    real = t.is_float or t.is_complex
    values = np.asarray(_FLOATS if real else _INTEGERS)
    if t.is_complex:
        values = values[np.isfinite(values)]
    with np.errstate(all="ignore"):
        return np.asarray(rng.choice(values, _TRIALS).astype(t.np))


def _applied(reducer: HloComputation, left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
    return flattened(HloEvaluator().apply(reducer, [*left, *right]))


def _agree(found: Array, wanted: Array) -> bool:
    if found.dtype.kind in "iub":
        return bool((found == wanted).all())
    is_complex = found.dtype.kind == "c"
    part = found.real.dtype if is_complex else found.dtype
    near = _ROUNDINGS * float(ml_dtypes.finfo(part).eps)  # type: ignore[no-untyped-call]
    wide = np.complex128 if is_complex else np.float64
    pair = found.astype(wide), wanted.astype(wide)
    return bool(np.allclose(*pair, rtol=near, atol=near * _LARGEST, equal_nan=True))
