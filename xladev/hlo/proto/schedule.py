"""Execution order <-> ``HloScheduleProto``: a sequence of instruction ids per computation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xladev.errors import ProtoError
from xladev.hlo.ir import HloInstruction
from xladev.hlo.proto.encode import encode
from xladev.hlo.proto.message import Message


def read_schedule(message: Message | None) -> dict[int, tuple[int, ...]]:
    """Instruction ids in execution order, by computation id."""
    if message is None:
        return {}
    found: dict[int, tuple[int, ...]] = {}
    for entry in message.children("sequences"):
        sequence = entry.child("value")
        ids = () if sequence is None else sequence.integers("instruction_ids")
        found[entry.integer("key")] = ids
    return found


def in_schedule_order(
    order: Sequence[int], by_id: Mapping[int, HloInstruction]
) -> list[HloInstruction]:
    """The instructions of one computation in the order of its schedule.

    Raises:
        ProtoError: the schedule leaves one out, repeats one, or puts a user before its operand.
    """
    if len(order) != len(by_id) or set(order) != by_id.keys():
        raise ProtoError("the schedule does not name each instruction of the computation once")
    done: set[HloInstruction] = set()
    ordered: list[HloInstruction] = []
    for identity in order:
        instruction = by_id[identity]
        before = (*instruction.operands, *instruction.note.control_predecessors)
        if not done.issuperset(before):
            raise ProtoError(f"the schedule runs {instruction.name} before something it needs")
        done.add(instruction)
        ordered.append(instruction)
    return ordered


def write_schedule(sequences: Iterable[tuple[int, Sequence[int]]]) -> bytes:
    """The ``HloScheduleProto`` of (computation id, instruction ids in order) pairs."""
    entries = [_write_sequence(identity, ids) for identity, ids in sequences]
    return encode("HloScheduleProto", {"sequences": entries})


def _write_sequence(identity: int, ids: Sequence[int]) -> bytes:
    sequence = encode("HloScheduleProto.InstructionSequence", {"instruction_ids": ids})
    return encode("HloScheduleProto.SequencesEntry", {"key": identity, "value": sequence})
