"""Devices are closed by their registry, and at the latest when the process ends."""

import gc
import os
import subprocess
import sys
import textwrap
import weakref

import numpy as np
import pytest

from tests.unit.runtime.null_device import Driver, Executor1, Executor4, null_spec
from xladev.errors import DeviceError
from xladev.runtime.array import put
from xladev.runtime.device import Device
from xladev.runtime.launch.definition_event import DefinitionEvent
from xladev.runtime.registry import Registry

A = np.arange(4, dtype=np.float32)


def opened(driver, tier=4):
    registry = Registry(find=lambda: ())
    registry.register(null_spec(driver, tier))
    return registry, registry.device("null:0")


@pytest.fixture
def closing(monkeypatch):
    """Null executors that record that they were closed."""

    def close(self):
        self.driver.enter("close")

    monkeypatch.setattr(Executor1, "close", close, raising=False)


def test_a_registry_closes_its_devices_once_and_opens_them_anew(closing):
    driver = Driver()
    registry, device = opened(driver, tier=1)
    there = put(device, A)
    registry.close()
    registry.close()
    device.close()
    assert driver.calls.count("close") == 1
    with pytest.raises(DeviceError, match="was closed"):
        put(device, A)
    del there
    assert driver.calls[-1] == "close"  # nothing is called afterwards
    assert registry.device("null:0") is not device


def test_memory_that_nobody_uses_is_given_back_before(closing):
    driver = Driver()
    _, device = opened(driver, tier=1)
    there = put(device, A)
    del there
    device.close()
    assert driver.calls[-2:] == ["deallocate", "close"]
    assert driver.used == 0


def test_a_device_that_hangs_is_closed_all_the_same(closing, caplog):
    driver = Driver()
    _, device = opened(driver)
    driver.gate.clear()
    stream = device.stream
    assert isinstance(device.executor, Executor4)
    assert not stream.is_synchronous
    device.retain(DefinitionEvent(device.name, stream.record()), ())
    device.close(timeout_s=0.05)
    driver.gate.set()
    assert "still works on 1 launches" in caplog.text
    assert driver.calls[-1] == "close"


def test_a_raising_close_is_logged(closing, caplog):
    driver = Driver()
    _, device = opened(driver, tier=1)
    driver.fail("close", ValueError("stuck"))
    device.close()
    assert "stuck" in caplog.text


CHILD = """
    import os, sys
    from tests.unit.runtime.null_device import Driver, Executor1, null_spec
    from xladev.runtime.registry import Registry
    Executor1.close = lambda self: print("closed by", os.getpid() == first)
    first = os.getpid()
    registry = Registry(find=lambda: ())
    registry.register(null_spec(Driver(), 1))
    registry.device("null:0")
    if os.fork() == 0:
        sys.exit(0)
    os.wait()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_the_end_of_the_process_closes_and_that_of_a_child_does_not():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CHILD)], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "closed by True\n", done.stderr


PENDING = """
    import weakref
    from tests.unit.runtime.null_device import Driver, NullEvent, null_spec
    from xladev.runtime.launch.definition_event import DefinitionEvent
    from xladev.runtime.registry import Registry
    assert not weakref.finalize._registered_with_atexit
    registry = Registry(find=lambda: ())
    registry.register(null_spec(Driver(), 4))
    device = registry.device("null:0")
    event = device.stream.record()
    weakref.finalize(event, print, "released")
    NullEvent.wait = lambda self, timeout_s: print("waited") or True
    NullEvent.is_ready = lambda self: False
    device.retain(DefinitionEvent(device.name, event), ())
"""


def test_what_a_plugin_releases_at_exit_outlives_the_wait_for_pending_work():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PENDING)], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "waited\nreleased\n", done.stderr


def test_devices_are_not_kept_open_by_waiting_for_the_end():
    registry, device = opened(Driver(), tier=1)
    seen = weakref.ref(device)
    assert isinstance(device, Device)
    del registry, device
    gc.collect()
    assert seen() is None
