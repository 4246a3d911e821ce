"""The part of one device runs with silent peers, whatever it exchanges, in a job and outside."""

import itertools

import pytest

import xladev
from benchmarks.predicted_programs import programs
from tests.tools.transports import connected, in_threads
from xladev.compiler.options import CompileOptions
from xladev.profiling.mesh.local_step import LocalStep, slowest
from xladev.profiling.mesh.silent_transport import SilentTransport
from xladev.runtime.distributed.job import Job, current_job, enter_job, leave_job
from xladev.testing.random_inputs import random_arguments


def _step(module, beside=None):
    counter = itertools.count()
    given = random_arguments(module)
    return LocalStep(module, "cpu", CompileOptions(), given, lambda: float(next(counter)), beside)


@pytest.mark.parametrize("name", programs(4))
def test_programs(name):
    step = _step(xladev.load(programs(4)[name]))
    assert step.seconds(3) == 1.0, "two readings of the clock around each step"
    assert current_job() is None


def test_of_a_broadcast_from_elsewhere():
    text = """HloModule m, replica_count=2
ENTRY e {
  p = f32[50] parameter(0)
  c = f32[50] collective-permute(p), source_target_pairs={{1,0}}
  ROOT r = f32[50] negate(c)
}"""
    assert _step(xladev.load(text.encode())).seconds() == 1.0


def test_within_a_job():
    enter_job(job := Job(SilentTransport(2, lambda _: 0)))
    try:
        assert _step(xladev.load(programs(2)["experts"])).seconds(1) == 1.0
        assert current_job() is job
    finally:
        leave_job()


def test_the_last_of_those_that_share_processors_counts():
    transports = connected(3)
    pairs = zip((t.channel(b"", range(3)) for t in transports), (1.0, 3.0, 2.0), strict=True)
    jobs = [lambda c=c, s=s: slowest(c, "end", s) for c, s in pairs]
    assert in_threads(jobs) == [3.0] * 3
    for transport in transports:
        transport.close()


@pytest.mark.parametrize(("name", "meetings"), [("experts", 2), ("stencil, 20 steps", 20)])
@pytest.mark.parametrize("steps", [2, None])
def test_those_that_share_a_machine_wait_for_each_other(name, meetings, steps):
    """At each collective. They are silent here: devices of one process run one after another."""
    said = []
    beside = SilentTransport(4, lambda _: 0, meet=said.append).channel(b"in step", range(4))
    step = _step(xladev.load(programs(4)[name]), beside)
    assert step.seconds(steps) == 1.0
    assert step.meetings == meetings
    assert len(set(said)) == len(said) >= 5 * meetings


def test_nobody_is_waited_for():
    step = _step(xladev.load(programs(2)["experts"]))
    step.seconds(1)
    assert step.meetings == 0
