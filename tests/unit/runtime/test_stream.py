"""The synchronous stream, joins across devices and platforms, host memory executors."""

import threading

import numpy as np
import pytest

from tests.unit.runtime.null_device import Driver, Executor1, NullEvent, null_device
from xladev.errors import ArgumentError, ExecutionError, PluginError
from xladev.runtime.event import READY
from xladev.runtime.host_executor import HostExecutor, host_address, host_bytes
from xladev.runtime.launch.definition_event import DefinitionEvent
from xladev.runtime.stream import SynchronousStream

DATA = np.arange(8, dtype=np.uint8)


@pytest.fixture
def stream():
    return SynchronousStream()


def memory(executor, nbytes=8):
    return executor.allocate(nbytes, alignment=64, memory_space=0)


@pytest.mark.parametrize("make", [lambda: Executor1(Driver()), HostExecutor], ids=["null", "host"])
def test_copies_in_all_directions(stream, make):
    a, b, out, host = memory(make()), memory(make()), np.zeros(8, np.uint8), np.zeros(8, np.uint8)
    stream.copy(a, DATA)
    stream.copy(b, a)
    stream.copy(out, b)
    stream.copy(host, out)
    np.testing.assert_array_equal(host, DATA)
    stream.copy(out[:2], b.slice(3, 2))
    assert list(out[:2]) == [3, 4]


def test_sizes_must_agree(stream):
    device = memory(HostExecutor())
    for destination, source in ((device, DATA[:4]), (DATA[:4], device), (DATA[:4], DATA)):
        with pytest.raises(ArgumentError, match="bytes into"):
            stream.copy(destination, source)
    with pytest.raises(ArgumentError, match="outside a buffer of 8 bytes"):
        device.slice(4, 5)


def test_events_of_a_synchronous_stream_are_ready(stream):
    assert stream.record() is READY
    assert stream.is_synchronous
    stream.synchronize()


def test_waiting_for_a_foreign_event_blocks(stream):
    event = NullEvent()
    threading.Timer(0.02, event.reached.set).start()
    stream.wait(event)
    assert event.reached.is_set()


def test_host_memory_is_aligned_and_viewed():
    executor = HostExecutor()
    for alignment in (1, 64, 4096):
        made = executor.allocate(100, alignment=alignment, memory_space=0)
        assert host_address(made) % alignment == 0
        assert host_address(made.slice(3, 4)) == host_address(made) + 3
        host_bytes(made)[:] = 7
        assert executor.host_view(made.slice(3, 4)).tolist() == [7] * 4
    with pytest.raises(ArgumentError):
        executor.copy_to_host(np.empty(3, np.uint8), made)


# Joins


def test_events_of_the_same_stream_need_no_wait():
    driver = Driver()
    device = null_device(driver)
    device.join(DefinitionEvent("null:0", NullEvent()))
    assert "stream.wait" not in driver.calls


def test_events_of_another_device_are_waited_for_on_the_stream():
    driver = Driver()
    device = null_device(driver)
    event = NullEvent()
    device.join(DefinitionEvent("null:1", event))
    assert driver.calls.count("stream.wait") == 1
    event.reached.set()


def test_events_of_another_platform_are_waited_for_on_the_host():
    driver = Driver()
    device = null_device(driver)
    event = NullEvent()
    threading.Timer(0.02, event.reached.set).start()
    device.join(DefinitionEvent("cpu:0", event))
    assert event.reached.is_set()
    assert "stream.wait" not in driver.calls


def test_joined_events_are_taken_apart():
    driver = Driver()
    device = null_device(driver)
    near, far = NullEvent(), NullEvent()
    parts = [DefinitionEvent("null:0", near), DefinitionEvent("null:3", far)]
    device.join(DefinitionEvent("", None, parts))
    assert driver.calls.count("stream.wait") == 1
    near.reached.set()
    far.reached.set()


def test_a_raising_wait_is_named():
    driver = Driver()
    device = null_device(driver)
    driver.fail("stream.wait", ValueError("driver bug"))
    with pytest.raises(PluginError, match=r"Stream\.wait"):
        device.join(DefinitionEvent("null:1", NullEvent()))


def test_synchronize_reports_a_raising_stream():
    driver = Driver()
    device = null_device(driver)
    assert device.stream is device.stream
    driver.fail("synchronize", ValueError("driver bug"))
    with pytest.raises(PluginError, match=r"Stream\.synchronize"):
        device.synchronize()


def test_a_failed_copy_on_a_stream_is_in_the_next_event():
    driver = Driver()
    device = null_device(driver)
    a = memory(device.executor)
    del driver.memory[a.handle]
    device.stream.copy(a, DATA)
    first, second = device.stream.record(), device.stream.record()
    assert first.wait(10) and second.wait(10)
    assert isinstance(first.error(), ExecutionError)
    assert second.error() is None
