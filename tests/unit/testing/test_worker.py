"""Whatever a function does in a worker, the caller goes on."""

from __future__ import annotations

import pytest

from xladev.errors import ArgumentError
from xladev.testing.worker import Status, Worker

HERE = "tests.unit.testing.worker_functions"


def test_calls_share_one_child() -> None:
    with Worker(f"{HERE}:process_id") as worker:
        first, second = worker.call(b""), worker.call(b"")
    assert first.value == second.value
    assert worker.restarts == 0


def test_large_requests_and_answers_arrive_whole() -> None:
    request = bytes(range(256)) * 20_000
    with Worker(f"{HERE}:double") as worker:
        assert worker.call(request).value == request * 2


def test_an_exception_is_an_error_and_the_child_lives_on() -> None:
    with Worker(f"{HERE}:fail") as worker:
        outcome = worker.call(b"reason")
        assert outcome.status is Status.ERROR
        assert "ValueError: reason" in outcome.detail
        assert worker.restarts == 0


@pytest.mark.parametrize(
    ("request_", "status", "detail"),
    [
        (b"segv", Status.CRASH, "SIGSEGV"),
        (b"segv", Status.CRASH, "last words"),
        (b"exit", Status.CRASH, "code 3"),
        (b"hang", Status.TIMEOUT, "SIGKILL"),
    ],
)
def test_a_dead_child_is_replaced(request_: bytes, status: Status, detail: str) -> None:
    with Worker(f"{HERE}:crash") as worker:
        assert worker.call(b"").value == b"fine"
        outcome = worker.call(request_, timeout_s=1.0)
        assert outcome.status is status
        assert detail in outcome.detail
        assert worker.call(b"").value == b"fine"
        assert worker.restarts == 1


def test_memory_is_limited() -> None:
    with Worker(f"{HERE}:crash", memory_nbytes=1 << 30) as worker:
        outcome = worker.call(b"memory")
        assert outcome.status is Status.ERROR
        assert "MemoryError" in outcome.detail


def test_unknown_functions_are_errors() -> None:
    with pytest.raises(ArgumentError):
        Worker("nothing")
    with Worker("no.such.module:function") as worker:
        assert worker.call(b"").status is Status.ERROR
