"""The collectives, each told once: what a call says, and what each rank gets of what all bring."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np

from xladev.errors import ArgumentError
from xladev.hlo.shape import Shape
from xladev.runtime.communicator import Communicator, HostArray, Participant, Reduction
from xladev.runtime.memory import DeviceMemory

RankResults = Sequence[HostArray | None]
"""The result of each rank, in rank order; None where it stays as it is."""


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """One collective as a rank calls it. What a collective does not take has its default.

    Attributes:
        opcode: one of `COLLECTIVES`.
        shape: of the operand, with device layout.
        dimensions: gathered or scattered; for an all-to-all, what it splits and concatenates.
        pairs: (source rank, target rank).
        root: a rank.
        reduction: see `Reduction`.
    """

    opcode: str
    shape: Shape
    dimensions: tuple[int, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()
    root: int = 0
    reduction: Reduction = ""

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What the communicator's function takes behind the shape."""
        return self._of(COLLECTIVES[self.opcode].takes)

    @property
    def agreement(self) -> tuple[Any, ...]:
        """What all ranks must agree on; a function that reduces is each rank's own."""
        fields = [field for field in COLLECTIVES[self.opcode].takes if field != "reduction"]
        said = replace(self, pairs=tuple(sorted(self.pairs)))._of(fields)
        return (self.opcode, *said, str(self.shape.element_type), self.shape.dims)

    def _of(self, fields: Sequence[str]) -> tuple[Any, ...]:
        values = ((name, getattr(self, name)) for name in fields)
        rows = (value if name == "dimensions" else (value,) for name, value in values)
        return tuple(chain.from_iterable(rows))


@dataclass(frozen=True, slots=True)
class CollectiveKind:
    """What is known of one collective.

    Attributes:
        function: name of the function of `Communicator`.
        takes: the fields of a call that this takes behind the shape, in its order.
        result_shape: shape of a rank's result, by the call and the number of ranks.
        results: what each rank gets, by the call and the operands in rank order.
    """

    function: str
    takes: tuple[str, ...]
    result_shape: Callable[[CollectiveCall, int], Shape]
    results: Callable[[CollectiveCall, list[HostArray]], RankResults]


def call_function(
    communicator: Communicator,
    who: Participant,
    operand: DeviceMemory,
    result: DeviceMemory,
    call: CollectiveCall,
) -> None:
    """Calls the function of a communicator that stands for a collective."""
    function = getattr(communicator, COLLECTIVES[call.opcode].function)
    function(who, operand, result, call.shape, *call.arguments)


def checked_result_shape(call: CollectiveCall, size: int, where: str) -> Shape:
    """Shape of the result of a call between so many ranks.

    Args:
        call: its operand's shape has a layout that the result shares.
        size: number of ranks.
        where: name of the call, for errors.

    Raises:
        ArgumentError: an unknown reduction, ranks that there are not, sizes that do not divide.
    """
    kind = COLLECTIVES[call.opcode]
    if "reduction" in kind.takes:
        reducer(call.reduction)
    check_rank(call.root, size)
    _check_pairs(call.pairs, size, where)
    return kind.result_shape(call, size)


def rank_results(call: CollectiveCall, arrays: list[HostArray]) -> RankResults:
    """What each rank gets.

    Args:
        call: a checked one.
        arrays: the operands, in rank order.
    """
    return COLLECTIVES[call.opcode].results(call, arrays)


def check_rank(rank: int, size: int) -> None:
    """Checks a number of a rank.

    Raises:
        ArgumentError: there is no such rank.
    """
    if not 0 <= rank < size:
        raise ArgumentError(f"rank {rank} in a group of {size} devices")


def _check_pairs(pairs: Sequence[tuple[int, int]], size: int, where: str) -> None:
    sources, targets = ({pair[side] for pair in pairs} for side in (0, 1))
    if len(targets) != len(pairs) or len(sources) != len(pairs):
        raise ArgumentError("a collective-permute names a source or target twice", where=where)
    if not all(0 <= rank < size for rank in sources | targets):
        raise ArgumentError(f"a collective-permute names a rank outside 0..{size - 1}", where=where)


# Reductions


def _logical_or_bitwise(logical: np.ufunc, bitwise: np.ufunc) -> Callable[..., HostArray]:
    def combine(a: HostArray, b: HostArray) -> HostArray:
        result: HostArray = (logical if a.dtype == np.bool_ else bitwise)(a, b)
        return result

    return combine


REDUCTIONS: Mapping[str, Callable[[HostArray, HostArray], HostArray]] = {
    "add": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "and": _logical_or_bitwise(np.logical_and, np.bitwise_and),
    "or": _logical_or_bitwise(np.logical_or, np.bitwise_or),
    "xor": _logical_or_bitwise(np.logical_xor, np.bitwise_xor),
}


def reducer(reduction: Reduction) -> Callable[[list[HostArray]], HostArray]:
    """Reduces arrays in their order, each step in their dtype.

    Raises:
        ArgumentError: no such reduction.
    """
    combine = REDUCTIONS.get(reduction) if isinstance(reduction, str) else reduction
    if combine is None:
        raise ArgumentError(f"unknown reduction {reduction!r}", hint=f"one of {list(REDUCTIONS)}")
    step = combine

    def reduce_all(arrays: list[HostArray]) -> HostArray:
        total = arrays[0]
        with np.errstate(all="ignore"):
            for array in arrays[1:]:
                total = step(total, array).astype(array.dtype, copy=False)
        return total

    return reduce_all


# Shapes of results


def _same(call: CollectiveCall, size: int) -> Shape:
    return call.shape


def _gathered_shape(call: CollectiveCall, size: int) -> Shape:
    (dimension,) = call.dimensions
    return _resized(call.shape, dimension, call.shape.dims[dimension] * size)


def _scattered_shape(call: CollectiveCall, size: int) -> Shape:
    (dimension,) = call.dimensions
    return _split(call.shape, dimension, size)


def _exchanged_shape(call: CollectiveCall, size: int) -> Shape:
    split, concat = call.dimensions
    part = _split(call.shape, split, size)
    return _resized(part, concat, part.dims[concat] * size)


def _split(shape: Shape, dimension: int, size: int) -> Shape:
    if shape.dims[dimension] % size:
        raise ArgumentError(
            f"dimension {dimension} of {shape} cannot be split between {size} devices"
        )
    return _resized(shape, dimension, shape.dims[dimension] // size)


def _resized(shape: Shape, dimension: int, size: int) -> Shape:
    dims = (*shape.dims[:dimension], size, *shape.dims[dimension + 1 :])
    return Shape(shape.element_type, dims, shape.layout)


# Results


def _reduced(call: CollectiveCall, arrays: list[HostArray]) -> RankResults:
    return [reducer(call.reduction)(arrays)] * len(arrays)


def _gathered(call: CollectiveCall, arrays: list[HostArray]) -> RankResults:
    (dimension,) = call.dimensions
    return [np.concatenate(arrays, dimension)] * len(arrays)


def _scattered(call: CollectiveCall, arrays: list[HostArray]) -> RankResults:
    (dimension,) = call.dimensions
    return np.split(reducer(call.reduction)(arrays), len(arrays), dimension)


def _exchanged(call: CollectiveCall, arrays: list[HostArray]) -> RankResults:
    split, concat = call.dimensions
    pieces = [np.split(a, len(arrays), split) for a in arrays]
    return [np.concatenate(row, concat) for row in zip(*pieces, strict=True)]


def _permuted(call: CollectiveCall, arrays: list[HostArray]) -> RankResults:
    sources = {target: source for source, target in call.pairs}
    nothing = np.zeros_like(arrays[0])
    return [arrays[sources[r]] if r in sources else nothing for r in range(len(arrays))]


def _from_the_root(call: CollectiveCall, arrays: list[HostArray]) -> RankResults:
    return [arrays[call.root]] * len(arrays)


def _reduced_at_the_root(call: CollectiveCall, arrays: list[HostArray]) -> RankResults:
    total = reducer(call.reduction)(arrays)
    return [total if rank == call.root else None for rank in range(len(arrays))]


COLLECTIVES: Mapping[str, CollectiveKind] = MappingProxyType(
    {
        "all-reduce": CollectiveKind("all_reduce", ("reduction",), _same, _reduced),
        "all-gather": CollectiveKind("all_gather", ("dimensions",), _gathered_shape, _gathered),
        "reduce-scatter": CollectiveKind(
            "reduce_scatter", ("dimensions", "reduction"), _scattered_shape, _scattered
        ),
        "all-to-all": CollectiveKind("all_to_all", ("dimensions",), _exchanged_shape, _exchanged),
        "collective-permute": CollectiveKind("collective_permute", ("pairs",), _same, _permuted),
        "collective-broadcast": CollectiveKind("broadcast", ("root",), _same, _from_the_root),
        "collective-reduce": CollectiveKind(
            "reduce", ("root", "reduction"), _same, _reduced_at_the_root
        ),
    }
)
"""By opcode; a ragged all-to-all, whose sizes each rank says for itself, is like none of these."""
