"""Tier 1, memory: allocation, copies of every size and type, parts, donation, leaks."""

import gc
import mmap
from pathlib import Path

import numpy as np

from xladev.errors import OutOfMemoryError, XladevError
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import ARRAY_TYPES, F32
from xladev.hlo.shape import Layout, array
from xladev.runtime.array import put, to_device
from xladev.testing.conformance.case import checks_of
from xladev.testing.conformance.probe import Probe
from xladev.testing.random_inputs import wild_array

SIZES = (0, 1, 3, 4, 63, 64, 65, 255, 256, 257, 4095, 4096, 4097, 65536, 1 << 20, (1 << 20) + 1)
NEGATE = """HloModule negate
ENTRY e { x = f32[1000]{0} parameter(0)
  ROOT r = f32[1000]{0} negate(x) }"""


def pattern(nbytes: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, nbytes, np.uint8)


def check_copies_of_every_size_come_back(probe: Probe) -> None:
    for nbytes in SIZES:
        sent = pattern(nbytes, nbytes)
        probe.require(np.array_equal(put(probe.device, sent).numpy(), sent), f"{nbytes} bytes")


def check_every_type_comes_back(probe: Probe) -> None:
    rng = np.random.default_rng(1)
    for dtype in ARRAY_TYPES:
        sent = wild_array(rng, array(dtype, (5, 33)))
        found = put(probe.device, sent).numpy()
        same = found.dtype == sent.dtype and found.tobytes() == sent.tobytes()
        probe.require(same, f"an array of {dtype} changed on its way to the device and back")


def check_scalars_and_empty_arrays(probe: Probe) -> None:
    for dims in ((), (0,), (3, 0, 5), (1, 1, 1)):
        sent = np.full(dims, 7, np.int32)
        found = put(probe.device, sent).numpy()
        probe.require(found.shape == dims and np.array_equal(found, sent), f"s32{list(dims)}")


def check_layouts_come_back(probe: Probe) -> None:
    sent = np.arange(210, dtype=np.float32).reshape(5, 6, 7)
    for order in ((2, 1, 0), (0, 1, 2), (1, 2, 0), (2, 0, 1)):
        shape = array(F32, sent.shape, layout=Layout(order))
        probe.require(np.array_equal(put(probe.device, sent, shape).numpy(), sent), f"{order}")


def check_strided_host_arrays_are_copied_by_value(probe: Probe) -> None:
    whole = np.arange(400, dtype=np.int32).reshape(20, 20)
    for part in (whole[::2, 1::3], whole.T, whole[::-1]):
        probe.require(np.array_equal(put(probe.device, part).numpy(), part), "a strided array")


def check_host_may_change_its_array_after_put(probe: Probe) -> None:
    sent = np.arange(1000, dtype=np.int32)
    kept = put(probe.device, sent)
    sent[:] = -1
    probe.require(np.array_equal(kept.numpy(), np.arange(1000)), "the device saw a later change")


def check_buffers_do_not_overlap(probe: Probe) -> None:
    arrays = [put(probe.device, np.full(257, n, np.int32)) for n in range(64)]
    for n, one in enumerate(arrays):
        probe.require(bool((one.numpy() == n).all()), f"buffer {n} of 64 was written by another")


def check_freed_memory_is_used_again(probe: Probe) -> None:
    """A hundred times 16 MiB, of which one is live at a time."""
    count = probe.at_most(1 << 24) // 4
    for n in range(100):
        one = put(probe.device, np.full(count, n, np.int32))
        probe.require(int(one.numpy()[-1]) == n, f"round {n}")
        one.delete()


def check_alignment_is_kept(probe: Probe) -> None:
    device = probe.device
    wanted = device.description.memory_space(0).alignment
    for nbytes in (1, 3, 100, 4097):
        held = device.allocate_nbytes(nbytes, "alignment")
        memory = held.memory
        view = device.executor.host_view(memory)
        if isinstance(memory.handle, int):
            where = memory.handle + memory.offset
        elif view is not None:
            where = view.__array_interface__["data"][0]
        else:
            continue
        probe.require(where % wanted == 0, f"{nbytes} bytes at {where}, not at {wanted}")


def check_parts_of_a_buffer_are_copied_alone(probe: Probe) -> None:
    device, sent = probe.device, pattern(1000)
    buffer = device.allocate_nbytes(1000, "parts")
    executor = device.executor
    executor.copy_to_device(buffer.memory.slice(0, 1000), sent)
    executor.copy_to_device(buffer.memory.slice(300, 77), np.zeros(77, np.uint8))
    found = np.empty(1000, np.uint8)
    executor.copy_to_host(found, buffer.memory.slice(0, 1000))
    want = sent.copy()
    want[300:377] = 0
    probe.require(np.array_equal(found, want), "a copy into part of a buffer hit other bytes")
    part = np.empty(5, np.uint8)
    executor.copy_to_host(part, buffer.memory.slice(995, 5))
    probe.require(np.array_equal(part, want[995:]), "the last bytes of a buffer")


def check_out_of_memory_is_an_error_and_the_device_stays_usable(probe: Probe) -> None:
    device = probe.device
    try:
        held = device.allocate_nbytes(1 << 60, "far too much")
    except OutOfMemoryError as error:
        probe.require("far too much" in str(error) or bool(error.why), "the error names nothing")
    except XladevError as error:
        probe.fail("an allocation of 2**60 bytes is no OutOfMemoryError", str(error))
    else:
        probe.fail("2**60 bytes were allocated", str(held.memory.nbytes))
    sent = pattern(1000)
    probe.require(np.array_equal(put(device, sent).numpy(), sent), "a copy after out of memory")


def check_nothing_leaks(probe: Probe) -> None:
    device, compiled = probe.device, probe.compile(NEGATE)
    x = np.arange(1000, dtype=np.float32)
    np.asarray(compiled(x))
    gc.collect()
    before = device.memory_stats()
    for _ in range(50):
        np.asarray(compiled(x))
    gc.collect()
    device.synchronize()
    after = device.memory_stats()
    grown = after.nbytes_in_use - before.nbytes_in_use
    probe.require(grown <= 0, f"50 launches left {grown} bytes allocated")


def resident_nbytes() -> int:
    """Memory of this process; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * mmap.PAGESIZE


def check_launches_do_not_grow_the_process(probe: Probe) -> None:
    """300 results of 1 MiB, one live at a time."""
    count = probe.at_most(2 << 20) // 8
    compiled = probe.compile(NEGATE.replace("1000", str(count)))
    x = put(probe.device, np.zeros(count, np.float32))
    for turn in range(320):
        if turn == 20:
            before = resident_nbytes()
        np.asarray(compiled(x))
    grown = resident_nbytes() - before
    probe.require(grown < 100 << 20, f"300 launches grew the process by {grown >> 20} MiB")


def check_compiling_does_not_grow_the_process(probe: Probe) -> None:
    """60 programs with a constant of 2 MiB, dropped after one launch."""
    rng, count = np.random.default_rng(0), probe.at_most(6 << 20) // 12
    for turn in range(65):
        if turn == 5:
            gc.collect()
            before = resident_nbytes()
        b = HloBuilder("constants")
        held = b.constant(rng.standard_normal(count).astype(np.float32))
        x = b.parameter(array(F32, (count,)))
        np.asarray(probe.compile(b.module(b.op("add", x, held)))(np.zeros(count, np.float32)))
    gc.collect()
    grown = resident_nbytes() - before
    probe.require(grown < 60 << 20, f"60 compilations grew the process by {grown >> 20} MiB")


def check_results_that_do_not_fit_are_an_error_and_no_end(probe: Probe) -> None:
    """A program whose result has 2**50 bytes is refused, or runs out of memory; others run."""
    text = """HloModule huge
ENTRY e { x = f32[] parameter(0)
  ROOT r = f32[1048576,268435456] broadcast(x), dimensions={} }"""
    try:
        np.asarray(probe.compile(text)(np.float32(1)))
    except XladevError:
        found = np.asarray(probe.compile(NEGATE)(np.ones(1000, np.float32)))
        probe.require(bool((found == -1).all()), "the launch after one that did not fit")
        return
    probe.fail("a program with a result of 2**50 bytes ran")


def check_arguments_that_are_not_donated_stay(probe: Probe) -> None:
    aliased = NEGATE.replace("negate\n", "negate, input_output_alias={ {}: (0, {}, may-alias) }\n")
    compiled = probe.compile(aliased)
    x = put(probe.device, np.arange(1000, dtype=np.float32))
    first, second = np.asarray(compiled(x)), np.asarray(compiled(x))
    probe.require(np.array_equal(first, second), "an argument was written that was not donated")
    probe.require(np.array_equal(x.numpy(), np.arange(1000)), "the argument changed")


def check_donated_arguments_are_gone(probe: Probe) -> None:
    aliased = NEGATE.replace("negate\n", "negate, input_output_alias={ {}: (0, {}, may-alias) }\n")
    compiled = probe.compile(aliased)
    x = put(probe.device, np.arange(1000, dtype=np.float32))
    result = np.asarray(compiled(x, donate=True))
    probe.require(np.array_equal(result, -np.arange(1000, dtype=np.float32)), "a wrong result")
    try:
        x.numpy()
    except XladevError:
        return
    probe.fail("a donated array can still be read")


def check_copies_between_devices(probe: Probe) -> None:
    first, second = probe.some_devices(2)
    sent = pattern(10_000)
    there = to_device(put(first, sent), second)
    probe.require(there.device is second, "the copy is on another device")
    probe.require(np.array_equal(there.numpy(), sent), "device to device")
    back = to_device(there, first)
    probe.require(np.array_equal(back.numpy(), sent), "and back")


def check_devices_have_memories_of_their_own(probe: Probe) -> None:
    held = []
    for number, device in enumerate(probe.some_devices(2)):
        held += [(put(device, np.full(1000, 10 * number + n, np.int32)), n) for n in range(3)]
    for at, (array_, n) in enumerate(held):
        want = 10 * (at // 3) + n
        probe.require(bool((array_.numpy() == want).all()), "one device writes another's memory")


CASES = tuple(checks_of(__name__, 1, globals()))
