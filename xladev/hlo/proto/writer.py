"""`HloModule` to serialized ``HloModuleProto``.

Instructions get the ids that XLA gives them: the computation's number in the upper 32 bits, their
position in the lower. The same module always gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

import numpy as np

from xladev.errors import XladevError
from xladev.hlo.in_threads import in_threads
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule, ProgramShape
from xladev.hlo.literal import Literal, literal_of
from xladev.hlo.proto.annotations import write_annotations
from xladev.hlo.proto.attributes import write_attributes
from xladev.hlo.proto.called import called_in_order
from xladev.hlo.proto.encode import encode
from xladev.hlo.proto.header import write_header
from xladev.hlo.proto.path import encode_nested
from xladev.hlo.proto.schedule import write_schedule
from xladev.hlo.proto.shapes import write_program_shape, write_shape
from xladev.hlo.shape import Shape

_COMPUTATION_BITS: Final = 32


def write_module(module: HloModule) -> bytes:
    """The ``HloModuleProto`` of a module.

    Raises:
        ProtoError: an attribute or name that the proto cannot hold; names the instruction.
        LiteralError: a constant whose value the text elided.
    """
    return _written(module, _ModuleWriter(module))


def module_stamp(module: HloModule) -> bytes:
    """Bytes that differ wherever those of `write_module` do, without those of long constants.

    Raises:
        ProtoError, LiteralError: as `write_module` does.
    """
    long = {
        id(literal): literal
        for c in module.computations
        for i in c.instructions
        if i.opcode == "constant" and not (literal := i["literal"]).is_short
    }
    in_threads(Literal.digest, sorted(long.values(), key=lambda each: -each.shape.nbytes))
    return _written(module, _StampWriter(module))


def _written(module: HloModule, writer: _ModuleWriter) -> bytes:
    computations = [writer.computation(c) for c in module.computations]
    fields: dict[str, Any] = {
        "name": module.name,
        "entry_computation_name": module.entry.name,
        "computations": computations,
        "entry_computation_id": writer.computation_ids[module.entry],
        **write_header(module.header, module.entry, module.entry_layout),
    }
    if module.header.is_scheduled:
        fields["schedule"] = writer.schedule()
    return encode("HloModuleProto", fields)


class _ModuleWriter:
    """Ids of one module's computations and instructions, and shapes written before."""

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.computation_ids = {c: i for i, c in enumerate(module.computations)}
        self.ids = {
            instruction: number << _COMPUTATION_BITS | position
            for computation, number in self.computation_ids.items()
            for position, instruction in enumerate(computation.instructions)
        }
        self.fused = frozenset(
            callee
            for c in module.computations
            for i in c.instructions
            if i.opcode == "fusion"
            for callee in i.called
        )
        self.shapes: dict[Shape, bytes] = {}

    def shape(self, shape: Shape) -> bytes:
        """The ``ShapeProto`` of a shape, written once for each shape."""
        found = self.shapes.get(shape)
        if found is None:
            found = self.shapes[shape] = write_shape(shape)
        return found

    def computation(self, computation: HloComputation) -> bytes:
        """The ``HloComputationProto`` of a computation."""
        parameters = computation.parameters
        interface = ProgramShape(tuple(p.shape for p in parameters), computation.root.shape)
        return encode(
            "HloComputationProto",
            {
                "name": computation.name,
                "instructions": [self._placed(i) for i in computation.instructions],
                "program_shape": write_program_shape(interface, [p.name for p in parameters]),
                "id": self.computation_ids[computation],
                "root_id": self.ids[computation.root],
                "is_fusion_computation": computation in self.fused,
                "execution_thread": computation.execution_thread,
            },
        )

    def _placed(self, instruction: HloInstruction) -> bytes:
        try:
            return self.instruction(instruction)
        except XladevError as failure:
            raise failure.at(f"instruction {instruction.name}") from None

    def instruction(self, instruction: HloInstruction) -> bytes:
        """The ``HloInstructionProto`` of an instruction."""
        fields: dict[str, Any] = {
            "name": instruction.name,
            "opcode": instruction.opcode,
            "shape": self.shape(instruction.shape),
            "id": self.ids[instruction],
            "operand_ids": self._ids(instruction.operands),
            **write_attributes(self.holding(instruction)),
            **write_annotations(instruction.note),
        }
        before = instruction.note.control_predecessors
        if before:
            fields["control_predecessor_ids"] = self._ids(before)
        called = called_in_order(instruction)
        if called:
            fields["called_computation_ids"] = [self.computation_ids[c] for c in called]
        return encode_nested(fields)

    def holding(self, instruction: HloInstruction) -> HloInstruction:
        """The instruction whose attributes are written in place of an instruction's."""
        return instruction

    def _ids(self, instructions: Sequence[HloInstruction]) -> list[int]:
        return [self.ids[i] for i in instructions]

    def schedule(self) -> bytes:
        """Execution order of each computation that is not fused."""
        return write_schedule(
            (number, self._ids(computation.instructions))
            for computation, number in self.computation_ids.items()
            if computation not in self.fused
        )


class _StampWriter(_ModuleWriter):
    """Writes the digest of a long constant in place of its value."""

    def holding(self, instruction: HloInstruction) -> HloInstruction:
        """A constant of 32 bytes, which its shape tells from one that is no digest."""
        if instruction.opcode != "constant":
            return instruction
        literal: Literal = instruction["literal"]
        if literal.is_short or literal.elided:
            return instruction
        digest = sha256(str(literal.shape).encode() + literal.digest()).digest()
        value = literal_of(np.frombuffer(digest, np.uint8))
        return replace(instruction, attrs={**instruction.attrs, "literal": value})
