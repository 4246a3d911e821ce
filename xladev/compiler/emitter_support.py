"""What the elemental emitters can do: answers for backends whose kernels are made of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from xladev.codegen.llvm import VOID, ModuleBuilder
from xladev.codegen.scalar.constants import constant_element
from xladev.codegen.scalar.elementwise import emit_elementwise
from xladev.compiler.support import YES, Support, no
from xladev.errors import UnsupportedError
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape, once_per_shape


def first_refusal(answers: Iterable[Support]) -> Support:
    """The first refusal, or yes."""
    return next((answer for answer in answers if not answer), YES)


def array_refusal(instruction: HloInstruction) -> Support | None:
    """A refusal of values that have no memory, or no fixed size; None if there are none."""
    for shape in (instruction.shape, *(o.shape for o in instruction.operands)):
        refusal = _shape_refusal(shape)
        if refusal is not None:
            return refusal
    return None


@once_per_shape
def _shape_refusal(shape: Shape) -> Support | None:
    for _, leaf in shape.leaves():
        if leaf.is_dynamic:
            return no("a dynamic dimension must be padded away first")
        if not leaf.is_array and not leaf.is_token:
            return no(f"values of type {leaf.element_type} have no memory")
    return None


def bitcast_support(instruction: HloInstruction) -> Support:
    """Movement of whole elements in memory order; types may differ if they fill their bytes."""
    shapes = (instruction.operands[0].shape, instruction.shape)
    for shape in shapes:
        if shape.layout is not None and (shape.layout.tiles or shape.layout.element_bits):
            return no(f"no code for a bitcast of the layout {shape.layout}")
    types = {shape.element_type for shape in shapes}
    if len(types) > 1 and not all(map(_fills_bytes, types)):
        return no(f"no code for a bitcast from {shapes[0]} to {shapes[1]}")
    return YES


def _fills_bytes(dtype: PrimitiveType) -> bool:
    return (dtype.is_float or dtype.is_integral) and dtype.bits % 8 == 0


def elementwise_support(instruction: HloInstruction) -> Support:
    """Whether there is code for an elementwise opcode on its types; tried out, once for each."""
    operands = tuple(o.shape.element_type for o in instruction.operands)
    attrs = tuple(sorted((k, v) for k, v in instruction.attrs.items() if isinstance(v, (str, int))))
    reason = _refusal(instruction.opcode, operands, instruction.shape.element_type, attrs)
    return no(reason) if reason else YES


@lru_cache(maxsize=4096)
def _refusal(
    opcode: str,
    operands: tuple[PrimitiveType, ...],
    result: PrimitiveType,
    attrs: tuple[tuple[str, str | int], ...],
) -> str:
    """Why there is no code for an elementwise opcode on these types; empty if there is."""
    b = ModuleBuilder("probe").function("probe", VOID)
    try:
        elements = [constant_element(t, 1) for t in operands]
        emit_elementwise(b, opcode, operands, result, elements, dict(attrs))
    except UnsupportedError as e:
        return f"{e.what}: {e.why}" if e.why else e.what
    return ""
