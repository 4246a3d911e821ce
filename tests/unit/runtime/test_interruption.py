"""Ctrl-C ends the wait for long programs, and nothing else."""

from __future__ import annotations

import contextvars
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.runtime.null_device import Driver, double_executable, null_device
from xladev.runtime.interruption import interruptible
from xladev.runtime.launchable import Launchable
from xladev.runtime.loaded_executable import LaunchContext, LoadedExecutable
from xladev.runtime.stream import Stream

LONG = """
import os, signal, threading, time
import xladev
TEXT = '''HloModule m
ENTRY e { z = f32[] constant(0)  i = f32[1048576,1048576] iota(), iota_dimension=0
  ROOT r = f32[] reduce(i, z), dimensions={0,1}, to_apply={ a = f32[] parameter(0)
    b = f32[] parameter(1)  ROOT s = f32[] add(a, b) } }'''
run = xladev.compile(TEXT.encode(), "cpu")
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    run()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_a_reduction_of_2_to_the_40_elements_can_be_interrupted() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LONG], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "interrupted\n", done.stderr
    assert done.returncode == 0, done.stderr


def test_results_and_errors_come_through() -> None:
    assert interruptible(lambda: 3) == 3
    with pytest.raises(ValueError, match="why"):
        interruptible(lambda: (_ for _ in ()).throw(ValueError("why")))


def test_the_call_sees_the_context_of_the_caller() -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)
    variable.set(7)
    assert interruptible(variable.get) == 7


def test_other_threads_call_at_once() -> None:
    seen: list[object] = []

    def call() -> None:
        interruptible(lambda: seen.append(threading.current_thread()))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert seen == [thread]


@pytest.fixture
def _ctrl_c() -> Iterator[None]:
    """Python's own answer to SIGINT, which a shell's background jobs are started to ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_ctrl_c")
def test_the_wait_ends_and_the_call_goes_on() -> None:
    ended = threading.Event()

    def call() -> None:
        time.sleep(0.5)
        ended.set()

    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        interruptible(call)
    assert not ended.is_set()
    assert ended.wait(5)


class _Interrupted(LoadedExecutable):
    """Enqueues what another one does, and is interrupted before it returns."""

    def __init__(self, inner: LoadedExecutable) -> None:
        self._inner = inner

    def launch(self, stream: Stream, context: LaunchContext) -> None:
        self._inner.launch(stream, context)
        raise KeyboardInterrupt


def test_an_interrupted_launch_waits_for_what_it_has_enqueued() -> None:
    """Otherwise its buffers would be given back while work is pending on them."""
    driver = Driver()
    device, executable = null_device(driver, tier=4), double_executable()
    loaded = device.executor.load(executable)
    x = np.arange(4, dtype=np.float32)
    with pytest.raises(KeyboardInterrupt):
        Launchable(device, executable.signature, _Interrupted(loaded)).execute([x])
    assert driver.calls.count("run") == 1, "what was enqueued ran before the buffers went"
    (result,) = Launchable(device, executable.signature, loaded).execute([x])
    np.testing.assert_array_equal(np.asarray(result), 2 * x)
