"""What the CPU's kernels can do: answers `supports` from the tables of emitters."""

from __future__ import annotations

from collections.abc import Iterable
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
    return _Answers().to(instruction)


class _Answers:
    """Looks once at each computation that an instruction calls, however often it is called."""

    def __init__(self) -> None:
        self._programs: dict[HloComputation, Support] = {}
        self._scalars: dict[HloComputation, Support] = {}

    def to(self, instruction: HloInstruction) -> Support:
        """Whether it can be a step of a program."""
        refusal = _array_refusal(instruction)
        if refusal is not None:
            return refusal
        opcode = instruction.opcode
        if opcode in _CONTROL or opcode == "fusion":
            return _all(map(self._program, instruction.called))
        if opcode in _STRUCTURE:
            return YES
        if opcode == "bitcast":
            return _bitcast(instruction)
        if opcode in ELEMENT_RULES or opcode in KERNEL_EMITTERS:
            return _all(map(self._scalar_computation, instruction.called))
        if instruction.op.elementwise:
            return _elementwise(instruction)
        return no(f"no kernel for {opcode}")

    def _program(self, computation: HloComputation) -> Support:
        """Yes if every instruction of a computation can be a step."""
        if computation not in self._programs:
            answers = (_within(inner, self.to(inner)) for inner in computation.instructions)
            self._programs[computation] = _all(answers)
        return self._programs[computation]

    def _scalar_computation(self, computation: HloComputation) -> Support:
        """Yes if a computation of scalars can be part of a kernel."""
        if computation not in self._scalars:
            answers = (self._scalar(inner, computation.name) for inner in computation.instructions)
            self._scalars[computation] = _all(answers)
        return self._scalars[computation]

    def _scalar(self, inner: HloInstruction, where: str) -> Support:
        if not all(leaf.is_array and leaf.size == 1 for _, leaf in inner.shape.leaves()):
            return no(f"{inner.name} in {where} is no scalar")
        if inner.opcode in _WITHIN_SCALARS or inner.opcode in ELEMENT_RULES:
            return _all(map(self._scalar_computation, inner.called))
        if inner.op.elementwise:
            return _elementwise(inner)
        return no(f"no scalar code for {inner.opcode}")


def _all(answers: Iterable[Support]) -> Support:
    """The first refusal, or yes."""
    return next((answer for answer in answers if not answer), YES)


def _within(inner: HloInstruction, answer: Support) -> Support:
    return answer if answer else no(f"{inner.name} within it: {answer.reason}")


def _array_refusal(instruction: HloInstruction) -> Support | None:
    for shape in (instruction.shape, *(o.shape for o in instruction.operands)):
        for _, leaf in shape.leaves():
            if leaf.is_dynamic:
                return no("a dynamic dimension must be padded away first")
            if not leaf.is_array and not leaf.is_token:
                return no(f"values of type {leaf.element_type} have no memory")
    return None


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
