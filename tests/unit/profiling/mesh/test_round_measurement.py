"""What is measured of rounds: each number of processes, each size, by a clock that counts."""

import itertools

from tests.tools.transports import connected, in_threads
from xladev.profiling.mesh.round_measurement import measure_rounds
from xladev.runtime.distributed.job import Job


def test_rounds_of_two_three_processes():
    transports = connected(3)

    def clock():
        counter = itertools.count()
        return lambda: next(counter) * 1e-3

    jobs = [
        lambda t=t: measure_rounds(Job(t), "sockets", (8, 100_000), 1e-3, clock())
        for t in transports
    ]
    first, second, third = in_threads(jobs)
    assert [r.processes for r in first.rounds] == [2, 3]
    assert [r.processes for r in second.rounds] == [2, 3]
    assert [r.processes for r in third.rounds] == [3]
    for row in first.rounds:
        assert row.sizes == (8, 100_000)
        assert all(0 < seconds < 1 for seconds in row.first_s)
    sent = dict(transports[0].sent_nbytes)
    assert sent[2] > 0, "to whom two do not send"
    for transport in transports:
        transport.close()
