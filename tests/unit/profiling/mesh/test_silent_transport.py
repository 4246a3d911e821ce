"""Silent peers: results have the sizes of real ones, and sums are made as often."""

import numpy as np
import pytest

from xladev.profiling.mesh.silent_transport import SilentTransport
from xladev.runtime.distributed.transport import Exchange

_EXCHANGE = Exchange(bytes(8), "c.1")


@pytest.fixture
def channel():
    transport = SilentTransport(4, lambda name: 12 if name == "c.1" else 0)
    assert (transport.rank, transport.size) == (0, 4)
    made = transport.channel(b"", range(4))
    assert (made.rank, tuple(made.processes)) == (0, (0, 1, 2, 3))
    return made


def test_gathered_and_exchanged(channel):
    assert channel.all_gather(_EXCHANGE, b"ab") == [b"ab"] * 4
    assert channel.exchange(_EXCHANGE, {1: b"ab"}, [2, 3]) == {2: b"ab", 3: b"ab"}
    assert channel.exchange(_EXCHANGE, {1: b"ab"}, []) == {}
    assert channel.exchange(_EXCHANGE, {}, [2]) == {2: bytes(12)}


@pytest.mark.parametrize(("size", "combined"), [(10, 3 * 10), (100_000, 3 * 25_000)])
def test_as_many_numbers_are_combined(channel, size, combined):
    counted = []

    def combine(a, b, out):
        counted.append(a.size)
        np.add(a, b, out=out)

    channel.all_reduce(_EXCHANGE, np.ones(size, np.float32), combine)
    assert sum(counted) == combined


def test_each_exchange_is_told():
    met = []
    channel = SilentTransport(2, lambda _: 0, meet=met.append).channel(b"", range(2))
    exchanges = [Exchange(bytes(8), f"c.{n}") for n in range(3)]
    channel.all_gather(exchanges[0], b"")
    channel.exchange(exchanges[1], {}, [])
    channel.all_reduce(exchanges[2], np.ones(3, np.float32), np.add)
    assert met == exchanges
