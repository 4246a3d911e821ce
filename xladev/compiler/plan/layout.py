"""Layout normalisation: a module in which every array is row-major.

Kernels then need no case for layouts, and equal shapes have equal bytes. A bitcast between other
layouts, or between element types, becomes the movement and conversion that it stands for; one of
tiles, or of elements that do not fill their bytes, is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from xladev.errors import UnsupportedError
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.literal import Literal
from xladev.hlo.opset import opdef
from xladev.hlo.rebuild import map_computations, rebuild
from xladev.hlo.shape import Shape, array
from xladev.passes.pass_ import HloModulePass


@dataclass(frozen=True, slots=True)
class LayoutNormalization(HloModulePass):
    """Makes every array row-major, those of the interface too."""

    name = "layout-normalization"

    def run(self, module: HloModule) -> HloModule:
        """See the class.

        Raises:
            UnsupportedError: a bitcast of a layout with tiles or packed elements.
        """
        return with_row_major_layouts(module)


def with_row_major_layouts(module: HloModule) -> HloModule:
    """The module with every array row-major, its interface too.

    Raises:
        UnsupportedError: a bitcast of a layout with tiles or packed elements.
    """
    changed = map_computations(module, _row_major_computation)
    if changed.header.entry_layout is None:
        return changed
    return replace(changed, header=replace(changed.header, entry_layout=None))


def _row_major_computation(computation: HloComputation) -> HloComputation:
    replacements: dict[HloInstruction, HloInstruction] = {}
    for i in computation.instructions:
        if i.opcode == "bitcast" and not _is_reshape(i):
            replacements[i] = _as_movement(i)
        elif i.shape != i.shape.row_major():
            replacements[i] = _with_shape(i, i.shape.row_major())
    return rebuild(computation, replacements)


def _is_reshape(bitcast: HloInstruction) -> bool:
    """True if elements keep their type and their row-major order."""
    operand, result = bitcast.operands[0].shape, bitcast.shape
    same_type = operand.element_type is result.element_type
    return same_type and result == result.row_major() and operand == operand.row_major()


def _with_shape(i: HloInstruction, shape: Shape) -> HloInstruction:
    literal = i.attrs.get("literal")
    if not isinstance(literal, Literal):
        return replace(i, shape=shape)
    attrs = {**i.attrs, "literal": _literal_with_shape(literal, literal.shape.row_major())}
    return replace(i, shape=shape, attrs=attrs)


def _literal_with_shape(literal: Literal, shape: Shape) -> Literal:
    parts = tuple(
        _literal_with_shape(p, s) for p, s in zip(literal.parts, shape.tuple_shapes, strict=False)
    )
    return Literal(shape, literal.array, parts, literal.elided)


def _as_movement(bitcast: HloInstruction) -> HloInstruction:
    """Transpose to memory order, reshape, convert the bits, transpose from memory order."""
    operand = bitcast.operands[0]
    _check_whole_elements(bitcast, operand.shape)
    _check_whole_elements(bitcast, bitcast.shape)
    stored = tuple(reversed(operand.shape.minor_to_major))
    wanted = tuple(reversed(bitcast.shape.minor_to_major))
    in_memory = _transposed(operand, stored, f"{bitcast.name}.stored")
    retyped = _retyped(bitcast, in_memory)
    dims = tuple(bitcast.shape.dims[d] for d in wanted)
    reshaped = _step(bitcast, "reshape", retyped, retyped.shape.element_type, dims)
    back = tuple(wanted.index(d) for d in range(len(wanted)))
    return _transposed(reshaped, back, bitcast.name)


def _check_whole_elements(bitcast: HloInstruction, shape: Shape) -> None:
    if shape.layout is not None and (shape.layout.tiles or shape.layout.element_bits):
        raise UnsupportedError(
            f"a kernel has no bitcast of the layout {shape.layout}",
            where=str(bitcast),
            why="kernels see row-major arrays, and a tile is no order of dimensions",
            hint="let `Compiler.supports` answer `compiler.emitter_support.bitcast_support`; what "
            "that refuses, the SDK writes out",
        )


def _retyped(bitcast: HloInstruction, source: HloInstruction) -> HloInstruction:
    """The bits of ``source``, in its order, as elements of the bitcast's type."""
    have, want = source.shape.element_type, bitcast.shape.element_type
    if have is want:
        return source
    count = prod(source.shape.dims)
    if have.bits == want.bits:
        return _step(bitcast, "bitcast-convert", source, want, source.shape.dims)
    if have.bits > want.bits:
        flat = _step(bitcast, "reshape", source, have, (count,))
        return _step(bitcast, "bitcast-convert", flat, want, (count, have.bits // want.bits))
    pieces = want.bits // have.bits
    split = _step(bitcast, "reshape", source, have, (count // pieces, pieces))
    return _step(bitcast, "bitcast-convert", split, want, (count // pieces,))


def _step(
    bitcast: HloInstruction,
    opcode: str,
    operand: HloInstruction,
    dtype: PrimitiveType,
    dims: tuple[int, ...],
) -> HloInstruction:
    name = f"{bitcast.name}.{opcode}"
    shape = array(dtype, dims).row_major()
    return HloInstruction(opdef(opcode), shape, (operand,), {}, name, bitcast.note)


def _transposed(source: HloInstruction, order: tuple[int, ...], name: str) -> HloInstruction:
    dims = tuple(source.shape.dims[d] for d in order)
    shape = array(source.shape.element_type, dims).row_major()
    attrs = {"dimensions": order}
    return HloInstruction(opdef("transpose"), shape, (source,), attrs, name, source.note)
