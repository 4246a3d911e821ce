"""What a job is, from what was said and what the environment says.

Sources: the manual pages of srun and sbatch; Hydra's and Open MPI's documented variables.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from xladev.errors import OptionError
from xladev.runtime.distributed.job import timeout_from_environment

ADDRESS, COUNT, INDEX = "XLADEV_COORDINATOR", "XLADEV_PROCESSES", "XLADEV_PROCESS"
SECRET = "XLADEV_SECRET"
TRANSPORT = "XLADEV_TRANSPORT"
SOCKETS, MPI = "sockets", "mpi"

_COUNTS = (COUNT, "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
_INDICES = (INDEX, "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
LOCAL_COUNT, LOCAL_INDEX = "XLADEV_LOCAL_PROCESSES", "XLADEV_LOCAL_PROCESS"
_LOCAL_PLACES = (
    (LOCAL_INDEX, LOCAL_COUNT),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
)
_BY_MPI = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_FIRST_PORT, _PORTS = 20000, 20000


@dataclass(frozen=True, slots=True)
class JobSettings:
    """What `xladev.distributed.initialize` needs to know."""

    address: str
    count: int
    index: int
    secret: str
    timeout_s: float
    job: str


def settings(
    address: str | None = None,
    count: int | None = None,
    index: int | None = None,
    secret: str | None = None,
    timeout_s: float | None = None,
) -> JobSettings:
    """What was said, filled up from the environment.

    Raises:
        OptionError: something is missing, no number, or out of range.
    """
    given = os.environ
    limit = timeout_from_environment() if timeout_s is None else timeout_s
    where = address or given.get(ADDRESS) or _slurm_address(given) or ""
    total = _number("count", count, _COUNTS, given)
    number = _number("index", index, _INDICES, given)
    if total < 1 or not 0 <= number < total:
        raise OptionError(f"process {number} of {total}", why="processes are numbered from 0")
    if not where:
        raise OptionError(
            "nobody said where the processes of the job meet",
            hint=f"initialize(address='host:port'), or {ADDRESS}, as with mpiexec",
        )
    job = given.get("SLURM_STEP_ID", "") and f"{given.get('SLURM_JOB_ID')}.{given['SLURM_STEP_ID']}"
    return JobSettings(where, total, number, secret or given.get(SECRET, ""), limit, job)


def chosen_transport(given: str | None, has_mpi: bool, has_address: bool) -> str:
    """What carries messages: said, named by XLADEV_TRANSPORT, or MPI where mpiexec started us.

    Args:
        given: what was said; None: nothing.
        has_mpi: True if mpi4py is there.
        has_address: True if somebody said where to meet, which sockets need and MPI does not.

    Raises:
        OptionError: there is no such transport.
    """
    name = given or os.environ.get(TRANSPORT)
    if name is None:
        is_by_mpi = any(variable in os.environ for variable in _BY_MPI)
        return MPI if has_mpi and is_by_mpi and not has_address else SOCKETS
    if name not in (SOCKETS, MPI):
        raise OptionError(
            f"there is no transport {name!r}", hint=f"{TRANSPORT} is {SOCKETS!r} or {MPI!r}"
        )
    return name


def is_started_by_launcher() -> bool:
    """True if the environment says that this is one of several processes."""
    said = [os.environ[name] for name in _COUNTS if name in os.environ]
    return bool(said) and said[0].isdigit() and int(said[0]) > 1


def local_share(total: int) -> range:
    """Which of so many devices of this machine are this process's own, if others share them.

    All are where nobody says how many processes the machine has, or where those are more.
    """
    for index, count in _LOCAL_PLACES:
        found = os.environ.get(index, ""), os.environ.get(count, "")
        if all(text.isdigit() for text in found):
            place, places = map(int, found)
            if not place < places <= total:
                break
            return range(total * place // places, total * (place + 1) // places)
    return range(total)


def _number(
    what: str, given: int | None, names: tuple[str, ...], variables: Mapping[str, str]
) -> int:
    if given is not None:
        return given
    name = next((n for n in names if n in variables), None)
    if name is None:
        raise OptionError(
            f"nobody said the {what} of the processes",
            why=f"none of {', '.join(names)} is set",
            hint=f"initialize({what}=...), or {names[0]}",
        )
    try:
        return int(variables[name])
    except ValueError as error:
        raise OptionError(f"{name} is {variables[name]!r}", why="no number") from error


def _slurm_address(given: Mapping[str, str]) -> str:
    """The first node of a Slurm job, and a port that its number chooses."""
    nodes = given.get("SLURM_STEP_NODELIST") or given.get("SLURM_JOB_NODELIST")
    number = given.get("SLURM_JOB_ID", "")
    if not nodes or not number.isdigit():
        return ""
    return f"{first_node(nodes)}:{_FIRST_PORT + int(number) % _PORTS}"


def first_node(nodes: str) -> str:
    """The first host of a list such as ``n[001-004,7],m3``."""
    found = re.match(r"([^,\[]*)(?:\[(\w+)[^\]]*\]([^,\[]*))?", nodes)
    assert found is not None
    return "".join(part for part in found.groups() if part)
