"""A platform that is the interpreter, on a device with as little memory as SMALL_NBYTES says."""

import os
import threading
from dataclasses import replace

from xladev.compiler.description import MemorySpace
from xladev.errors import OutOfMemoryError
from xladev.platforms.interpreter.compiler import InterpreterCompiler
from xladev.platforms.interpreter.executor import InterpreterExecutor
from xladev.platforms.interpreter.platform import InterpreterPlatform
from xladev.runtime.hookspecs import PlatformSpec, hookimpl

CAPACITY = int(os.environ.get("SMALL_NBYTES", 64 << 20))


class SmallCompiler(InterpreterCompiler):
    """Describes a memory that the host cannot address, so that arguments are copied into it."""

    def describe(self, target=None):
        space = MemorySpace("device", nbytes=CAPACITY)
        return replace(super().describe(target), memory_spaces=(space,), dlpack_device_type=None)

    def compile(self, module, options):
        made = super().compile(module, options)
        return replace(made, signature=replace(made.signature, platform="small"))


class SmallExecutor(InterpreterExecutor):
    """Counts what is allocated, and refuses what does not fit."""

    def __init__(self):
        self.lock = threading.Lock()
        self.in_use = 0

    def load(self, executable):
        executable.check_target("small", "numpy")
        signature = replace(executable.signature, platform="interpreter")
        return super().load(replace(executable, signature=signature))

    def allocate(self, nbytes, *, alignment, memory_space):
        with self.lock:
            if self.in_use + nbytes > CAPACITY:
                raise OutOfMemoryError(f"{nbytes} bytes, {CAPACITY - self.in_use} are free")
            self.in_use += nbytes
        return super().allocate(nbytes, alignment=alignment, memory_space=memory_space)

    def deallocate(self, memory):
        with self.lock:
            self.in_use -= memory.nbytes


class SmallPlatform(InterpreterPlatform):
    def create_executor(self, ordinal):
        return SmallExecutor()


@hookimpl
def xladev_platforms():
    return PlatformSpec(
        "small", kind="npu", priority=1, factory=SmallPlatform, compiler=SmallCompiler
    )
