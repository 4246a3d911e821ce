"""Messages, and what becomes of those who wait for peers that are late, gone or broken."""

import socket
import threading
import time
from contextlib import suppress

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


class Asked:
    """Events that have nothing yet when they are first asked, and keep how long each may take."""

    def __init__(self, events):
        self.events, self.given_s = events, []

    def poll(self, timeout_s):
        self.given_s.append(timeout_s)
        return self.events.poll(timeout_s) if len(self.given_s) > 3 or timeout_s else []


@pytest.mark.parametrize(("count", "sleeps"), [(1, True), (2, False)])
def test_who_has_a_processor_asks_for_a_while_before_it_sleeps(monkeypatch, count, sleeps):
    monkeypatch.setattr("xladev.runtime.distributed.courier.processors", lambda: count)
    monkeypatch.setattr("xladev.runtime.distributed.courier._SPIN_S", 10.0)
    a, b = socket.socketpair()
    mine, theirs = courier(a), courier(b, peer=0)
    events, mine._events = mine._events, Asked(mine._events)
    theirs.send(0, _TAG, _CHECK, b"soon")
    assert bytes(mine.receive(1, _TAG, _CHECK, "it")) == b"soon"
    assert any(mine._events.given_s) == sleeps, mine._events.given_s
    mine._events = events
    for one in (mine, theirs):
        one.close()


def test_processes_of_other_machines_need_no_processor_here(monkeypatch):
    monkeypatch.setattr("xladev.runtime.distributed.courier.processors", lambda: 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        a = socket.create_connection(server.getsockname())
        b, _ = server.accept()

    class Far(socket.socket):
        def getpeername(self):
            return ("10.0.0.2", 5)

    local, far = courier(a), courier(Far(fileno=b.detach()))
    assert local._spin_s == 0
    assert far._spin_s > 0
    for one in (local, far):
        one.close()


def test_closing_leaves_no_socket():
    a, b = socket.socketpair()
    mine = courier(a)
    mine.close()
    mine.close()
    assert a.fileno() == -1
    b.close()


def in_full(count, timeout_s, lanes=1):
    """So many couriers, each connected with each other."""
    rows = [{} for _ in range(count)]
    for a in range(count):
        for b in range(a):
            pairs = [socket.socketpair() for _ in range(lanes)]
            rows[a][b], rows[b][a] = [p[0] for p in pairs], [p[1] for p in pairs]
    names = {i: f"process {i}" for i in range(count)}
    return [Courier(row, names, timeout_s, i) for i, row in enumerate(rows)]


def test_the_last_one_of_a_chain_is_named():
    """0 waits for 1, which waits for 2, which waits for 3, which does nothing."""
    made = in_full(4, 0.5)
    for one in made[1:3]:
        one.timeout_s = 20.0

    def wait(i):
        with suppress(ProcessError):
            made[i].receive(i + 1, _TAG, _CHECK, "it")

    threads = [threading.Thread(target=wait, args=(i,)) for i in (1, 2)]
    for thread in threads:
        thread.start()
    with pytest.raises(ProcessError, match=r"it waited 0\.5 s for process 1") as caught:
        made[0].receive(1, _TAG, _CHECK, "it")
    assert "waits for process 2, which waits for process 3" in caught.value.why
    for one in made:
        one.close()
    for thread in threads:
        thread.join()


def test_who_waits_for_each_other_is_told():
    made = in_full(2, 0.3)
    found = in_threads([lambda i=i: made[i].receive(1 - i, _TAG, _CHECK, "it") for i in range(2)])
    assert any("they wait for each other" in str(error) for error in found)
    for one in made:
        one.close()


def test_what_was_sent_before_a_goodbye_arrives_whole():
    """Chunks go by both connections; the goodbye on one may be read before they are."""
    for _ in range(20):
        mine, theirs = in_full(2, 20.0, lanes=2)
        data = bytes(8 << 20)

        def leave(one=mine, data=data):
            one.send(1, _TAG, _CHECK, data)
            one.close()

        thread = threading.Thread(target=leave)
        thread.start()
        assert len(theirs.receive(0, _TAG, _CHECK, "it")) == len(data)
        thread.join()
        theirs.close()


def test_a_goodbye_says_after_what():
    made = in_full(3, 20.0)
    made[2].close()
    with pytest.raises(ProcessError, match="process 2 is gone"):
        made[1].receive(2, _TAG, _CHECK, "it")
    made[1].close()
    with pytest.raises(ProcessError, match="process 1 is gone") as caught:
        made[0].receive(1, _TAG, _CHECK, "it")
    assert caught.value.why == "it left the job after this: process 2 is gone (it left the job)"
    made[0].close()


def test_why_a_peer_failed_is_known_to_who_sends_to_it():
    """Its connections broke, but it said why before."""
    mine, theirs = in_full(2, 20.0, lanes=2)
    theirs.fail_run(_TAG[:8], "out of memory")
    theirs.close()
    with pytest.raises(ProcessError, match="failed in another process") as caught:
        for _ in range(3):
            mine.send(1, _TAG, _CHECK, bytes(8 << 20))
    assert "process 1: out of memory" in caught.value.why
    mine.close()
