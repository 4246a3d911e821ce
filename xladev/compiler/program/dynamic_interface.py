"""Gives a program that was made static the interface of the dynamic module it came from.

The buffers are the same ones in the same order (see `passes/dynamic_padder.py`); callers only see
shapes with dynamic dimensions instead of sizes as values of their own.
"""

from __future__ import annotations

from dataclasses import replace

from xladev.compiler.program.program import Procedure, Program, Slot
from xladev.compiler.signature import Signature
from xladev.hlo.ir import HloModule
from xladev.hlo.shape import Shape


def with_dynamic_interface(program: Program, module: HloModule) -> Program:
    """The program, seen as of ``module``; itself if it is already.

    Args:
        program: compiled from the module or from its static form.
        module: what the user gave.
    """
    parameters = [p.shape for p in module.entry.parameters]
    result, made = module.entry.root.shape, program.signature
    if _has_dynamic([*made.parameters, made.result]) or not _has_dynamic([*parameters, result]):
        return program
    inner = made.result.tuple_shapes[0] if _has_dynamic([result]) else made.result
    signature = replace(
        made,
        parameters=tuple(map(_marked, made.parameters[: len(parameters)], parameters)),
        result=_marked(inner, result),
    )
    entry = _with_interface(program.entry, signature)
    return replace(program, signature=signature, procedures=(*program.procedures[:-1], entry))


def _has_dynamic(shapes: list[Shape]) -> bool:
    return any(leaf.is_dynamic for shape in shapes for _, leaf in shape.leaves())


def _marked(static: Shape, original: Shape) -> Shape:
    """The static shape with the dynamic dimensions of the original."""
    if not static.is_tuple:
        return replace(static, dynamic=original.dynamic)
    parts = map(_marked, static.tuple_shapes, original.tuple_shapes)
    return replace(static, tuple_shapes=tuple(parts))


def _with_interface(entry: Procedure, signature: Signature) -> Procedure:
    slots = list(entry.slots)
    outside = (
        *zip(entry.parameters, signature.argument_shapes, strict=True),
        *zip(entry.results, signature.result_shapes, strict=True),
    )
    for number, shape in outside:
        slots[number] = Slot(shape, slots[number].platform)
    return replace(entry, slots=tuple(slots))
