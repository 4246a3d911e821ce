"""Tier 5, integration: DLPack in and out, memory statistics, descriptions."""

import gc
from typing import Any, cast

import numpy as np

from xladev.instrument.counters import collect_counters
from xladev.runtime.array import from_dlpack, put
from xladev.testing.conformance.case import checks_of
from xladev.testing.conformance.probe import Probe

NEGATED = """HloModule negated
ENTRY e { x = f32[3,20]{1,0} parameter(0)
  ROOT n = f32[3,20]{1,0} negate(x) }"""
TYPES = (np.float32, np.float64, np.float16, np.int8, np.int32, np.int64, np.uint8, np.uint32,
         np.complex64)  # fmt: skip


def check_arrays_leave_through_dlpack(probe: Probe) -> None:
    for dtype in TYPES:
        sent = np.arange(60).reshape(3, 4, 5).astype(dtype)
        array = put(probe.device, sent)
        if array.__dlpack_device__()[0] != 1:
            continue
        probe.require(
            np.array_equal(np.from_dlpack(cast(Any, array)), sent),
            f"{np.dtype(dtype)} through DLPack",
        )


def check_arrays_come_in_through_dlpack(probe: Probe) -> None:
    for dtype in TYPES:
        sent = np.arange(60).reshape(3, 4, 5).astype(dtype)
        found = from_dlpack(probe.device, sent)
        probe.require(np.array_equal(found.numpy(), sent), f"{np.dtype(dtype)} from DLPack")


def check_an_array_that_came_in_is_launched_where_it_is(probe: Probe) -> None:
    sent = np.arange(60, dtype=np.float32).reshape(3, 20)
    array = put(probe.device, sent)
    if probe.device.description.dlpack_device_type is None:
        return
    taken = from_dlpack(probe.device, cast(Any, array))
    compiled = probe.compile(NEGATED)
    with collect_counters() as counts:
        result = compiled(taken)
    copied = counts["runtime.nbytes_to_host"]
    probe.require(not copied, f"{copied} bytes of an argument went through the host")
    probe.require(np.array_equal(result.numpy(), -sent), "a program on an array from DLPack")


def check_exported_memory_outlives_its_array(probe: Probe) -> None:
    array = put(probe.device, np.arange(1000, dtype=np.int32))
    if array.__dlpack_device__()[0] != 1:
        return
    shown = np.from_dlpack(cast(Any, array))
    del array
    gc.collect()
    for n in range(10):
        put(probe.device, np.full(1000, -n, np.int32))
    probe.require(
        np.array_equal(shown, np.arange(1000)), "memory was given away while it was shown"
    )


def check_statistics_follow_allocations(probe: Probe) -> None:
    device = probe.device
    gc.collect()
    before = device.memory_stats()
    held = [put(device, np.zeros(1 << 16, np.uint8)) for _ in range(10)]
    during = device.memory_stats()
    probe.require(
        during.nbytes_in_use - before.nbytes_in_use >= 10 << 16, "live bytes are not counted"
    )
    probe.require(during.peak_nbytes >= during.nbytes_in_use, "the peak is below what is in use")
    del held
    gc.collect()
    device.synchronize()
    after = device.memory_stats()
    probe.require(after.nbytes_in_use <= before.nbytes_in_use, "bytes stay in use when freed")
    probe.require(after.peak_nbytes >= during.nbytes_in_use, "the peak was forgotten")


def check_the_device_describes_itself(probe: Probe) -> None:
    description = probe.device.description
    probe.require(bool(description.name), "the device has no name")
    probe.require(bool(description.target), "the device has no target to compile for")
    probe.require(len(description.memory_spaces) > 0, "the device has no memory space")
    probe.require(description.memory_space(0).alignment > 0, "memory has no alignment")


CASES = tuple(checks_of(__name__, 5, globals()))
