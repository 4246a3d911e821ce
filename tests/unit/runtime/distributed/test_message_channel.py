"""Collectives between processes, by every algorithm, against NumPy."""

import numpy as np
import pytest

from tests.tools.transports import connected, in_threads
from xladev.errors import ProcessError
from xladev.runtime.distributed.transport import Exchange, Progress

_RUN = bytes(8)


def together(transports, work):
    processes = range(len(transports))
    channels = [t.channel(b"k", processes) for t in transports]
    return in_threads([lambda i=i: work(i, channels[i]) for i in processes])


@pytest.fixture
def transports(request):
    made = connected(request.param)
    yield made
    for transport in made:
        transport.close()


@pytest.mark.parametrize("transports", [2, 3, 5, 8], indirect=True)
@pytest.mark.parametrize("size", [0, 1, 5, 20000, 300_000])
def test_all_reduce_gives_all_the_same_sum(transports, size):
    count = len(transports)
    rng = np.random.default_rng(size + count)
    given = [rng.integers(-9, 9, size).astype(np.float32) for _ in range(count)]

    def work(i, channel):
        array = given[i].copy()
        for run in range(3):
            channel.all_reduce(Exchange(_RUN, f"a{run}"), array, np.add)
        return array

    want = sum(given) * count * count if count else 0
    for got in together(transports, work):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("transports", [3], indirect=True)
def test_rounding_is_the_same_everywhere(transports):
    given = np.random.default_rng(0).normal(size=(3, 100_003)).astype(np.float32)

    def work(i, channel):
        array = given[i].copy()
        channel.all_reduce(Exchange(_RUN, "a"), array, np.add)
        return array

    first, *others = together(transports, work)
    assert all(first.tobytes() == other.tobytes() for other in others)
    np.testing.assert_allclose(first, given.sum(0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("transports", [4], indirect=True)
def test_all_gather_of_different_sizes(transports):
    blobs = [bytes([i]) * (10**i if i < 3 else 700_000) for i in range(4)]

    def work(i, channel):
        return [bytes(b) for b in channel.all_gather(Exchange(_RUN, "g"), blobs[i])]

    assert together(transports, work) == [blobs] * 4


@pytest.mark.parametrize("transports", [3], indirect=True)
def test_a_ring_of_large_sends_does_not_wait_for_itself(transports):
    """Each sends more than a socket holds before it asks for anything."""
    blob = bytes(8 << 20)

    def work(i, channel):
        return len(channel.exchange(Exchange(_RUN, "r"), {(i + 1) % 3: blob}, [(i - 1) % 3]))

    assert together(transports, work) == [1, 1, 1]


@pytest.mark.parametrize("transports", [2], indirect=True)
def test_exchanges_of_several_threads_do_not_mix(transports):
    def work(number):
        process, name = number % 2, f"t{number // 2}"
        channel = transports[process].channel(b"k", (0, 1))
        total = 0
        for step in range(40):
            array = np.full(3 + 20_000 * (step % 2), number // 2, np.int64)
            channel.all_reduce(Exchange(_RUN, f"{name}.{step}"), array, np.add)
            total += int(array[0])
        return total

    assert in_threads([lambda n=n: work(n) for n in range(8)]) == [80 * (n // 2) for n in range(8)]


@pytest.mark.parametrize("transports", [2], indirect=True)
@pytest.mark.parametrize("size", [4, 200_000])
def test_disagreement_is_told_to_both(transports, size):
    def work(i, channel):
        agreement = f"{i}".encode()
        channel.all_reduce(Exchange(_RUN, "a", agreement), np.ones(size), np.add)

    for error in together(transports, work):
        assert isinstance(error, ProcessError)
        assert "disagree on collective 'a'" in error.what
        assert "host:" in error.where


class Work:
    """Work that goes another way."""

    def __init__(self, *row, trouble=""):
        self._row, self._trouble = list(row), trouble

    def progress(self):
        return self._row.pop(0) if len(self._row) > 1 else self._row[0]

    def trouble(self):
        return self._trouble


_UNDER_WAY = [Progress.UNDER_WAY]


def attended(transports, works, also=b""):
    """What each process says of its work; None: it was done."""

    def attend(i, channel):
        try:
            channel.attend(Exchange(_RUN, "work"), works[i], also)
        except ProcessError as error:
            return str(error)
        return ""

    return together(transports, attend)


def test_work_that_is_done():
    done = Work(Progress.AHEAD, Progress.UNDER_WAY, Progress.DONE)
    transports = connected(2)
    assert attended(transports, [done, done]) == ["", ""]


def test_time_runs_while_work_is_under_way_alone():
    transports = connected(2, 0.2)
    ahead = Work(*[Progress.AHEAD] * 100, Progress.DONE)  # half a second and more
    assert attended(transports, [ahead, Work(Progress.DONE)]) == ["", ""]


def test_work_that_one_does_not_come_to():
    """Process 2 waits for nothing; the others wait for it, and tell who asks."""
    transports = connected(3, 0.3)
    works = [Work(*_UNDER_WAY), Work(*_UNDER_WAY), Work(Progress.DONE)]
    first, second, third = attended(transports, works)
    assert "waited 0.3 s for process 1" in first and "process 2" in first
    assert "process 2" in second and not third


def test_work_that_all_wait_for():
    transports = connected(2, 0.3)
    found = attended(transports, [Work(*_UNDER_WAY)] * 2)
    assert any("they wait for each other" in text for text in found) and all(found), found


def test_work_with_one_that_is_gone():
    transports = connected(2)
    transports[1].close()
    channel = transports[0].channel(b"k", range(2))
    with pytest.raises(ProcessError, match=r"process 1 .* is gone"):
        channel.attend(Exchange(_RUN, "work"), Work(*_UNDER_WAY))


@pytest.mark.parametrize("ahead", [1, 100])
def test_work_that_is_done_a_little_after_one_has_left(ahead):
    """Who is through first may leave first: what it gave is on its way to the others."""
    transports = connected(2)
    transports[1].close()
    channel = transports[0].channel(b"k", range(2))
    last = Work(*[Progress.AHEAD] * ahead, *_UNDER_WAY * 5, Progress.DONE)
    channel.attend(Exchange(_RUN, "work"), last)


def test_work_ends_at_once_where_this_process_has_left():
    transports = connected(2)
    channel = transports[0].channel(b"k", range(2))
    transports[0].close()
    with pytest.raises(ProcessError, match="this process has left the job"):
        channel.attend(Exchange(_RUN, "work"), Work(Progress.AHEAD))


@pytest.mark.parametrize("name", [_RUN, b"other..."])
def test_work_that_failed_elsewhere(name):
    transports = connected(2)
    transports[1].fail_run(name, "a reason")
    channel = transports[0].channel(b"k", range(2))
    with pytest.raises(ProcessError, match="a reason"):
        channel.attend(Exchange(_RUN, "work"), Work(*_UNDER_WAY), b"other...")
    assert channel.has_failed(name) and not channel.has_failed(b"another.")


def test_a_failure_is_heard_without_waiting():
    transports = connected(2)
    channel = transports[0].channel(b"k", range(2))
    assert not channel.has_failed(_RUN)
    transports[1].fail_run(_RUN, "a reason")
    assert channel.has_failed(_RUN)


def test_work_that_is_in_trouble_ends_before_its_time():
    transports = connected(2, 60.0)
    works = [Work(*_UNDER_WAY, trouble="a broken wire"), Work(Progress.DONE)]
    first, _ = attended(transports, works)
    assert "work' failed between processes" in first and "a broken wire" in first
