"""Semaphores: lists are free of hazards, and wait for no more than they must."""

from xladev.platforms.template_npu.codegen.command_list import NOWHERE, CommandList, TrackedBytes
from xladev.platforms.template_npu.device import isa
from xladev.platforms.template_npu.device.isa import BY_NAME, decode, words_of
from xladev.platforms.template_npu.device.sequencer import schedule

F32 = isa.TYPE_NUMBERS["f32"]
LANES = (1, 1, 1, 64)
STRIDES = (0, 0, 0, 4)


class Writer:
    """Loads, doubles and stores 64 numbers."""

    def __init__(self) -> None:
        self.commands = CommandList()
        self.source, self.result = TrackedBytes(0), TrackedBytes(1)

    def dma(self, name: str, held: TrackedBytes, window: TrackedBytes) -> None:
        is_load = name == "load"
        reads, writes = ((window,), (held,)) if is_load else ((held,), (window,))
        operands = ((held.address, STRIDES), NOWHERE, (0, STRIDES))
        self.commands.emit(
            BY_NAME[name], 0, (F32, F32), LANES, operands, (0, window.address), reads, writes
        )

    def double(self, source: TrackedBytes, made: TrackedBytes) -> None:
        operands = ((made.address, STRIDES), (source.address, STRIDES), (source.address, STRIDES))
        self.commands.emit(
            BY_NAME["binary"], 0, (F32, F32), LANES, (*operands, NOWHERE), (0,), (source,), (made,)
        )

    def tile(self, a: TrackedBytes, b: TrackedBytes) -> None:
        self.dma("load", a, self.source)
        self.double(a, b)
        self.dma("store", b, self.result)

    def waits(self) -> list[dict[int, int]]:
        return [dict(decode(word).waits) for word in words_of(self.commands.code())]


def test_each_engine_waits_for_what_it_reads_and_overwrites():
    w = Writer()
    a, b = TrackedBytes(0), TrackedBytes(0x1000)
    w.tile(a, b)
    w.tile(a, b)
    load, vector = isa.LOAD, isa.VECTOR
    assert w.waits() == [
        {}, {load: 1}, {vector: 1},
        {vector: 1}, {load: 2, isa.STORE: 1}, {vector: 2},
    ]  # fmt: skip
    assert schedule(w.commands.code()).fault is None


def test_other_buffers_are_not_waited_for():
    w = Writer()
    for n in range(2):
        w.tile(TrackedBytes(n * 0x2000), TrackedBytes(n * 0x2000 + 0x1000))
    assert w.waits()[3] == {}  # the second load runs beside the first tile
    planned = schedule(w.commands.code())
    assert planned.fault is None
    assert planned.counters.cycles < sum(planned.counters.busy)


def test_a_new_buffer_waits_for_all_that_may_have_used_its_bytes():
    w = Writer()
    w.tile(TrackedBytes(0), TrackedBytes(0x1000))
    w.tile(w.commands.scratchpad_buffer(0x1000), w.commands.scratchpad_buffer(0))
    assert schedule(w.commands.code()).fault is None
    assert w.waits()[3] == {isa.STORE: 1, isa.VECTOR: 1}


def test_reading_what_was_stored_waits_for_the_store():
    w = Writer()
    w.tile(TrackedBytes(0), TrackedBytes(0x1000))
    w.dma("load", TrackedBytes(0x2000), w.result)
    assert w.waits()[3] == {isa.STORE: 1}
