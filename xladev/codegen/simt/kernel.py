"""From a KernelSpec to the neutral functions of one thread, and the launches they are for."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.codegen.arrays import IrArray
from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.moves import moved_as_bits
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.launch import LaunchDimensions
from xladev.codegen.llvm import PTR, VOID, ModuleBuilder, Parameter
from xladev.codegen.simt.kernel_kind import KernelKind, ThreadBuild
from xladev.codegen.simt.primitives import CONTEXT, THREAD
from xladev.codegen.simt.target import SimtTarget


@dataclass(frozen=True, slots=True)
class ThreadFunction:
    """One launch of a kernel, before a target's entry is added.

    Attributes:
        name: of the kernel, as messages and dumps call it.
        module: holds the function of a thread, `THREAD`.
        parameters: of that function, without its context: operands, results, then the workspace.
        nbytes: of each of these arrays.
        dimensions: of every launch.
        shared_nbytes: static shared memory of one block.
        resident: see `Stage`.
    """

    name: str
    module: ModuleBuilder
    parameters: tuple[Parameter, ...]
    nbytes: tuple[int, ...]
    dimensions: LaunchDimensions
    shared_nbytes: int = 0
    resident: int = 1


def emit_stages(
    spec: KernelSpec, target: SimtTarget, kind: KernelKind | None = None
) -> tuple[ThreadFunction, ...]:
    """The functions of one thread, of each launch that computes a kernel.

    Args:
        spec: the kernel.
        target: the device.
        kind: how it is computed; by default as the target's kinds say.

    Raises:
        UnsupportedError: an opcode or element type without code.
    """
    found = kind or target.kind_of(spec)
    return tuple(_emit_stage(spec, target, found, n) for n in range(len(found.stages)))


def emit_thread_function(spec: KernelSpec, target: SimtTarget) -> ThreadFunction:
    """The function of one thread of a kernel that is one launch; see `emit_stages`."""
    return emit_stages(spec, target)[0]


def _emit_stage(
    spec: KernelSpec, target: SimtTarget, kind: KernelKind, number: int
) -> ThreadFunction:
    name = spec.name if number == 0 else f"{spec.name}.{number}"
    module = ModuleBuilder(name, target.traits)
    parameters = _parameters(spec, kind)
    b = module.function(
        THREAD,
        VOID,
        (Parameter(PTR, CONTEXT), *parameters),
        linkage="internal",
        attributes="alwaysinline",
    )
    shapes = moved_as_bits(spec.computation, (*spec.operands, *spec.results))
    arrays = tuple(IrArray(p, s) for p, s in zip(b.arguments[1:], shapes, strict=False))
    count = len(spec.operands)
    held = {p: (a,) for p, a in zip(spec.computation.parameters, arrays, strict=False)}
    e = ElementalEmitter(b, target.rules, held)
    workspace = b.arguments[-1] if kind.workspace_nbytes else None
    stage = kind.stages[number]
    build = ThreadBuild(
        spec,
        target.machine,
        e,
        arrays[:count],
        arrays[count:],
        workspace,
        target.vector_rules,
    )
    dimensions = stage.emit(build)
    b.ret()
    nbytes = [s.size * max(1, s.element_type.host_nbytes) for s in shapes]
    nbytes += [kind.workspace_nbytes] if kind.workspace_nbytes else []
    return ThreadFunction(
        name,
        module,
        parameters,
        tuple(nbytes),
        dimensions,
        stage.shared_nbytes,
        stage.resident,
    )


def _parameters(spec: KernelSpec, kind: KernelKind) -> tuple[Parameter, ...]:
    """Pointers to all arrays; those that share no memory say so, which gives wide, cached loads.

    The workspace, if there is one, comes last.
    """
    count = len(spec.operands)
    shared = {n for result, operand in spec.in_place for n in (count + result, operand)}

    def attributes(number: int) -> str:
        words = [f"align {spec.alignment}", "captures(none)"]
        if number not in shared:
            words += ["noalias", "readonly"] if number < count else ["noalias"]
        return " ".join(words)

    names = [f"p{n}" for n in range(count)] + [f"r{n}" for n in range(len(spec.results))]
    names += ["workspace"] if kind.workspace_nbytes else []
    return tuple(Parameter(PTR, name, attributes(n)) for n, name in enumerate(names))
