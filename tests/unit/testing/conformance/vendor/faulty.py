"""A platform that is the interpreter, but goes wrong in a way of its own at some opcodes."""

import os
import signal
import time
from dataclasses import replace

from xladev.compiler.support import no
from xladev.hlo.ir import reachable
from xladev.hlo.proto import read_module
from xladev.platforms.interpreter.compiler import InterpreterCompiler
from xladev.platforms.interpreter.executor import EvaluatedExecutable, InterpreterExecutor
from xladev.platforms.interpreter.platform import InterpreterPlatform
from xladev.runtime.hookspecs import PlatformSpec, hookimpl
from xladev.runtime.host_executor import host_bytes


class FaultyCompiler(InterpreterCompiler):
    """Refuses `ceil`."""

    def supports(self, instruction, description):
        if instruction.opcode == "ceil":
            return no("it cannot round up")
        return super().supports(instruction, description)

    def compile(self, module, options):
        made = super().compile(module, options)
        return replace(made, signature=replace(made.signature, platform="faulty"))


class FaultyExecutable(EvaluatedExecutable):
    """Crashes, hangs, raises or is, as the opcodes of the module say."""

    def launch(self, stream, context):
        opcodes = {i.opcode for c in reachable(self._module.entry) for i in c.instructions}
        if "abs" in opcodes:
            os.kill(os.getpid(), signal.SIGSEGV)
        if "negate" in opcodes:
            time.sleep(60)
        if "floor" in opcodes:
            raise ValueError("the driver said 17")
        super().launch(stream, context)
        if "sign" in opcodes:
            memory = host_bytes(context.results[0])
            memory[-(len(memory) // 33) :] = 0


class FaultyExecutor(InterpreterExecutor):
    def load(self, executable):
        return FaultyExecutable(executable.signature, read_module(executable.payload))


class FaultyPlatform(InterpreterPlatform):
    def create_executor(self, ordinal):
        return FaultyExecutor()


@hookimpl
def xladev_platforms():
    return PlatformSpec(
        "faulty", kind="dsp", priority=1, factory=FaultyPlatform, compiler=FaultyCompiler
    )
