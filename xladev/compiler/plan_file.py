"""A kernel plan and its kernels' code as the payload of an Executable.

Layout, little endian: magic, length of the JSON part (u64), JSON (steps, sizes, kernels), blobs
(constants' bytes, then code). Checked when read; the checksum is the Executable's.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xladev.compiler.executable import Executable
from xladev.compiler.kernel_code import KernelCode, LaunchDimensions
from xladev.compiler.kernel_plan import (
    Branch,
    Copy,
    KernelPlan,
    Loop,
    RunKernel,
    Slice,
    Space,
    Step,
)
from xladev.compiler.signature import Signature
from xladev.errors import FormatError

MAGIC = b"XLPLAN1\0"
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class LinkedPlan:
    """What a plan executable holds: steps to run and code to load."""

    steps: tuple[Step, ...]
    kernels: tuple[KernelCode, ...]
    constants: tuple[bytes, ...]


def is_plan(executable: Executable) -> bool:
    """True if the SDK, not the backend, runs this executable."""
    return executable.payload.startswith(MAGIC)


def plan_executable(
    plan: KernelPlan, codes: Sequence[KernelCode], signature: Signature
) -> Executable:
    """An Executable that the SDK runs step by step."""
    constants = [literal.bits() for literal in plan.constants]
    blobs = [*constants, *(c.code for c in codes)]
    described = {
        "steps": [_step_to_json(s) for s in plan.steps],
        "constants": [len(c) for c in constants],
        "kernels": [
            {
                "entry": c.entry,
                "format": c.format,
                "nbytes": len(c.code),
                "grid": c.dimensions.grid,
                "block": c.dimensions.block,
                "shared": c.dimensions.shared_nbytes,
            }
            for c in codes
        ],
    }
    head = json.dumps(described, separators=(",", ":")).encode()
    return Executable(signature, b"".join([MAGIC, _LENGTH.pack(len(head)), head, *blobs]))


def read_plan(executable: Executable) -> LinkedPlan:
    """The plan in an Executable.

    Raises:
        FormatError: it holds none, or a damaged one.
    """
    data = executable.payload
    start = len(MAGIC) + _LENGTH.size
    if not is_plan(executable) or len(data) < start:
        raise FormatError(f"executable {executable.signature.name!r} holds no kernel plan")
    (length,) = _LENGTH.unpack_from(data, len(MAGIC))
    try:
        described = json.loads(data[start : start + length])
        sizes = [*described["constants"], *(k["nbytes"] for k in described["kernels"])]
        blobs = _cut(data, start + length, sizes)
        count = len(described["constants"])
        kernels = tuple(
            KernelCode(
                k["entry"],
                blob,
                LaunchDimensions(tuple(k["grid"]), tuple(k["block"]), k["shared"]),
                k["format"],
            )
            for k, blob in zip(described["kernels"], blobs[count:], strict=True)
        )
        steps = tuple(_step_from_json(s) for s in described["steps"])
    except (KeyError, TypeError, ValueError) as e:
        raise FormatError("damaged kernel plan", why=repr(e)) from e
    return LinkedPlan(steps, kernels, tuple(blobs[:count]))


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
    if min(index, offset, nbytes) < 0:
        raise ValueError(f"negative slice {data}")
    return Slice(Space(space), index, offset, nbytes)


def _step_to_json(step: Step) -> list[Any]:
    match step:
        case RunKernel():
            return ["run", step.kernel, [_slice_to_json(b) for b in step.buffers]]
        case Copy():
            return ["copy", _slice_to_json(step.source), _slice_to_json(step.destination)]
        case Loop():
            condition = [_step_to_json(s) for s in step.condition]
            body = [_step_to_json(s) for s in step.body]
            return ["loop", condition, _slice_to_json(step.predicate), body]
        case Branch():
            branches = [[_step_to_json(s) for s in b] for b in step.branches]
            return ["branch", _slice_to_json(step.selector), step.is_predicate, branches]


def _step_from_json(data: Any) -> Step:
    match data:
        case ["run", int(kernel), buffers]:
            return RunKernel(kernel, tuple(_slice_from_json(b) for b in buffers))
        case ["copy", source, destination]:
            return Copy(_slice_from_json(source), _slice_from_json(destination))
        case ["loop", condition, predicate, body]:
            return Loop(
                tuple(_step_from_json(s) for s in condition),
                _slice_from_json(predicate),
                tuple(_step_from_json(s) for s in body),
            )
        case ["branch", selector, bool(is_predicate), branches]:
            inner = tuple(tuple(_step_from_json(s) for s in b) for b in branches)
            return Branch(_slice_from_json(selector), is_predicate, inner)
        case _:
            raise ValueError(f"no such step: {data!r}")
