"""A child that judges programs with one of the differential test's bugs in the CPU backend."""

import os
from dataclasses import dataclass, replace

import pytest

from tests.differential.planted import BUGS
from xladev.compiler.options import CompileOptions
from xladev.hlo.ir import HloModule
from xladev.hlo.rebuild import rebuild
from xladev.passes.pass_ import HloModulePass
from xladev.passes.pipeline import HloPassPipeline
from xladev.platforms.cpu.compiler import CpuCompiler
from xladev.testing.verdict import Verdict, judge, unpack_case
from xladev.testing.wire import pack, unpack

VARIABLE = "XLADEV_TEST_PLANTED_BUG"
FUNCTION = f"{__name__}:judge_with_bug"


def judge_with_bug(message: bytes) -> bytes:
    """The child's function, with the bug that the environment names."""
    (bug,) = (b for b in BUGS if b.name == os.environ[VARIABLE])
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        return judge(message)


@dataclass(frozen=True, slots=True)
class SwapsOperands(HloModulePass):
    """A wrong pass: takes a - b for b - a."""

    name = "swaps-operands"

    def run(self, module: HloModule) -> HloModule:
        swapped = {
            i: replace(i, operands=i.operands[::-1])
            for i in module.entry.instructions
            if i.opcode == "subtract"
        }
        return replace(module, entry=rebuild(module.entry, swapped)) if swapped else module


def wrong_pipeline(compiler: object, options: CompileOptions) -> HloPassPipeline:
    """What a vendor's `Compiler.pipeline` may give."""
    return HloPassPipeline("vendor", (SwapsOperands(),))


def judge_with_wrong_pass(message: bytes) -> bytes:
    """The child's function, with a wrong pass in the pipeline of the CPU backend."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CpuCompiler, "pipeline", wrong_pipeline)
        return judge(message)


def dies(message: bytes) -> bytes:
    """Ends the process."""
    os.abort()


def says_wrong_of_exchanges(message: bytes) -> bytes:
    """Finds each program wrong that has an all-reduce, and all others right."""
    head, arrays, proto = unpack(message)
    module, _ = unpack_case(head, arrays, proto)
    opcodes = {i.opcode for c in module.computations for i in c.instructions}
    verdict = Verdict("value", "planted") if "all-reduce" in opcodes else Verdict()
    return pack(verdict.to_json())
