"""Refuses programs that would need a partitioner: outside of manual regions, values are whole."""

from __future__ import annotations

from collections.abc import Iterator

from xladev.errors import UnsupportedError
from xladev.hlo.custom_calls.manual import ENTER, LEAVE, manual_device_count, module_meshes
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.placement import CONSTRAINT, RESULT, SDY_SHARDING, is_cut
from xladev.hlo.rebuild import users_of
from xladev.hlo.text.devices import sharding_text
from xladev.hlo.verifier import source_line


def refuse_sharded(module: HloModule, partitions: int) -> None:
    """Refuses a program of several partitions in which some value is to be cut.

    A program of one partition holds everything, whatever its shardings say.

    Args:
        module: verified.
        partitions: how many an execution has, as far as options and header say.

    Raises:
        UnsupportedError: of code ``SHARDING``; it names the first such value.
    """
    count = max(partitions, manual_device_count(module))
    if count == 1:
        return
    for computation in module.computations:
        found = next(_cut_values(module, computation), None)
        if found is not None:
            raise _refusal(module, found, count)


def _cut_values(module: HloModule, computation: HloComputation) -> Iterator[HloInstruction]:
    meshes = module_meshes(module)
    for instruction in computation.instructions:
        if instruction.note.sharding is None and not instruction.note.frontend_attributes:
            continue
        is_judged = _has_sharding(instruction) and not _is_border(computation, instruction)
        if is_judged and is_cut(meshes, instruction):
            yield instruction


def _has_sharding(instruction: HloInstruction) -> bool:
    note = instruction.note
    return note.sharding is not None or SDY_SHARDING in dict(note.frontend_attributes)


def _is_border(computation: HloComputation, instruction: HloInstruction) -> bool:
    """True for what says how a manual region's border cuts: what enters, and what leaves."""
    if instruction.opcode != "custom-call":
        return False
    target = instruction["custom_call_target"]
    if target in (*ENTER, *LEAVE):
        return True
    users = users_of(computation)[instruction] if target == CONSTRAINT else ()
    return bool(users) and all(
        user.opcode == "custom-call" and user["custom_call_target"] in ENTER for user in users
    )


def _refusal(module: HloModule, instruction: HloInstruction, count: int) -> UnsupportedError:
    places = [f"{_role(instruction)} {instruction.name}", source_line(module, instruction)]
    return UnsupportedError(
        f"{module.name} is to be partitioned over {count} devices, and xladev has no SPMD "
        "partitioner yet",
        where=", ".join(filter(None, places)),
        why=f"its sharding {_text(instruction)} gives each device a part; outside of manual "
        "regions every device holds whole arrays",
        hint="replicate the value, or write the part of each device with jax.shard_map",
        code="SHARDING",
    )


def _role(instruction: HloInstruction) -> str:
    if instruction.opcode == "parameter":
        return "parameter"
    is_result = instruction.opcode == "custom-call" and instruction["custom_call_target"] == RESULT
    return "result" if is_result else "value"


def _text(instruction: HloInstruction) -> str:
    text = dict(instruction.note.frontend_attributes).get(SDY_SHARDING)
    if text is not None:
        return text.replace('\\"', '"')
    sharding = instruction.note.sharding
    assert sharding is not None
    return sharding_text(sharding)
