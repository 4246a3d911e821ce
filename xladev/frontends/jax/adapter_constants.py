"""Long constants of StableHLO, taken out before jaxlib converts it and put back into the HLO.

jaxlib's converter copies each constant several times. A call of a function that nobody else has
stands for it meanwhile: `CALL`, with the constant's number as its configuration. Uses private parts
of jaxlib, as `adapter.py` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.literal import SHORT_NBYTES, Array, Literal
from xladev.hlo.opset import opdef
from xladev.hlo.rebuild import map_computations, rebuild

CALL = "xladev.constant"
"""Target of the calls in place of constants."""


def take_constants(module: Any) -> list[Array]:
    """Replaces long constants of an MLIR module of StableHLO by calls; their elements, in order.

    Those stay of which NumPy has no array: of types that are not its own, and splats; and those
    that loops and branches use.
    """
    from jaxlib.mlir import ir

    found: list[tuple[Any, Array]] = []

    def look(operation: Any) -> Any:
        if operation.name == "stablehlo.constant" and not _is_used_by_regions(operation):
            array = _elements(ir, operation)
            if array is not None:
                found.append((operation, array))
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    for number, (operation, _) in enumerate(found):
        given = operation.attributes  # some releases of jaxlib list names, others attributes
        names = {getattr(each, "name", each) for each in given} - {"value"}
        own = {
            "call_target_name": ir.StringAttr.get(CALL),
            "backend_config": ir.StringAttr.get(str(number)),
        }
        with ir.InsertionPoint(operation), operation.location:
            call = ir.Operation.create(
                "stablehlo.custom_call",
                results=[operation.results[0].type],
                attributes={**{name: given[name] for name in names}, **own},
            )
        operation.results[0].replace_all_uses_with(call.results[0])
        operation.erase()
    return [array for _, array in found]


def _is_used_by_regions(operation: Any) -> bool:
    """True for what jaxlib puts into the regions of loops and branches while it is a constant."""
    owners = [use.owner.operation for use in operation.results[0].uses]
    return any(o.block != operation.block or len(o.regions) for o in owners)


def _elements(ir: Any, operation: Any) -> Array | None:
    """A copy of a long constant's elements; None for others."""
    if isinstance(operation.results[0].type.element_type, ir.ComplexType):
        return None  # jaxlib writes all of them into the message of an error
    value = operation.attributes["value"]
    if not isinstance(value, ir.DenseElementsAttr) or value.is_splat:
        return None
    try:
        view = memoryview(value)
    except (BufferError, TypeError, ValueError):
        return None
    if view.nbytes <= SHORT_NBYTES or view.format == "?":
        return None
    array: Array = np.array(view)
    array.flags.writeable = False
    return array


def with_constants(module: HloModule, constants: Sequence[Array]) -> HloModule:
    """The HLO with constants in place of the calls of `take_constants`."""
    if not constants:
        return module

    def change(computation: HloComputation) -> HloComputation:
        calls = {i: _constant(i, constants) for i in computation.instructions if _is_call(i)}
        return rebuild(computation, calls)

    return map_computations(module, change)


def _is_call(i: HloInstruction) -> bool:
    return i.opcode == "custom-call" and i["custom_call_target"] == CALL


def _constant(i: HloInstruction, constants: Sequence[Array]) -> HloInstruction:
    array = constants[int(i.note.backend_config)]
    shape = i.shape
    literal = Literal(shape, array.view(shape.element_type.np).reshape(shape.dims))
    return HloInstruction(
        opdef("constant"),
        shape,
        (),
        {"literal": literal},
        i.name,
        replace(i.note, backend_config=""),
    )
