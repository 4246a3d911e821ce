"""Who ends loops, and which: Ctrl-C those of all threads in time, a waiting thread those it has."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from xladev.errors import ExecutionError, InterruptionError
from xladev.instrument import interruption
from xladev.instrument.interruption import LoopWatch, Work, keep, leave, look, rethrow


@pytest.fixture(autouse=True)
def _ctrl_c() -> Iterator[None]:
    """Python's own answer to SIGINT, which a shell's background jobs are started to ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _in_thread(call: Callable[[], Any]) -> Any:
    """What a call gives or raises in another thread."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(call())
        except BaseException as error:  # noqa: BLE001 (looked at by the test)
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return outcome[0]


def _signal() -> None:
    """As if SIGINT came."""
    interruption._signals[0] += 1


def test_the_main_thread_leaves_it_to_python() -> None:
    watch = LoopWatch()
    _signal()
    watch.look()
    assert look(True)


def test_ctrl_c_ends_loops_of_other_threads_after_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    def loop() -> list[float]:
        watch, iterations = LoopWatch(), [now[0]]
        watch.look()
        _signal()
        with pytest.raises(InterruptionError, match="by Ctrl-C"):
            while now[0] < 200:
                watch.look()
                iterations.append(now[0])
                now[0] += interruption.GRACE_S / 2
        return iterations

    iterations = _in_thread(loop)
    assert iterations[-1] - iterations[0] == pytest.approx(interruption.GRACE_S / 2)


def test_a_loop_hears_of_no_signal_that_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruption, "GRACE_S", 0.0)
    _signal()
    assert _in_thread(lambda: LoopWatch().look()) is None


def test_handlers_of_the_users_decide_for_the_main_thread_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interruption, "GRACE_S", 0.0)
    signal.signal(signal.SIGINT, lambda *_: None)

    def loop() -> None:
        watch = LoopWatch()
        _signal()
        watch.look()
        watch.look()

    assert _in_thread(loop) is None


def test_whoever_waits_ends_loops_of_that_work_alone() -> None:
    def loop(work: Work) -> None:
        with work:
            LoopWatch().look()
            look(False)

    ended = Work()
    ended.end()
    assert isinstance(_in_thread(lambda: loop(ended)), InterruptionError)
    assert _in_thread(lambda: loop(Work())) is None
    assert not interruption._works


def test_what_was_kept_is_raised_in_its_thread() -> None:
    error = TimeoutError("why")
    keep(error)
    assert isinstance(_in_thread(rethrow), ExecutionError)
    with pytest.raises(TimeoutError, match="why"):
        rethrow()
    with pytest.raises(ExecutionError, match="status 4"):
        rethrow()


@pytest.mark.parametrize("last", [KeyboardInterrupt, ValueError, None])
def test_loops_end_with_a_process_that_ctrl_c_ends(
    monkeypatch: pytest.MonkeyPatch, last: type[BaseException] | None
) -> None:
    monkeypatch.setattr(interruption, "_leaving", threading.Event())
    monkeypatch.setattr(sys, "last_type", last, raising=False)
    leave()
    ends = last is KeyboardInterrupt
    assert isinstance(_in_thread(lambda: LoopWatch().look()), InterruptionError) == ends
    LoopWatch().look()
