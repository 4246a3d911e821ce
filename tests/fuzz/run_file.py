"""Runs a program from its file on the interpreter's kind of device, for a worker."""

import signal

from tests.fuzz.whole_path import read_all
from tests.unit.compiler.sample_programs import LOOP_AND_BRANCH, loop_and_branch_arguments
from tests.unit.compiler.subset_backend import Subset, subset_registry
from xladev import client
from xladev.compiler.options import CompileOptions
from xladev.compiler.program.program_file import program_from_bytes
from xladev.errors import XladevError
from xladev.hlo.text import parse_module

RUN_S = 2.0


def sample() -> client.CompiledModule:
    """A program of several microkernels and executables; within `devices()` only."""
    options = CompileOptions(optimization_level=0)
    return client.compile(parse_module(LOOP_AND_BRANCH), "subset", options)


def devices() -> Subset:
    """What runs it: part of the opcodes, by the evaluator, in column-major memory."""
    return Subset(lambda i: i.opcode not in ("sine", "call", "while"))


def take(data: bytes) -> bytes:
    """Empty if the program ran or could not be loaded; else the error of its run."""
    signal.setitimer(signal.ITIMER_PROF, 10.0)
    with subset_registry(devices()):
        compiled = sample()
        signal.setitimer(signal.ITIMER_PROF, RUN_S)
        try:
            loaded = client.CompiledModule(program_from_bytes(data), compiled.devices)
            read_all(loaded(*loop_and_branch_arguments()))
        except XladevError as error:
            return str(error).encode()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    return b""
