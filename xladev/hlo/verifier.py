"""The verifier: checks a module against the rules of HLO, each cited by its constraint id.

What an opcode asks of its operands and attributes stands in its OpDef; this file checks what holds
for every instruction, computation and module. One sweep, iterative, linear.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xladev.errors import VerifyError, XladevError
from xladev.hlo.attributes import ModuleAlias
from xladev.hlo.builder import infer_shape
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule, StackFrames
from xladev.hlo.ops.rules import compatible
from xladev.hlo.shape import Shape, ShapeIndex, check_shape
from xladev.hlo.sharding_rules import sharding_faults

_ASYNC_STARTS = frozenset({"async-start", "async-update"})


def verify(module: HloModule) -> None:
    """Checks a whole module.

    Raises:
        VerifyError: the first rule found broken; ``where`` names instruction, computation and
            source line, ``why`` the constraint. A ShapeError where an opcode's own rule is broken.
    """
    _verify_names(module)
    for computation in module.computations:
        _verify_order(module, computation)
        for instruction in computation.instructions:
            _verify_instruction(module, computation, instruction)
    _verify_interface(module)


# places


def place(module: HloModule, computation: HloComputation, instruction: HloInstruction) -> str:
    """Instruction, computation and source line, for errors."""
    source = source_line(module, instruction)
    return f"{instruction!r} in computation {computation.name}" + (f", {source}" if source else "")


def source_line(module: HloModule, instruction: HloInstruction) -> str:
    """``file:line`` that an instruction came from, or its op name, or empty."""
    metadata = instruction.note.metadata
    return (
        metadata.location
        or frame_line(module.header.stack_frames, metadata.stack_frame_id)
        or metadata.op_name
    )


def frame_line(tables: StackFrames, frame: int) -> str:
    """``file:line`` of a stack frame's innermost call, or empty."""
    if not 0 < frame <= len(tables.frames):
        return ""
    location = tables.frames[frame - 1][0]
    if not 0 < location <= len(tables.locations):
        return ""
    file, _, line, *_ = tables.locations[location - 1]
    return f"{tables.files[file - 1]}:{line}" if 0 < file <= len(tables.files) else ""


# module


def _verify_names(module: HloModule) -> None:
    computations: set[str] = set()
    names: dict[str, HloComputation] = {}
    for computation in module.computations:
        if computation.name in computations:
            raise VerifyError(
                f"two computations are called {computation.name!r}",
                where=f"module {module.name}",
                why="constraint module_c2: names of computations are unique",
            )
        computations.add(computation.name)
        for instruction in computation.instructions:
            if not instruction.name or instruction.name in names:
                raise _name_error(module, computation, instruction, names)
            names[instruction.name] = computation


def _name_error(
    module: HloModule,
    computation: HloComputation,
    instruction: HloInstruction,
    names: dict[str, HloComputation],
) -> VerifyError:
    name = instruction.name
    what = f"name {name!r} is also in {names[name].name}" if name else "an instruction has no name"
    return VerifyError(
        what,
        where=place(module, computation, instruction),
        why="constraint instruction_c1: names of instructions are unique in a module",
        hint="call hlo.names.with_unique_names after copying instructions",
    )


def _verify_interface(module: HloModule) -> None:
    layout = module.entry_layout
    wanted = [p.shape for p in module.entry.parameters]
    where = f"entry layout of module {module.name}"
    if len(wanted) != len(layout.parameters):
        raise VerifyError(
            f"{len(layout.parameters)} parameters for an entry that takes {len(wanted)}",
            where=where,
            why="constraint module_c3: the entry layout has the entry's parameters",
        )
    pairs = [*zip(layout.parameters, wanted, strict=True), (layout.result, module.entry.root.shape)]
    for declared, actual in pairs:
        if not compatible(declared, actual):
            raise VerifyError(
                f"it says {declared}, the entry {actual}",
                where=where,
                why="constraint module_c4: shapes of the entry layout are the entry's",
            )
    _verify_aliases(module)


def _verify_aliases(module: HloModule) -> None:
    results: set[ShapeIndex] = set()
    parameters: set[tuple[int, ShapeIndex]] = set()
    for alias in module.header.aliases:
        fault = _alias_fault(module, alias)
        if not fault and alias.output_index in results:
            fault = f"result part {list(alias.output_index)} is aliased twice"
        if not fault and (alias.parameter, alias.parameter_index) in parameters:
            fault = f"parameter {alias.parameter} part {list(alias.parameter_index)} serves twice"
        if fault:
            raise VerifyError(
                fault,
                where=f"input_output_alias of module {module.name}",
                why="constraint module_c5: one part of the result reuses one part of a parameter",
            )
        results.add(alias.output_index)
        parameters.add((alias.parameter, alias.parameter_index))
    for number, index in module.header.buffer_donors:
        if _part(_parameter_shape(module, number), index) is None:
            raise VerifyError(
                f"there is no parameter {number} with part {list(index)}",
                where=f"buffer_donor of module {module.name}",
                why="constraint module_c6: donated parts exist",
            )


def _alias_fault(module: HloModule, alias: ModuleAlias) -> str:
    result = _part(module.entry.root.shape, alias.output_index)
    source = _part(_parameter_shape(module, alias.parameter), alias.parameter_index)
    if result is None:
        return f"the result has no part {list(alias.output_index)}"
    if source is None:
        return f"there is no parameter {alias.parameter} with part {list(alias.parameter_index)}"
    if result.nbytes != source.nbytes:
        return f"result {result} cannot reuse the bytes of {source}"
    return ""


def _parameter_shape(module: HloModule, number: int) -> Shape | None:
    parameters = module.entry.parameters
    return parameters[number].shape if 0 <= number < len(parameters) else None


def _part(shape: Shape | None, index: ShapeIndex) -> Shape | None:
    for i in index:
        if shape is None or not 0 <= i < len(shape.tuple_shapes):
            return None
        shape = shape.tuple_shapes[i]
    return shape


# computations


def _verify_order(module: HloModule, computation: HloComputation) -> None:
    """Everything an instruction needs is in the same computation, before it."""
    seen: set[HloInstruction] = set()
    for instruction in computation.instructions:
        for needed, rule in _needed(instruction):
            if needed not in seen:
                place_of = "after it" if needed in computation.instructions else "elsewhere"
                raise VerifyError(
                    f"{needed.name}, which it needs, is {place_of}",
                    where=place(module, computation, instruction),
                    why=f"constraint {rule}",
                )
        seen.add(instruction)
    if computation.root not in seen:
        raise VerifyError(
            f"root {computation.root.name} is not one of the instructions",
            where=f"computation {computation.name}",
            why="constraint computation_c3: the root is in the computation",
        )


def _needed(instruction: HloInstruction) -> Iterator[tuple[HloInstruction, str]]:
    for operand in instruction.operands:
        yield operand, "computation_c1: operands come first, in the same computation"
    for before in instruction.note.control_predecessors:
        yield before, "computation_c2: control predecessors come first, in the same computation"


# instructions


def _verify_instruction(
    module: HloModule, computation: HloComputation, instruction: HloInstruction
) -> None:
    try:
        check_shape(instruction.shape)
        inferred = infer_shape(
            instruction.op, instruction.operands, dict(instruction.attrs), instruction.shape
        )
    except XladevError as e:
        where = place(module, computation, instruction)
        raise type(e)(e.what, where=where, why=e.why, hint=e.hint) from None
    fault = _shape_fault(instruction, inferred) or _pairing_fault(instruction)
    if fault:
        what, why = fault
        raise VerifyError(what, where=place(module, computation, instruction), why=why)
    if instruction.note.sharding is not None:
        _verify_sharding(module, computation, instruction)


def _shape_fault(instruction: HloInstruction, inferred: Shape) -> tuple[str, str] | None:
    declared = instruction.shape
    if inferred is declared or compatible(inferred, declared):
        return None
    rule = instruction.opcode.replace("-", "_")
    return (
        f"its shape is said to be {declared}, but is {inferred}",
        f"constraint {rule}_shape: the result has the shape that the opcode gives",
    )


def _pairing_fault(instruction: HloInstruction) -> tuple[str, str] | None:
    """The second half of an asynchronous pair takes the first."""
    opcode = instruction.opcode
    if not opcode.endswith(("-done", "-update")):
        return None
    wanted: Sequence[str] | frozenset[str] = (opcode.removesuffix("-done") + "-start",)
    if opcode.startswith("async-"):
        wanted = _ASYNC_STARTS
    elif opcode in ("send-done", "recv-done"):
        wanted = (opcode.removesuffix("-done"),)
    source = instruction.operands[0].opcode
    if source in wanted or source in ("parameter", "get-tuple-element", "while"):
        return None
    return (
        f"{opcode} takes {source}",
        f"constraint {opcode.replace('-', '_')}_start: it takes {' or '.join(sorted(wanted))}",
    )


def _verify_sharding(
    module: HloModule, computation: HloComputation, instruction: HloInstruction
) -> None:
    for what, why in sharding_faults(instruction):
        raise VerifyError(what, where=place(module, computation, instruction), why=why)
