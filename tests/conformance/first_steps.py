"""Tier 1: devices, slices of slices, threads, and first programs; memory.py has the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from xladev.runtime.device import Device
from xladev.runtime.memory import DeviceMemory, HostBytes
from xladev.testing.conformance.case import AnyCase, Case, checks_of, cuttable
from xladev.testing.conformance.probe import Probe

_ALIGNMENT = 64


def check_every_device_opens(probe: Probe) -> None:
    probe.require(bool(probe.devices), "the platform has no device")
    names = {device.name for device in probe.devices}
    probe.require(len(names) == len(probe.devices), "two devices have one name")


@contextmanager
def allocated(device: Device, *sizes: int) -> Iterator[list[DeviceMemory]]:
    """Memory of these sizes, freed in the order in which it was allocated."""
    alignment = max(_ALIGNMENT, device.description.memory_space(0).alignment)
    found = [device.executor.allocate(n, alignment=alignment, memory_space=0) for n in sizes]
    try:
        yield found
    finally:
        for memory in found:
            device.executor.deallocate(memory)


def noise(nbytes: int, seed: int = 0) -> HostBytes:
    return np.random.default_rng(seed).integers(0, 256, nbytes, np.uint8)


def read(device: Device, memory: DeviceMemory) -> HostBytes:
    found = np.full(memory.nbytes, 0xA5, np.uint8)
    device.executor.copy_to_host(found, memory)
    return found


def expect(probe: Probe, got: HostBytes, want: HostBytes, what: str) -> None:
    if not np.array_equal(got, want):
        at = int(np.flatnonzero(got != want)[0])
        probe.fail(what, f"byte {at} of {want.size} is {got[at]}, want {want[at]}")


def check_what_allocate_says_of_itself(probe: Probe) -> None:
    for nbytes in (1, 64, 4097):
        with allocated(probe.device, nbytes) as (memory,):
            probe.require(memory.nbytes == nbytes, f"asked for {nbytes}, got {memory.nbytes} bytes")
            same = memory.executor is probe.device.executor
            probe.require(same, "DeviceMemory.executor is not the executor that allocated it")


def check_round_trips_on_every_device(probe: Probe) -> None:
    for device in probe.devices:
        with allocated(device, 1000) as (memory,):
            device.executor.copy_to_device(memory, noise(1000, device.ordinal))
            expect(probe, read(device, memory), noise(1000, device.ordinal), device.name)


def check_copies_leave_the_source_alone(probe: Probe) -> None:
    data = noise(500)
    data.flags.writeable = False
    with allocated(probe.device, 500) as (memory,):
        probe.device.executor.copy_to_device(memory, data)
        found = read(probe.device, memory)
        found[:] = 0
        expect(probe, read(probe.device, memory), data, "changing what was read changed the device")


def check_slices_are_read_where_they_lie(probe: Probe) -> None:
    with allocated(probe.device, 1000) as (memory,):
        probe.device.executor.copy_to_device(memory, noise(1000))
        for offset, nbytes in ((0, 1000), (1, 999), (64, 64), (500, 3), (999, 1)):
            got = read(probe.device, memory.slice(offset, nbytes))
            expect(probe, got, noise(1000)[offset : offset + nbytes], f"slice at byte {offset}")


def check_slices_of_slices(probe: Probe) -> None:
    with allocated(probe.device, 300) as (memory,):
        probe.device.executor.copy_to_device(memory, noise(300))
        inner = memory.slice(100, 150).slice(20, 30)
        expect(probe, read(probe.device, inner), noise(300)[120:150], "offsets do not add up")


def check_memory_is_freed_in_any_order(probe: Probe) -> None:
    executor = probe.device.executor
    found = [executor.allocate(100 + n, alignment=_ALIGNMENT, memory_space=0) for n in range(20)]
    for n, memory in enumerate(found):
        executor.copy_to_device(memory, noise(100 + n, n))
    for n in (*range(0, 20, 2), *range(19, 0, -2)):
        expect(probe, read(probe.device, found[n]), noise(100 + n, n), f"allocation {n}")
        executor.deallocate(found[n])


def check_threads_copy_at_the_same_time(probe: Probe) -> None:
    problems: list[BaseException] = []

    def work(seed: int) -> None:
        for turn in range(20):
            with allocated(probe.device, 3000) as (memory,):
                data = noise(3000, 100 * seed + turn)
                probe.device.executor.copy_to_device(memory, data)
                expect(probe, read(probe.device, memory), data, f"thread {seed}, turn {turn}")

    _in_threads(work, 4, problems)
    if problems:
        raise problems[0]


def _in_threads(work: Callable[[int], None], count: int, problems: list[BaseException]) -> None:
    def guarded(seed: int) -> None:
        try:
            work(seed)
        except Exception as error:  # noqa: BLE001 - raised again by the check
            problems.append(error)

    threads = [threading.Thread(target=guarded, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def check_device_count_stays(probe: Probe) -> None:
    counts = {len(probe.devices) for _ in range(3)}
    probe.require(len(counts) == 1, f"the platform has {sorted(counts)} devices")


# Programs whose arrays live on the device, wherever their instructions run

_LAYER = """HloModule layer
ENTRY layer {
  x = f32[32,64]{1,0} parameter(0)
  w = f32[64,16]{1,0} parameter(1)
  b = f32[16]{0} parameter(2)
  product = f32[32,16]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bias = f32[32,16]{1,0} broadcast(b), dimensions={1}
  sum = f32[32,16]{1,0} add(product, bias)
  ROOT y = f32[32,16]{1,0} tanh(sum)
}"""
_LOOP = """HloModule loop
body { p = (s32[], f32[40]) parameter(0)
  i = s32[] get-tuple-element(p), index=0  x = f32[40] get-tuple-element(p), index=1
  one = s32[] constant(1)  j = s32[] add(i, one)  y = f32[40] add(x, x)
  ROOT t = (s32[], f32[40]) tuple(j, y) }
condition { p = (s32[], f32[40]) parameter(0)  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)  ROOT less = pred[] compare(i, n), direction=LT }
ENTRY e { x = f32[40] parameter(0)  zero = s32[] constant(0)
  start = (s32[], f32[40]) tuple(zero, x)
  ROOT end = (s32[], f32[40]) while(start), condition=condition, body=body }"""
_PROGRAMS = {
    "layer": _LAYER,
    "loop": _LOOP,
    "argument-as-result": "HloModule m\nENTRY e { ROOT x = f32[5,7] parameter(0) }",
    "same-argument-twice": """HloModule m
ENTRY e { x = s8[100] parameter(0)  ROOT t = (s8[100], s8[100]) tuple(x, x) }""",
    "constant": "HloModule m\nENTRY e { ROOT c = s32[4] constant({1, -2, 3, -4}) }",
    "empty-array": """HloModule m
ENTRY e { x = f32[0,3] parameter(0)  ROOT y = f32[0,3] negate(x) }""",
    "scalar": "HloModule m\nENTRY e { x = f64[] parameter(0)  ROOT y = f64[] multiply(x, x) }",
    "column-major": """HloModule m
ENTRY e { x = f32[6,5]{0,1} parameter(0)  ROOT y = f32[6,5]{0,1} negate(x) }""",
    "half-bytes": "HloModule m\nENTRY e { x = s4[33] parameter(0)  ROOT y = s4[33] add(x, x) }",
}


def _programs() -> Sequence[Case]:
    return [Case(name, text, tier=1, tags=("memory",)) for name, text in _PROGRAMS.items()]


def _large(factor: int) -> Case:
    shape = f"f32[1000,{1000 // factor}]"
    text = f"HloModule m\nENTRY e {{ x = {shape} parameter(0)  ROOT y = {shape} add(x, x) }}"
    return Case("large", text, tier=1, tags=("memory",))


CASES: tuple[AnyCase, ...] = (*checks_of(__name__, 1, globals()), *_programs(), cuttable(_large))
