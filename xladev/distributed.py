"""Programs over several processes: `initialize` in each of them, then compile and run as usual.

A program of replicas or partitions is divided between the processes, in their order; what has one
device runs in each process by itself.
"""

from __future__ import annotations

import atexit
import os
import secrets
import time

from xladev.errors import OptionError
from xladev.runtime.distributed.environment import (
    ADDRESS,
    MPI,
    SECRET,
    JobSettings,
    chosen_transport,
    settings,
)
from xladev.runtime.distributed.job import (
    Job,
    current_job,
    enter_job,
    leave_job,
    timeout_from_environment,
)
from xladev.runtime.distributed.listener import Listener
from xladev.runtime.distributed.meeting import (
    fetch_table,
    gather_table,
    hello_of,
    local_host,
    split_address,
)
from xladev.runtime.distributed.mpi import MpiTransport, is_installed
from xladev.runtime.distributed.sockets import connect_all
from xladev.runtime.distributed.transport import Transport

__all__ = ["initialize", "is_initialized", "process_count", "process_index", "shutdown"]

START_TIMEOUT_S = 120.0


def initialize(
    address: str | None = None,
    count: int | None = None,
    index: int | None = None,
    *,
    secret: str | None = None,
    timeout_s: float | None = None,
    transport: str | None = None,
    start_timeout_s: float = START_TIMEOUT_S,
) -> None:
    """Makes this process a part of a job; returns when all processes are connected.

    What is not given is read from the environment: ``XLADEV_COORDINATOR``, ``XLADEV_PROCESSES``,
    ``XLADEV_PROCESS``, ``XLADEV_SECRET``; then what Slurm and mpiexec say.

    Args:
        address: ``host:port`` where process 0 listens until all have come.
        count: number of processes.
        index: of this process, from 0.
        secret: the same in all processes, known to nobody else.
        timeout_s: how long an exchange waits for a process, in seconds; without it,
            ``XLADEV_COLLECTIVE_TIMEOUT_S`` or 60.
        transport: ``"sockets"`` or ``"mpi"``, which needs neither address nor secret; without it
            ``XLADEV_TRANSPORT``, or MPI if mpiexec started this process, mpi4py is there, and
            nobody said an address.
        start_timeout_s: how long all may take to come, in seconds; MPI has its own limit.

    Raises:
        OptionError: something is missing or contradicts itself.
        ProcessError: a process does not come in time, has another secret or another version of
            xladev; the port is taken; or this process is a part of a job already.
    """
    has_address = bool(address or os.environ.get(ADDRESS))
    made: Transport
    if chosen_transport(transport, is_installed(), has_address) == MPI:
        limit = timeout_from_environment() if timeout_s is None else timeout_s
        made = MpiTransport(index, limit, count)
    else:
        wanted = settings(address, count, index, secret, timeout_s)
        made = _by_sockets(wanted, time.monotonic() + start_timeout_s)
    try:
        enter_job(Job(made))
    except BaseException:
        made.close()
        raise
    atexit.register(leave_job)


def shutdown() -> None:
    """Leaves the job; the other processes are told."""
    leave_job()


def is_initialized() -> bool:
    """True if this process is a part of a job."""
    return current_job() is not None


def process_index() -> int:
    """The number of this process; 0 if it is alone."""
    job = current_job()
    return 0 if job is None else job.index


def process_count() -> int:
    """How many processes the job has; 1 if this one is alone."""
    job = current_job()
    return 1 if job is None else job.count


def exchange_timeout_s() -> float:
    """How long exchanges wait for a process where nobody says otherwise, in seconds."""
    return timeout_from_environment()


def new_secret() -> str:
    """A secret for a job that is started now."""
    return os.environ.get(SECRET) or secrets.token_hex(32)


def _by_sockets(wanted: JobSettings, deadline: float) -> Transport:
    secret = wanted.secret.encode()
    if not secret and wanted.count > 1:
        raise OptionError(
            "a job of several processes needs a secret",
            why="without it anybody could connect to its ports",
            hint=f"give all processes the same {SECRET}, a random text",
        )
    place = split_address(wanted.address)
    first = wanted.index == 0
    host, port = place if first else (os.environ.get("XLADEV_HOST") or local_host(place), 0)
    listener = Listener(host, port, secret, wanted.index, wanted.count, wanted.job)
    try:
        own = listener.address
        if first:
            table = gather_table(listener, wanted.count, own, secret, deadline)
        else:
            hello = hello_of(wanted.index, wanted.count, wanted.job, "meeting", own)
            table = fetch_table(wanted.address, hello, secret, deadline)
        return connect_all(
            listener, table, wanted.index, wanted.job, secret, deadline, wanted.timeout_s
        )
    finally:
        listener.close()
