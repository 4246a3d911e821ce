"""Instructions against plain Python, and batched against one repeat after the other."""

import random

import numpy as np
import pytest

from xladev.platforms.template_npu.device import isa
from xladev.platforms.template_npu.device.assembler import assemble
from xladev.platforms.template_npu.device.core import Core
from xladev.platforms.template_npu.device.execute import is_batchable
from xladev.platforms.template_npu.device.faults import FaultCode
from xladev.platforms.template_npu.device.isa import Instruction, Operand

NAMES = [t.name for t in isa.TYPES]
REGION = 4096
"""Random streams work on so few bytes that operands often overlap."""


def run(text: str | bytes, windows: list[np.ndarray], *, batched: bool = True):
    """Runs a list on a small device; windows are read back. Returns fault and device."""
    core = Core(1 << 20)
    bindings = []
    for window in windows:
        address = core.dram.allocate(window.nbytes, 64)
        core.dram.data[address : address + window.nbytes] = window.view(np.uint8).reshape(-1)
        bindings.append((address, window.nbytes))
    code = assemble(text) if isinstance(text, str) else text
    fault = core.run(core.load(code, batched=batched), bindings)
    for window, (address, nbytes) in zip(windows, bindings, strict=True):
        window.view(np.uint8).reshape(-1)[:] = core.dram.data[address : address + nbytes]
    return fault, core


def random_vector(draw: random.Random) -> Instruction:
    name = draw.choice(["unary", "binary", "compare", "select", "convert", "reduce", "quantize"])
    opcode = isa.BY_NAME[name]
    function = draw.randrange(len(opcode.functions)) if opcode.functions else 0
    type_ = draw.randrange(len(isa.TYPES))
    result = draw.randrange(len(isa.TYPES)) if name == "convert" else type_
    if name == "compare" or opcode.functions[function : function + 1] == ("is_finite",):
        result = 0
    counts = tuple(draw.choice((1, 2, 3, 5)) for _ in range(4))
    operands = tuple(
        Operand(
            REGION + draw.randrange(64) * 4,
            tuple(draw.choice((0, 4, 8, 12, 20, 60, -4)) for _ in range(4)),
        )
        for _ in range(4)
    )
    if draw.random() < 0.4:  # in place
        operands = (operands[1], *operands[1:])
    return Instruction(opcode, function, type_, result, counts, operands, (0x50A,))


def random_matmul(draw: random.Random) -> Instruction:
    type_ = draw.choice([isa.TYPE_NUMBERS[n] for n in ("s8", "u8", "bf16", "f32")])
    result = isa.TYPE_NUMBERS["f32" if isa.TYPES[type_].is_float else "s32"]
    sizes = [draw.randrange(1, 17) for _ in range(3)]
    operands = tuple(
        Operand(
            REGION + draw.randrange(64) * 64,
            tuple(draw.choice((0, 64, 128, 256)) for _ in range(3)) + (draw.choice((64, 4)), 4),
        )
        for _ in range(3)
    )
    counts = (*(draw.randrange(1, 4) for _ in range(3)), 1)
    scalars = (*sizes, draw.randrange(2))
    return Instruction(isa.BY_NAME["matmul"], 0, type_, result, counts, operands, scalars)


def test_batched_execution_is_bit_for_bit_sequential_execution(seed):
    draw = random.Random(seed)
    data = np.random.default_rng(seed % 2**32).integers(0, 256, 4 * REGION).astype(np.uint8)
    load = (
        f"load.u8 (1, 1, 1, {2 * REGION}) sp=0:[0,0,0,1] dram=0:[0,0,0,1] signal=0\n"
        f"load.u8 (1, 1, 1, {2 * REGION}) sp={2 * REGION}:[0,0,0,1] dram={2 * REGION}:[0,0,0,1]"
        " signal=0\nfill.f32 (1, 1, 1, 1) dst=0:[0,0,0,0] wait=0>=2 signal=2"
    )
    kinds = {True: 0, False: 0}
    for _ in range(400):
        make = random_vector if draw.random() < 0.85 else random_matmul
        i = make(draw)
        wait = () if make is random_vector else ((2, 1),)
        i = Instruction(i.opcode, i.function, i.type, i.result, i.counts, i.operands, i.scalars,
                        waits=wait)  # fmt: skip
        code = assemble(load) + isa.encode(i)
        faults, cores = zip(
            *(run(code, [data.copy()], batched=b) for b in (True, False)), strict=True
        )
        assert faults[0] == faults[1]
        assert np.array_equal(cores[0].scratchpad, cores[1].scratchpad), i
        if faults[0] is None:
            step = cores[0].load(code).schedule.steps[-1]
            kinds[is_batchable(step)] += 1
    assert min(kinds.values()) > 10  # both ways are taken


def test_a_loop_carried_sum_is_sequential():
    data = np.arange(1, 9, dtype=np.float32)
    out = np.zeros(1, np.float32)
    text = """
        load.f32 (1, 1, 1, 8) sp=0x100:[0,0,0,4] dram=0:[0,0,0,4] signal=0
        fill.f32 (1, 1, 1, 1) dst=0:[0,0,0,0] wait=0>=1 signal=2
        binary.add.f32 (1, 1, 8, 1) dst=0:[0,0,0,0] src0=0:[0,0,0,0] src1=0x100:[0,0,4,0] signal=2
        store.f32 (1, 1, 1, 1) sp=0:[0,0,0,0] dram=0:[0,0,0,0] binding=1 wait=2>=2
    """
    assert run(text, [data, out])[0] is None
    assert out[0] == 36


def test_dma_moves_a_transposed_reversed_block():
    source = np.arange(60, dtype=np.int32).reshape(3, 4, 5)
    out = np.zeros((5, 4, 3), np.int32)
    text = """
        load.s32 (1, 5, 4, 3) sp=0:[0,48,12,4] dram=60:[0,4,-20,80] signal=0
        store.s32 (1, 1, 1, 60) sp=0:[0,0,0,4] dram=0:[0,0,0,4] binding=1 wait=0>=1
    """
    assert run(text, [source, out])[0] is None
    assert np.array_equal(out, source[:, ::-1, :].transpose(2, 1, 0))


@pytest.mark.parametrize(("function", "want"), [("set", [5, 0, 3, 0]), ("add", [6, 0, 5, 0])])
def test_scatter_in_order_and_without_negative_indices(function, want):
    values, index = np.array([1, 2, 3, 5, 9], np.int32), np.array([0, 2, 2, 0, -1], np.int32)
    out = np.zeros(4, np.int32)
    text = """
        load.s32 (1, 1, 1, 5) sp=0:[0,0,0,4] dram=0:[0,0,0,4] signal=0
        load.s32 (1, 1, 1, 5) sp=64:[0,0,0,4] dram=0:[0,0,0,4] binding=1 signal=0
    """
    text += (
        f"scatter.{function}.s32 (1, 1, 1, 5) sp=0:[0,0,0,4] index=64:[0,0,0,4]"
        " unit=4 binding=2 wait=0>=2"
    )
    assert run(text, [values, index, out])[0] is None
    assert out.tolist() == want


def test_gather_gives_zero_for_negative_indices():
    table, index = np.array([7, 8, 9], np.float32), np.array([2, -1, 0], np.int32)
    out = np.ones(3, np.float32)
    text = """
        load.s32 (1, 1, 1, 3) sp=64:[0,0,0,4] dram=0:[0,0,0,4] binding=1 signal=0
        fill.f32 (1, 1, 1, 1) dst=0x200:[0,0,0,0] wait=0>=1 signal=2
        gather.f32 (1, 1, 1, 3) sp=0:[0,0,0,4] index=64:[0,0,0,4] unit=4 signal=0
        store.f32 (1, 1, 1, 3) sp=0:[0,0,0,4] dram=0:[0,0,0,4] binding=2 wait=0>=2
    """
    assert run(text, [table, index, out])[0] is None
    assert out.tolist() == [9, 0, 7]


@pytest.mark.parametrize(
    "line",
    [
        "load.f32 (1, 1, 1, 5) sp=0:[0,0,0,4] dram=0:[0,0,0,4]",
        "load.f32 (1, 1, 1, 2) sp=0:[0,0,0,4] dram=0:[0,0,0,-4]",
        "load.f32 (1, 1, 1, 1) sp=0:[0,0,0,4] binding=1",
    ],
)
def test_dma_outside_of_its_window_is_a_fault_with_its_instruction(line):
    fault, _ = run(f"fill.f32 (1,1,1,1) dst=0x800:[0,0,0,0]\n{line}", [np.zeros(4, np.float32)])
    assert (fault.code, fault.index) == (FaultCode.DRAM_BOUNDS, 1)
    assert assemble(fault.disassembly) == assemble(line)


def test_an_index_outside_of_the_window_is_a_fault():
    text = """
        fill.s32 (1, 1, 1, 1) dst=64:[0,0,0,0] imm=4 signal=2
        gather.f32 (1, 1, 1, 1) sp=0:[0,0,0,0] index=64:[0,0,0,0] unit=4 wait=2>=1
    """
    fault, _ = run(text, [np.zeros(4, np.float32)])
    assert fault.code is FaultCode.DRAM_BOUNDS


@pytest.mark.parametrize("name", ["f32", "bf16", "s8", "u8"])
def test_matmul_of_tiles_is_a_product(name, seed):
    rng = np.random.default_rng(seed % 2**32)
    small = rng.integers(0 if name == "u8" else -4, 5, (48, 48)).astype(np.float32)
    kind = {"f32": np.float32, "s8": np.int8, "u8": np.uint8}.get(name)
    bits = (small.view(np.uint32) >> 16).astype(np.uint16) if kind is None else small.astype(kind)
    size = bits.itemsize
    out = np.zeros((48, 48), np.float32 if name in ("f32", "bf16") else np.int32)
    result = "f32" if out.dtype == np.float32 else "s32"
    row = 48 * size
    text = f"""
        load.{name} (1, 1, 1, 2304) sp=0:[0,0,0,{size}] dram=0:[0,0,0,{size}] signal=0
        matmul.{name}>{result} (3, 3, 3, 1) dst=0x8000:[3072,64,0,192,4] a=0:[{16 * row},0,{16 * size},{row},{size}] b=0:[0,{16 * size},{16 * row},{row},{size}] m=16 n=16 k=16 wait=0>=1 signal=3
        store.{result} (1, 1, 1, 2304) sp=0x8000:[0,0,0,4] dram=0:[0,0,0,4] binding=1 wait=3>=1
    """  # noqa: E501 (an instruction is a line)
    assert run(text, [bits, out])[0] is None
    assert np.array_equal(out, small @ small)


def test_all_functions_of_all_types_run():
    missing = []
    for name in NAMES:
        code = f"fill.{name} (1, 1, 1, 8) dst=0:[0,0,0,4] imm=1\n"
        for function in isa.BINARY:
            core = Core(1 << 12)
            operands = "dst=64:[0,0,0,4] src0=0:[0,0,0,4] src1=0:[0,0,0,4]"
            line = f"binary.{function}.{name} (1,1,1,2) {operands}"
            if core.run(core.load(assemble(code + line)), ()) is not None:
                missing.append((function, name))
    assert ("add", "bf16") not in missing
    assert ("shl", "f32") in missing
    assert len(missing) < 70
