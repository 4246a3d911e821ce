"""Random numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from xladev.errors import EvaluationError
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import Kind, PrimitiveType
from xladev.hlo.literal import Array, Value
from xladev.hlo.opdef import (
    VARIADIC,
    Attr,
    AttrKind,
    Cost,
    Evaluation,
    InstructionView,
    OpCall,
    OpDef,
)
from xladev.hlo.ops.random_bits import Bits, State, philox_bits, threefry_bits
from xladev.hlo.shape import Shape, array

_DISTRIBUTIONS = ("rng_uniform", "rng_normal")
_ALGORITHMS: Mapping[str, Callable[[State, tuple[int, ...], int], tuple[State, Bits]]] = (
    MappingProxyType(
        {"rng_default": philox_bits, "rng_philox": philox_bits, "rng_three_fry": threefry_bits}
    )
)


# rng


def infer_rng(call: OpCall) -> Shape:
    """The declared shape (StableHLO ``rng`` C1 to C3).

    Raises:
        ShapeError: ``rng_c1`` two scalars of the result's type, ``_c2`` distribution and type.
    """
    result = call.result()
    fits = len(call.operands) == 2 and all(
        shape.is_scalar and shape.element_type is result.element_type for shape in call.operands
    )
    call.require(fits, "rng_c1", "rng takes two scalars of the result's element type")
    known = call["distribution"] in _DISTRIBUTIONS
    call.require(known, "rng_c2", f"the distribution must be one of {', '.join(_DISTRIBUTIONS)}")
    normal = call["distribution"] == "rng_normal"
    allowed = result.element_type.is_float or not (normal or result.element_type.is_complex)
    call.require(allowed, "rng_c2", f"{call['distribution']} does not give {result.element_type}")
    return result


def evaluate_rng(
    evaluation: Evaluation, instruction: InstructionView, operands: Sequence[Value]
) -> Value:
    """Numbers of a host generator that the evaluation's seed starts; never bits of a backend."""
    first, second = operands
    generator = _generator(evaluation)
    shape = instruction.shape
    if instruction["distribution"] == "rng_normal":
        drawn: Array = generator.standard_normal(shape.dims)
        result = drawn * second.astype(np.float64) + first.astype(np.float64)
        return result.astype(shape.element_type.np)
    return _uniform(generator, first, second, shape)


def _uniform(generator: np.random.Generator, low: Array, high: Array, shape: Shape) -> Array:
    element_type = shape.element_type
    if element_type.kind is Kind.PRED:
        drawn = generator.integers(int(low), int(high) + 1, shape.dims)
        return drawn.astype(np.bool_)
    if element_type.is_integral:
        least = int(low)
        width = (int(high) - least) % 2**element_type.bits  # past the largest, as in XLA
        unsigned = generator.integers(0, max(width, 1), shape.dims, np.uint64)
        return (unsigned + np.uint64(least & (2**64 - 1))).astype(element_type.np)
    ends = low.astype(np.float64), high.astype(np.float64)
    values = (generator.random(shape.dims) * (ends[1] - ends[0]) + ends[0]).astype(element_type.np)
    return np.where((values >= high) & (low < high), low, values)


def _generator(evaluation: Evaluation) -> np.random.Generator:
    key = f"rng {evaluation.replica} {evaluation.partition}"
    if key not in evaluation.shared:
        seeds = [evaluation.seed, evaluation.replica, evaluation.partition]
        evaluation.shared[key] = np.random.default_rng(seeds)
    found: np.random.Generator = evaluation.shared[key]
    return found


# rng-bit-generator


def infer_bit_generator(call: OpCall) -> Shape:
    """The declared pair of next state and random bits.

    Raises:
        ShapeError: ``rng_bit_generator_c1`` state, ``_c2`` algorithm, ``_c3`` result.
    """
    state, result = call.operands[0], call.result()
    name = "rng_bit_generator"
    algorithm = call["algorithm"]
    call.require(
        algorithm in _ALGORITHMS, f"{name}_c2", f"the algorithm must be one of {list(_ALGORITHMS)}"
    )
    sizes = (2,) if algorithm == "rng_three_fry" else (2, 3)
    fits = state.element_type is dt.U64 and state.rank == 1 and state.dims[0] in sizes
    call.require(fits, f"{name}_c1", f"the state of {algorithm} must be u64 of size {sizes}")
    pair = result.is_tuple and len(result.tuple_shapes) == 2
    call.require(pair, f"{name}_c3", "the result must be a pair of state and bits")
    after, bits = result.tuple_shapes
    call.require(
        after.equal_ignoring_layout(state), f"{name}_c3", "the next state must be like the state"
    )
    call.require(_has_bits(bits.element_type), f"{name}_c3", f"{bits} cannot hold random bits")
    return result


def _has_bits(element_type: PrimitiveType) -> bool:
    whole = element_type.is_integral or element_type.is_float
    return whole and element_type.bits in (8, 16, 32, 64)


def evaluate_bit_generator(
    _: Evaluation, instruction: InstructionView, operands: Sequence[Value]
) -> Value:
    """Next state and bits; floats take the bits of an unsigned integer of their width."""
    part = instruction.shape.tuple_shapes[1]
    generate = _ALGORITHMS[instruction["algorithm"]]
    state, bits = generate(operands[0], part.dims, part.element_type.bits)
    return state, np.array(bits, order="C").view(part.element_type.np)


# rng-get-and-update-state


def infer_update_state(call: OpCall) -> Shape:
    """u64[2]: the low and the high half of a 128-bit counter."""
    wanted = array(dt.U64, (2,))
    declared = call.declared
    fits = declared is None or declared.equal_ignoring_layout(wanted)
    call.require(fits, "rng_get_and_update_state_c1", "the result must be u64[2]")
    return wanted


def evaluate_update_state(
    evaluation: Evaluation, instruction: InstructionView, operands: Sequence[Value]
) -> Value:
    """The counter before delta is added to it; it starts at the evaluation's seed."""
    if operands:
        raise EvaluationError("rng-get-and-update-state takes no operands")
    key = f"rng state {evaluation.replica} {evaluation.partition}"
    state: int = evaluation.shared.get(key, evaluation.seed)
    evaluation.shared[key] = (state + instruction["delta"]) % 2**128
    return np.array([state % 2**64, state // 2**64 % 2**64], np.uint64)


def random_cost(result: Shape, operands: tuple[Shape, ...], _: InstructionView) -> Cost:
    """About twenty integer operations per element."""
    moved = result.nbytes + sum(shape.nbytes for shape in operands)
    return Cost(flops=20 * sum(leaf.size for _, leaf in result.leaves()), bytes_accessed=moved)


_HIDDEN: tuple[str, ...] = (
    "Numbers come from NumPy's generator, seeded by the evaluation; only their distribution can "
    "agree with XLA's.",
)

OPS: tuple[OpDef, ...] = (
    OpDef(
        "rng",
        (0, VARIADIC),
        "Uniform or normal numbers from hidden state.",
        attrs=(Attr("distribution", AttrKind.WORD, required=True),),
        infer=infer_rng,
        evaluate=evaluate_rng,
        category="random",
        side_effect=True,
        differences=_HIDDEN,
        cost=random_cost,
    ),
    OpDef(
        "rng-bit-generator",
        1,
        "Random bits and the next state, by Philox or ThreeFry.",
        attrs=(Attr("algorithm", AttrKind.WORD, required=True, proto="rng_algorithm"),),
        infer=infer_bit_generator,
        evaluate=evaluate_bit_generator,
        category="random",
        differences=("For signed integers and floats, XLA:CPU gives unsigned integers.",),
        cost=random_cost,
    ),
    OpDef(
        "rng-get-and-update-state",
        0,
        "A global counter, advanced by delta.",
        attrs=(Attr("delta", AttrKind.INT, required=True),),
        infer=infer_update_state,
        evaluate=evaluate_update_state,
        category="random",
        side_effect=True,
        differences=("The counter starts at the evaluation's seed; XLA's at a constant.",),
    ),
)
