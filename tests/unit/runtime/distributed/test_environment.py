"""What Slurm, mpiexec and xladev's own variables say of a job."""

import pytest

from xladev.errors import OptionError
from xladev.runtime.distributed import environment
from xladev.runtime.distributed.environment import (
    chosen_transport,
    first_node,
    is_started_by_launcher,
    local_share,
    settings,
)

_NAMES = (
    *environment._COUNTS, *environment._INDICES, "XLADEV_COORDINATOR", "XLADEV_SECRET",
    "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_JOB_NODELIST",
    "SLURM_STEP_NODELIST", "XLADEV_COLLECTIVE_TIMEOUT_S",
    *(name for row in environment._LOCAL_PLACES for name in row),
)  # fmt: skip

OWN = {"XLADEV_COORDINATOR": "a:1", "XLADEV_PROCESSES": "4", "XLADEV_PROCESS": "3"}
HYDRA = {"PMI_SIZE": "2", "PMI_RANK": "1"}
OPEN_MPI = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}
SLURM = {
    "SLURM_STEP_NUM_TASKS": "8", "SLURM_PROCID": "5", "SLURM_JOB_ID": "30007",
    "SLURM_STEP_ID": "0", "SLURM_JOB_NODELIST": "n[017-020]",
}  # fmt: skip


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in _NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("variables", "address", "count", "index", "job"),
    [
        (OWN, "a:1", 4, 3, ""),
        (HYDRA | {"XLADEV_COORDINATOR": "b:2"}, "b:2", 2, 1, ""),
        (OPEN_MPI | {"XLADEV_COORDINATOR": "b:2"}, "b:2", 2, 1, ""),
        (SLURM, "n017:30007", 8, 5, "30007.0"),
        (SLURM | OWN, "a:1", 4, 3, "30007.0"),
    ],
)
def test_environments(monkeypatch, variables, address, count, index, job):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = settings()
    assert (found.address, found.count, found.index, found.job) == (address, count, index, job)
    assert is_started_by_launcher()


def test_what_is_said_comes_first(monkeypatch):
    for name, value in OWN.items():
        monkeypatch.setenv(name, value)
    found = settings("c:3", 2, 0, "s", timeout_s=4)
    assert (found.address, found.count, found.index, found.secret) == ("c:3", 2, 0, "s")
    assert found.timeout_s == 4


@pytest.mark.parametrize("variables", [HYDRA, OPEN_MPI])
def test_mpiexec_does_not_say_where_to_meet(monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(OptionError, match="nobody said where") as caught:
        settings()
    assert "XLADEV_COORDINATOR" in caught.value.hint


def test_a_batch_script_of_slurm_is_no_process_of_a_job(monkeypatch):
    monkeypatch.setenv("SLURM_NTASKS", "8")
    monkeypatch.setenv("SLURM_PROCID", "0")
    assert not is_started_by_launcher()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "nobody said the count"),
        ({"count": 2}, "nobody said the index"),
        ({"count": 2, "index": 2, "address": "a:1"}, "process 2 of 2"),
        ({"count": 0, "index": 0, "address": "a:1"}, "process 0 of 0"),
        ({"count": 2, "index": 1}, "nobody said where"),
    ],
)
def test_what_is_missing_is_said(given, message):
    with pytest.raises(OptionError, match=message):
        settings(**given)


@pytest.mark.parametrize("text", ["x", "0", "-1"])
def test_time_limits_are_checked(monkeypatch, text):
    monkeypatch.setenv("XLADEV_COLLECTIVE_TIMEOUT_S", text)
    with pytest.raises(OptionError, match="XLADEV_COLLECTIVE_TIMEOUT_S"):
        settings("a:1", 1, 0)


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("a", "a"), ("a,b", "a"), ("n[1-4]", "n1"), ("n[001,7],m", "n001"), ("r[2-3]c,x", "r2c")],
)
def test_the_first_node(nodes, first):
    assert first_node(nodes) == first


@pytest.mark.parametrize(
    ("given", "variables", "has_mpi", "has_address", "want"),
    [
        (None, {}, True, False, "sockets"),
        (None, {"PMI_SIZE": "2"}, True, False, "mpi"),
        (None, {"OMPI_COMM_WORLD_SIZE": "2"}, True, False, "mpi"),
        (None, {"PMI_SIZE": "2"}, False, False, "sockets"),
        (None, {"PMI_SIZE": "2"}, True, True, "sockets"),
        (None, {"SLURM_STEP_NUM_TASKS": "2"}, True, False, "sockets"),
        (None, {"XLADEV_TRANSPORT": "mpi"}, True, True, "mpi"),
        ("sockets", {"XLADEV_TRANSPORT": "mpi"}, True, True, "sockets"),
    ],
)
def test_the_transport(monkeypatch, given, variables, has_mpi, has_address, want):
    for name in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "XLADEV_TRANSPORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert chosen_transport(given, has_mpi, has_address) == want


def test_a_transport_that_does_not_exist():
    with pytest.raises(OptionError, match="no transport 'pigeons'"):
        chosen_transport("pigeons", True, True)


@pytest.mark.parametrize(("index", "count"), environment._LOCAL_PLACES)
def test_processes_of_a_machine_share_its_devices(monkeypatch, index, count):
    assert local_share(8) == range(8)
    monkeypatch.setenv(count, "3")
    assert local_share(8) == range(8)
    shares = []
    for place in range(3):
        monkeypatch.setenv(index, str(place))
        shares += [local_share(8)]
    assert shares == [range(2), range(2, 5), range(5, 8)]
    assert local_share(2) == range(2)
