"""What a handler of a signal raises within a plugin passes the wall: it is the user's own."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.unit.runtime.null_device import (
    Compiler3,
    Driver,
    NullEvent,
    NullStream,
    double_executable,
    null_device,
    null_spec,
)
from xladev import client
from xladev.compiler.isolation import as_error, expect, plugin_call
from xladev.errors import ExecutionError, OutOfMemoryError, PluginError, XladevError
from xladev.hlo.custom_calls.definition import CustomCall
from xladev.hlo.custom_calls.registry import register, unregister
from xladev.hlo.text import parse_module
from xladev.platforms.template_npu.executor import TemplateNpuExecutor
from xladev.runtime.launch.launchable import Launchable
from xladev.runtime.registry import Registry, using_registry

X = np.arange(4, dtype=np.float32)


class Alarm(BaseException):
    """Not even an Exception."""


@pytest.fixture(params=[TimeoutError, SystemExit, Alarm, ValueError])
def alarm(request: pytest.FixtureRequest) -> Iterator[type[BaseException]]:
    """SIGUSR1 raises this, as SIGALRM and SIGTERM are often made to."""
    kind: type[BaseException] = request.param

    def handler(_number: int, _frame: Any) -> None:
        raise kind("the user's own")

    before = signal.signal(signal.SIGUSR1, handler)
    yield kind
    signal.signal(signal.SIGUSR1, before)


def arrives() -> None:
    """A signal comes."""
    signal.raise_signal(signal.SIGUSR1)


@dataclass
class Signalled(Driver):
    """A driver in one of whose functions a signal comes, once."""

    at: str = ""

    def enter(self, function: str) -> None:
        super().enter(function)
        if function == self.at:
            self.at = ""
            arrives()


def run_once(device: Any) -> np.ndarray[Any, Any]:
    """Uses every function of the contract that a launch needs."""
    executable = double_executable()
    loaded = device.executor.load(executable)
    (result,) = Launchable(device, executable.signature, loaded).execute([X])
    host = np.array(result.numpy())
    del result
    device.sweep()
    return host


@pytest.mark.parametrize("tier", [2, 4])
@pytest.mark.parametrize(
    "function", ["allocate", "copy_to_device", "launch", "copy_to_host", "deallocate"]
)
def test_within_a_function_of_the_device(
    tier: int, function: str, alarm: type[BaseException]
) -> None:
    driver = Signalled()
    device = null_device(driver, tier)
    driver.at = function
    with pytest.raises(alarm, match="the user's own"):
        run_once(device)
    np.testing.assert_array_equal(run_once(device), 2 * X)


@pytest.mark.parametrize("function", ["create_stream", "record"])
def test_within_a_function_of_a_stream(function: str, alarm: type[BaseException]) -> None:
    driver = Signalled(at=function)
    device = null_device(driver, 4)
    with pytest.raises(alarm, match="the user's own"):
        run_once(device)
    np.testing.assert_array_equal(run_once(device), 2 * X)


@pytest.mark.parametrize("function", ["is_ready", "wait", "error"])
def test_within_a_function_of_an_event(
    function: str, alarm: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event is asked again, and nobody takes the exception for its error."""
    device = null_device(Driver(), 4)
    executable = double_executable()
    launchable = Launchable(device, executable.signature, device.executor.load(executable))
    with monkeypatch.context() as patched:
        patched.setattr(NullEvent, function, lambda *_: arrives())
        with pytest.raises(alarm, match="the user's own"):
            launchable.execute([X])[0].numpy()
    np.testing.assert_array_equal(launchable.execute([X])[0].numpy(), 2 * X)


def test_buffers_are_kept_until_the_launch_is_over(
    alarm: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handler strikes when the launch was enqueued and nothing holds its buffers yet."""
    driver = Driver()
    device, executable = null_device(driver, 4), double_executable()
    launchable = Launchable(device, executable.signature, device.executor.load(executable))
    synchronize = NullStream.synchronize

    def opened(stream: NullStream) -> None:
        driver.gate.set()
        synchronize(stream)

    driver.gate.clear()
    monkeypatch.setattr(NullStream, "synchronize", opened)
    with monkeypatch.context() as patched:
        patched.setattr(NullEvent, "is_ready", lambda _: arrives())
        with pytest.raises(alarm, match="the user's own"):
            launchable.execute([X])
    device.sweep()
    assert "run" in driver.calls
    assert driver.calls.index("run") < driver.calls.index("deallocate")
    driver.gate.set()


@pytest.mark.parametrize("function", ["supports", "pipeline", "compile"])
def test_within_a_function_of_a_compiler(
    function: str, alarm: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry(find=lambda: ())
    registry.register(null_spec(Driver(), 3))
    module = parse_module(
        "HloModule m\nENTRY e { x = f32[4] parameter(0)  ROOT n = f32[4] negate(x) }"
    )
    with using_registry(registry):
        with monkeypatch.context() as patched:
            patched.setattr(Compiler3, function, lambda *_: arrives())
            with pytest.raises(alarm, match="the user's own"):
                client.compile(module, "null")
        np.testing.assert_array_equal(client.compile(module, "null")(X).numpy(), -X)


@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
def test_within_what_the_evaluator_calls(platform: str, alarm: type[BaseException]) -> None:
    def evaluate(*_: Any) -> Any:
        arrives()

    register(CustomCall("signalled", "A signal comes.", evaluate=evaluate))
    try:
        program = client.compile(
            b"""HloModule m
            ENTRY e { x = f32[4] parameter(0)
              ROOT n = f32[4] custom-call(x), custom_call_target="signalled" }""",
            platform,
        )
        with pytest.raises(alarm, match="the user's own"):
            program(X).numpy()
    finally:
        unregister("signalled")


def test_what_a_plugin_raises_by_itself_does_not_pass(alarm: type[BaseException]) -> None:
    with pytest.raises(XladevError, match="plugin 'x' raised"), plugin_call("x", "f"):
        raise alarm("the plugin's")


@pytest.mark.parametrize("raised", [GeneratorExit, SystemExit, Alarm])
def test_a_launch_contains_whatever_a_plugin_raises(raised: type[BaseException]) -> None:
    driver = Driver()
    driver.fail("launch", raised("the plugin's"))
    device = null_device(driver, 2)
    with pytest.raises(ExecutionError, match="the plugin's"):
        run_once(device)
    np.testing.assert_array_equal(run_once(device), 2 * X)


def test_within_a_kernel_that_the_sdk_launches(
    alarm: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = client.compile(
        b"HloModule m\nENTRY e { x = f32[4] parameter(0)  ROOT n = f32[4] negate(x) }",
        "template_npu",
    )
    with monkeypatch.context() as patched:
        patched.setattr(TemplateNpuExecutor, "launch_kernel", lambda *_: arrives())
        with pytest.raises(alarm, match="the user's own"):
            program(X).numpy()
    np.testing.assert_array_equal(program(X).numpy(), -X)


@pytest.mark.parametrize("function", ["Executor.allocate", "Compiler.supports", "Stream.copy"])
def test_doctor_is_named_only_for_what_it_calls_itself(function: str) -> None:
    """Its report has tracebacks of what it asks; of a launch or a copy it knows nothing."""
    error = as_error(ValueError("driver bug"), "npu", function)
    assert "doctor" not in error.hint
    assert "--traceback" in error.hint
    assert "doctor" in as_error(ValueError("driver bug"), "npu", "import").hint
    with pytest.raises(PluginError, match="returned int") as caught:
        expect(5, str, "npu", function)
    assert "doctor" not in caught.value.hint


@pytest.mark.parametrize("function", ["import", "PlatformSpec.factory", "Compiler.supports"])
def test_memory_that_the_host_lacks_is_not_the_devices(function: str) -> None:
    assert type(as_error(MemoryError("x"), "npu", function)) is PluginError
    assert type(as_error(MemoryError("x"), "npu", "Executor.allocate")) is OutOfMemoryError
