"""Runs instructions: each becomes a call on NumPy views of the scratchpad, made once per load.

All repeats of an instruction are one NumPy operation where no repeat reads or overwrites what an
earlier one wrote (`is_batchable`); else they run one by one, in order. Both give the same bits,
which tests hold against each other on random instructions.

What a vendor replaces: nothing; it is the simulated hardware.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from xladev.platforms.template_npu.device import isa
from xladev.platforms.template_npu.device.access import Access, Bytes
from xladev.platforms.template_npu.device.faults import DeviceFault, FaultCode
from xladev.platforms.template_npu.device.functions import (
    binary_function,
    quantizer,
    reduce_lanes,
    vector_function,
)
from xladev.platforms.template_npu.device.isa import Instruction
from xladev.platforms.template_npu.device.numerics import Array, bf16_to_f32, f32_to_bf16
from xladev.platforms.template_npu.device.sequencer import SequencerStep

Windows = Sequence[Bytes]
"""The DRAM that a list sees, by binding number."""

Run = Callable[[Windows], None]
"""One instruction, ready to run."""


def translate(step: SequencerStep, scratchpad: Bytes, *, batched: bool = True) -> Run:
    """The code of an instruction on one device's scratchpad.

    Args:
        step: a checked instruction.
        scratchpad: all of it.
        batched: False runs every repeat by itself, whatever it touches.
    """
    i = step.instruction
    if i.opcode.format == "dma":
        return _dma(step, scratchpad)
    batched = batched and is_batchable(step)
    if i.opcode.format == "matrix":
        return _matmul(step, scratchpad, batched)
    return _vector(step, scratchpad, batched)


def is_batchable(step: SequencerStep) -> bool:
    """Whether all repeats of an instruction may run at once.

    That is so if no byte is written twice, and every source is either apart from what is written
    or read by the same lanes that write it.
    """
    (written,) = step.accesses.writes.values()
    if not written.is_injective:
        return False
    for read in step.accesses.reads.values():
        if (
            read.shape == written.shape
            and read.address == written.address
            and read.strides == written.strides
            and read.nbytes == written.nbytes
        ):
            continue
        if read.low < written.high and written.low < read.high and _share_bytes(read, written):
            return False
    return True


def _share_bytes(a: Access, b: Access) -> bool:
    low, high = min(a.low, b.low), max(a.high, b.high)
    touched = np.zeros(high - low, np.bool_)
    _moved(b, -low).flags(touched)[...] = True
    return bool(_moved(a, -low).flags(touched).any())


def _moved(a: Access, by: int) -> Access:
    return Access(a.address + by, a.shape, a.strides, a.nbytes, a.low + by, a.high + by)


# Vector


def _vector(step: SequencerStep, scratchpad: Bytes, batched: bool) -> Run:
    i = step.instruction
    out = step.accesses.writes["dst"].view(scratchpad, isa.TYPES[i.result].bits)
    if i.opcode.name == "fill":
        value = np.array([i.scalar("imm")], "<u4").view(np.uint8)[: out.itemsize]
        element = value.view(out.dtype)[0] if out.dtype != np.bool_ else np.bool_(value[0] & 1)
        return lambda _: out.fill(element)
    if i.opcode.name == "iota":
        values = _iota(i).astype(out.dtype)
        return lambda _: np.copyto(out, values)
    sources = [_source(i, name, a, scratchpad) for name, a in step.accesses.reads.items()]
    if i.opcode.name == "reduce":
        return _repeated(_reducer(i), out, sources, batched)
    if i.opcode.name == "quantize":
        return _repeated(quantizer(i.type, i.scalar("imm")), out, sources, batched)
    run = vector_function(i.opcode.name, i.function_name, i.type, i.result)
    assert run is not None  # the sequencer let it pass
    return _repeated(run, out, sources, batched)


def _source(i: Instruction, name: str, a: Access, scratchpad: Bytes) -> Array:
    chooses = i.opcode.name == "select" and name == "src0"
    return a.view(scratchpad, "?" if chooses else isa.TYPES[i.type].bits)


def _iota(i: Instruction) -> Array:
    total = np.zeros(i.counts, np.int64) + i.scalar("imm")
    for axis, (count, step) in enumerate(zip(i.counts, i.operand("src0").strides, strict=True)):
        shape = [count if d == axis else 1 for d in range(isa.LOOP_COUNT)]
        total += (np.arange(count) * step).reshape(shape)
    return total


def _reducer(i: Instruction) -> Callable[..., object]:
    type_ = isa.TYPES[i.type]

    def run(out: Array, source: Array) -> None:
        np.copyto(out[..., 0], reduce_lanes(i.function_name, type_, source))

    return run


def _repeated(run: Callable[..., object], out: Array, sources: list[Array], batched: bool) -> Run:
    if batched:
        return lambda _: run(out, *sources)  # type: ignore[return-value]

    def one_by_one(_: Windows) -> None:
        for at in np.ndindex(*out.shape[:3]):
            run(out[at], *(s[at].copy() for s in sources))

    return one_by_one


# Matrix


def _matmul(step: SequencerStep, scratchpad: Bytes, batched: bool) -> Run:
    i = step.instruction
    type_ = isa.TYPES[i.type]
    a = step.accesses.reads["a"].view(scratchpad, type_.bits)
    b = step.accesses.reads["b"].view(scratchpad, type_.bits)
    c = step.accesses.writes["dst"].view(scratchpad, isa.TYPES[i.result].bits)
    accumulate = bool(i.scalar("accumulate"))

    def at_once(_: Windows) -> None:
        left, right = _as_f32(a, type_), _as_f32(b, type_)
        for depth in range(i.counts[2]):
            part = np.matmul(left[:, :, depth], right[:, :, depth])
            _add_product(c[:, :, 0], part, accumulate or depth > 0)

    def one_by_one(_: Windows) -> None:
        for m, n, k in product(*map(range, i.counts[:3])):
            left = _as_f32(a[m : m + 1, :, k], type_)
            right = _as_f32(b[:, n : n + 1, k], type_)
            part = np.matmul(left, right)
            _add_product(c[m : m + 1, n : n + 1, 0], part, accumulate or k > 0)

    return at_once if batched else one_by_one


def _as_f32(tiles: Array, type_: isa.ElementType) -> Array:
    """Tiles as f32 that are contiguous row by row, so that each product is the same bits."""
    values = bf16_to_f32(tiles) if type_.name == "bf16" else tiles.astype(np.float32)
    return np.ascontiguousarray(values)


def _add_product(c: Array, part: Array, accumulate: bool) -> None:
    """8-bit products of 16 terms are below 2**20, so that f32 has them exactly.

    Every NaN is the same one: whose payload NumPy keeps depends on how much it adds at once.
    """
    if c.dtype != np.float32:
        part = part.astype(c.dtype)
    if accumulate:
        np.add(c, part, out=c)
    else:
        np.copyto(c, part)
    if c.dtype == np.float32:
        np.copyto(c, np.float32(np.nan), where=np.isnan(c))


# DMA


def _dma(step: SequencerStep, scratchpad: Bytes) -> Run:
    i = step.instruction
    bits = isa.TYPES[i.type].bits
    held = (step.accesses.writes or step.accesses.reads)["sp"].view(scratchpad, bits)
    name = i.opcode.name
    if name == "load":
        return lambda windows: np.copyto(held, _window_view(i, windows, bits))
    if name == "store":
        return lambda windows: np.copyto(_window_view(i, windows, bits), held)
    index = step.accesses.reads["index"].view(scratchpad, "<i4")
    if name == "gather":
        return lambda windows: _gather(i, windows, held, index)
    return lambda windows: _scatter(i, windows, held, index)


def _window(i: Instruction, windows: Windows) -> Bytes:
    binding = i.scalar("binding")
    if binding >= len(windows):
        raise DeviceFault(FaultCode.DRAM_BOUNDS, f"no window is bound as {binding}")
    return windows[binding]


def _window_view(i: Instruction, windows: Windows, bits: str) -> Array:
    window, dram = _window(i, windows), i.operand("dram")
    low = high = dram.address
    for stride, count in zip(dram.strides, i.counts, strict=True):
        if stride < 0:
            low += stride * (count - 1)
        else:
            high += stride * (count - 1)
    if low < 0 or high + isa.TYPES[i.type].nbytes > window.nbytes:
        raise DeviceFault(
            FaultCode.DRAM_BOUNDS,
            f"bytes {low} to {high + isa.TYPES[i.type].nbytes} of a window of {window.nbytes}",
        )
    return np.ndarray(i.counts, bits, window.data, dram.address, dram.strides)


def _positions(i: Instruction, window: Bytes, index: Array) -> tuple[Array, Array]:
    """Byte offset of each element in the window, and which elements take part."""
    dram = i.operand("dram")
    offsets = index.astype(np.int64) * i.scalar("unit") + dram.address
    for axis, (count, stride) in enumerate(zip(i.counts, dram.strides, strict=True)):
        shape = [count if d == axis else 1 for d in range(isa.LOOP_COUNT)]
        offsets = offsets + (np.arange(count) * stride).reshape(shape)
    taken = np.asarray(index >= 0)
    nbytes = isa.TYPES[i.type].nbytes
    bad = taken & ((offsets < 0) | (offsets + nbytes > window.nbytes) | (offsets % nbytes != 0))
    if bad.any():
        worst = int(offsets[bad][0])
        raise DeviceFault(
            FaultCode.DRAM_BOUNDS, f"an index leads to byte {worst} of a window of {window.nbytes}"
        )
    return offsets // nbytes, taken


def _elements(window: Bytes, bits: str, nbytes: int) -> Array:
    return window[: window.nbytes // nbytes * nbytes].view(bits)


def _gather(i: Instruction, windows: Windows, held: Array, index: Array) -> None:
    window = _window(i, windows)
    at, taken = _positions(i, window, index)
    elements = _elements(window, isa.TYPES[i.type].bits, isa.TYPES[i.type].nbytes)
    if taken.all():
        np.copyto(held, elements[at])
        return
    found: Any = elements[np.where(taken, at, 0)]
    np.copyto(held, np.where(taken, found, np.zeros_like(found)))


def _scatter(i: Instruction, windows: Windows, held: Array, index: Array) -> None:
    window = _window(i, windows)
    at, taken = _positions(i, window, index)
    type_ = isa.TYPES[i.type]
    elements = _elements(window, type_.bits, type_.nbytes)
    where, values = at[taken], held[taken]
    if i.function_name == "set":
        elements[where] = values
        return
    function = binary_function(i.function_name, type_)
    if function is None:
        raise DeviceFault(FaultCode.ILLEGAL_INSTRUCTION, f"no {i.function_name} of {type_.name}")
    if isinstance(function, np.ufunc) and type_.name not in ("bf16", "pred"):
        function.at(elements, where, values)
        return
    widen = bf16_to_f32 if type_.name == "bf16" else np.asarray
    for n, position in enumerate(where):
        one = slice(position, position + 1)
        new = function(widen(elements[one]), widen(values[n : n + 1]))
        elements[one] = f32_to_bf16(new) if type_.name == "bf16" else new
