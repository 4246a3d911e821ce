"""Each fault of a list, what orders engines, and counters that are the same every time."""

import pytest

from xladev.platforms.template_npu.device import isa
from xladev.platforms.template_npu.device.assembler import assemble
from xladev.platforms.template_npu.device.faults import FaultCode
from xladev.platforms.template_npu.device.sequencer import schedule

LOAD = "load.f32 (1, 1, 1, 8) sp={sp}:[0,0,0,4] dram=0:[0,0,0,4] signal=0"
STORE = "store.f32 (1, 1, 1, 8) sp={sp}:[0,0,0,4] dram=0:[0,0,0,4] binding=1"
FILL = "fill.f32 (1, 1, 1, 8) dst={sp}:[0,0,0,4] signal=2"


def fault_of(*lines: str) -> tuple[FaultCode, int]:
    fault = schedule(assemble("\n".join(lines))).fault
    return (FaultCode.OK, -1) if fault is None else (fault.code, fault.index)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("fill.f32 (1, 1, 1, 1025) dst=0:[0,0,0,4]", FaultCode.ILLEGAL_INSTRUCTION),
        ("fill.f32 (1, 1, 0, 1) dst=0:[0,0,0,4]", FaultCode.ILLEGAL_INSTRUCTION),
        ("fill.f32>s32 (1, 1, 1, 1) dst=0:[0,0,0,4]", FaultCode.ILLEGAL_INSTRUCTION),
        ("fill.12 (1, 1, 1, 1)", FaultCode.ILLEGAL_INSTRUCTION),
        ("unary.exp.s32 (1, 1, 1, 1)", FaultCode.ILLEGAL_INSTRUCTION),
        ("unary.99.f32 (1, 1, 1, 1)", FaultCode.ILLEGAL_INSTRUCTION),
        ("reduce.and.f32 (1, 1, 1, 8)", FaultCode.ILLEGAL_INSTRUCTION),
        ("iota.f32 (1, 1, 1, 8)", FaultCode.ILLEGAL_INSTRUCTION),
        ("fill.f32 (1, 1, 1, 1) signal=16", FaultCode.ILLEGAL_INSTRUCTION),
        ("matmul.f32 (1, 1, 1, 1) m=17 n=1 k=1", FaultCode.ILLEGAL_INSTRUCTION),
        ("matmul.s8>f32 (1, 1, 1, 1) m=1 n=1 k=1", FaultCode.ILLEGAL_INSTRUCTION),
        ("fill.f32 (1, 1, 1, 2) dst=0x3fffc:[0,0,0,4]", FaultCode.SCRATCHPAD_BOUNDS),
        ("fill.f32 (1, 1, 1, 2) dst=0:[0,0,0,-4]", FaultCode.SCRATCHPAD_BOUNDS),
        ("fill.f32 (1, 1, 1, 1) dst=2:[0,0,0,4]", FaultCode.MISALIGNED),
        ("fill.f32 (1, 1, 1, 2) dst=0:[0,0,0,6]", FaultCode.MISALIGNED),
        ("unary.neg.f32 (1, 1, 1, 1) dst=0:[0,0,0,4]", FaultCode.UNINITIALIZED),
        ("fill.f32 (1, 1, 1, 1) wait=1>=1", FaultCode.DEADLOCK),
    ],
)
def test_fault(line, code):
    assert fault_of("fill.u8 (1, 1, 1, 8) dst=0x800:[0,0,0,1]", line) == (code, 1)


def test_an_unknown_opcode_is_illegal():
    assert schedule(bytes([77]) + bytes(127)).fault.code is FaultCode.ILLEGAL_INSTRUCTION


def test_a_list_of_broken_words_has_no_index():
    fault = schedule(bytes(100)).fault
    assert (fault.code, fault.index) == (FaultCode.BAD_SIZE, -1)


def test_what_comes_before_a_fault_still_runs():
    planned = schedule(assemble("fill.f32 (1,1,1,1)\nunary.neg.f32 (1,1,1,1) src0=64:[0,0,0,0]"))
    assert [s.index for s in planned.steps] == [0]
    assert "unary.neg.f32" in planned.fault.disassembly


def test_part_of_an_operand_uninitialized():
    lines = ("fill.u8 (1, 1, 1, 7) dst=0:[0,0,0,1]", "unary.neg.f32 (1,1,1,2) src0=0:[0,0,0,4]")
    assert fault_of(*lines) == (FaultCode.UNINITIALIZED, 1)


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ((LOAD.format(sp=0), "unary.neg.f32 (1,1,1,8) dst=64:[0,0,0,4] src0=0:[0,0,0,4]"),
         FaultCode.HAZARD),  # read after write
        ((LOAD.format(sp=0), "unary.neg.f32 (1,1,1,8) dst=64:[0,0,0,4] src0=0:[0,0,0,4] wait=0>=1"),
         FaultCode.OK),
        ((FILL.format(sp=0), STORE.format(sp=0) + " wait=2>=1", FILL.format(sp=0)),
         FaultCode.HAZARD),  # write after read
        ((FILL.format(sp=0), STORE.format(sp=0) + " wait=2>=1", FILL.format(sp=64)), FaultCode.OK),
        ((FILL.format(sp=0), LOAD.format(sp=0)), FaultCode.HAZARD),  # write after write
        ((FILL.format(sp=0), LOAD.format(sp=0) + " wait=2>=1"), FaultCode.OK),
    ],
)  # fmt: skip
def test_engines_must_be_ordered(lines, code):
    lines = [line.replace("signal=0 wait=2>=1", "wait=2>=1 signal=0") for line in lines]
    assert fault_of(*lines)[0] is code


def test_order_is_passed_on_through_a_third_engine():
    copy = "unary.copy.f32 (1,1,1,8) dst=64:[0,0,0,4] src0=0:[0,0,0,4] wait=0>=1 signal=2"
    store = "store.f32 (1,1,1,8) sp=0:[0,0,0,4] dram=0:[0,0,0,4] binding=1 wait=2>=1"
    assert fault_of(LOAD.format(sp=0), copy, store)[0] is FaultCode.OK


def test_a_wait_for_a_later_instruction_of_another_engine_is_no_deadlock():
    early = "unary.copy.f32 (1,1,1,8) dst=64:[0,0,0,4] src0=0:[0,0,0,4] wait=0>=1"
    planned = schedule(assemble(f"{early}\n{LOAD.format(sp=0)}"))
    assert planned.fault is None
    assert [s.index for s in planned.steps] == [1, 0]


def test_engines_that_wait_for_each_other_are_a_deadlock():
    load = LOAD.format(sp=0).replace("signal=0", "wait=2>=1 signal=0")
    fill = FILL.format(sp=64).replace("signal=2", "wait=0>=1 signal=2")
    assert fault_of(load, fill) == (FaultCode.DEADLOCK, 0)


def test_a_semaphore_belongs_to_one_engine():
    fill = FILL.format(sp=64).replace("signal=2", "signal=0")
    assert fault_of(LOAD.format(sp=0), fill) == (FaultCode.ILLEGAL_INSTRUCTION, 1)


def test_engines_overlap_in_time():
    apart = schedule(assemble("\n".join([LOAD.format(sp=0), FILL.format(sp=64)]))).counters
    assert apart.cycles < sum(apart.busy)
    assert apart.cycles == max(apart.busy)


def test_counters_count_bytes_and_products():
    code = assemble(
        LOAD.format(sp=0)
        + "\nfill.f32 (1, 1, 4, 1024) dst=0x1000:[0,0,4096,4] signal=2"
        + "\nmatmul.f32 (2, 2, 1, 1) dst=0x8000:[1024,64,0,128,4] a=0x1000:[1024,0,0,64,4]"
        " b=0x1000:[0,64,0,128,4] m=16 n=16 k=16 wait=2>=1"
    )
    counters = schedule(code).counters
    assert counters.loaded_nbytes == 32
    assert counters.multiply_adds == 4 * 16**3
    assert counters == schedule(code).counters
    assert set(counters.occupancy) == set(isa.ENGINES)
