"""What the CPU's kernels can do: answers `supports` from the tables of emitters."""

from __future__ import annotations

from functools import lru_cache

from xladev.codegen.elemental.rules import ELEMENT_RULES
from xladev.codegen.kernels.table import KERNEL_EMITTERS
from xladev.codegen.llvm import VOID, ModuleBuilder
from xladev.codegen.scalar.constants import constant_element
from xladev.codegen.scalar.elementwise import emit_elementwise
from xladev.compiler.support import YES, Support, no
from xladev.errors import UnsupportedError
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction

_STRUCTURE = frozenset({
    "parameter", "constant", "tuple", "get-tuple-element", "after-all", "add-dependency",
    "opt-barrier", "fusion",
})  # fmt: skip
_CONTROL = frozenset({"while", "conditional", "call"})
_WITHIN_SCALARS = _CONTROL | _STRUCTURE


def cpu_supports(instruction: HloInstruction) -> Support:
    """Whether native code can be made of an instruction and all that it calls."""
    refusal = _array_refusal(instruction)
    if refusal is not None:
        return refusal
    opcode = instruction.opcode
    if opcode in _CONTROL or opcode == "fusion":
        return _whole_program(instruction)
    if opcode in _STRUCTURE:
        return YES
    if opcode == "bitcast":
        return _bitcast(instruction)
    if opcode in ELEMENT_RULES or opcode in KERNEL_EMITTERS:
        return _scalar_computations(instruction)
    if instruction.op.elementwise:
        return _elementwise(instruction)
    return no(f"no kernel for {opcode}")


def _array_refusal(instruction: HloInstruction) -> Support | None:
    for shape in (instruction.shape, *(o.shape for o in instruction.operands)):
        for _, leaf in shape.leaves():
            if leaf.is_dynamic:
                return no("a dynamic dimension must be padded away first")
            if not leaf.is_array and not leaf.is_token:
                return no(f"values of type {leaf.element_type} have no memory")
    return None


def _whole_program(instruction: HloInstruction) -> Support:
    """Yes if the CPU runs every instruction of the computations that it calls."""
    for computation in instruction.called:
        for inner in computation.instructions:
            answer = cpu_supports(inner)
            if not answer:
                return no(f"{inner.name} within it: {answer.reason}")
    return YES


def _bitcast(instruction: HloInstruction) -> Support:
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


def _scalar_computations(instruction: HloInstruction) -> Support:
    for computation in instruction.called:
        answer = _scalar_computation(computation)
        if not answer:
            return answer
    return YES


def _scalar_computation(computation: HloComputation) -> Support:
    for inner in computation.instructions:
        if not all(leaf.is_array and leaf.size == 1 for _, leaf in inner.shape.leaves()):
            return no(f"{inner.name} in {computation.name} is no scalar")
        if inner.opcode in _WITHIN_SCALARS or inner.opcode in ELEMENT_RULES:
            answer = _scalar_computations(inner)
        elif inner.op.elementwise:
            answer = _elementwise(inner)
        else:
            answer = no(f"no scalar code for {inner.opcode}")
        if not answer:
            return answer
    return YES


def _elementwise(instruction: HloInstruction) -> Support:
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
