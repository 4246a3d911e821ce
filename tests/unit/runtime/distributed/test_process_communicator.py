"""Programs with collectives, divided between processes, against the same in one process."""

import numpy as np
import pytest

import xladev
from tests.tools.transports import connected, in_threads
from xladev.client import CompiledModule
from xladev.errors import XladevError
from xladev.runtime.distributed.job import Job, Spread, enter_job, leave_job
from xladev.runtime.registry import current_registry

_REDUCERS = {
    "add": "add(a, b)",
    "top": "maximum(a, b)",
    "odd": "add(c, b)",
}
_PROGRAMS = {
    "all-reduce": "T[8] all-reduce(p), to_apply=add, replica_groups={}",
    "maximum": "T[8] all-reduce(p), to_apply=top, replica_groups={}",
    "reducer of its own": "T[8] all-reduce(p), to_apply=odd, replica_groups={}",
    "groups": "T[8] all-reduce(p), to_apply=add, replica_groups={{0,2},{1,3}}",
    "groups within processes": "T[8] all-reduce(p), to_apply=add, replica_groups={{0,1},{2,3}}",
    "all-gather": "T[32] all-gather(p), dimensions={0}, replica_groups={}",
    "reordered": "T[16] all-gather(p), dimensions={0}, replica_groups={{3,0},{2,1}}",
    "reduce-scatter": "T[2] reduce-scatter(p), dimensions={0}, to_apply=add, replica_groups={}",
    "all-to-all": "T[8] all-to-all(p), dimensions={0}, replica_groups={{0,2,1,3}}",
    "permute": "T[8] collective-permute(p), source_target_pairs={{0,1},{1,2},{2,0}}",
    "broadcast": "T[8] collective-broadcast(p), replica_groups={{2,0,1,3}}",
}


@pytest.fixture(autouse=True)
def in_a_job():
    """Compiled for several processes: devices do not meet in native code."""
    enter_job(Job(connected(1)[0], [1], "none of these"))
    yield
    leave_job()


def module(body, dtype="f32"):
    name = next((n for n in _REDUCERS if f"to_apply={n}" in body), "add")
    text = f"""HloModule m, replica_count=4
{name} {{
  a = T[] parameter(0)
  b = T[] parameter(1)
  c = T[] add(a, b)
  ROOT s = T[] {_REDUCERS[name]}
}}
ENTRY e {{
  p = T[8] parameter(0)
  ROOT r = {body}
}}"""
    return xladev.load(text.replace("T[", f"{dtype}[").encode())


def divided(program, processes, timeout_s=20.0, digests=None):
    """The program in so many processes, which have the devices of this one by turns."""
    each = program.device_count // processes
    platform = current_registry().platform("cpu")
    platform.provide_devices(program.device_count)
    places = tuple((i // each, i % each) for i in range(program.device_count))
    transports = connected(processes, timeout_s)
    made = []
    for p, transport in enumerate(transports):
        digest = b"digest" if digests is None else digests[p]
        spread = Spread(Job(transport), places, program.name, digest.ljust(32))
        devices = [platform.device(p * each + d) for d in range(each)]
        made.append(CompiledModule(program, devices, spread))
    return transports, made


def run(made, rows):
    def work(p):
        each = len(made[p].devices)
        given = [[row] for row in rows[p * each : (p + 1) * each]]
        return [np.asarray(r) for r in made[p].run_on_devices(given)]

    found = in_threads([lambda p=p: work(p) for p in range(len(made))])
    for result in found:
        if isinstance(result, BaseException):
            raise result
    return [r for row in found for r in row]


@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("name", _PROGRAMS)
def test_equals_one_process(name, processes):
    given = module(_PROGRAMS[name])
    alone = xladev.compile(given, "cpu")
    rows = [np.arange(8, dtype=np.float32) * (i + 1) + i for i in range(4)]
    want = [np.asarray(r) for r in alone.run_on_devices([[row] for row in rows])]
    transports, made = divided(alone.program, processes)
    for _ in range(3):
        for got, expected in zip(run(made, rows), want, strict=True):
            np.testing.assert_array_equal(got, expected)
    for transport in transports:
        transport.close()


@pytest.mark.parametrize("dtype", ["bf16", "s8", "c64", "u64", "f8e5m2"])
@pytest.mark.parametrize("name", ["all-reduce", "all-gather", "all-to-all"])
def test_dtypes(name, dtype):
    alone = xladev.compile(module(_PROGRAMS[name], dtype), "cpu")
    numpy_dtype = alone.program.signature.parameters[0].element_type.np
    rows = [(np.arange(8) % 2 + i).astype(numpy_dtype) for i in range(4)]
    want = [np.asarray(r) for r in alone.run_on_devices([[row] for row in rows])]
    transports, made = divided(alone.program, 2)
    for got, expected in zip(run(made, rows), want, strict=True):
        np.testing.assert_array_equal(got, expected)
    for transport in transports:
        transport.close()


def test_another_program_is_named_before_anything_is_exchanged():
    program = xladev.compile(module(_PROGRAMS["all-reduce"]), "cpu").program
    transports, made = divided(program, 2, digests=[b"one", b"two"])
    rows = [np.zeros(8, np.float32)] * 4
    errors = in_threads([lambda p=p: made[p].run_on_devices([[r] for r in rows[:2]])
                         for p in range(2)])  # fmt: skip
    for p, error in enumerate(errors):
        assert isinstance(error, XladevError)
        assert error.what == "processes run different programs"
        assert error.where == f"process {1 - p}"
    for transport in transports:
        transport.close()


def test_a_process_that_never_comes_is_named_and_the_next_run_works():
    program = xladev.compile(module(_PROGRAMS["all-reduce"]), "cpu").program
    transports, made = divided(program, 2, timeout_s=0.5)
    rows = [np.ones(8, np.float32)] * 4
    run(made, rows)
    with pytest.raises(XladevError, match=r"waited 0\.5 s for process 1 \(host:1\)"):
        for result in made[0].run_on_devices([[r] for r in rows[:2]]):
            np.asarray(result)
    # It finds what process 0 had sent: it is told of the failure, or has all it needs.
    found = in_threads(
        [lambda: [np.asarray(r) for r in made[1].run_on_devices([[r] for r in rows[:2]])]]
    )
    assert not isinstance(found[0], XladevError) or "failed in another" in str(found[0])
    assert run(made, rows)[0].tolist() == [4.0] * 8
    for transport in transports:
        transport.close()


def test_a_failure_on_one_process_ends_the_others():
    """Process 1 is given too few bytes for its array: its launch fails before it can exchange."""
    program = xladev.compile(module(_PROGRAMS["all-reduce"]), "cpu").program
    transports, made = divided(program, 2)
    rows = [np.ones(8, np.float32)] * 4
    run(made, rows)

    def work(p):
        given = [[np.ones(8 - p, np.float32)] for _ in range(2)]
        return [np.asarray(r) for r in made[p].run_on_devices(given)]

    there, here = in_threads([lambda p=p: work(p) for p in range(2)])
    assert "parameter 0 of m is float32[7]" in str(here)
    assert "failed in another process" in str(there)
    assert "process 1 (host:1)" in str(there)
    assert run(made, rows)[0].tolist() == [4.0] * 8
    for transport in transports:
        transport.close()
