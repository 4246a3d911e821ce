"""A kernel plan and its kernels' code as the payload of an Executable.

Layout, little endian: magic, length of the JSON part (u64), JSON (steps, sizes, kernels), blobs
(constants' bytes, code, table of operations). Checked when read; the checksum is the Executable's.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xladev.compiler.executable import Executable
from xladev.compiler.json_values import (
    DAMAGE,
    flag,
    number,
    number_rows,
    numbers,
    parse_json,
    shown,
    text,
)
from xladev.compiler.kernel_code import Dim3, KernelCode, LaunchDimensions
from xladev.compiler.plan.kernel_plan import (
    Branch,
    Copy,
    Fork,
    KernelPlan,
    Loop,
    Parallel,
    RunKernel,
    Slice,
    Space,
    Step,
)
from xladev.compiler.plan.operations import pack_operations
from xladev.compiler.plan.plan_check import PlanSizes, check_alignment, check_plan
from xladev.compiler.program.program_check import MAX_NESTING
from xladev.compiler.signature import Signature
from xladev.compiler.streams.stream_waits import START
from xladev.errors import FormatError
from xladev.hlo.physical import physical_nbytes

MAGIC = b"XLPLAN4\0"
_LENGTH = struct.Struct("<Q")
_START = len(MAGIC) + _LENGTH.size


@dataclass(frozen=True, slots=True)
class LinkedPlan:
    """What a plan executable holds: steps to run, code to load, and what kernels stand for."""

    steps: tuple[Step, ...]
    kernels: tuple[KernelCode, ...]
    constants: tuple[bytes, ...]
    operations: bytes


def is_plan(executable: Executable) -> bool:
    """True if the SDK, not the backend, runs this executable."""
    return executable.payload.startswith(MAGIC)


def plan_executable(
    plan: KernelPlan, codes: Sequence[KernelCode], signature: Signature
) -> Executable:
    """An Executable that the SDK runs step by step."""
    constants = [literal.bits() for literal in plan.constants]
    operations = pack_operations(plan)
    blobs = [*constants, *(part.code for c in codes for part in c.launches), operations]
    described = {
        "steps": [_step_to_json(s) for s in plan.steps],
        "constants": [len(c) for c in constants],
        "operations": len(operations),
        "kernels": [[_kernel_to_json(part) for part in c.launches] for c in codes],
    }
    head = json.dumps(described, separators=(",", ":")).encode()
    return Executable(signature, b"".join([MAGIC, _LENGTH.pack(len(head)), head, *blobs]))


def read_plan(executable: Executable, alignment: int = 1) -> LinkedPlan:
    """The plan in an Executable.

    Args:
        executable: what `plan_executable` made.
        alignment: bytes at whose multiples the slices of its steps must begin.

    Raises:
        FormatError: it holds none, or a damaged one; a step names what is not there; a slice is
            not aligned.
    """
    where = f"executable {executable.signature.name!r}"
    if not is_plan(executable) or len(executable.payload) < _START:
        raise FormatError("this executable holds no kernel plan", where=where)
    try:
        plan = _read(executable.payload)
        check_plan(plan.steps, len(plan.kernels), _sizes(executable.signature, plan))
        check_alignment(plan.steps, alignment)
    except FormatError as error:
        error.at(where)
        raise
    except DAMAGE as e:
        raise FormatError("damaged kernel plan", where=where, why=shown(e)) from e
    return plan


def _sizes(signature: Signature, plan: LinkedPlan) -> PlanSizes:
    """How large the allocations are that a launch gives to the plan."""
    return {
        Space.ARGUMENT: tuple(map(physical_nbytes, signature.argument_shapes)),
        Space.RESULT: tuple(map(physical_nbytes, signature.result_shapes)),
        Space.SCRATCH: (signature.scratch_nbytes,),
        Space.CONSTANT: tuple(map(len, plan.constants)),
    }


def _read(data: bytes) -> LinkedPlan:
    (length,) = _LENGTH.unpack_from(data, len(MAGIC))
    described = parse_json(data[_START : _START + length])
    sizes = numbers(described["constants"])
    described_kernels = [list(parts) for parts in described["kernels"]]
    code_sizes = [number(k["nbytes"]) for parts in described_kernels for k in parts]
    table_size = number(described["operations"])
    *blobs, operations = _cut(data, _START + length, (*sizes, *code_sizes, table_size))
    codes = iter(blobs[len(sizes) :])
    kernels = tuple(_kernel(parts, codes) for parts in described_kernels)
    steps = tuple(_step_from_json(s, 1) for s in described["steps"])
    return LinkedPlan(steps, kernels, tuple(blobs[: len(sizes)]), operations)


def _kernel_to_json(code: KernelCode) -> dict[str, Any]:
    """What is said of one launch, besides its code."""
    return {
        "entry": code.entry,
        "format": code.format,
        "nbytes": len(code.code),
        "grid": code.dimensions.grid,
        "block": code.dimensions.block,
        "shared": code.dimensions.shared_nbytes,
        "workspace": code.workspace_nbytes,
    }


def _kernel(parts: Sequence[Any], codes: Iterator[bytes]) -> KernelCode:
    """One kernel from what is said of its launches, and their code."""
    first, *then = [_kernel_from_json(part, next(codes)) for part in parts]
    return replace(first, then=tuple(then))


def _kernel_from_json(data: Any, code: bytes) -> KernelCode:
    dimensions = LaunchDimensions(_dim3(data["grid"]), _dim3(data["block"]), number(data["shared"]))
    workspace = number(data["workspace"])
    return KernelCode(text(data["entry"]), code, dimensions, text(data["format"]), workspace)


def _dim3(value: Any) -> Dim3:
    x, y, z = numbers(value)
    return x, y, z


def _cut(data: bytes, start: int, sizes: Sequence[int]) -> list[bytes]:
    blobs: list[bytes] = []
    for nbytes in sizes:
        if nbytes < 0 or start + nbytes > len(data):
            raise ValueError("a blob ends beyond the file")
        blobs.append(data[start : start + nbytes])
        start += nbytes
    return blobs


def _slice_to_json(s: Slice) -> list[Any]:
    return [s.space.value, s.index, s.offset, s.nbytes]


def _slice_from_json(data: Any) -> Slice:
    space, index, offset, nbytes = data
    return Slice(Space(space), number(index), number(offset), number(nbytes))


def _step_to_json(step: Step) -> list[Any]:
    match step:
        case RunKernel():
            return ["run", step.kernel, [_slice_to_json(b) for b in step.buffers], step.operation]
        case Copy():
            return ["copy", _slice_to_json(step.source), _slice_to_json(step.destination)]
        case Loop():
            condition = [_step_to_json(s) for s in step.condition]
            body = [_step_to_json(s) for s in step.body]
            return ["loop", condition, _slice_to_json(step.predicate), body]
        case Branch():
            branches = [[_step_to_json(s) for s in b] for b in step.branches]
            return ["branch", _slice_to_json(step.selector), step.is_predicate, branches]
        case Parallel():
            steps = [_step_to_json(s) for s in step.steps]
            waits = [[event - START for event in row] for row in (*step.waits, step.joins)]
            return ["parallel", steps, step.streams, waits]
        case Fork():
            return ["fork", [[_step_to_json(s) for s in part] for part in step.parts]]


def _step_from_json(data: Any, depth: int) -> Step:
    if depth > MAX_NESTING:
        raise ValueError(f"steps are nested more than {MAX_NESTING} deep")

    def inner(steps: Any) -> tuple[Step, ...]:
        return tuple(_step_from_json(s, depth + 1) for s in steps)

    match data:
        case ["run", kernel, buffers, operation]:
            slices = tuple(_slice_from_json(b) for b in buffers)
            return RunKernel(number(kernel), slices, number(operation))
        case ["copy", source, destination]:
            return Copy(_slice_from_json(source), _slice_from_json(destination))
        case ["loop", condition, predicate, body]:
            return Loop(inner(condition), _slice_from_json(predicate), inner(body))
        case ["branch", selector, is_predicate, branches]:
            parts = tuple(map(inner, branches))
            return Branch(_slice_from_json(selector), flag(is_predicate), parts)
        case ["parallel", steps, streams, events]:
            rows = (tuple(event + START for event in row) for row in number_rows(events))
            *waits, joins = rows
            return Parallel(_straight(inner(steps)), numbers(streams), tuple(waits), joins)
        case ["fork", parts]:
            return Fork(tuple(map(inner, parts)))
        case _:
            raise ValueError(f"no such step: {shown(data)}")


def _straight(steps: Sequence[Step]) -> tuple[RunKernel | Copy, ...]:
    found = tuple(s for s in steps if isinstance(s, RunKernel | Copy))
    if len(found) != len(steps):
        raise ValueError("a loop, a branch or streams run in parallel")
    return found
