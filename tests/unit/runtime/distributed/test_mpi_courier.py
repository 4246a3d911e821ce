"""Messages over MPI between threads: what is swapped, kept, late, refused."""

import threading
import time

import numpy as np
import pytest

from tests.tools import local_mpi
from tests.tools.transports import in_threads
from xladev.errors import ProcessError
from xladev.runtime.distributed.courier_transport import CourierTransport
from xladev.runtime.distributed.messages import DATA, GOODBYE, HEADER, MAGIC
from xladev.runtime.distributed.mpi_courier import MpiCourier
from xladev.runtime.distributed.transport import Exchange

_TAG, _CHECK, _RUN = bytes(24), bytes(8), bytes(8)
_SIZES = [0, 1, 8192, 8193, 65536, 65537, 1 << 20]
_LARGE = 70_000


def couriers(count, timeout_s=20.0):
    names = {i: f"process {i}" for i in range(count)}
    return [MpiCourier(c, local_mpi, names, timeout_s) for c in local_mpi.communicators(count)]


@pytest.fixture
def pair():
    made = couriers(2)
    yield made
    in_threads([one.close for one in made])


def swapped(pair, data, *, checks=(_CHECK, _CHECK)):
    jobs = [
        lambda i=i: pair[i].swap([1 - i], _TAG, checks[i], data[i], "it")[1 - i] for i in (0, 1)
    ]
    return in_threads(jobs)


@pytest.mark.parametrize("nbytes", _SIZES)
def test_swapped(pair, nbytes):
    data = [bytes([i + 1]) * nbytes for i in (0, 1)]
    assert [bytes(got) for got in swapped(pair, data)] == data[::-1]
    assert pair[0].sent_nbytes[1] == pair[1].sent_nbytes[0] == nbytes


@pytest.mark.parametrize("nbytes", _SIZES)
def test_sent_and_received_at_different_times(pair, nbytes):
    tags = [bytes([i]) * 24 for i in range(3)]

    def send():
        for tag in tags:
            pair[0].send(1, tag, _CHECK, tag[:1] * nbytes)

    def receive():
        kept = [pair[1].receive(0, tag, _CHECK, "it") for tag in reversed(tags)]
        return [bytes(data) for data in kept]

    assert in_threads([send, receive])[1] == [tag[:1] * nbytes for tag in reversed(tags)]


@pytest.mark.parametrize("nbytes", [100, 8192, 65536])
def test_what_was_swapped_stays_as_it_is(pair, nbytes):
    """Later messages are written elsewhere."""
    rows = [[bytes([2 * n + i]) * nbytes for n in range(4)] for i in (0, 1)]

    def work(i):
        got = [
            pair[i].swap([1 - i], bytes([n]) * 24, _CHECK, rows[i][n], "it")[1 - i]
            for n in range(4)
        ]
        return [bytes(data) for data in got]

    assert in_threads([lambda: work(0), lambda: work(1)]) == rows[::-1]


@pytest.mark.parametrize("nbytes", [4, 65536])
def test_it_is_written_where_it_was_wanted(pair, nbytes):
    into = bytearray(nbytes)
    pair[1].post(0, _TAG, memoryview(into))
    data = bytes([7]) * nbytes
    got = in_threads([
        lambda: pair[0].send(1, _TAG, _CHECK, data),
        lambda: pair[1].receive(0, _TAG, _CHECK, "it"),
    ])[1]  # fmt: skip
    assert into == data
    assert got.obj is into


@pytest.mark.parametrize("nbytes", [4, _LARGE])
def test_others_messages_between_those_that_are_swapped(pair, nbytes):
    """What comes for somebody else meanwhile is kept for it."""
    pair[0].send(1, bytes([9]) * 24, _CHECK, b"other")
    data = [bytes([i]) * nbytes for i in (0, 1)]
    assert [bytes(got) for got in swapped(pair, data)] == data[::-1]
    assert bytes(pair[1].receive(0, bytes([9]) * 24, _CHECK, "it")) == b"other"


@pytest.mark.parametrize("sizes", [(4, 4), (4, 8), (_LARGE, _LARGE)])
def test_who_disagrees_is_told_to_both(pair, sizes):
    found = swapped(pair, [bytes(n) for n in sizes], checks=(_CHECK, b"8 others"))
    for i, error in enumerate(found):
        assert isinstance(error, ProcessError)
        assert error.what == "processes disagree on it"
        assert error.where == f"process {1 - i}"


@pytest.mark.parametrize("nbytes", [4, _LARGE])
def test_a_late_peer_is_named(nbytes):
    first, second = couriers(2, 0.2)
    first.post(1, _TAG, memoryview(bytearray(nbytes)))
    with pytest.raises(ProcessError, match=r"waited 0\.2 s for process 1|process 1 is gone"):
        first.swap([1], _TAG, _CHECK, bytes(nbytes), "it")
    assert first.is_troubled
    assert not +first._awaited, "whom it waits for"
    in_threads([first.close, second.close])


@pytest.mark.parametrize("pause_s", [0.0, 0.1])
def test_a_run_that_failed_there_ends_those_who_wait(pair, pause_s):
    def fail():
        time.sleep(pause_s)
        pair[1].fail_run(_RUN, "no memory")

    for error in in_threads([lambda: pair[0].swap([1], _TAG, _CHECK, b"abcd", "it"), fail])[:1]:
        assert isinstance(error, ProcessError)
        assert error.why == "process 1: no memory"
    with pytest.raises(ProcessError, match="an execution failed"):
        pair[0].swap([1], _TAG, _CHECK, b"abcd", "it")


def test_a_peer_that_left_ends_those_who_wait():
    first, second = couriers(2)
    jobs = [lambda: first.swap([1], _TAG, _CHECK, b"abcd", "it"), second.close]
    error = in_threads(jobs)[0]
    assert error.what == "process 1 is gone"
    assert error.why == "it left the job"
    with pytest.raises(ProcessError, match="process 1 is gone"):
        first.swap([1], bytes([1]) * 24, _CHECK, b"abcd", "it")
    first.close()


def test_bytes_that_are_no_message_name_their_sender(pair):
    head = HEADER.pack(MAGIC + 1, DATA, _TAG, _CHECK, 4, 0, 4)
    pair[0]._communicator.Isend([head + b"abcd", local_mpi.BYTE], 1, 0)
    with pytest.raises(ProcessError, match="process 0 is gone") as caught:
        pair[1].swap([0], _TAG, _CHECK, b"abcd", "it")
    assert "no message of xladev" in caught.value.why


def test_all_reduces_of_several_threads_do_not_mix():
    """Each thread is the one that reads, or waits for it, by turns; sizes go every way."""
    count = 3
    made = couriers(count)
    transports = [CourierTransport(i, count, one) for i, one in enumerate(made)]
    sizes, start = (1, 900, 2048, 2049, 16_000, 40_000), threading.Barrier(4 * count)

    def work(number):
        process, thread = number % count, number // count
        channel = transports[process].channel(b"k", range(count))
        start.wait()
        for step in range(40):
            array = np.full(sizes[(step + thread) % len(sizes)], process + thread, np.float32)
            channel.all_reduce(Exchange(_RUN, f"{thread}.{step}"), array, np.add)
            np.testing.assert_array_equal(array, 3 + count * thread)
        return "done"

    assert in_threads([lambda n=n: work(n) for n in range(4 * count)]) == ["done"] * 4 * count
    in_threads([one.close for one in made])


def test_data_that_come_long_after_their_header(pair):
    """Whoever waits for them does not ask again and again for ever, and finds them all the same."""
    nbytes, there = 20_000, pair[0]._communicator
    data = bytes([7]) * nbytes
    there.Isend([HEADER.pack(MAGIC, DATA, _TAG, _CHECK, nbytes, 0, nbytes), local_mpi.BYTE], 1, 0)

    def send_later():
        time.sleep(0.3)
        there.Isend([data, local_mpi.BYTE], 1, 1)

    got = in_threads([lambda: pair[1].swap([0], _TAG, _CHECK, bytes(nbytes), "it"), send_later])[0]
    assert bytes(got[0]) == data
    assert not pair[1]._messages


@pytest.mark.parametrize("way", ["swapped", "received"])
def test_data_that_come_after_their_sender_left(way):
    """A goodbye overtakes them: MPI orders what has one tag. The next exchange fails."""
    nbytes = 20_000
    there, courier = couriers(2)
    words, data = there._communicator, bytes([7]) * nbytes
    for head in (
        HEADER.pack(MAGIC, DATA, _TAG, _CHECK, nbytes, 0, nbytes),
        HEADER.pack(MAGIC, GOODBYE, _TAG, bytes(8), 0, 0, 0),
    ):
        words.Isend([head, local_mpi.BYTE], 1, 0)

    def send_later():
        time.sleep(0.3)
        words.Isend([data, local_mpi.BYTE], 1, 1)

    def work():
        if way == "swapped":
            return courier.swap([0], _TAG, _CHECK, bytes(nbytes), "it")[0]
        return courier.receive(0, _TAG, _CHECK, "it")

    assert bytes(in_threads([work, send_later])[0]) == data
    with pytest.raises(ProcessError, match="process 0 is gone"):
        courier.receive(0, bytes([1]) * 24, _CHECK, "it")
    in_threads([there.close, courier.close])


@pytest.mark.parametrize("nbytes", [8192, 60_000])
def test_nothing_is_kept_of_what_was_sent(pair, nbytes):
    data = bytes(nbytes)

    def work(i):
        for n in range(20):
            pair[i].swap([1 - i], bytes([n]) * 24, _CHECK, data, "it")

    in_threads([lambda: work(0), lambda: work(1)])
    assert all(len(one._sent) <= 4 for one in pair)


def test_what_somebody_else_sent_under_the_same_tag_is_kept():
    made = couriers(3)
    made[2].send(1, _TAG, _CHECK, b"2222")
    jobs = [
        lambda i=i: made[i].swap([1 - i], _TAG, _CHECK, bytes([i]) * 4, "it")[1 - i] for i in (0, 1)
    ]
    assert [bytes(got) for got in in_threads(jobs)] == [b"\1\1\1\1", b"\0\0\0\0"]
    assert bytes(made[1].receive(2, _TAG, _CHECK, "it")) == b"2222"
    in_threads([one.close for one in made])
