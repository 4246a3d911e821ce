"""Jobs of real processes in which one dies, stops, or differs: all others are told."""

import os
import signal
import socket
import threading
import time

import pytest

from tests.tools.job_processes import JobProcesses, free_port
from tests.tools.job_worker import FAILED

pytestmark = pytest.mark.long
_ENDLESS = ["--runs", "1000000", "--each"]


def errors(job, indices, *parts):
    """Each of these processes ended by an error that has these parts, and left no socket."""
    assert job.wait(indices) == [FAILED] * len(indices), [job[i].text for i in indices]
    for index in indices:
        text = job[index].text
        assert all(part in text for part in ("error:", *parts)), text
        assert "sockets 0" in job[index].lines, text
        assert "Traceback" not in text, text


@pytest.mark.parametrize("count", [2, 3])
def test_a_killed_process_is_named_by_all(count):
    with JobProcesses(count, _ENDLESS) as job:
        job[1].wait_for("run 2")
        job.send(1, signal.SIGKILL)
        errors(job, [i for i in range(count) if i != 1], "process 1")


@pytest.mark.parametrize("size", ["1", "5"])
def test_a_stopped_process_is_named_by_all_and_ends_when_it_goes_on(size):
    """Those who wait for one that waits for it name it too."""
    with JobProcesses(3, [*_ENDLESS, "--largest", size], timeout_s=2.0) as job:
        job[2].wait_for("run 2")
        job.send(2, signal.SIGSTOP)
        errors(job, [0, 1], "process 2")
        job.send(2, signal.SIGCONT)
        errors(job, [2])


def test_one_that_never_comes_to_a_collective_is_named_by_all():
    with JobProcesses(3, _ENDLESS, timeout_s=2.0, rows={1: ["--pause-before", "3"]}) as job:
        errors(job, [0, 2], "process 1")


@pytest.mark.parametrize(
    "difference", [["--last", "negate(q)"], ["--name", "other"]], ids=["another", "another name"]
)
def test_another_program_is_named_by_all(difference):
    with JobProcesses(3, rows={1: difference}) as job:
        errors(job, [0, 1, 2], "processes run different programs")


def test_a_wrong_secret_is_said_by_all():
    with JobProcesses(2, ["--start-timeout", "4"],
                      environments={1: {"XLADEV_SECRET": "other"}}) as job:  # fmt: skip
        errors(job, [0, 1], "secret")
        assert "processes [1] did not come" in job[0].text


def test_another_version_is_said_by_all():
    with JobProcesses(3, rows={1: ["--version", "0.0.9"]}) as job:
        errors(job, [0, 1, 2], "runs xladev 0.0.9")


def test_one_that_never_starts_is_named_by_all():
    with JobProcesses(3, ["--start-timeout", "4"], rows={1: ["--help"]}) as job:
        errors(job, [0, 2], "processes [1] did not come in time")


def test_a_taken_port_is_said_by_all():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with JobProcesses(2, ["--start-timeout", "4"], port=port) as job:
            errors(job, [0], "cannot listen", "in use")
            errors(job, [1], f"127.0.0.1:{port}")


def test_garbage_on_the_port_does_no_harm():
    port, is_over = free_port(), threading.Event()

    def disturb():
        while not is_over.is_set():
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=1) as stranger:
                    stranger.sendall(os.urandom(200))
            except OSError:
                pass
            time.sleep(0.005)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        with JobProcesses(3, ["--runs", "50"], port=port) as job:
            assert job.wait() == [0, 0, 0], [p.text for p in job.processes]
            assert all("sockets 0" in p.lines for p in job.processes)
    finally:
        is_over.set()
        thread.join()


def test_a_job_starts_anew_at_its_port_after_one_was_killed():
    port = free_port()
    with JobProcesses(2, _ENDLESS, port=port) as job:
        job[0].wait_for("run 2")
        job.send(0, signal.SIGKILL)
        errors(job, [1], "process 0")
    with JobProcesses(2, ["--runs", "20"], port=port) as job:
        assert job.wait() == [0, 0], [p.text for p in job.processes]


@pytest.mark.parametrize("count", [2, 4])
def test_many_runs_with_random_delays_and_sizes(count):
    with JobProcesses(count, ["--runs", "300", "--delay-ms", "2"]) as job:
        assert job.wait() == [0] * count, [p.text for p in job.processes]
        assert all("sockets 0" in p.lines for p in job.processes)
