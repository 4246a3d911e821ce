"""`jax.device_put` to devices of other processes, in real processes."""

import signal
from pathlib import Path

import pytest

from tests.tools.jax_child import environment, environment_of_emulated_gpus
from tests.tools.job_processes import JobProcesses

pytest.importorskip("jax")
pytestmark = pytest.mark.long
_WORKER = Path(__file__).parents[4] / "tools" / "jax_transfer_worker.py"
_CASES = (
    "types_and_shapes", "both_ways_before_either_is_there", "trees_and_results", "layouts",
    "failed", "sent_last",
)  # fmt: skip


def job(count, *arguments, timeout_s=60.0, said=None):
    said = said or {**environment("xladev_cpu,cpu"), "XLADEV_CPU_DEVICES": "2"}
    return JobProcesses(count, arguments, timeout_s, script=_WORKER, environment=said)


@pytest.mark.parametrize("count", [2, 3])
def test_arrays_go_between_processes(count):
    check(count)


def test_arrays_go_between_emulated_gpus(tmp_path):
    check(2, environment_of_emulated_gpus(tmp_path / "plugin", 2))


def check(count, said=None):
    with job(count, said=said) as processes:
        assert processes.wait() == [0] * count, [p.text for p in processes.processes]
        for process in processes.processes:
            assert [line for line in process.lines if line in _CASES] == list(_CASES)


@pytest.mark.parametrize(
    ("number", "said"),
    [(signal.SIGSTOP, "waited 2 s for process 0"), (signal.SIGKILL, "process 0")],
)
def test_what_is_never_sent_is_an_error_that_names_the_process(number, said):
    """All that waits for it fails at once, not one after the other."""
    with job(2, "--never-sent", timeout_s=2.0) as processes:
        for process in processes.processes:
            process.wait_for("waits")
        processes.send(0, number)
        processes[1].wait_for("said")
        found = [line for line in processes[1].lines if line.startswith("error:")]
        assert len(found) == 3, processes[1].text
        assert all("[PROCESS]" in line and said in line for line in found), found
