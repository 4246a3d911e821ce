"""Turns: a failure is told to the launch that enqueued it; nobody waits for a turn for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import pytest

import xladev
from tests.unit.compiler.subset_backend import Subset, subset_registry
from tests.unit.runtime.null_device import (
    F32_4,
    Driver,
    NullStream,
    add_executable,
    double_executable,
    in_place_executable,
    null_device,
    null_spec,
)
from xladev.compiler.executable import Executable
from xladev.compiler.options import CompileOptions
from xladev.errors import ExecutionError
from xladev.hlo.custom_calls.definition import CustomCall
from xladev.hlo.custom_calls.registry import register, unregister
from xladev.runtime.array import put, to_device
from xladev.runtime.collectives.replicas import ReplicatedLaunchable
from xladev.runtime.communicator import Participant
from xladev.runtime.device import Device
from xladev.runtime.launch.launchable import Launchable
from xladev.runtime.launch.turn import Turn, end_turn, turn_let_go
from xladev.runtime.loaded_executable import LaunchContext, LoadedExecutable
from xladev.runtime.registry import Registry
from xladev.runtime.stream import Stream

A = np.arange(4, dtype=np.float32)
SOON_S, LATE_S = 0.3, 30


@pytest.fixture
def beside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as made:
        yield made


class Between:
    """Where one launch has enqueued, and another one may come before it records."""

    def __init__(self, beside: ThreadPoolExecutor, another: Callable[[], Any]) -> None:
        self._beside, self._another = beside, another
        self.other: Future[Any] | None = None

    def give_way(self) -> None:
        """Starts the other launch, and gives it time to end, once."""
        if self.other is None:
            self.other = self._beside.submit(self._another)
            wait([self.other], SOON_S)


class GivesWay(LoadedExecutable):
    """Enqueues what another one does; then there is time for others."""

    def __init__(self, inner: LoadedExecutable, between: Between) -> None:
        self._inner, self._between = inner, between

    def launch(self, stream: Stream, context: LaunchContext) -> None:
        self._inner.launch(stream, context)
        self._between.give_way()


def load(device: Device, executable: Executable) -> Launchable:
    return Launchable(device, executable.signature, device.executor.load(executable))


def assert_told_apart(failing: Any, between: Between) -> None:
    """The launch that gave way failed, and the other one did not."""
    assert between.other is not None
    (good,) = between.other.result(LATE_S)
    np.testing.assert_array_equal(good.numpy(), 2 * A)
    with pytest.raises(ExecutionError, match="bit flip"):
        failing.numpy()


def failing_copies(monkeypatch: pytest.MonkeyPatch, between: Between) -> None:
    """Copies of streams fail on the device; after each is enqueued there is time for others."""

    def flip() -> None:
        raise ExecutionError("bit flip")

    def copy(self: NullStream, *_: Any) -> None:
        self.submit(flip)
        between.give_way()

    monkeypatch.setattr(NullStream, "copy", copy)


def test_a_failure_is_not_told_to_a_launch_of_another_thread(beside: ThreadPoolExecutor) -> None:
    driver = Driver()
    device, executable = null_device(driver), double_executable()
    good = load(device, executable)
    between = Between(beside, lambda: good.execute([A]))
    loaded = GivesWay(device.executor.load(executable), between)
    driver.fail("run", ExecutionError("bit flip"))
    (failing,) = Launchable(device, executable.signature, loaded).execute([A])
    assert_told_apart(failing, between)


def test_a_copy_for_a_launch_is_part_of_it(
    beside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = null_device(Driver())
    in_place, good = load(device, in_place_executable()), load(device, double_executable())
    between = Between(beside, lambda: good.execute([A]))
    failing_copies(monkeypatch, between)
    (failing,) = in_place.execute([A])
    assert_told_apart(failing, between)


def test_a_copy_to_another_device_is_told_its_own_failure(
    beside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered = Registry(find=lambda: ()).register(null_spec(Driver(device_count=2)))
    first, second = registered.devices()
    good = load(second, double_executable())
    between = Between(beside, lambda: good.execute([A]))
    failing_copies(monkeypatch, between)
    assert_told_apart(to_device(put(first, A), second), between)


REGIONS = """HloModule m
ENTRY e { x = f32[4] parameter(0)
  c = f32[4] cosine(x)
  u = f32[4] custom-call(), custom_call_target="gives_way", control-predecessors={c}
  ROOT r = (f32[4], f32[4]) tuple(c, u) }
"""
DOUBLE = """HloModule m
ENTRY e { x = f32[4] parameter(0)
  ROOT d = f32[4] add(x, x) }
"""


@pytest.mark.parametrize("fails", ["cosine", ""])
def test_the_users_code_may_launch_and_wait_elsewhere(
    beside: ThreadPoolExecutor, fails: str
) -> None:
    """What was enqueued before it ran is still told to its own program."""

    seen: list[np.ndarray] = []

    def another(*_: Any) -> np.ndarray:
        seen.append(beside.submit(lambda: double(A).numpy()).result(LATE_S))
        return seen[-1]

    subset = Subset(lambda i: i.opcode in ("cosine", "add"), asynchronous=True, fail_on=fails)
    options = CompileOptions(optimization_level=0)
    register(CustomCall("gives_way", "Launches in another thread.", another))
    try:
        with subset_registry(subset):
            double = xladev.compile(DOUBLE.encode(), "subset", options)
            cosine, doubled = xladev.compile(REGIONS.encode(), "subset", options)(A)
            if fails:
                with pytest.raises(ExecutionError, match="cannot cosine today"):
                    cosine.numpy()
            else:
                np.testing.assert_allclose(cosine.numpy(), np.cos(A), rtol=1e-6)
                np.testing.assert_array_equal(doubled.numpy(), 2 * A)
            np.testing.assert_array_equal(seen, [2 * A])
    finally:
        unregister("gives_way")


class SumOverAll(LoadedExecutable):
    """argument 0 summed over all devices: participants wait for each other in `launch`."""

    def launch(self, stream: Stream, context: LaunchContext) -> None:
        collectives = context.communicator
        assert collectives is not None
        group, rank = collectives.group(range(collectives.pool.size))
        who = Participant(rank, stream, context.run_id, "sum")
        group.all_reduce(who, context.arguments[0], context.results[0], F32_4, "add")


def test_programs_of_several_devices_do_not_wait_for_each_other_crosswise(
    beside: ThreadPoolExecutor,
) -> None:
    driver = Driver(device_count=2)
    registered = Registry(find=lambda: ()).register(null_spec(driver, tier=6))
    signature, alone = add_executable().signature, load(registered.device(0), double_executable())

    def run(*numbers: int) -> None:
        parts = [Launchable(registered.device(n), signature, SumOverAll()) for n in numbers]
        program = ReplicatedLaunchable(registered.platform, parts)
        for _ in range(20):
            for (result,) in program.execute([[A, A]] * 2):
                np.testing.assert_array_equal(result.numpy(), 2 * A)

    runs = [beside.submit(run, 0, 1), beside.submit(run, 1, 0)]
    for _ in range(20):
        np.testing.assert_array_equal(alone.execute([A])[0].numpy(), 2 * A)
    for future in runs:
        future.result(LATE_S)


# Turns by themselves


def takes(turn: Turn) -> bool:
    """Whether another thread has a turn soon."""
    taken = threading.Event()

    def take() -> None:
        turn.take()
        taken.set()
        end_turn()

    threading.Thread(target=take, daemon=True).start()
    return taken.wait(SOON_S)


def test_one_thread_has_a_turn_until_it_ends_it() -> None:
    turn = Turn()
    turn.take()
    turn.take()
    assert turn.is_held
    assert not takes(turn)
    with turn_let_go():
        assert not turn.is_held
        assert takes(turn)
    assert not takes(turn)
    end_turn()
    assert takes(turn)
    end_turn()
    assert not turn.is_held


def test_a_thread_has_one_turn_at_most() -> None:
    first, second = Turn(), Turn()
    first.take()
    second.take()
    assert (first.is_held, second.is_held) == (False, True)
    assert takes(first)
    end_turn()


def test_an_end_after_an_interrupted_take_leaves_nothing_locked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Interrupted:
        def acquire(self) -> None:
            raise KeyboardInterrupt

        def release(self) -> None:
            raise RuntimeError

    turn = Turn()
    with monkeypatch.context() as patch:
        patch.setattr(turn, "_lock", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            turn.take()
        end_turn()
    assert not turn.is_held
    assert takes(turn)
