"""Ways of messages, what links carry, how long it takes."""

import pytest

from xladev.errors import OptionError
from xladev.profiling.mesh.network import (
    FULL,
    GRID,
    Hosts,
    LinkRates,
    Network,
    parse_link,
    parse_mesh,
)
from xladev.profiling.mesh.round_times import RoundTimes, TransportTimes

_RATES = LinkRates(100.0, 1.0)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("50GB/s,2us", LinkRates(50e9, 2e-6)),
        ("1.5 MB/s, 3ms", LinkRates(1.5e6, 3e-3)),
        ("10B/s,0s", LinkRates(10.0, 0.0)),
    ],
)
def test_links(text, want):
    found = parse_link(text)
    assert found.bandwidth == pytest.approx(want.bandwidth)
    assert found.latency_s == pytest.approx(want.latency_s)


@pytest.mark.parametrize("text", ["", "50GB/s", "0GB/s,1us", "1..2GB/s,1us", "fast,1us"])
def test_no_links(text):
    with pytest.raises(OptionError, match="is no link"):
        parse_link(text)


@pytest.mark.parametrize("text", ["", "x", "0x4", "4x", "-1"])
def test_no_meshes(text):
    with pytest.raises(OptionError, match="is no mesh"):
        parse_mesh(text)


def test_ways():
    assert parse_mesh("4x4") == (4, 4)
    torus, grid, full = (Network([4, 4], _RATES, t) for t in ("torus", GRID, FULL))
    assert torus.way(0, 3) == ((0, 3),)
    assert grid.way(0, 3) == ((0, 1), (1, 2), (2, 3))
    assert grid.way(5, 0) == ((5, 4), (4, 0))
    assert torus.way(0, 15) == ((0, 3), (3, 15))
    assert full.way(0, 15) == ((0, 15),)
    assert full.way(3, 3) == ()


def test_a_link_carries_one_byte_after_another():
    grid = Network([3], _RATES, GRID)
    assert grid.send([(0, 2, 100), (1, 2, 50)]) == 2 * 1.0 + 150 / 100
    assert grid.link_nbytes == {(0, 1): 100, (1, 2): 150}
    assert grid.send([]) == 0.0


_TWO = RoundTimes(2, (100,), (1.0,), (0.5,))
_FOUR = RoundTimes(4, (100,), (10.0,), (5.0,))
_HOSTS = Hosts(TransportTimes("sockets", 2, (_TWO, _FOUR)), per_host=2)


def test_processors_of_a_machine_carry_messages():
    grid = Network([4], _RATES, GRID, _HOSTS)
    assert grid.send([(0, 1, 100), (1, 0, 100)]) == 1.0, "within a machine no link counts"
    assert grid.send([(0, 1, 100), (2, 3, 100)]) == 1.0, "machines do not wait for each other"
    assert grid.send([(1, 2, 100)]) == 1.0 + 1.0 + 100 / 100, "between machines one does"
    assert grid.send([(0, 1, 100), (0, 2, 100)]) == 1.5 + 1.0 + 100 / 100
    assert grid.send([]) == 0.0
    assert grid.link_nbytes == {(0, 1): 400, (1, 0): 100, (2, 3): 100, (1, 2): 200}


def test_as_many_processes_of_a_machine_as_take_part():
    grid = Network([4], _RATES, GRID, Hosts(_HOSTS.times, per_host=4))
    assert grid.send([(0, 1, 100)]) == 1.0
    assert grid.send([(0, 1, 100), (2, 3, 100)]) == 10.0
