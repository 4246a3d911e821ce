"""Which scratchpad bytes an operand touches: ranges, alignment, and the views that read them.

What a vendor replaces: nothing; it is the simulated hardware.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from xladev.platforms.template_npu.device import isa
from xladev.platforms.template_npu.device.faults import DeviceFault, FaultCode
from xladev.platforms.template_npu.device.isa import Instruction, Operand

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Access:
    """One operand of one instruction.

    Attributes:
        address: of its first element.
        shape: counts of its loops.
        strides: in bytes, one per loop.
        nbytes: of one element.
        low, high: its range of bytes, first and one past the last.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    nbytes: int
    low: int
    high: int

    def view(self, memory: Bytes, dtype: Any) -> npt.NDArray[Any]:
        """The elements in a memory, without a copy."""
        return np.ndarray(self.shape, dtype, memory.data, self.address, self.strides)

    def flags(self, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """The entries for its bytes in an array with one entry per byte."""
        if self.high - self.low == self.nbytes * _product(self.shape):
            return mask[self.low : self.high]
        shape, strides = (*self.shape, self.nbytes), (*self.strides, 1)
        return np.ndarray(shape, np.bool_, mask.data, self.address, strides)

    @property
    def is_injective(self) -> bool:
        """True if no byte is touched twice, as far as strides alone tell."""
        reach = self.nbytes
        loops = sorted((abs(s), n) for s, n in zip(self.strides, self.shape, strict=True) if n > 1)
        for stride, count in loops:
            if stride < reach:
                return False
            reach += stride * (count - 1)
        return True


def _product(numbers: tuple[int, ...]) -> int:
    total = 1
    for n in numbers:
        total *= n
    return total


def access(operand: Operand, shape: tuple[int, ...], nbytes: int) -> Access:
    """The access of an operand under loops.

    Raises:
        DeviceFault: SCRATCHPAD_BOUNDS or MISALIGNED.
    """
    low = high = operand.address
    misaligned = operand.address
    for stride, count in zip(operand.strides, shape, strict=True):
        if count > 1:
            misaligned |= stride
            if stride < 0:
                low += stride * (count - 1)
            else:
                high += stride * (count - 1)
    high += nbytes
    if low < 0 or high > isa.SCRATCHPAD_NBYTES:
        raise DeviceFault(
            FaultCode.SCRATCHPAD_BOUNDS, f"bytes {low} to {high} of {isa.SCRATCHPAD_NBYTES}"
        )
    if misaligned & (nbytes - 1):
        raise DeviceFault(
            FaultCode.MISALIGNED, f"address {operand.address:#x} or a stride for {nbytes} bytes"
        )
    return Access(operand.address, shape, operand.strides, nbytes, low, high)


@dataclass(frozen=True, slots=True)
class Accesses:
    """What an instruction touches in the scratchpad, by operand name.

    Attributes:
        reads, writes: accesses by operand name.
    """

    reads: dict[str, Access]
    writes: dict[str, Access]


def accesses_of(i: Instruction) -> Accesses:
    """The scratchpad accesses of a legal instruction.

    Raises:
        DeviceFault: SCRATCHPAD_BOUNDS, MISALIGNED, or ILLEGAL_INSTRUCTION.
    """
    reads: dict[str, Access] = {}
    writes: dict[str, Access] = {}
    names = isa.FORMATS[i.opcode.format].operands
    for name, operand in zip(names, i.operands, strict=True):
        is_read, is_written = name in i.opcode.reads, name in i.opcode.writes
        if not (is_read or is_written) or (name == "src1" and not has_second(i)):
            continue
        found = access(operand, _shape(i, name), _nbytes(i, name))
        if is_written:
            writes[name] = found
        if is_read and (name != "dst" or i.scalar("accumulate")):
            reads[name] = found
    return Accesses(reads, writes)


def has_second(i: Instruction) -> bool:
    """True if the instruction has a second source."""
    return "src1" in i.opcode.reads


def _nbytes(i: Instruction, name: str) -> int:
    if name == "index":
        return 4
    if i.opcode.format == "matrix" and name == "dst":
        return 4
    if name == "dst":
        return isa.TYPES[i.result].nbytes
    if i.opcode.name == "select" and name == "src0":
        return 1
    return isa.TYPES[i.type].nbytes


def _shape(i: Instruction, name: str) -> tuple[int, ...]:
    if i.opcode.format == "matrix":
        m, n, k = i.counts[:3]
        rows, columns = {"dst": ("m", "n"), "a": ("m", "k"), "b": ("k", "n")}[name]
        tiles = (m if "m" in rows + columns else 1, n if "n" in rows + columns else 1)
        depth = k if "k" in rows + columns else 1
        return (*tiles, depth, i.scalar(rows), i.scalar(columns))
    if i.opcode.name == "reduce" and name == "dst":
        return (*i.counts[:3], 1)
    return i.counts
