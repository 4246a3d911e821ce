"""Jobs of mpiexec whose messages go over MPI."""

import pytest

from tests.tools.job_processes import WORKER
from tests.tools.job_worker import FAILED
from tests.tools.mpi import run_by_mpi

pytestmark = pytest.mark.long


@pytest.mark.parametrize("count", [1, 2, 3])
def test_runs_of_all_sizes(count):
    done = run_by_mpi([[str(WORKER), "--runs", "200"]] * count)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("run 199") == count


def test_a_program_of_the_command_line(tmp_path):
    path = tmp_path / "m.hlo"
    path.write_text("""HloModule m, replica_count=2
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  p = f32[4] constant({1, 2, 3, 4})
  ROOT r = f32[4] all-reduce(p), to_apply=add, replica_groups={}
}""")
    done = run_by_mpi([["-m", "xladev", "run", str(path), "--platform", "cpu"]] * 2)
    assert done.returncode == 0, done.stdout
    assert "in each of 2 processes" in done.stdout
    assert "2.0, 4.0, 6.0, 8.0" in done.stdout


def test_another_program_is_named_by_all():
    done = run_by_mpi([[str(WORKER)], [str(WORKER)], [str(WORKER), "--last", "negate(q)"]])
    assert done.stdout.count("processes run different programs") == 3
    assert "Traceback" not in done.stdout, done.stdout
    assert done.returncode == FAILED, done.stdout


def test_a_late_process_is_named_by_all_and_ended():
    late = [str(WORKER), "--pause-before", "3", "--runs", "10"]
    done = run_by_mpi([[str(WORKER), "--runs", "10"], late, [str(WORKER), "--runs", "10"]], 2.0)
    assert done.stdout.count("waited 2 s for process 1") == 2, done.stdout
    assert done.returncode != 0


def test_other_counts_than_mpi_started_are_refused():
    script = "import xladev.distributed as d; d.initialize(count=3, transport='mpi')"
    done = run_by_mpi([["-c", script]] * 2)
    assert "MPI started 2 processes, the job has 3" in done.stdout
    assert done.returncode != 0
