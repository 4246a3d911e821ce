"""Messages, and what becomes of those who wait for peers that are late, gone or broken."""

import socket
import threading
import time

import pytest

from tests.tools.transports import in_threads
from xladev.errors import ProcessError
from xladev.runtime.distributed.courier import Courier
from xladev.runtime.distributed.messages import DATA, HEADER, MAGIC, MOST_NBYTES

_TAG, _CHECK = bytes(24), bytes(8)


def courier(connection, timeout_s=20.0, peer=1):
    return Courier({peer: [connection]}, {peer: f"process {peer}"}, timeout_s)


@pytest.fixture
def pair():
    a, b = socket.socketpair()
    made = courier(a), courier(b, peer=0)
    yield made
    for one in made:
        one.close()


def test_what_is_sent_arrives(pair):
    pair[0].send(1, _TAG, _CHECK, b"hello")
    assert bytes(pair[1].receive(0, _TAG, _CHECK, "it")) == b"hello"


def test_what_comes_first_is_kept(pair):
    tags = [bytes([i]) * 24 for i in range(5)]
    for tag in tags:
        pair[0].send(1, tag, _CHECK, tag)
    for tag in reversed(tags):
        assert bytes(pair[1].receive(0, tag, _CHECK, "it")) == tag


def test_it_is_written_where_it_was_wanted(pair):
    into = bytearray(4)
    pair[1].post(0, _TAG, memoryview(into))
    pair[0].send(1, _TAG, _CHECK, b"abcd")
    pair[1].receive(0, _TAG, _CHECK, "it")
    assert into == b"abcd"


def test_a_late_peer_is_named():
    a, b = socket.socketpair()
    mine = courier(a, timeout_s=0.2)
    start = time.monotonic()
    with pytest.raises(ProcessError, match=r"collective 'x' waited 0\.2 s for process 1") as caught:
        mine.receive(1, _TAG, _CHECK, "collective 'x'")
    assert time.monotonic() - start < 5
    assert "XLADEV_COLLECTIVE_TIMEOUT_S" in caught.value.hint
    mine.close()
    b.close()


def test_a_peer_that_takes_nothing_is_given_up():
    a, b = socket.socketpair()
    mine = courier(a, timeout_s=0.3)
    with pytest.raises(ProcessError, match="process 1 is gone") as caught:
        mine.send(1, _TAG, _CHECK, bytes(64 << 20))
    assert "took nothing for 0.3 s" in caught.value.why
    mine.close()
    b.close()


@pytest.mark.parametrize("threads", [1, 3])
def test_a_dead_peer_ends_all_who_wait(threads):
    a, b = socket.socketpair()
    mine = courier(a)
    threading.Timer(0.2, b.close).start()
    tags = [bytes([i]) * 24 for i in range(threads)]
    jobs = [lambda t=t: mine.receive(1, t, _CHECK, "it") for t in tags]
    start = time.monotonic()
    for error in in_threads(jobs):
        assert isinstance(error, ProcessError)
        assert error.what == "process 1 is gone"
    assert time.monotonic() - start < 10
    mine.close()


def test_a_goodbye_is_no_accident(pair):
    pair[0].close()
    with pytest.raises(ProcessError) as caught:
        pair[1].receive(0, _TAG, _CHECK, "it")
    assert caught.value.why == "it left the job"


def test_a_failed_run_is_told(pair):
    pair[0].fail_run(_TAG[:8], "out of memory")
    with pytest.raises(ProcessError, match="failed in another process") as caught:
        pair[1].receive(0, _TAG, _CHECK, "it")
    assert caught.value.why == "process 0: out of memory"
    other = b"\1" * 24
    pair[0].send(1, other, _CHECK, b"next run")
    assert bytes(pair[1].receive(0, other, _CHECK, "it")) == b"next run"


def test_what_comes_late_to_a_failed_run_is_dropped(pair):
    pair[1].fail_run(_TAG[:8], "gave up")
    pair[0].send(1, _TAG, _CHECK, b"late")
    other = b"\1" * 24
    pair[0].send(1, other, _CHECK, b"x")
    pair[1].receive(0, other, _CHECK, "it")
    assert not pair[1]._messages


@pytest.mark.parametrize(
    "data",
    [
        bytes(HEADER.size),
        b"GET / HTTP/1.1\r\n" * 8,
        HEADER.pack(MAGIC, DATA, _TAG, _CHECK, 4, 2, 4),
        HEADER.pack(MAGIC, DATA, _TAG, _CHECK, MOST_NBYTES + 1, 0, 4),
        HEADER.pack(MAGIC, DATA, _TAG, _CHECK, 1 << 30, 0, 1 << 30),
        HEADER.pack(MAGIC, 9, _TAG, _CHECK, 0, 0, 0),
    ],
)
def test_garbage_ends_the_connection(data):
    a, b = socket.socketpair()
    mine = courier(a)
    b.sendall(data)
    with pytest.raises(ProcessError, match="process 1 is gone"):
        mine.receive(1, _TAG, _CHECK, "it")
    mine.close()
    b.close()


def test_closing_leaves_no_socket():
    a, b = socket.socketpair()
    mine = courier(a)
    mine.close()
    mine.close()
    assert a.fileno() == -1
    b.close()
