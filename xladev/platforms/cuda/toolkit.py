"""NVIDIA's assembler and disassembler, where the machine has them: check PTX without a GPU."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from xladev.errors import CompileError

_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Assembled:
    """What `ptxas` says of one kernel.

    Attributes:
        cubin: the machine code.
        registers: of one thread.
        spill_nbytes: written to memory, and read back, because registers ran out.
        stack_nbytes: memory of one thread for arrays that registers cannot hold.
        shared_nbytes: static shared memory of one block.
    """

    cubin: bytes = field(repr=False)
    registers: int
    spill_nbytes: int
    stack_nbytes: int
    shared_nbytes: int


def ptxas_path() -> str | None:
    """The assembler of the CUDA toolkit on PATH, or of the package nvidia-cuda-nvcc; or None."""
    return _tool_path("ptxas")


def nvdisasm_path() -> str | None:
    """The disassembler on PATH, or of the package nvidia-cuda-nvdisasm; or None."""
    return _tool_path("nvdisasm")


def _tool_path(name: str) -> str | None:
    on_path = shutil.which(name)
    if on_path:
        return on_path
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        found = next(Path(folder).glob(f"*/bin/{name}"), None)
        if found:
            return str(found)
    return None


def disassembled(cubin: bytes, nvdisasm: str) -> str:
    """Machine code of a cubin as text, with labels.

    Args:
        cubin: from `assemble`.
        nvdisasm: from `nvdisasm_path`.

    Raises:
        CompileError: the disassembler refuses it.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "k.cubin")
        path.write_bytes(cubin)
        command = [nvdisasm, "-c", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
    if done.returncode:
        raise CompileError("nvdisasm refused a cubin", why=done.stdout + done.stderr)
    return done.stdout


def assemble(ptx: str, target: str, ptxas: str) -> Assembled:
    """Machine code of PTX with one kernel.

    Args:
        ptx: from `codegen.nvptx`.
        target: such as ``sm_90a``.
        ptxas: from `ptxas_path`.

    Raises:
        CompileError: the assembler refuses it.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder, "k.ptx"), Path(folder, "k.cubin")
        source.write_text(ptx)
        command = [ptxas, "-v", f"-arch={target}", str(source), "-o", str(result)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
        if done.returncode:
            raise CompileError("ptxas refused generated PTX", why=done.stdout + done.stderr)
        return _read(done.stderr, result.read_bytes())


def _read(log: str, cubin: bytes) -> Assembled:
    def number(pattern: str) -> int:
        return sum(int(n) for n in re.findall(pattern, log))

    return Assembled(
        cubin,
        registers=number(r"Used (\d+) registers"),
        spill_nbytes=number(r"(\d+) bytes spill (?:stores|loads)"),
        stack_nbytes=number(r"(\d+) bytes stack frame"),
        shared_nbytes=number(r"(\d+) bytes smem"),
    )
