"""Serialized ``HloModuleProto`` (or ``HloProto``) to `HloModule`.

Computations and instructions are built in the order of the proto, which XLA requires to put callees
before callers and operands before users; anything else is an error, so no cycle can be built.
"""

from __future__ import annotations

from collections.abc import Sequence

from xladev.errors import ProtoError, XladevError
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.opdef import OpDef
from xladev.hlo.opset import OPSET
from xladev.hlo.proto.annotations import read_annotations
from xladev.hlo.proto.attributes import read_attributes
from xladev.hlo.proto.called import called_attributes
from xladev.hlo.proto.decode import decode
from xladev.hlo.proto.header import read_header
from xladev.hlo.proto.message import Message
from xladev.hlo.proto.schedule import in_schedule_order, read_schedule
from xladev.hlo.proto.schema import MESSAGES
from xladev.hlo.proto.shapes import ShapeReader
from xladev.hlo.proto.wrapping import unwrap

_MODULE = MESSAGES["HloModuleProto"]

_LOCAL = 2**32 - 1
"""The part of an instruction's id that is its own.

XLA's builder, whose modules TensorFlow hands over as they are, writes ids and `root_id` as
``computation << 32 | local``, and operands as the local part alone. Source: `HloInstruction::
CalculateUniqueId` of XLA's `xla/hlo/ir/hlo_instruction.h`.
"""


def read_module(data: bytes) -> HloModule:
    """The module serialized in ``data``.

    Args:
        data: an ``HloModuleProto``, or a message that wraps one in its first field (``HloProto``).

    Raises:
        ProtoError: malformed bytes; missing, duplicate or forward references; unknown opcodes, enum
            values or fields; values that do not fit. Names the instruction concerned.
        XladevError: other rules of the IR that the module breaks.
    """
    message = decode(unwrap(data), _MODULE)
    computations = _ModuleReader(message).read()
    entry = computations.get(message.integer("entry_computation_id"))
    if entry is None:
        raise message.error(
            f"module {message.text('name')!r} has no entry computation",
            why=f"id {message.integer('entry_computation_id')} is none of its computations'",
        )
    return HloModule(message.text("name"), entry, read_header(message, entry))


class _ModuleReader:
    """What is shared by the computations of one module while they are read."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self.payloads: Sequence[bytes] = message.blobs("payloads")
        self.schedule = read_schedule(message.child("schedule"))
        self.computations: dict[int, HloComputation] = {}
        self.names: set[str] = set()
        self.shape = ShapeReader().read

    def read(self) -> dict[int, HloComputation]:
        """All computations by id."""
        for message in self.message.children("computations"):
            identity, name = message.integer("id"), message.text("name")
            if identity in self.computations:
                raise message.error(f"computation {name!r} has the id {identity} of another")
            if name in self.names or not name:
                raise message.error(f"computation name {name!r} is empty or used before")
            self.names.add(name)
            try:
                self.computations[identity] = self._read_computation(message, name)
            except XladevError as failure:
                raise _in_place(failure, f"computation {name}") from None
        return self.computations

    def _read_computation(self, message: Message, name: str) -> HloComputation:
        by_id: dict[int, HloInstruction] = {}
        names: set[str] = set()
        for child in message.children("instructions"):
            instruction = self._read_placed(child, by_id)
            identity = child.integer("id") & _LOCAL
            if identity in by_id:
                raise child.error(f"{instruction.name} has the id of another instruction")
            if instruction.name in names or not instruction.name:
                raise child.error(f"instruction name {instruction.name!r} is empty or used before")
            names.add(instruction.name)
            by_id[identity] = instruction
        root = by_id.get(message.integer("root_id") & _LOCAL)
        if root is None:
            raise message.error(f"root {message.integer('root_id')} is none of its instructions")
        order = self.schedule.get(message.integer("id"))
        ordered = (
            by_id.values()
            if order is None
            else in_schedule_order([i & _LOCAL for i in order], by_id)
        )
        return HloComputation(name, tuple(ordered), root, message.text("execution_thread"))

    def _read_placed(self, message: Message, by_id: dict[int, HloInstruction]) -> HloInstruction:
        try:
            return self._read_instruction(message, by_id)
        except XladevError as failure:
            raise _in_place(failure, f"instruction {message.text('name')}") from None

    def _read_instruction(
        self, message: Message, by_id: dict[int, HloInstruction]
    ) -> HloInstruction:
        op = _opdef(message)
        if not message.has("shape"):
            raise message.error("an instruction has no shape")
        shape = self.shape(message.data("shape"))
        operands = _resolve(message, "operand_ids", by_id)
        attrs = read_attributes(op, message, operands)
        attrs.update(called_attributes(op, self._called(message), operands))
        if op.name == "constant" and "literal" in attrs:
            # Its own layout told the order of the bytes; what is left to say, the shape says.
            attrs["literal"] = attrs["literal"].in_layout_of(shape)
        before = _resolve(message, "control_predecessor_ids", by_id)
        note = read_annotations(message, before, self.payloads)
        return HloInstruction(op, shape, operands, attrs, message.text("name"), note)

    def _called(self, message: Message) -> tuple[HloComputation, ...]:
        found: list[HloComputation] = []
        for identity in message.integers("called_computation_ids"):
            computation = self.computations.get(identity)
            if computation is None:
                raise message.error(
                    f"computation {identity} is called, but none before has that id",
                    why="callees come before callers; a computation may not call itself",
                )
            found.append(computation)
        return tuple(found)


def _opdef(message: Message) -> OpDef:
    found = OPSET.get(message.text("opcode"))
    if found is None:
        raise ProtoError(
            f"unknown opcode {message.text('opcode')!r}",
            where=message.place,
            hint="the writer is newer than this reader, or the file is damaged",
        )
    return found


def _resolve(
    message: Message, field: str, by_id: dict[int, HloInstruction]
) -> tuple[HloInstruction, ...]:
    """The instructions that a list of ids names; all must have been read before."""
    ids = message.integers(field)
    try:
        return tuple([by_id[i & _LOCAL] for i in ids])
    except KeyError as failure:
        raise message.error(
            f"{field} names instruction {failure.args[0]}, but none before has that id",
            why="operands come before users, and in the same computation",
        ) from None


def _in_place(failure: XladevError, place: str) -> XladevError:
    """The error, with the instruction or computation added to its place."""
    failure.where = f"{place}, {failure.where}" if failure.where else place
    return failure
