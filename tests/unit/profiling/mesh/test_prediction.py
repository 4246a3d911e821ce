"""Predicted bytes are those that processes count; times follow from them."""

import numpy as np
import pytest

import xladev
from benchmarks.predicted_programs import programs
from tests.tools.transports import connected, in_threads
from xladev.client import CompiledModule
from xladev.errors import OptionError
from xladev.profiling.mesh.network import FULL, LinkRates, Network
from xladev.profiling.mesh.prediction import most_alive, predict
from xladev.runtime.distributed.job import Job, Spread, enter_job, leave_job
from xladev.runtime.registry import current_registry
from xladev.testing.random_inputs import random_arguments

_PROGRAMS = {
    "small all-reduce": (8, "all-reduce(p), to_apply=add, replica_groups={}", "8"),
    "large all-reduce": (40_000, "all-reduce(p), to_apply=add, replica_groups={}", "40000"),
    "larger all-reduce": (150_000, "all-reduce(p), to_apply=add, replica_groups={}", "150000"),
    "odd reducer": (40, "all-reduce(p), to_apply=odd, replica_groups={}", "40"),
    "all-gather": (100, "all-gather(p), dimensions={0}, replica_groups={}", None),
    "all-to-all": (240, "all-to-all(p), dimensions={0}, replica_groups={}", "240"),
    "permute": (50, "collective-permute(p), source_target_pairs={{0,1},{1,0}}", "50"),
    "broadcast": (50, "collective-broadcast(p), replica_groups={}", "50"),
    "groups": (20_000, "all-reduce(p), to_apply=add, replica_groups={{0,1},{2,3}}", "20000"),
}


def module(count, size, body, result):
    return f"""HloModule m, replica_count={count}
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}
odd {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] multiply(a, b)
  ROOT s = f32[] add(a, c)
}}
ENTRY e {{
  p = f32[{size}] parameter(0)
  ROOT r = f32[{result or size * count}] {body}
}}"""


def _leaves(result):
    return result if isinstance(result, tuple) else (result,)


def counted(program, count, row):
    """Bytes that each process sent to each other one in the second run."""
    places = tuple((i, 0) for i in range(count))
    platform = current_registry().platform("cpu")
    platform.provide_devices(count)
    transports = connected(count)
    made = [
        CompiledModule(
            program, [platform.device(p)], Spread(Job(t), places, "m", b"digest".ljust(32))
        )
        for p, t in enumerate(transports)
    ]

    def run(p):
        return [np.asarray(r) for r in _leaves(made[p].run_on_devices([row])[0])]

    jobs = [lambda p=p: run(p) for p in range(count)]
    for result in in_threads(jobs):
        assert not isinstance(result, BaseException), result
    before = [dict(t.sent_nbytes) for t in transports]
    in_threads(jobs)
    sent = {
        (p, other): nbytes - before[p].get(other, 0)
        for p, t in enumerate(transports)
        for other, nbytes in t.sent_nbytes.items()
    }
    for transport in transports:
        transport.close()
    return {link: nbytes for link, nbytes in sent.items() if nbytes}


@pytest.mark.parametrize("count", [2, 4, 5])
@pytest.mark.parametrize("name", _PROGRAMS)
def test_predicted_bytes_of_each_link_are_those_counted(name, count):
    size, body, result = _PROGRAMS[name]
    if name == "groups" and count != 4:
        body = body.replace("{{0,1},{2,3}}", "{{0,1}}" if count == 2 else "{{0,1},{2,3,4}}")
    given = xladev.load(module(count, size, body, result).encode())
    network = Network([count], LinkRates(1e9, 1e-6), FULL)
    predict(given, network)
    enter_job(Job(connected(1)[0], [1], "none of these"))
    try:
        program = xladev.compile(given, "cpu").program
    finally:
        leave_job()
    want = {link: nbytes for link, nbytes in network.link_nbytes.items() if nbytes}
    assert counted(program, count, [np.ones(size, np.float32)]) == want


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", programs(2))
def test_predicted_bytes_of_whole_steps_are_those_counted(name, count):
    given = xladev.load(programs(count)[name])
    network = Network([count], LinkRates(1e9, 1e-6), FULL)
    predict(given, network)
    enter_job(Job(connected(1)[0], [1], "none of these"))
    try:
        program = xladev.compile(given, "cpu").program
    finally:
        leave_job()
    assert counted(program, count, random_arguments(given)) == network.link_nbytes


def test_iterations_count():
    text = """HloModule m, replica_count=2
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
body {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[8] all-reduce(x), to_apply=add, replica_groups={}
  ROOT t = (s32[], f32[8]) tuple(j, y)
}
test {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(7)
  ROOT l = pred[] compare(i, n), direction=LT
}
ENTRY e {
  p = f32[8] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[8]) tuple(z, p)
  w = (s32[], f32[8]) while(t), body=body, condition=test
  ROOT r = f32[8] get-tuple-element(w), index=1
}"""
    found = predict(xladev.load(text.encode()), network := Network([2], LinkRates(32, 1.0)))
    (each,) = found.collectives
    assert (each.iterations, each.nbytes) == (7, 7 * 2 * 32)
    assert each.seconds == 7 * 2.0
    assert network.link_nbytes == {(0, 1): 7 * 32, (1, 0): 7 * 32}


def test_an_open_program_grows_with_the_mesh():
    given = xladev.load(module(2, 40_000, _PROGRAMS["large all-reduce"][1], "40000").encode())
    found = predict(given, Network([4, 4], LinkRates(1e9, 1e-6)))
    assert found.collectives[0].nbytes == 2 * 15 * 160_000


def test_a_program_that_names_its_devices_does_not():
    given = xladev.load(module(4, *_PROGRAMS["groups"]).encode())
    with pytest.raises(OptionError, match="for 4 devices, the mesh has 8"):
        predict(given, Network([8], LinkRates(1e9, 1e-6)))


def test_memory():
    text = """HloModule m
ENTRY e {
  p = f32[10] parameter(0)
  a = f32[10] negate(p)
  b = f32[10] negate(a)
  t = (f32[10], f32[10]) tuple(a, b)
  g = f32[10] get-tuple-element(t), index=0
  ROOT r = f32[10] add(g, b)
}"""
    assert most_alive(xladev.load(text.encode())) == 40 + 120
