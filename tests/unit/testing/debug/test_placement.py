"""What is told of a program is what its compiled form has: kernels, copies and places."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.loops import around, counted
from xladev.cli.explain import explained
from xladev.client import host_targets, load
from xladev.compiler.compile import compile_recorded
from xladev.compiler.compile_record import CompileRecord
from xladev.compiler.description import DeviceDescription
from xladev.compiler.executable import Executable
from xladev.compiler.kernel_code import KernelCode
from xladev.compiler.kernel_compiler import KernelCompiler
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import CONTROL_OPCODES, CompileTarget
from xladev.compiler.plan.kernel_plan import Branch, Copy, Loop, Parallel, RunKernel, Step
from xladev.compiler.plan.operations import unpack_operations
from xladev.compiler.plan.plan_file import is_plan, read_plan
from xladev.compiler.program.program import Program
from xladev.compiler.program.thunks import Call, Conditional, Transfer, While
from xladev.compiler.support import YES, Support, no
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.payload import CpuPayload
from xladev.runtime.registry import current_registry


class Partial(KernelCompiler):
    """Takes about two thirds of the opcodes, another two thirds for each seed."""

    platform = "partial"  # type: ignore[assignment]

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def takes(self, opcode: str) -> bool:
        return zlib.crc32(f"{self.seed}{opcode}".encode()) % 3 > 0

    def describe(self, target: str | None = None) -> DeviceDescription:
        return DeviceDescription(name="partial", target="partial")

    def supports(self, instruction: HloInstruction, description: DeviceDescription) -> Support:
        opcode = instruction.opcode
        fits = opcode not in CONTROL_OPCODES and instruction.shape.is_array
        return YES if fits and self.takes(opcode) else no(f"{opcode} is not in hardware")

    def can_fuse(self, producer: HloInstruction, consumer: HloInstruction) -> Support:
        for each in (producer, consumer):
            known = each.opcode in ("constant", "fusion") or self.takes(each.opcode)
            assert known, f"asked about {each.opcode}, which it refuses"
        return YES

    def lower(self, spec: Any, options: CompileOptions) -> KernelCode:
        return KernelCode(spec.name, b"code")


def recorded(module: HloModule, platform: str, options: CompileOptions) -> CompileRecord:
    if platform.startswith("partial"):
        return recorded_by(Partial(int(platform.removeprefix("partial"))), module, options)
    registry = current_registry()
    found = registry.platform(platform)
    hosts = lambda: host_targets(registry, found)  # noqa: E731
    return compile_recorded(module, found.compile_target(None), options, hosts)


def recorded_by(
    compiler: Partial, module: HloModule, options: CompileOptions | None = None
) -> CompileRecord:
    """Of a platform beside which there is the CPU."""
    target = CompileTarget("partial", compiler, compiler.describe())
    host = current_registry().platform("cpu").compile_target(None)
    wanted = options or CompileOptions(optimization_level=0)
    return compile_recorded(module, target, wanted, lambda: [host])


def flat(steps: Sequence[Step]) -> Iterator[RunKernel | Copy]:
    for step in steps:
        match step:
            case Loop():
                yield from flat((*step.condition, *step.body))
            case Branch():
                for branch in step.branches:
                    yield from flat(branch)
            case Parallel():
                yield from step.steps
            case _:
                yield step


def kernels_of(executable: Executable) -> list[tuple[str, str]]:
    """Name and opcode of what each kernel step of an executable stands for, from its bytes."""
    if is_plan(executable):
        plan = read_plan(executable)
        table = unpack_operations(plan.operations)
        steps = [s for s in flat(plan.steps) if isinstance(s, RunKernel)]
        return [(table[s.operation].name, table[s.operation].opcode) for s in steps]
    table = unpack_operations(CpuPayload.from_bytes(executable.payload).operations)
    return [(operation.name, operation.opcode) for operation in table]


def check_told(record: CompileRecord) -> None:
    """What explain tells is what the program has."""
    report, program = explained(record), record.program
    told = Counter[tuple[str, str]]()
    for kernel in report["kernels"]:
        told[kernel["platform"], kernel["name"]] += kernel["runs"]
    formed = [
        e for e in program.executables if e.signature.platform not in ("interpreter", "evaluator")
    ]
    there = Counter((e.signature.platform, name) for e in formed for name, _opcode in kernels_of(e))
    assert told == there
    check_copies(report["copies"], program)
    alone = [r for r in report["placements"] if not r["why"].startswith("with ")]
    assert Counter(r["device"] for r in alone) == dict(program.instruction_counts)


def check_copies(rows: Sequence[dict[str, Any]], program: Program) -> None:
    kinds = Counter[str]()
    for procedure in program.procedures:
        for thunk in procedure.thunks:
            if isinstance(thunk, Transfer):
                pair = procedure.slots[thunk.source], procedure.slots[thunk.result]
                kinds["copy" if pair[0] == pair[1] else "transfer"] += 1
            if procedure is program.entry and isinstance(thunk, While | Conditional | Call):
                kinds["copy"] += len({*thunk.results} & {*procedure.results})
    for executable in filter(is_plan, program.executables):
        kinds["copy"] += sum(isinstance(s, Copy) for s in flat(read_plan(executable).steps))
    in_native_code = [row for row in rows if row["platform"] == "cpu"]
    assert Counter(r["kind"] for r in rows if r not in in_native_code) == kinds


BODY = "y = f32[8] sine(x)  z = f32[8] multiply(y, y)"
LOOP = counted("f32[8]", BODY, 3) + around("f32[8]")
BRANCHES = """HloModule b
one { x = f32[8,8] parameter(0)  y = f32[8,8] exponential(x)  ROOT z = f32[8,8] add(y, x) }
two { ROOT x = f32[8,8] parameter(0) }
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e { p = pred[] parameter(0)  x = f32[8,8] parameter(1)  zero = f32[] constant(0)
  n = f32[8,8] negate(x)
  c = f32[8,8] conditional(p, n, x), true_computation=one, false_computation=two
  s = f32[8] reduce(c, zero), dimensions={1}, to_apply=add
  b = f32[8,8] broadcast(s), dimensions={0}
  d = f32[8,8] subtract(c, b)
  f = f32[8,8] sine(d)
  m = f32[8,8] dot(f, n), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[8,8] tanh(m)
  ROOT r = (f32[8,8], f32[8,8], f32[8,8], f32[8,8]) tuple(t, x, c, c) }"""


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize(
    "platform", ["cpu", "interpreter", "template_npu", *(f"partial{n}" for n in range(5))]
)
@pytest.mark.parametrize("text", [LOOP, BRANCHES], ids=["loop", "branches"])
def test_what_is_told_is_there(text: str, platform: str, level: int) -> None:
    options = CompileOptions(optimization_level=level)
    check_told(recorded(parse_module(text), platform, options))


@pytest.mark.long
@pytest.mark.parametrize("platform", ["cpu", "template_npu", "partial1", "partial2"])
@pytest.mark.parametrize(
    "name", ["mlp_train_momentum", "cond_switch", "sort_argsort_multikey", "lstm_scan_fwd_bwd"]
)
def test_of_programs(name: str, platform: str, programs_dir: Path) -> None:
    module = load(programs_dir / f"{name}.pb")
    check_told(recorded(module, platform, CompileOptions()))


def test_a_value_is_read_by_those_that_read_it() -> None:
    """Not by the first instruction of the region that they run in; a copy may serve several."""
    text = """HloModule m
ENTRY e { x = f32[8] parameter(0)  y = f32[8] parameter(1)
  a = f32[8] sine(x)
  b = f32[8] negate(y)
  c = f32[8] add(a, b)
  d = f32[8] subtract(a, c)
  e = f32[8] tanh(c)
  f = f32[8] multiply(e, a)
  ROOT t = (f32[8], f32[8]) tuple(f, d) }"""

    class Two(Partial):
        def takes(self, opcode: str) -> bool:
            return opcode not in ("sine", "tanh")

    copies = explained(recorded_by(Two(0), parse_module(text)))["copies"]
    told = {row["name"]: row["why"] for row in copies}
    assert told == {
        "x": "32 bytes: given on partial, read by a on cpu",
        "a": "32 bytes: made on cpu, read by c, d and f on partial",
        "c": "32 bytes: made on partial, read by e on cpu",
        "e": "32 bytes: made on cpu, read by f on partial",
    }
