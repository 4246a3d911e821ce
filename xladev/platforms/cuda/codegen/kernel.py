"""From a KernelSpec to the neutral function of one thread, and the launch it is written for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xladev.codegen.arrays import IrArray
from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.rules import ELEMENT_RULES
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.kernels.build import moved_as_bits
from xladev.codegen.llvm import PTR, VOID, ModuleBuilder, Parameter, TargetTraits
from xladev.compiler.kernel_code import LaunchDimensions
from xladev.hlo.ir import HloInstruction
from xladev.platforms.cuda.codegen.launch_plan import BLOCK, launch_dimensions, widest_lanes
from xladev.platforms.cuda.codegen.loops import LoopGroup
from xladev.platforms.cuda.codegen.primitives import CONTEXT, THREAD, thread_number
from xladev.platforms.cuda.codegen.row_folds import emit_row_fold, row_fold
from xladev.platforms.cuda.codegen.transposes import emit_tiled_transpose, tiled_transpose


@dataclass(frozen=True, slots=True)
class ThreadFunction:
    """A kernel before a target's entry is added.

    Attributes:
        name: of the kernel, as messages and dumps call it.
        module: holds the function of a thread, `THREAD`.
        parameters: of that function, without its context: operands, then results.
        nbytes: of each of these arrays.
        dimensions: of every launch.
        shared_nbytes: static shared memory of one block.
    """

    name: str
    module: ModuleBuilder
    parameters: tuple[Parameter, ...]
    nbytes: tuple[int, ...]
    dimensions: LaunchDimensions
    shared_nbytes: int = 0


def emit_thread_function(spec: KernelSpec, traits: TargetTraits) -> ThreadFunction:
    """The function of one thread: folds a row, transposes a tile, or loops over results.

    Raises:
        UnsupportedError: an opcode or element type without code.
    """
    module = ModuleBuilder(spec.name, traits)
    parameters = _parameters(spec)
    b = module.function(
        THREAD,
        VOID,
        (Parameter(PTR, CONTEXT), *parameters),
        linkage="internal",
        attributes="alwaysinline",
    )
    shapes = moved_as_bits(spec.computation, (*spec.operands, *spec.results))
    arrays = tuple(IrArray(p, s) for p, s in zip(b.arguments[1:], shapes, strict=True))
    count = len(spec.operands)
    held = {p: (a,) for p, a in zip(spec.computation.parameters, arrays, strict=False)}
    e = ElementalEmitter(b, ELEMENT_RULES, held)
    dimensions, shared_nbytes = _emit_results(spec, e, arrays[count:])
    b.ret()
    nbytes = tuple(s.size * max(1, s.element_type.host_nbytes) for s in shapes)
    return ThreadFunction(spec.name, module, parameters, nbytes, dimensions, shared_nbytes)


def _emit_results(
    spec: KernelSpec, e: ElementalEmitter, results: Sequence[IrArray]
) -> tuple[LaunchDimensions, int]:
    """Code by the kind of kernel; its launch, and its shared memory in bytes."""
    rows = row_fold(spec.computation.root)
    if rows is not None:
        emit_row_fold(e, rows, results[0])
        return rows.dimensions, rows.shared_nbytes
    tiled = tiled_transpose(spec.computation.root)
    if tiled is not None:
        emit_tiled_transpose(e, tiled, results[0])
        return tiled.dimensions, tiled.shared_nbytes
    return _emit_loops(spec, e, results), 0


def _emit_loops(
    spec: KernelSpec, e: ElementalEmitter, results: Sequence[IrArray]
) -> LaunchDimensions:
    """Code for all results; each group of equal dimensions spreads over the same threads."""
    most = max((a.shape.size for a in results), default=1)
    thread = thread_number(e.b, BLOCK, most)
    spreads = [
        LoopGroup(e, roots, members).emit(thread, widest_lanes(spec, members[0].shape.size))
        for roots, members in _groups(spec.computation.root, results)
    ]
    return launch_dimensions(spreads)


def _groups(
    root: HloInstruction, results: Sequence[IrArray]
) -> list[tuple[list[HloInstruction], list[IrArray]]]:
    """Results of equal dimensions and layout, with what computes them; none for no elements."""
    roots = root.operands if root.opcode == "tuple" else (root,) * len(results)
    groups: dict[object, tuple[list[HloInstruction], list[IrArray]]] = {}
    for instruction, result in zip(roots, results, strict=True):
        if result.shape.size:
            key = (result.shape.dims, result.shape.minor_to_major)
            members = groups.setdefault(key, ([], []))
            members[0].append(instruction)
            members[1].append(result)
    return list(groups.values())


def _parameters(spec: KernelSpec) -> tuple[Parameter, ...]:
    """Pointers to all arrays; those that share no memory say so, which gives wide, cached loads."""
    count = len(spec.operands)
    shared = {n for result, operand in spec.in_place for n in (count + result, operand)}

    def attributes(number: int) -> str:
        words = [f"align {spec.alignment}", "captures(none)"]
        if number not in shared:
            words += ["noalias", "readonly"] if number < count else ["noalias"]
        return " ".join(words)

    names = [f"p{n}" for n in range(count)] + [f"r{n}" for n in range(len(spec.results))]
    return tuple(Parameter(PTR, name, attributes(n)) for n, name in enumerate(names))
