"""Runs exported objects for other machines: cross compilers and emulators, Node for WebAssembly."""

import shutil
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from xladev.compiler.assignment import CompileTarget
from xladev.compiler.compile import compile_module
from xladev.compiler.contract import ExportedObject
from xladev.compiler.executable import Executable
from xladev.compiler.options import CompileOptions
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Literal
from xladev.platforms.cpu.compiler import CpuCompiler

Array = npt.NDArray[Any]
_NO_ALIAS = 2**64 - 1
_C = (Path(__file__).parent / "cross_main.c").read_text("utf-8")
_JS = (Path(__file__).parent / "cross_main.mjs").read_text("utf-8")


@dataclass(frozen=True)
class Machine:
    """How objects for one target are linked and run.

    Attributes:
        target: as `CompileOptions.target` takes it.
        linker: the command that links, without files.
        runner: the command that runs what was linked.
    """

    target: str
    linker: tuple[str, ...]
    runner: tuple[str, ...] = ()

    @property
    def missing(self) -> str:
        """The first tool that is not installed; empty if all are."""
        tools = (*self.linker[:1], *self.runner[:1])
        return next((tool for tool in tools if shutil.which(tool) is None), "")

    @property
    def is_wasm(self) -> bool:
        """True for WebAssembly."""
        return self.target.startswith("wasm32")


_WASM = ("wasm-ld", "--no-entry", "--export=__heap_base", "-zstack-size=1048576")


def _static(prefix: str) -> tuple[str, ...]:
    return (f"{prefix}gcc", "-O1", "-static", "-Wall", "-Werror")


MACHINES = (
    Machine("x86_64-linux-gnu", _static("")),
    Machine("x86_64-linux-gnu:x86-64-v2", _static("")),
    Machine("x86_64-linux-gnu:x86-64-v3", _static("")),
    Machine("x86_64-linux-gnu:x86-64-v4", _static("")),
    Machine("aarch64-linux-gnu", _static("aarch64-linux-gnu-"), ("qemu-aarch64-static",)),
    Machine("armv7-linux-gnueabihf", _static("arm-linux-gnueabihf-"), ("qemu-arm-static",)),
    Machine("armv7-linux-gnueabihf:neon", _static("arm-linux-gnueabihf-"), ("qemu-arm-static",)),
    Machine(
        "armv7-linux-gnueabihf:neon-vfpv4", _static("arm-linux-gnueabihf-"), ("qemu-arm-static",)
    ),
    Machine("riscv64-linux-gnu", _static("riscv64-linux-gnu-"), ("qemu-riscv64-static",)),
    Machine(
        "riscv64-linux-gnu:rv64gcv",
        _static("riscv64-linux-gnu-"),
        ("qemu-riscv64-static", "-cpu", "rv64,v=true,vlen=128,elen=64,vext_spec=v1.0"),
    ),
    Machine("wasm32", _WASM, ("node",)),
    Machine("wasm32:simd128", _WASM, ("node",)),
)


@dataclass(frozen=True)
class CrossProgram:
    """A module compiled for a machine."""

    machine: Machine
    executable: Executable
    exported: ExportedObject
    arguments: tuple[int, ...]
    results: tuple[int, ...]

    @cached_property
    def result_shapes(self) -> list[Any]:
        """Shapes of the executable's results."""
        return list(self.executable.signature.result_shapes)

    def __call__(
        self, inputs: Sequence[Array], folder: Path, timeout_s: float = 120
    ) -> list[Array]:
        """Links and runs it.

        Raises:
            AssertionError: a tool fails; with what it printed.
        """
        program = self._link(folder)
        (folder / "in.bin").write_bytes(self._frame(inputs))
        files = [str(folder / "in.bin"), str(folder / "out.bin")]
        script = [str(folder / "main.mjs")] if self.machine.is_wasm else []
        _run([*self.machine.runner, *script, str(program), *files], timeout_s)
        return self._split((folder / "out.bin").read_bytes())

    def _link(self, folder: Path) -> Path:
        (folder / "program.o").write_bytes(self.exported.data)
        program = folder / "program"
        files = [str(folder / "program.o"), "-o", str(program)]
        if self.machine.is_wasm:
            (folder / "main.mjs").write_text(_JS.replace("ENTRY", self.exported.entry), "utf-8")
            files.append(f"--export={self.exported.entry}")
        else:
            (folder / "main.c").write_text(_C.replace("ENTRY", self.exported.entry), "utf-8")
            files.append(str(folder / "main.c"))
        _run([*self.machine.linker, *files], 60)
        return program

    def _frame(self, inputs: Sequence[Array]) -> bytes:
        """Counts and scratch; then each argument; then size of each result and its argument."""
        signature = self.executable.signature
        alias = {a.result: a.parameter for a in signature.aliases}
        blocks = [np.ascontiguousarray(inputs[n]).tobytes() for n in self.arguments]
        parts = [
            struct.pack("<QQQ", len(blocks), len(self.result_shapes), signature.scratch_nbytes)
        ]
        for block in blocks:
            parts += [struct.pack("<Q", len(block)), block]
        for n, shape in enumerate(self.result_shapes):
            parts.append(struct.pack("<QQ", _nbytes(shape), alias.get(n, _NO_ALIAS)))
        return b"".join(parts)

    def _split(self, data: bytes) -> list[Array]:
        arrays, at = [], 0
        for shape in self.result_shapes:
            nbytes = _nbytes(shape)
            dtype = np.dtype(shape.element_type.numpy)
            arrays.append(np.frombuffer(data[at : at + nbytes], dtype).reshape(shape.dims))
            at += nbytes
        assert at == len(data), (at, len(data))
        return [arrays[n] for n in self.results]


def cross_compile(module: HloModule, machine: Machine, level: int = 2) -> CrossProgram:
    """Compiles a module, all of which must become one executable."""
    compiler = CpuCompiler()
    options = CompileOptions(target=machine.target, optimization_level=level)
    target = CompileTarget("cpu", compiler, compiler.describe(machine.target))
    program = compile_module(module, target, options)
    (executable,) = program.executables
    (thunk,) = program.entry.thunks
    slots: Any = thunk
    arguments = tuple(program.entry.parameters.index(s) for s in slots.arguments)
    results = tuple(slots.results.index(s) for s in program.entry.results)
    exported = compiler.export(executable, "object")
    return CrossProgram(machine, executable, exported, arguments, results)


def _nbytes(shape: Any) -> int:
    count: int = np.prod(shape.dims, dtype=np.int64).item()
    return count * np.dtype(shape.element_type.numpy).itemsize


def flat_arrays(literal: Literal) -> list[Array]:
    """The arrays of a literal, leaf by leaf."""
    return [np.asarray(leaf.value()) for leaf in literal.leaves()]


def _run(command: Sequence[str], timeout_s: float) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, f"{command[0]}: {done.returncode}\n{done.stderr[-2000:]}"
