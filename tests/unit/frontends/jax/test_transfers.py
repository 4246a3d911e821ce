"""Arrays between processes, which are threads here: order, layouts, failures, the end."""

import threading
import time

import numpy as np
import pytest

from tests.tools.transports import connected
from xladev.errors import ProcessError, XladevError
from xladev.frontends.jax import transfers
from xladev.frontends.jax.transfers import Line, Sent, Transfer, Transfers
from xladev.hlo.dtype import by_name
from xladev.runtime.array import put
from xladev.runtime.distributed.job import Job
from xladev.runtime.registry import current_registry

WAIT_S = 20.0


class Told:
    """What is said at the end of a transfer, once."""

    def __init__(self):
        self._changed, self.said = threading.Condition(), []

    def __call__(self, error):
        with self._changed:
            self.said.append(error)
            self._changed.notify_all()

    def wait(self):
        with self._changed:
            assert self._changed.wait_for(lambda: self.said, WAIT_S)
        assert len(self.said) == 1
        return self.said[0]


@pytest.fixture
def device():
    return current_registry().device("cpu")


@pytest.fixture
def pair(request, monkeypatch):
    """The transfers of two processes."""
    timeout_s = getattr(request, "param", WAIT_S)
    monkeypatch.setenv("XLADEV_COLLECTIVE_TIMEOUT_S", str(timeout_s))
    made = [Transfers(Job(transport)) for transport in connected(2, timeout_s)]
    yield made
    for each in made:
        each.close()
        each._job.close()


def sent(host, process, key=b"0", dtype="f32"):
    return Sent(process, key, by_name(dtype), host.shape)


@pytest.mark.parametrize("how", ["sent", "failed"])
def test_a_process_stays_until_what_it_promised_has_gone(pair, device, how):
    """Its array may be computed yet when it asks to leave."""
    host = np.arange(6, dtype=np.float32)
    told, sent_told = Told(), Told()
    receipt = pair[1].receive(device, sent(host, 0), (0,), told)
    pair[0].promise(b"0")

    def work():
        time.sleep(0.2)
        if how == "sent":
            pair[0].send(put(device, host), (0,), 1, b"0", sent_told)
        else:
            pair[0].fail(b"0", "a reason")

    threading.Thread(target=work).start()
    pair[0]._job.finish()
    pair[0]._job.close()
    error = told.wait()
    if how == "failed":
        assert "a reason" in str(error)
        return
    assert error is None and sent_told.wait() is None
    np.testing.assert_array_equal(receipt.array().numpy(), host)


@pytest.mark.parametrize("pair", [0.2], indirect=True)
def test_a_promise_is_waited_for_within_the_time_limit(pair):
    pair[0].promise(b"0")
    pair[0]._job.finish()


@pytest.mark.parametrize("there", [(2, 1, 0), (0, 2, 1)])
@pytest.mark.parametrize("here", [(2, 1, 0), (1, 0, 2)])
def test_an_array_arrives_as_what_it_is_however_it_lies(pair, device, here, there):
    host = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    array = put(device, host.transpose(here[::-1]).copy())
    gone, come = Told(), Told()
    receipt = pair[1].receive(device, sent(host, 0), there, come)
    pair[0].send(array, here, 1, b"0", gone)
    assert gone.wait() is None and come.wait() is None
    np.testing.assert_array_equal(receipt.array().numpy(), host.transpose(there[::-1]))


def test_what_comes_in_another_order_is_kept(pair, device):
    hosts = [np.full(3, i, np.float32) for i in range(5)]
    for i in reversed(range(5)):
        pair[0].send(put(device, hosts[i]), (0,), 1, b"%d" % i, Told())
    told = [Told() for _ in hosts]
    receipts = [
        pair[1].receive(device, sent(hosts[i], 0, b"%d" % i), (0,), told[i]) for i in range(5)
    ]
    for i in range(5):
        assert told[i].wait() is None
        np.testing.assert_array_equal(receipts[i].array().numpy(), hosts[i])


def test_both_receive_before_they_send(pair, device):
    hosts = [np.full(1 << 20, p, np.float32) for p in range(2)]
    told = [Told(), Told()]
    receipts = [
        pair[p].receive(device, sent(hosts[1 - p], 1 - p, b"%d" % (1 - p)), (0,), told[p])
        for p in range(2)
    ]
    for p in range(2):
        pair[p].send(put(device, hosts[p]), (0,), 1 - p, b"%d" % p, Told())
    for p in range(2):
        assert told[p].wait() is None
        np.testing.assert_array_equal(receipts[p].array().numpy(), hosts[1 - p])


def test_processes_that_disagree_are_told_and_the_next_transfer_works(pair, device):
    host, told = np.arange(4, dtype=np.float32), [Told(), Told()]
    pair[1].receive(device, sent(host[:3], 0, b"0"), (0,), told[0])
    receipt = pair[1].receive(device, sent(host, 0, b"1"), (0,), told[1])
    for key in (b"0", b"1"):
        pair[0].send(put(device, host), (0,), 1, key, Told())
    assert "disagree" in str(told[0].wait()) and told[1].wait() is None
    np.testing.assert_array_equal(receipt.array().numpy(), host)


def test_what_could_not_be_computed_fails_where_it_is_awaited(pair, device):
    host, told = np.arange(4, dtype=np.float32), [Told(), Told()]
    pair[1].receive(device, sent(host, 0, b"0"), (0,), told[0])
    pair[1].receive(device, sent(host, 0, b"1"), (0,), told[1])
    pair[0].fail(b"0", "a reason")
    array = put(device, host)
    array.delete()  # noticed by the thread that sends
    gone = Told()
    pair[0].send(array, (0,), 1, b"1", gone)
    assert "a reason" in str(told[0].wait())
    assert isinstance(gone.wait(), XladevError)
    assert gone.said[0].what in str(told[1].wait())


@pytest.mark.parametrize("pair", [0.5], indirect=True)
def test_all_that_wait_for_a_silent_process_end_together(pair, device):
    host, begun = np.arange(4, dtype=np.float32), time.monotonic()
    told = [Told() for _ in range(8)]
    for number, each in enumerate(told):
        pair[1].receive(device, sent(host, 0, b"%d" % number), (0,), each)
    errors = [str(each.wait()) for each in told]
    assert all("waited 0.5 s for process 0" in text for text in errors), errors
    assert time.monotonic() - begun < 8 * 0.5


def test_the_end_fails_what_is_left_and_nothing_is_told_afterwards(pair, device):
    host, told = np.arange(4, dtype=np.float32), [Told(), Told()]
    for number, each in enumerate(told):
        pair[1].receive(device, sent(host, 0, b"%d" % number), (0,), each)
    pair[1].close()
    assert all("has left the job" in str(each.said[0]) for each in told)
    with pytest.raises(ProcessError, match="has left the job"):
        pair[1].receive(device, sent(host, 0, b"2"), (0,), Told())
    pair[0].send(put(device, host), (0,), 1, b"0", Told())
    pair[1]._job.close()
    assert all(len(each.said) == 1 for each in told)


def test_one_that_is_being_told_is_waited_for_at_the_end():
    line, begun, may_end, said = Line("line", WAIT_S), threading.Event(), threading.Event(), []

    def settle(error):
        begun.set()
        assert may_end.wait(WAIT_S)
        said.append(error)

    line.add(Transfer(Sent(0, b"0", by_name("f32"), ()), lambda: None, settle))
    assert begun.wait(WAIT_S)
    closer = threading.Thread(target=line.close)
    closer.start()
    closer.join(0.1)
    assert closer.is_alive() and not said
    may_end.set()
    closer.join(WAIT_S)
    assert said == [None]


def test_axes():
    assert transfers.axes_by_major((0, 2, 1)) == (1, 2, 0)
