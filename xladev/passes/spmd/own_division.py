"""Calls that say themselves how they are divided over devices (`CustomCall.divide`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from xladev.errors import UnsupportedError
from xladev.hlo.attributes import Sharding
from xladev.hlo.custom_calls.definition import DivideFn
from xladev.hlo.custom_calls.registry import known
from xladev.hlo.custom_calls.user_functions import user_function
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.names import with_unique_names
from xladev.hlo.rebuild import map_computations, rebuild
from xladev.hlo.shape import Shape, flattened_shapes
from xladev.hlo.sharding.axis_sharding import AxisSharding
from xladev.hlo.sharding.grid import Grid
from xladev.hlo.sharding.tiles import expressed, tile_placement, to_tiles
from xladev.hlo.verifier import verify
from xladev.passes.spmd.held import Cuts, local_shape


@dataclass(frozen=True, slots=True)
class OwnDivision:
    """A call on one device.

    Attributes:
        computation: takes the parts of the operands, gives those of the results.
        operands: how each operand is cut.
        results: how each array of the result is cut.
    """

    computation: HloComputation
    operands: tuple[AxisSharding, ...]
    results: tuple[AxisSharding, ...]


def own_divide(i: HloInstruction) -> DivideFn | None:
    """What divides a call, if its target has something of the kind."""
    call = known(i["custom_call_target"])
    return None if call is None else call.divide


def divided_by_itself(
    i: HloInstruction, divide: DivideFn, given: Cuts, wanted: Cuts, grid: Grid
) -> OwnDivision:
    """Asks a call how it is divided.

    Args:
        i: the call, on whole arrays.
        divide: see `own_divide`.
        given: how the operands are cut.
        wanted: how the results are to be cut.
        grid: of the devices.

    Raises:
        UserFunctionError: ``divide`` raised.
        UnsupportedError: of code ``SHARDING``; an operand or a result is no array, or the answer
            does not fit the call.
    """
    operands = [o.shape for o in i.operands]
    results = list(flattened_shapes(i.shape))
    target = i["custom_call_target"]
    if not all(s.is_array for s in (*operands, *results)):
        raise _misfit(i, "it takes or gives a tuple or a token")
    with user_function(f"the function that divides {target!r}", passes=(UnsupportedError,)):
        made = divide(i, tuple(map(_told, given)), tuple(map(_told, wanted)))
    module = with_unique_names(HloModule(i.name, made.computation))
    verify(module)
    division = OwnDivision(
        map_computations(module, partial(_located, i)).entry,
        _cuts(i, made.operands, operands, grid),
        _cuts(i, made.results, results, grid),
    )
    takes = [cut.local(shape) for shape, cut in zip(operands, division.operands, strict=True)]
    _check(i, "takes", [p.shape for p in division.computation.parameters], takes)
    gives = flattened_shapes(local_shape(i.shape, division.results))
    _check(i, "gives", flattened_shapes(division.computation.root.shape), gives)
    return division


def _located(i: HloInstruction, computation: HloComputation) -> HloComputation:
    """The computation, come from where the call did: its stack frames are another module's."""
    metadata = i.note.metadata
    return rebuild(
        computation,
        {
            inner: replace(inner, note=replace(inner.note, metadata=metadata))
            for inner in computation.instructions
        },
    )


def _told(cut: AxisSharding | None) -> Sharding:
    return Sharding("replicated") if cut is None else to_tiles(cut.reduced)


def _cuts(
    i: HloInstruction, shardings: Sequence[Sharding], shapes: Sequence[Shape], grid: Grid
) -> tuple[AxisSharding, ...]:
    if len(shardings) != len(shapes):
        raise _misfit(i, f"it was given {len(shardings)} shardings for {len(shapes)} arrays")
    return tuple(
        _cut(i, sharding, shape, grid) for sharding, shape in zip(shardings, shapes, strict=True)
    )


def _cut(i: HloInstruction, sharding: Sharding, shape: Shape, grid: Grid) -> AxisSharding:
    placement = tile_placement(sharding, shape.rank, grid.size)
    if placement is None:
        raise _misfit(i, f"{sharding} gives no part of {shape} to each of {grid.size} devices")
    return expressed((grid,), placement)


def _check(i: HloInstruction, verb: str, found: Sequence[Shape], wanted: Sequence[Shape]) -> None:
    if [(s.element_type, s.dims) for s in found] != [(s.element_type, s.dims) for s in wanted]:
        texts = (", ".join(s.to_string(layout=False) for s in each) for each in (found, wanted))
        raise _misfit(i, "the program of one device {} {}, not {}".format(verb, *texts))


def _misfit(i: HloInstruction, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"{i.name} cannot be divided over devices",
        where=repr(i),
        why=why,
        hint="see CustomCall.divide in docs/how-to/add-a-custom-call.md",
        code="SHARDING",
    )
