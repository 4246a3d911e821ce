"""`jax.distributed` in real processes: collectives, training as in one, checkpoints."""

from pathlib import Path

import numpy as np
import pytest

from tests.tools.jax_child import environment, environment_of_emulated_gpus
from tests.tools.job_processes import JobProcesses, free_port
from tests.tools.mpi import run_by_mpi

pytest.importorskip("jax")
pytestmark = pytest.mark.long
_WORKER = Path(__file__).parents[4] / "tools" / "jax_job_worker.py"
_DEVICES = 4


def run(count, *arguments, devices=_DEVICES):
    """The lines of each process."""
    said = {**environment("xladev_cpu,cpu"), "XLADEV_CPU_DEVICES": str(devices // count)}
    with JobProcesses(count, arguments, script=_WORKER, environment=said) as job:
        assert job.wait() == [0] * count, [p.text for p in job.processes]
        return [p.lines for p in job.processes]


def losses(lines):
    return [float(line.split()[2]) for line in lines if line.startswith("loss")]


@pytest.mark.parametrize("count", [2, 4])
def test_collectives(count):
    for lines in run(count, "--collectives"):
        assert f"collectives of {_DEVICES} devices in {count} processes" in lines


def test_collectives_of_emulated_gpus(tmp_path):
    """By NCCL between the processes, where it has them."""
    said = environment_of_emulated_gpus(tmp_path / "plugin", 2)
    with JobProcesses(2, ["--collectives"], script=_WORKER, environment=said) as job:
        assert job.wait() == [0, 0], [p.text for p in job.processes]
        assert all("collectives of 4 devices in 2 processes" in p.lines for p in job.processes)


def test_collectives_over_mpi():
    said = {
        **environment("xladev_cpu,cpu"), "XLADEV_CPU_DEVICES": "2", "XLADEV_TRANSPORT": "mpi",
        "XLADEV_COORDINATOR": f"127.0.0.1:{free_port()}",
    }  # fmt: skip
    done = run_by_mpi([[str(_WORKER), "--collectives"]] * 2, environment=said)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("collectives of 4 devices in 2 processes") == 2, done.stdout


@pytest.fixture(scope="module")
def alone():
    """The losses of one process."""
    (lines,) = run(1)
    found = losses(lines)
    assert len(found) == 4
    assert found[-1] < found[0]
    return found


@pytest.mark.parametrize("count", [2, 4])
def test_a_transformer_learns_as_in_one_process(count, alone):
    for lines in run(count):
        np.testing.assert_allclose(losses(lines), alone, rtol=2e-6)


def test_a_checkpoint_of_two_processes_goes_on_in_four(tmp_path, alone):
    pytest.importorskip("orbax.checkpoint")
    place = tmp_path / "checkpoint"
    run(2, "--steps", "2", "--save", str(place))
    for lines in run(4, "--steps", "2", "--first", "2", "--restore", str(place)):
        np.testing.assert_allclose(losses(lines), alone[2:], rtol=2e-6)
