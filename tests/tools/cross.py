"""Runs exported objects for other machines: cross compilers and emulators, Node for WebAssembly."""

import shutil
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from tests.tools.compilers import lacks
from xladev.compiler.compile import compile_module
from xladev.compiler.contract import ExportedObject
from xladev.compiler.executable import Executable
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import CompileTarget
from xladev.hlo.ir import HloModule
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
        needs: a feature of this machine's processor that the target has, where it runs here.
    """

    target: str
    linker: tuple[str, ...]
    runner: tuple[str, ...] = ()
    needs: str = ""

    @property
    def missing(self) -> str:
        """What is not installed; empty if all is."""
        tools = (*self.linker[:1], *self.runner[:1])
        gone = next((f"{tool} is not here" for tool in tools if shutil.which(tool) is None), "")
        return gone or ("" if self.is_wasm else lacks(*self.linker))

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
    Machine("x86_64-linux-gnu:x86-64-v3", _static(""), needs="avx2"),
    Machine("x86_64-linux-gnu:x86-64-v4", _static(""), needs="avx512vl"),
    Machine("aarch64-linux-gnu", _static("aarch64-linux-gnu-"), ("qemu-aarch64-static",)),
    # Android differs in its C library alone, of which objects want nothing but memcpy.
    Machine("aarch64-linux-android", _static("aarch64-linux-gnu-"), ("qemu-aarch64-static",)),
    Machine("armv7-linux-gnueabihf", _static("arm-linux-gnueabihf-"), ("qemu-arm-static",)),
    Machine("armv7-linux-gnueabihf:vfpv4", _static("arm-linux-gnueabihf-"), ("qemu-arm-static",)),
    Machine("riscv64-linux-gnu", _static("riscv64-linux-gnu-"), ("qemu-riscv64-static",)),
    Machine("wasm32", _WASM, ("node",)),
    Machine("wasm32:simd128", _WASM, ("node",)),
)


@dataclass(frozen=True)
class CrossProgram:
    """A module compiled for a machine.

    Attributes:
        machine: which one.
        executable: all of it.
        exported: the object file.
        arguments: number of the caller's argument by argument of the executable.
        results: number of the executable's result by result of the caller.
    """

    machine: Machine
    executable: Executable
    exported: ExportedObject
    arguments: tuple[int, ...]
    results: tuple[int, ...]

    def __call__(
        self, inputs: Sequence[Array], folder: Path, timeout_s: float = 120
    ) -> list[Array]:
        """Links and runs it; see `run_all`."""
        return run_all(self.machine, [(self, inputs)], folder, timeout_s)[0]

    def frame(self, number: int, inputs: Sequence[Array]) -> bytes:
        """Number of the entry, counts, scratch; arguments; size of each result and its argument."""
        signature = self.executable.signature
        alias = {a.result: a.parameter for a in signature.aliases}
        blocks = [np.ascontiguousarray(inputs[n]).tobytes() for n in self.arguments]
        shapes = signature.result_shapes
        counts = number, len(blocks), len(shapes), signature.scratch_nbytes
        parts = [struct.pack("<QQQQ", *counts)]
        for block in blocks:
            parts += [struct.pack("<Q", len(block)), block]
        parts += [
            struct.pack("<QQ", _nbytes(shape), alias.get(n, _NO_ALIAS))
            for n, shape in enumerate(shapes)
        ]
        return b"".join(parts)

    def split(self, stream: BinaryIO) -> list[Array]:
        """The results, in the caller's order, out of what a run wrote."""
        arrays = []
        for shape in self.executable.signature.result_shapes:
            data = stream.read(_nbytes(shape))
            arrays.append(np.frombuffer(data, shape.element_type.numpy).reshape(shape.dims))
        return [arrays[n] for n in self.results]


Call = tuple[CrossProgram, Sequence[Array]]


def run_all(
    machine: Machine, calls: Sequence[Call], folder: Path, timeout_s: float = 120
) -> list[list[Array]]:
    """Links programs into one binary and runs it: the results of each call.

    Raises:
        AssertionError: a tool fails; with what it printed.
    """
    programs = list(dict.fromkeys(p for p, _ in calls))
    binary = _link(machine, programs, folder)
    frames = [p.frame(programs.index(p), inputs) for p, inputs in calls]
    (folder / "in.bin").write_bytes(b"".join(frames))
    files = [str(folder / "in.bin"), str(folder / "out.bin")]
    bytecode = [str(folder / "main.mjs")] if machine.is_wasm else []
    _run([*machine.runner, *bytecode, str(binary), *files], timeout_s)
    with (folder / "out.bin").open("rb") as stream:
        results = [program.split(stream) for program, _ in calls]
        assert stream.read() == b""
    return results


def _link(machine: Machine, programs: Sequence[CrossProgram], folder: Path) -> Path:
    entries = [program.exported.entry for program in programs]
    files = [folder / f"{n}.o" for n in range(len(programs))]
    for file, program in zip(files, programs, strict=True):
        file.write_bytes(program.exported.data)
    binary = folder / "program"
    words = [*map(str, files), "-o", str(binary)]
    if machine.is_wasm:
        (folder / "main.mjs").write_text(_JS.replace("ENTRIES", repr(entries)), "utf-8")
        words += [f"--export={entry}" for entry in entries]
    else:
        declared = "".join(f"extern entry_t {entry};\n" for entry in entries)
        text = _C.replace("DECLARED", declared).replace("ENTRIES", ", ".join(entries))
        (folder / "main.c").write_text(text, "utf-8")
        words.append(str(folder / "main.c"))
    _run([*machine.linker, *words], 120)
    return binary


def cross_compile(module: HloModule, machine: Machine, level: int = 2) -> CrossProgram:
    """Compiles a module, all of which must become one executable.

    Raises:
        ValueError: it becomes several, or steps of the SDK.
    """
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


def _run(command: Sequence[str], timeout_s: float) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, f"{command[0]}: {done.returncode}\n{done.stderr[-2000:]}"
