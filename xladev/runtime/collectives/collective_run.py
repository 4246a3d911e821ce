"""Runs one Collective thunk through the communicators of the execution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xladev.compiler.program.thunks import Collective
from xladev.hlo import dtype as dt
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloComputation
from xladev.hlo.physical import pack, physical_nbytes
from xladev.hlo.shape import Shape, array
from xladev.runtime.buffers.transfer import download, upload
from xladev.runtime.collectives.collective_table import CollectiveCall, call_function
from xladev.runtime.collectives.host_communicator import HostCommunicator
from xladev.runtime.collectives.launch_collectives import Collectives, CommunicatorPool
from xladev.runtime.communicator import (
    Communicator,
    HostArray,
    Participant,
    RaggedSlices,
    Reduction,
)
from xladev.runtime.device import Device
from xladev.runtime.loaded_executable import LaunchContext
from xladev.runtime.memory import DeviceMemory
from xladev.runtime.stream import Stream

Place = tuple[DeviceMemory, Shape]
"""Memory with the shape of what it holds."""


@dataclass(frozen=True, slots=True)
class _Call:
    """One collective as one participant calls it."""

    device: Device
    group: Communicator
    who: Participant
    thunk: Collective
    arguments: Sequence[Place]
    results: Sequence[Place]
    reduction: Reduction


def run_collective(
    device: Device,
    context: LaunchContext,
    thunk: Collective,
    name: str,
    arguments: Sequence[Place],
    results: Sequence[Place],
    reducer: HloComputation | None,
    stream: Stream,
) -> None:
    """Runs a collective on this participant.

    Args:
        device: where the arrays are.
        context: who takes part.
        thunk: what to run.
        name: the same on all participants, different for each call of the run.
        arguments, results: the operands, and memory for the results.
        reducer: computation of scalars that combines two values, where it is no plain opcode.
        stream: of the device; operands are there when what it holds is done.

    Raises:
        ExecutionError: a participant is missing, disagrees or failed.
    """
    everybody = context.communicator or _alone(device)
    me = everybody.device_index
    members = next((g for g in thunk.groups if me in g), None)
    if members is None and thunk.opcode == "collective-broadcast":
        _fill_with_zeros(stream, results)
        return
    group, rank = everybody.group(members or (me,))
    who = Participant(rank, stream, context.run_id, name)
    reduction = thunk.reduction if reducer is None else _by_evaluation(reducer)
    call = _Call(device, group, who, thunk, arguments, results, reduction)
    _RUNNERS[thunk.opcode](call)


def _alone(device: Device) -> Collectives:
    pool = CommunicatorPool(1, lambda group: HostCommunicator([device.executor]))
    return Collectives(pool, 0)


def _by_evaluation(reducer: HloComputation) -> Callable[[HostArray, HostArray], HostArray]:
    def combine(a: HostArray, b: HostArray) -> HostArray:
        result: HostArray = HloEvaluator().apply(reducer, (a, b))
        return result

    return combine


def _one_by_one(call: _Call, roots: Sequence[int] | None = None) -> None:
    """Each operand to its result, under a name of its own."""
    roots = [0] * len(call.arguments) if roots is None else roots
    given = zip(call.arguments, call.results, roots, strict=True)
    for number, ((operand, shape), (result, _), root) in enumerate(given):
        said = _said(call, shape, root)
        call_function(call.group, _numbered(call.who, number), operand, result, said)


def _said(call: _Call, shape: Shape, root: int = 0) -> CollectiveCall:
    """What a communicator is told of one operand."""
    thunk = call.thunk
    twice = 2 if thunk.opcode == "all-to-all" else 1
    return CollectiveCall(
        thunk.opcode, shape, thunk.dimensions * twice, thunk.pairs, root, call.reduction
    )


def _numbered(who: Participant, number: int) -> Participant:
    return Participant(who.rank, who.stream, who.run_id, f"{who.name}/{number}")


def _all_to_all(call: _Call) -> None:
    if call.thunk.dimensions:
        _one_by_one(call)
    else:
        _all_to_all_of_operands(call)


def _all_to_all_of_operands(call: _Call) -> None:
    """Operand i goes to rank i; result i comes from rank i. They travel stacked in one array."""
    _, shape = call.arguments[0]
    nbytes = physical_nbytes(shape)
    count = len(call.arguments)
    stack = Shape(shape.element_type, (count, nbytes // shape.element_type.host_nbytes))
    sent, received = (
        call.device.allocate(stack, f"all-to-all {call.thunk.name}") for _ in range(2)
    )
    stream = call.who.stream
    for at, (operand, _) in enumerate(call.arguments):
        stream.copy(sent.memory.slice(at * nbytes, nbytes), operand.slice(0, nbytes))
    call.group.all_to_all(call.who, sent.memory, received.memory, stack, 0, 0)
    for at, (result, _) in enumerate(call.results):
        stream.copy(result.slice(0, nbytes), received.memory.slice(at * nbytes, nbytes))
    stream.synchronize()


def _ragged_all_to_all(call: _Call) -> None:
    (operand, shape), (output, output_shape), *lists = call.arguments
    ((result, result_shape),) = call.results
    nbytes = physical_nbytes(output_shape)
    call.who.stream.copy(result.slice(0, nbytes), output.slice(0, nbytes))
    call.who.stream.synchronize()
    slices = RaggedSlices(*(_numbers(call.device, place) for place in lists))
    call.group.ragged_all_to_all(call.who, operand, result, shape, result_shape, slices)


def _numbers(device: Device, place: Place) -> list[int]:
    """Integers that an operand holds; waits for them."""
    memory, shape = place
    device.stream.synchronize()
    return [int(v) for v in np.ravel(download(device, memory, shape))]


def _collective_permute(call: _Call) -> None:
    if call.thunk.slices:
        _permute_slices(call)
    else:
        _one_by_one(call)


def _permute_slices(call: _Call) -> None:
    """Writes slices of the source's input over the output; the source says where they start."""
    (operand, shape), (output, output_shape), *starts = call.arguments
    ((result, _),) = call.results
    count = len(starts) // 2
    numbers = [number for place in starts for number in _numbers(call.device, place)]
    theirs = _permuted(call, np.asarray(numbers[:count], np.int32))
    received = call.device.allocate(shape, f"collective-permute {call.thunk.name}")
    call.group.collective_permute(call.who, operand, received.memory, shape, call.thunk.pairs)
    call.who.stream.synchronize()  # a communicator may only enqueue
    value = np.array(download(call.device, output, output_shape))
    if any(target == call.who.rank for _, target in call.thunk.pairs):
        source = download(call.device, received.memory, shape)
        for at, size in enumerate(call.thunk.slices):
            own = numbers[count + at * len(size) :]
            value[_window(own, size)] = source[_window(theirs[at * len(size) :], size)]
    data = pack(value, output_shape)
    call.who.stream.copy(result.slice(0, data.nbytes), data)
    call.who.stream.synchronize()


def _permuted(call: _Call, numbers: HostArray) -> list[int]:
    """The numbers of this rank's source."""
    shape = array(dt.S32, numbers.shape).with_default_layout()
    sent = upload(call.device, numbers, shape, f"collective-permute {call.thunk.name}")
    received = call.device.allocate(shape, f"collective-permute {call.thunk.name}")
    who = _numbered(call.who, len(call.arguments))
    call.group.collective_permute(who, sent.memory, received.memory, shape, call.thunk.pairs)
    return _numbers(call.device, (received.memory, shape))


def _window(start: Sequence[int], size: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(at, at + n) for at, n in zip(start, size, strict=False))


def _collective_broadcast(call: _Call) -> None:
    _one_by_one(*_with_roots(call))


def _collective_reduce(call: _Call) -> None:
    """To the root; the others keep their operands."""
    call, roots = _with_roots(call)
    for (operand, shape), (result, _) in zip(call.arguments, call.results, strict=True):
        nbytes = physical_nbytes(shape)
        call.who.stream.copy(result.slice(0, nbytes), operand.slice(0, nbytes))
    _one_by_one(call, roots)


def _with_roots(call: _Call) -> tuple[_Call, list[int]]:
    """The call without the operand that names roots, and the root of each other operand."""
    if not call.thunk.dynamic_root:
        return call, [0] * len(call.arguments)
    *data, last = call.arguments
    named = _numbers(call.device, last)
    return replace(call, arguments=data), named * len(data) if len(named) == 1 else named


def _fill_with_zeros(stream: Stream, results: Sequence[Place]) -> None:
    for memory, shape in results:
        zeros = np.zeros(physical_nbytes(shape), np.uint8)
        stream.copy(memory.slice(0, zeros.nbytes), zeros)
    stream.synchronize()


_RUNNERS: Mapping[str, Callable[[_Call], Any]] = {
    "all-reduce": _one_by_one,
    "all-gather": _one_by_one,
    "reduce-scatter": _one_by_one,
    "all-to-all": _all_to_all,
    "ragged-all-to-all": _ragged_all_to_all,
    "collective-permute": _collective_permute,
    "collective-broadcast": _collective_broadcast,
    "collective-reduce": _collective_reduce,
}
