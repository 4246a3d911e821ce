"""The driver keeps the order that it is asked for, and finds what its user did not ask for."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from tests.async_npu.driver import library
from xladev.compiler.kernel_code import KernelCode, LaunchDimensions
from xladev.errors import DeviceError, XladevError
from xladev.hlo.proto import write_module
from xladev.hlo.text import parse_module
from xladev.runtime.buffer import Buffer
from xladev.runtime.device import Device

SIZE = 100_000


def host(value: int = 0, size: int = SIZE) -> np.ndarray:
    return np.full(size, value, np.uint8)


def buffer(device: Device, size: int = SIZE) -> Buffer:
    return device.allocate_nbytes(size, "test")


def test_a_queue_runs_beside_the_host_and_in_order(device: Device) -> None:
    held, sent, found = buffer(device), [host(n) for n in range(8)], [host(99) for _ in range(8)]
    stream = device.executor.create_stream()
    for out, into in zip(sent, found, strict=True):
        stream.copy(held.memory, out)
        stream.copy(into, held.memory)
    stream.record().wait()
    assert [int(f.max()) for f in found] == list(range(8)) == [int(f.min()) for f in found]


def test_addresses_are_no_host_pointers_and_are_never_given_twice(device: Device) -> None:
    first = buffer(device).memory.handle
    gc.collect()
    second = buffer(device).memory.handle
    assert 1 << 56 <= first < second


def test_fresh_memory_is_noise(device: Device) -> None:
    found = host()
    device.executor.copy_to_host(found, buffer(device).memory)
    assert found.min() > 0


def test_work_of_two_queues_without_order_is_refused(device: Device) -> None:
    held, sent, found = buffer(device), host(1), host()
    first, second = device.executor.create_stream(), device.executor.create_stream()
    first.copy(held.memory, sent)
    with pytest.raises(DeviceError, match="nothing orders the two"):
        second.copy(found, held.memory)
    second.wait(first.record())
    second.copy(found, held.memory)
    second.record().wait()
    assert found.max() == found.min() == 1


def test_order_reaches_through_other_queues(device: Device) -> None:
    held, sent, found = buffer(device), host(1), host()
    first, second, third = (device.executor.create_stream() for _ in range(3))
    first.copy(held.memory, sent)
    second.wait(first.record())
    third.wait(second.record())
    third.copy(found, held.memory)
    third.synchronize()
    assert found.min() == 1


def test_an_event_says_nothing_of_what_came_after_it(device: Device) -> None:
    held, sent, found = buffer(device), host(1), host()
    first, second = device.executor.create_stream(), device.executor.create_stream()
    second.wait(first.record())
    first.copy(held.memory, sent)
    with pytest.raises(DeviceError, match="nothing orders the two"):
        second.copy(found, held.memory)
    first.synchronize()


def test_readers_and_neighbours_need_no_order(device: Device) -> None:
    held, sent, found = buffer(device), host(1), [host(), host()]
    first, second = device.executor.create_stream(), device.executor.create_stream()
    first.copy(held.memory.slice(0, 100), sent[:100])
    second.copy(held.memory.slice(100, 100), sent[:100])
    first.synchronize()
    second.synchronize()
    first.copy(found[0], held.memory)
    second.copy(found[1], held.memory)
    first.synchronize()
    second.synchronize()
    assert all(f[:200].tobytes() == b"\1" * 200 for f in found)


def test_the_host_may_not_touch_what_is_pending(device: Device) -> None:
    held, sent, found = buffer(device), host(1), host()
    stream = device.executor.create_stream()
    stream.copy(held.memory, sent)
    for copy in (
        lambda: device.executor.copy_to_host(found, held.memory),
        lambda: device.executor.copy_to_device(held.memory, found),
    ):
        with pytest.raises(DeviceError, match="nothing orders the two"):
            copy()
    stream.record().wait()
    device.executor.copy_to_host(found, held.memory)
    assert found.min() == 1


def test_memory_in_use_may_not_be_freed(device: Device) -> None:
    held, sent = buffer(device), host(1)
    stream = device.executor.create_stream()
    stream.copy(held.memory, sent)
    del held
    with pytest.raises(DeviceError, match="used wrongly") as caught:
        buffer(device)
    assert "freed that pending work uses" in str(caught.value)
    stream.synchronize()


def test_host_memory_in_use_may_not_be_freed(device: Device) -> None:
    held, sent = buffer(device), host(1)
    stream = device.executor.create_stream()
    stream.copy(held.memory, sent[:])
    del sent
    with pytest.raises(DeviceError, match="used wrongly") as caught:
        stream.synchronize()
    assert "host memory was freed" in str(caught.value)


def test_host_memory_may_go_when_an_event_has_said_so(device: Device) -> None:
    held, sent = buffer(device), host(1)
    stream = device.executor.create_stream()
    stream.copy(held.memory, sent[:])
    stream.record().wait()
    del sent
    stream.synchronize()


def test_freed_memory_cannot_be_used(device: Device) -> None:
    held = buffer(device)
    memory = held.memory
    del held
    device.allocator.give_back()
    with pytest.raises(XladevError, match="none of the device's"):
        device.executor.copy_to_host(host(), memory)


def test_a_range_beyond_its_block_is_refused(device: Device) -> None:
    held = buffer(device)
    beyond = type(held.memory)(device.executor, held.memory.handle, 1, SIZE)
    with pytest.raises(XladevError, match="none of the device's"):
        device.executor.copy_to_device(beyond, host())


def test_a_kernel_is_given_aligned_addresses_only(device: Device) -> None:
    module = parse_module("ENTRY e { x = u8[8] parameter(0)  ROOT y = u8[8] negate(x) }")
    kernel = device.executor.load_kernel(KernelCode("e", write_module(module)))
    held, stream = buffer(device), device.executor.create_stream()
    executor, dimensions = device.executor, LaunchDimensions()
    fine = [held.memory.slice(128, 8), held.memory.slice(256, 8)]
    executor.launch_kernel(stream, kernel, fine, dimensions)
    for offsets in ((64, 256), (128, 320), (129, 256)):
        ends = [held.memory.slice(at, 8) for at in offsets]
        with pytest.raises(DeviceError, match="no multiple of 128"):
            executor.launch_kernel(stream, kernel, ends, dimensions)
    stream.synchronize()


def test_it_runs_out_of_memory(device: Device) -> None:
    with pytest.raises(XladevError, match="cannot allocate"):
        buffer(device, 1 << 40)


def test_work_of_a_dropped_queue_goes_on(device: Device) -> None:
    held, sent, found = buffer(device), host(3), host()
    stream = device.executor.create_stream()
    stream.copy(held.memory, sent)
    stream.copy(found, held.memory)
    event = stream.record()
    del stream
    gc.collect()
    assert event.wait(20.0) and found.min() == 3


def test_closing_ends_queues_that_wait_for_ever(device: Device) -> None:
    blocked, other = device.executor.create_stream(), device.executor.create_stream()
    for _ in range(3):
        blocked.wait(other.record())
        other.wait(blocked.record())
    device.close()


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(library.VARIABLE, "7,100,0")
    assert library.Settings.from_environment() == library.Settings(7, 100, checks=False)
    monkeypatch.setenv(library.VARIABLE, "7")
    assert library.Settings.from_environment() == library.Settings(7)
