"""Jobs of real processes of ``cuda_emu`` that exchange by NCCL; one dies, stops, or differs."""

import signal

import pytest

from tests.tools.job_processes import JobProcesses
from tests.tools.job_worker import FAILED

pytestmark = pytest.mark.long
_EMULATED = ["--backend", "cuda_emu", "--largest", "3"]
_ENDLESS = [*_EMULATED, "--runs", "1000000", "--each"]


def errors(job, indices, *parts):
    """Each of these processes ended by an error that has these parts, and left no socket."""
    assert job.wait(indices) == [FAILED] * len(indices), [job[i].text for i in indices]
    for index in indices:
        text = job[index].text
        assert all(part in text for part in ("error: [PROCESS]", *parts)), text
        assert "sockets 0" in job[index].lines, text
        assert "Traceback" not in text, text


@pytest.mark.parametrize("count", [2, 4])
def test_sums_go_by_nccl(count):
    """The worker checks each sum; messages carry less than the numbers that were summed."""
    with JobProcesses(count, [*_EMULATED, "--runs", "20", "--sent"]) as job:
        assert job.wait() == [0] * count, [p.text for p in job.processes]
    for process in job.processes:
        (sent,) = (int(line.split()[1]) for line in process.lines if line.startswith("sent"))
        assert sent < 8000, process.text
        assert "sockets 0" in process.lines


@pytest.mark.parametrize("count", [2, 3])
def test_a_killed_process_is_named_by_all(count):
    with JobProcesses(count, _ENDLESS) as job:
        job[1].wait_for("run 2")
        job.send(1, signal.SIGKILL)
        errors(job, [i for i in range(count) if i != 1], "process 1")


def test_a_stopped_process_is_named_by_all_and_ends_when_it_goes_on():
    with JobProcesses(3, _ENDLESS, timeout_s=2.0) as job:
        job[2].wait_for("run 2")
        job.send(2, signal.SIGSTOP)
        errors(job, [0, 1], "process 2")
        job.send(2, signal.SIGCONT)
        errors(job, [2])


def test_one_that_never_comes_to_a_collective_is_named_by_all():
    with JobProcesses(3, _ENDLESS, timeout_s=2.0, rows={1: ["--pause-before", "3"]}) as job:
        errors(job, [0, 2], "process 1")


def test_another_program_is_named_by_all():
    with JobProcesses(3, _EMULATED, rows={1: ["--last", "negate(q)"]}) as job:
        errors(job, [0, 1, 2], "processes run different programs")
