"""What handlers of signals raise is told from what the code at hand raises."""

from __future__ import annotations

import functools
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from xladev.instrument import is_interruption

Handler = Callable[[int, Any], None]


class Alarm(Exception):
    """What handlers raise here."""


def raises(_number: int, _frame: Any) -> None:
    raise Alarm


def deep(number: int, frame: Any) -> None:
    raises(number, frame)


def once(number: int, _frame: Any) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise Alarm


def forgetful(*arguments: Any) -> None:
    del arguments
    raise Alarm


class Handlers:
    def method(self, number: int, frame: Any) -> None:
        raises(number, frame)

    def __call__(self, number: int, frame: Any) -> None:
        raise Alarm


HANDLERS: dict[str, Any] = {
    "function": raises,
    "deep": deep,
    "lambda": lambda number, frame: raises(number, frame),
    "once": once,
    "forgetful": forgetful,
    "variadic": lambda *arguments: raises(*arguments),
    "method": Handlers().method,
    "object": Handlers(),
    "partial": functools.partial(functools.partial(lambda _more, n, f: raises(n, f), 1)),
}


@pytest.fixture
def handled() -> Iterator[Callable[[Any], None]]:
    before = signal.getsignal(signal.SIGUSR1)
    yield lambda handler: signal.signal(signal.SIGUSR1, handler) and None
    signal.signal(signal.SIGUSR1, before)


def caught(work: Callable[[], object]) -> BaseException:
    try:
        work()
    except BaseException as raised:  # noqa: BLE001 (it is looked at)
        return raised
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("kind", HANDLERS)
def test_what_a_handler_raises(kind: str, handled: Callable[[Any], None]) -> None:
    handled(HANDLERS[kind])
    assert is_interruption(caught(lambda: signal.raise_signal(signal.SIGUSR1)))
    assert not is_interruption(caught(lambda: {}[0]))


def test_ctrl_c_from_wherever_it_comes() -> None:
    def work() -> None:
        raise KeyboardInterrupt

    assert is_interruption(caught(work))


def test_the_same_exception_raised_by_itself(handled: Callable[[Any], None]) -> None:
    def work() -> None:
        raise Alarm

    handled(raises)
    assert not is_interruption(caught(work))
    assert not is_interruption(Alarm())


def test_other_threads_get_no_signals(handled: Callable[[Any], None]) -> None:
    handled(raises)
    found: list[bool] = []

    def work() -> None:
        found.append(is_interruption(caught(lambda: raises(0, None))))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False]
