"""A platform that is the interpreter, but breaks in every place that a plugin has code in."""

import os
import signal
import sys
import time
from dataclasses import replace

from xladev.hlo.ir import reachable
from xladev.hlo.proto import read_module
from xladev.platforms.interpreter.compiler import InterpreterCompiler
from xladev.platforms.interpreter.executor import EvaluatedExecutable, InterpreterExecutor
from xladev.platforms.interpreter.platform import InterpreterPlatform
from xladev.runtime.hookspecs import PlatformSpec, hookimpl
from xladev.runtime.memory import MemoryStats


def opcodes_of(module):
    return {i.opcode for c in reachable(module.entry) for i in c.instructions}


class LeakyCompiler(InterpreterCompiler):
    """Raises for `floor`, hangs at `ceil`, ends the process at `sign`."""

    def supports(self, instruction, description):
        if instruction.opcode == "popcnt":
            raise KeyError("no such opcode")
        return super().supports(instruction, description)

    def compile(self, module, options):
        opcodes = opcodes_of(module)
        if "floor" in opcodes:
            raise ZeroDivisionError("the tiler divided by zero")
        if "ceil" in opcodes:
            time.sleep(60)
        if "sign" in opcodes:
            os._exit(0)
        made = super().compile(module, options)
        return replace(made, signature=replace(made.signature, platform="leaky"))


class LeakyExecutable(EvaluatedExecutable):
    """Keeps memory at `abs`, exits at `negate`, aborts at `round-nearest-even`."""

    def launch(self, stream, context):
        opcodes = opcodes_of(self._module)
        if "abs" in opcodes:
            LeakyExecutor.kept += 1000
        if "negate" in opcodes:
            sys.exit("fatal: driver error 5")
        if "round-nearest-even" in opcodes:
            os.kill(os.getpid(), signal.SIGABRT)
        super().launch(stream, context)


class LeakyExecutor(InterpreterExecutor):
    """Loads nothing with `cosine`."""

    kept = 0

    def load(self, executable):
        module = read_module(executable.payload)
        if "cosine" in opcodes_of(module):
            raise MemoryError("no room for code")
        return LeakyExecutable(executable.signature, module)

    def memory_stats(self):
        return MemoryStats(nbytes_in_use=self.kept)


class LeakyPlatform(InterpreterPlatform):
    def create_executor(self, ordinal):
        return LeakyExecutor()


@hookimpl
def xladev_platforms():
    return PlatformSpec(
        "leaky", kind="npu", priority=1, factory=LeakyPlatform, compiler=LeakyCompiler
    )
