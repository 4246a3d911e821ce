"""Errors of launches: which program and kernel they name, and when the device is lost."""

import gc
import logging
import threading
import time

import numpy as np
import pytest

from tests.unit.compiler.evaluating_backend import EvaluatingCompiler
from tests.unit.runtime.null_device import (
    Driver,
    Executor4,
    KernelExecutor2,
    NullStream,
    double_executable,
    null_device,
)
from xladev.compiler.description import DeviceDescription
from xladev.compiler.options import CompileOptions
from xladev.errors import DeviceLostError, ExecutionError, XladevError
from xladev.hlo.text import parse_module
from xladev.instrument import tracing
from xladev.runtime.device import Device
from xladev.runtime.event import CompletedEvent
from xladev.runtime.executor import Kernel
from xladev.runtime.launch.definition_event import DefinitionEvent
from xladev.runtime.launch.launch_error import in_program, launch_error, located, waits_for_each
from xladev.runtime.launch.launchable import Launchable
from xladev.runtime.launch.plan_executable import load_plan_or_program

A = np.arange(4, dtype=np.float32)

TWO_KERNELS = """HloModule two
ENTRY e {
  x = f32[4] parameter(0)
  first = f32[4] exponential(x), metadata={op_name="jit(f)/exp" source_file="f.py" source_line=7}
  ROOT second = f32[4] reverse(first), dimensions={0}
}"""
ONE_KERNEL = """HloModule one
ENTRY e {
  x = f32[4] parameter(0)
  ROOT only = f32[4] negate(x)
}"""


class KernelExecutor4(Executor4, KernelExecutor2):
    """Kernels do nothing, or fail as the driver is told."""

    def load_kernel(self, code):
        return Kernel(code.entry, None)

    def launch_kernel(self, stream, kernel, buffers, dimensions):
        self.driver.enter("launch_kernel")
        stream.submit(lambda: self.driver.enter(kernel.name))


@pytest.fixture
def driver():
    return Driver()


@pytest.fixture
def device(driver):
    return Device("npu", "npu", 0, KernelExecutor4(driver), DeviceDescription())


def load(device, text) -> Launchable:
    executable = EvaluatingCompiler().compile(parse_module(text), CompileOptions(fusion=False))
    loaded = load_plan_or_program(device.executor, executable, device.allocator, alignment=64)
    return Launchable(device, executable.signature, loaded)


def error_of(launchable) -> XladevError:
    (result,) = launchable.execute([A])
    with pytest.raises(XladevError) as info:
        result.block_until_ready()
    return info.value


def entry_of(launchable, number):
    return launchable.loaded._codes[number].entry


# Which program and kernel


def test_an_event_names_the_program_and_its_only_kernel(device, driver):
    program = load(device, ONE_KERNEL)
    driver.fail(entry_of(program, 0), ExecutionError("bad address"))
    error = error_of(program)
    assert error.what == "bad address"
    assert error.where == "npu:0, in kernel only of program one"


def test_an_event_names_all_kernels_that_may_have_failed_and_what_finds_the_one(device, driver):
    program = load(device, TWO_KERNELS)
    driver.fail(entry_of(program, 1), ExecutionError("bad address"))
    error = error_of(program)
    assert error.where == "npu:0, in program two, in one of its kernels: first, second"
    assert "XLADEV_LAUNCH_BLOCKING=1" in error.hint


@pytest.mark.parametrize(
    ("number", "name"), [(0, "first (jit(f)/exp, f.py:7)"), (1, "second")], ids=["first", "second"]
)
def test_with_waits_after_each_kernel_the_one_that_failed_is_named(
    device, driver, monkeypatch, number, name
):
    monkeypatch.setenv("XLADEV_LAUNCH_BLOCKING", "1")
    program = load(device, TWO_KERNELS)
    driver.fail(entry_of(program, number), ExecutionError("bad address"))
    assert error_of(program).where.endswith(f"in kernel {name} of program two")
    (again,) = program.execute([A])
    again.block_until_ready()


@pytest.mark.parametrize("fault", [ValueError("no queue"), ExecutionError("no queue")], ids=repr)
def test_a_kernel_that_cannot_be_launched_is_named(device, driver, fault):
    program = load(device, TWO_KERNELS)
    driver.fail("launch_kernel", fault)
    error = error_of(program)
    assert type(error) is ExecutionError
    assert "no queue" in str(error)
    assert error.where == (
        "npu:0: Executor.launch_kernel, in kernel first (jit(f)/exp, f.py:7) of program two"
    )


def test_a_program_without_known_kernels_is_named_itself(driver):
    device = null_device(driver, tier=4)
    executable = double_executable()
    program = Launchable(device, executable.signature, device.executor.load(executable))
    driver.fail("run", ExecutionError("bad address"))
    assert error_of(program).where == "null:0, in program double"


def test_many_kernels_are_counted_not_listed():
    error = in_program(ExecutionError("x", where="npu:0"), "p", [f"k{i}" for i in range(9)])
    assert error.where == "npu:0, in program p, in one of its kernels: k0, k1, k2, k3 and 5 more"


def test_the_plugins_own_error_and_advice_stay_as_they_are():
    mine = ExecutionError("x", where="queue 3", hint="update the firmware")
    error = in_program(mine, "p", ["a", "b"])
    assert (mine.where, error.hint) == ("queue 3", "update the firmware")
    assert located(error, "in program p") is error
    assert in_program(error, "p", ["a", "b"]) is error or error.where.count("program p") == 1


def test_a_place_is_added_once_to_an_error_that_a_plugin_gives_again_and_again(device, driver):
    program, sticky = load(device, ONE_KERNEL), ExecutionError("bad address")
    driver.fail(entry_of(program, 0), sticky, sticky)
    wheres = {error_of(program).where for _ in range(2)}
    assert wheres == {"npu:0, in kernel only of program one"}


def test_waiting_is_off_unless_it_is_set():
    settings = [{}, {"XLADEV_LAUNCH_BLOCKING": ""}, {"XLADEV_LAUNCH_BLOCKING": "0"}]
    assert not any(map(waits_for_each, settings))
    assert waits_for_each({"XLADEV_LAUNCH_BLOCKING": "1"})


def test_what_no_launch_means_to_raise_becomes_an_execution_error():
    error = launch_error(KeyError("a"), "npu:0", "LoadedExecutable.launch", "p")
    assert type(error) is ExecutionError
    assert "execution of p failed" in error.what
    assert "raised KeyError" in error.why


# The device is lost


class ErrorAtOnce(NullStream):
    """Whatever is recorded is over at once, and says what the driver's faults say."""

    def record(self):
        faults = self.driver.faults.get("event")
        return CompletedEvent(faults.pop(0) if faults else None)


class AtOnce(KernelExecutor4):
    def create_stream(self):
        return ErrorAtOnce(self.driver)


def test_an_event_that_is_ready_at_once_loses_the_device_too(driver):
    device = Device("npu", "npu", 0, AtOnce(driver), DeviceDescription())
    program = load(device, ONE_KERNEL)
    driver.fail("event", DeviceLostError("fell off the bus"))
    error = error_of(program)
    assert type(error) is DeviceLostError
    with pytest.raises(DeviceLostError, match="npu:0 was lost"):
        program.execute([A])
    device.reset()
    program.execute([A])[0].block_until_ready()


def test_the_device_is_lost_from_the_moment_that_a_reader_is_told(device, driver):
    program = load(device, ONE_KERNEL)
    driver.fail(entry_of(program, 0), DeviceLostError("fell off the bus"))
    error_of(program)
    assert device.clear[0] == 0
    with pytest.raises(DeviceLostError, match="npu:0 was lost"):
        device.check_usable()


def test_a_loss_behind_another_failure_is_noticed(device, driver):
    """The arguments failed, so the results tell of that; the device is lost all the same."""
    driver.gate.clear()
    program = load(device, ONE_KERNEL)
    entry = entry_of(program, 0)
    driver.fail(entry, ExecutionError("bit flip"), DeviceLostError("fell off the bus"))
    (bad,) = program.execute([A])
    (worse,) = program.execute([bad])
    driver.gate.set()
    with pytest.raises(ExecutionError, match="bit flip"):
        worse.block_until_ready()
    with pytest.raises(DeviceLostError, match="npu:0 was lost"):
        device.check_usable()


def test_a_loss_that_nobody_reads_about_is_noticed(device, driver):
    program = load(device, ONE_KERNEL)
    driver.fail(entry_of(program, 0), DeviceLostError("fell off the bus"))
    program.execute([A])
    device.synchronize()
    with pytest.raises(DeviceLostError, match="npu:0 was lost"):
        program.execute([A])


# Who has read what


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.ERROR, "xladev.runtime")
    return caplog


def unread(log):
    gc.collect()
    return [r for r in log.records if "nobody read" in r.getMessage()]


@pytest.mark.parametrize("fault", [ExecutionError("bit flip"), DeviceLostError("gone")], ids=repr)
def test_results_that_were_read_are_not_said_to_be_unread(device, driver, log, fault):
    program = load(device, ONE_KERNEL)
    driver.fail(entry_of(program, 0), fault)
    error_of(program)
    device.synchronize()
    assert unread(log) == []


def test_the_consequence_of_a_failure_is_read_with_it(device, driver, log):
    driver.gate.clear()
    program = load(device, ONE_KERNEL)
    driver.fail(entry_of(program, 0), ExecutionError("cause"), ExecutionError("consequence"))
    (worse,) = program.execute([program.execute([A])[0]])
    driver.gate.set()
    with pytest.raises(ExecutionError, match="cause"):
        worse.block_until_ready()
    device.synchronize()
    del worse
    assert unread(log) == []


def test_what_is_enqueued_before_a_launch_fails_is_not_said_to_be_unread(device, driver, log):
    """The results tell of the second kernel, which could not be launched; the first failed too."""
    program = load(device, TWO_KERNELS)
    driver.fail(entry_of(program, 0), ExecutionError("bad address"))
    driver.faults["launch_kernel"] = [None, ValueError("no queue")]
    driver.enter = lambda function: enter(driver, function)
    error = error_of(program)
    assert "no queue" in error.why
    device.synchronize()
    assert unread(log) == []


def enter(driver, function):
    fault = driver.faults[function].pop(0) if driver.faults.get(function) else None
    if fault is not None:
        raise fault


def test_a_timeline_reads_no_failure(device, driver, log):
    """It wants to know when a launch ended, not how: the log still tells what nobody read."""
    seen = threading.Event()
    with tracing() as trace:
        program = load(device, ONE_KERNEL)
        driver.fail(entry_of(program, 0), ExecutionError("bit flip"))
        (bad,) = program.execute([A])
        bad.event.on_settled(seen.set)
        device.synchronize()
        assert seen.wait(10)
    assert any(e.name == "one" for e in trace.events)
    del bad
    deadline = time.monotonic() + 10
    while not unread(log) and time.monotonic() < deadline:
        time.sleep(0.001)  # the thread that called back lets go of the event after the call
    assert len(unread(log)) == 1


def test_who_reads_a_join_has_read_all_that_it_joins(log):
    events = [
        DefinitionEvent(f"npu:{i}", CompletedEvent(ExecutionError(f"fault {i}"))) for i in range(3)
    ]
    joined = DefinitionEvent(upstream=events)
    assert joined.error().what == "fault 0"
    del events, joined
    assert unread(log) == []


def test_a_second_failed_argument_keeps_its_own_reader(log):
    events = [
        DefinitionEvent(f"npu:{i}", CompletedEvent(ExecutionError(f"fault {i}"))) for i in range(2)
    ]
    result = DefinitionEvent("npu:0", CompletedEvent(), events)
    assert result.error().what == "fault 0"
    del events, result
    assert ["fault 1" in r.getMessage() for r in unread(log)] == [True]


def test_threads_that_settle_one_event_at_once_leave_nothing_unread(log):
    """Both ask the platform; the error that the slower one makes of the answer is not another."""
    inside = threading.Barrier(2, timeout=10)

    class Slow(CompletedEvent):
        asked = 0

        def is_ready(self):
            return self.asked > 0

        def error(self):
            inside.wait()
            return ExecutionError("bit flip")

    recorded = Slow()
    event = DefinitionEvent("npu:0", recorded)
    recorded.asked = 1
    threads = [threading.Thread(target=event.is_ready) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert event.error().what == "bit flip"
    del event, recorded, threads
    assert unread(log) == []
