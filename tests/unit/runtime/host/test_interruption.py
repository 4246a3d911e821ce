"""Ctrl-C ends the wait for long programs, and nothing else."""

from __future__ import annotations

import contextvars
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import xladev
from tests.tools.ended_work import call_in_ended_work
from tests.unit.runtime.null_device import Driver, double_executable, null_device
from xladev.errors import InterruptionError
from xladev.instrument.interruption import LoopWatch
from xladev.runtime.host.interruption import interruptible
from xladev.runtime.launch.launchable import Launchable
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


@pytest.mark.long
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


@pytest.mark.usefixtures("_ctrl_c")
def test_loops_of_a_call_that_was_left_end() -> None:
    outcome: list[BaseException] = []
    ended = threading.Event()

    def call() -> None:
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGINT)
        watch = LoopWatch()
        try:
            while True:
                watch.look()
        except InterruptionError as error:
            outcome.append(error)
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        interruptible(call)
    assert ended.wait(30)
    assert "its caller was interrupted" in str(outcome[0])


ENDLESS = """HloModule m
b { s = (s64[], f32[]) parameter(0)  i = s64[] get-tuple-element(s), index=0
  x = f32[] get-tuple-element(s), index=1  one = s64[] constant(1)  j = s64[] add(i, one)
  y = f32[] MORE  ROOT t = (s64[], f32[]) tuple(j, y) }
c { s = (s64[], f32[]) parameter(0)  i = s64[] get-tuple-element(s), index=0
  n = s64[] constant(100000000000)  ROOT r = pred[] compare(i, n), direction=LT }
ENTRY e { x = f32[] parameter(0)  z = s64[] constant(0)  t = (s64[], f32[]) tuple(z, x)
  w = (s64[], f32[]) while(t), condition=c, body=b
  ROOT r = f32[] get-tuple-element(w), index=1 }"""
SUM = "all-reduce(x), replica_groups={}, to_apply={ a = f32[] parameter(0)\n" \
    "    b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }"  # fmt: skip


def endless(more: str) -> bytes:
    return ENDLESS.replace("MORE", more).encode()


@pytest.mark.parametrize(
    ("platform", "more"),
    [
        ("interpreter", "sine(x)"),
        ("template_npu", "sine(x)"),  # a plan whose loop the SDK runs
        ("template_npu", "erf(x)"),  # a program whose loop the SDK runs, for some is for the host
    ],
)
def test_loops_that_python_runs_end_with_whoever_waits(platform: str, more: str) -> None:
    run = xladev.compile(endless(more), platform)
    result = call_in_ended_work(lambda: run(np.float32(0.5)))
    with pytest.raises(InterruptionError):
        np.asarray(result)


@pytest.mark.long
@pytest.mark.parametrize("more", ["sine(x)", SUM])
@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
def test_executions_on_several_devices_end_with_whoever_waits(platform: str, more: str) -> None:
    """A handler of the user's raises in the main thread, which waits for those of the devices."""
    code = f"""
import os, signal, threading
import numpy as np
import xladev
from tests.unit.runtime.host.test_interruption import endless
from xladev.runtime.collectives import replicas
threading.Timer(100, os._exit, [7]).start()
run = xladev.compile(endless({more!r}), {platform!r}, xladev.CompileOptions(num_replicas=2))
def handler(number, frame):
    raise TimeoutError("enough")
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    run(np.float32(0.5))
except TimeoutError as error:
    print(error)
names = [device.name for device in run.devices]
print(*replicas._THREADS.run_together(names, [lambda: 1, lambda: 2]), flush=True)
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False,
        cwd=Path(__file__).parents[4],
    )  # fmt: skip
    assert done.stdout == "enough\n1 2\n", done.stderr


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
