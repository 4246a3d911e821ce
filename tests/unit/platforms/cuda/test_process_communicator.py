"""Programs on emulated GPUs of several processes, which are threads here: by NCCL between them."""

import numpy as np
import pytest

import xladev
from tests.tools.transports import connected, in_threads
from xladev.client import CompiledModule
from xladev.errors import ProcessError, XladevError
from xladev.hlo.multi_device import evaluate_replicated
from xladev.platforms.cuda.driver.emulated_links import Links
from xladev.platforms.cuda.driver.emulated_nccl import EmulatedNccl, EmulatedRank
from xladev.platforms.cuda.driver.interface import LibraryError
from xladev.platforms.cuda.driver.rank_group import RankGroup
from xladev.platforms.cuda.joint_ranks import JointRanks
from xladev.runtime.distributed.job import Job, Spread, enter_job, leave_job
from xladev.runtime.registry import current_registry

_BY_NCCL = {
    "all-reduce": "T[8] all-reduce(p), to_apply=add, replica_groups={}",
    "groups": "T[8] all-reduce(p), to_apply=add, replica_groups={{0,2},{1,3}}",
    "all-gather": "T[32] all-gather(p), dimensions={0}, replica_groups={}",
    "reordered": "T[16] all-gather(p), dimensions={0}, replica_groups={{3,0},{2,1}}",
    "reduce-scatter": "T[2] reduce-scatter(p), dimensions={0}, to_apply=add, replica_groups={}",
    "all-to-all": "T[8] all-to-all(p), dimensions={0}, replica_groups={{0,2,1,3}}",
    "permute": "T[8] collective-permute(p), source_target_pairs={{0,1},{1,2},{2,0}}",
    "broadcast": "T[8] collective-broadcast(p), replica_groups={{2,0,1,3}}",
}
_THROUGH_THE_HOST = {
    "maximum": "T[8] all-reduce(p), to_apply=top, replica_groups={}",
    "reducer of its own": "T[8] all-reduce(p), to_apply=odd, replica_groups={}",
}
_WITHIN = {
    "groups within processes": "T[8] all-reduce(p), to_apply=add, replica_groups={{0,1},{2,3}}"
}
_PROGRAMS = {**_BY_NCCL, **_THROUGH_THE_HOST, **_WITHIN}
_REDUCERS = {"add": "add(a, b)", "top": "maximum(a, b)", "odd": "add(c, b)"}


@pytest.fixture(autouse=True)
def in_a_job():
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
  q = T[8] negate(p)
  ROOT r = {body.replace("(p)", "(q)")}
}}"""
    return xladev.load(text.replace("T[", f"{dtype}[").encode())


class Processes:
    """A program in so many processes, which have the devices of this one by turns."""

    def __init__(self, program, count, timeout_s=20.0):
        self.program, each = program, program.device_count // count
        platform = current_registry().platform("cuda_emu")
        platform.provide_devices(program.device_count)
        self.places = tuple((i // each, i % each) for i in range(program.device_count))
        self.jobs = [Job(transport) for transport in connected(count, timeout_s)]
        self.devices = [[platform.device(p * each + d) for d in range(each)] for p in range(count)]
        self.made = [self.compiled(p, program) for p in range(count)]

    def compiled(self, p, program):
        digest = program.name.encode().ljust(32)
        spread = Spread(self.jobs[p], self.places, program.name, digest)
        return CompiledModule(program, self.devices[p], spread)

    def results(self, seed, made=None, only=None):
        """Of all devices; an error stands for those of its process."""
        made = self.made if made is None else made
        rows = operands(seed)

        def work(p):
            each = len(made[p].devices)
            given = [[row] for row in rows[p * each : (p + 1) * each]]
            return [np.asarray(r) for r in made[p].run_on_devices(given)]

        return in_threads([lambda p=p: work(p) for p in only or range(len(made))])

    def sent(self):
        return sum(sum(job.transport.sent_nbytes.values()) for job in self.jobs)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for job in self.jobs:
            job.close()


def operands(seed):
    rng = np.random.default_rng(seed)
    return [rng.integers(-9, 9, 8).astype(np.float32) for _ in range(4)]


def evaluated(hlo, seed):
    return [np.asarray(v) for v in evaluate_replicated(hlo, [[r] for r in operands(seed)])]


def flat(found):
    for result in found:
        if isinstance(result, BaseException):
            raise result
    return [array for result in found for array in result]


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", _PROGRAMS)
def test_results_are_the_evaluators(emulated, name, count):
    hlo = module(_PROGRAMS[name])
    with Processes(xladev.compile(hlo, emulated).program, count) as processes:
        for seed in range(3):
            before = processes.sent()
            found = flat(processes.results(seed))
            for mine, wanted in zip(found, evaluated(hlo, seed), strict=True):
                np.testing.assert_array_equal(mine, wanted)
        assert (processes.sent() == before) == (name not in _THROUGH_THE_HOST)


def test_programs_share_the_communicator_of_a_group(emulated, monkeypatch):
    ranks = []
    rank = EmulatedNccl.rank
    monkeypatch.setattr(EmulatedNccl, "rank", lambda *a: ranks.append(a[-1]) or rank(*a))
    program = xladev.compile(module(_PROGRAMS["all-reduce"]), emulated).program
    with Processes(program, 2) as processes:
        flat(processes.results(0))
        again = [processes.compiled(p, program) for p in range(2)]
        flat(processes.results(1, again))
    assert sorted(ranks) == [0, 1, 2, 3]


def test_without_nccl_in_one_process_all_go_through_the_host(emulated, monkeypatch, caplog):
    version = EmulatedNccl.version
    calls = iter(range(2))
    monkeypatch.setattr(EmulatedNccl, "version", lambda self: version(self) + next(calls))
    hlo = module(_PROGRAMS["all-gather"])
    with Processes(xladev.compile(hlo, emulated).program, 2) as processes:
        found = flat(processes.results(0))
        for mine, wanted in zip(found, evaluated(hlo, 0), strict=True):
            np.testing.assert_array_equal(mine, wanted)
    assert "go through host memory" in caplog.text and "has NCCL" in caplog.text


def test_what_nccl_refuses_goes_through_the_host(emulated, monkeypatch, caplog):
    def refuse(*_):
        raise LibraryError("ncclCommInitRankConfig", "invalid usage", "a GPU twice")

    monkeypatch.setattr(EmulatedNccl, "rank", refuse)
    hlo = module(_PROGRAMS["all-gather"])
    with Processes(xladev.compile(hlo, emulated).program, 2) as processes:
        found = flat(processes.results(0))
        for mine, wanted in zip(found, evaluated(hlo, 0), strict=True):
            np.testing.assert_array_equal(mine, wanted)
    assert "a GPU twice" in caplog.text


def test_what_nccl_refuses_in_one_process_goes_through_the_host_in_all(
    emulated, monkeypatch, caplog
):
    """At once: nobody waits for ranks that never begin."""
    make = EmulatedNccl.rank

    def refuse(self, device, size, unique_id, rank):
        if rank == 3:
            raise LibraryError("ncclCommInitRankConfig", "invalid usage", "a GPU twice")
        return make(self, device, size, unique_id, rank)

    monkeypatch.setattr(EmulatedNccl, "rank", refuse)
    aborted = []
    abort = EmulatedRank.abort
    monkeypatch.setattr(EmulatedRank, "abort", lambda r: aborted.append(r.number) or abort(r))
    hlo = module(_PROGRAMS["all-gather"])
    with Processes(xladev.compile(hlo, emulated).program, 2, timeout_s=60.0) as processes:
        found = flat(processes.results(0))
        for mine, wanted in zip(found, evaluated(hlo, 0), strict=True):
            np.testing.assert_array_equal(mine, wanted)
    assert "a GPU twice" in caplog.text
    assert sorted(aborted) == [0, 1, 2]


def test_a_collective_that_nccl_refuses_fails_the_run_everywhere(emulated, monkeypatch):
    """Ranks that had enqueued it before are not left waiting on their streams."""
    hlo = module(_PROGRAMS["all-reduce"])
    with Processes(xladev.compile(hlo, emulated).program, 2, timeout_s=60.0) as processes:
        flat(processes.results(0))
        enqueue = EmulatedRank.allReduce

        def refuse(self, *arguments):
            if self.number == 3:
                raise LibraryError("ncclAllReduce", "invalid argument", "no such type")
            enqueue(self, *arguments)

        with monkeypatch.context() as patch:
            patch.setattr(EmulatedRank, "allReduce", refuse)
            found = processes.results(1)
        assert all(isinstance(e, XladevError) for e in found), found
        assert any("no such type" in str(e) for e in found), found
        found = flat(processes.results(2))
        for mine, wanted in zip(found, evaluated(hlo, 2), strict=True):
            np.testing.assert_array_equal(mine, wanted)


def test_a_process_that_does_not_come_is_named_and_the_next_run_works(emulated):
    hlo = module(_PROGRAMS["all-reduce"])
    with Processes(xladev.compile(hlo, emulated).program, 2, timeout_s=1.0) as processes:
        flat(processes.results(0))
        (error,) = processes.results(1, only=[0])
        assert isinstance(error, ProcessError) and "process 1" in str(error), error
        processes.results(1, only=[1])  # it comes too late, and finds out
        for seed in (2, 3):
            found = flat(processes.results(seed))
        for mine, wanted in zip(found, evaluated(hlo, 3), strict=True):
            np.testing.assert_array_equal(mine, wanted)


def test_who_ends_a_communicator_tells_the_others_before_they_use_it_again(emulated, monkeypatch):
    hlo = module(_PROGRAMS["all-reduce"])
    with Processes(xladev.compile(hlo, emulated).program, 2) as processes:
        flat(processes.results(0))
        (ranks,) = (k for k in processes.jobs[0]._kept.values() if isinstance(k, JointRanks))
        in_use = []
        abort = RankGroup.abort
        monkeypatch.setattr(RankGroup, "abort", lambda g: in_use.append(ranks._ranks) or abort(g))
        ranks._failed(ranks._ranks, ranks._tag, b"some run", ProcessError("a failure"))
        assert in_use == [None]  # the next run may begin as soon as streams go on
        found = flat(processes.results(1))
        for mine, wanted in zip(found, evaluated(hlo, 1), strict=True):
            np.testing.assert_array_equal(mine, wanted)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_rank_that_nccl_loses_fails_the_run(emulated, monkeypatch, lost):
    """The other process says that the run failed, not that it waited."""
    hlo = module(_PROGRAMS["all-reduce"])
    with Processes(xladev.compile(hlo, emulated).program, 2, timeout_s=30.0) as processes:
        flat(processes.results(0))
        with monkeypatch.context() as patch:
            state = EmulatedRank.state
            patch.setattr(
                EmulatedRank, "state", lambda self: 6 if self.number // 2 == lost else state(self)
            )
            patch.setattr(Links, "send", lambda *_: None)
            found = processes.results(1)
        assert all(isinstance(e, XladevError) for e in found), found
        assert any("network error" in str(e) for e in found), found
        assert flat(processes.results(2))
