"""Programs in several processes: started here, or by mpiexec or srun."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable

from xladev.cli.output import document_descriptor
from xladev.distributed import exchange_timeout_s, initialize, is_initialized, new_secret
from xladev.runtime.distributed.environment import (
    ADDRESS,
    COUNT,
    INDEX,
    LOCAL_COUNT,
    LOCAL_INDEX,
    SECRET,
    is_started_by_launcher,
)

_SET_PARENT_DEATH_SIGNAL = 1
_GRACE_S = 5.0
_POLL_S = 0.05


def join_launched() -> None:
    """Joins the job that mpiexec, srun or `spawn` started this process for, if one did.

    Raises:
        XladevError: see `xladev.distributed.initialize`.
    """
    if is_started_by_launcher() and not is_initialized():
        initialize()


def spawn(count: int) -> int | None:
    """Runs this command in several processes of this machine; the first exit code that is not 0.

    When one fails the others have the time limit of collectives to say what they miss, and are
    then ended. All end with this process. None in such a process.
    """
    if os.environ.get(COUNT):
        return None
    command = [sys.executable, "-m", "xladev", *sys.argv[1:]]
    said = {
        ADDRESS: f"127.0.0.1:{_free_port()}", COUNT: str(count),
        SECRET: new_secret(), LOCAL_COUNT: str(count),
    }  # fmt: skip
    dies_with_parent = _dies_with_parent()
    children = [
        subprocess.Popen(
            command,
            env={**os.environ, **said, INDEX: str(index), LOCAL_INDEX: str(index)},
            preexec_fn=dies_with_parent,
            stdout=document_descriptor(),
        )
        for index in range(count)
    ]
    try:
        return _wait(children)
    finally:
        _end(children)


def _wait(children: list[subprocess.Popen[bytes]]) -> int:
    """Waits for all; for a limited time once one has failed."""
    deadline: float | None = None
    while True:
        codes = [child.poll() for child in children]
        failed = [code for code in codes if code]
        if None not in codes:
            return failed[0] if failed else 0
        if failed and deadline is None:
            deadline = time.monotonic() + exchange_timeout_s() + _GRACE_S
        if deadline is not None and time.monotonic() > deadline:
            return failed[0]
        time.sleep(_POLL_S)


def _end(children: list[subprocess.Popen[bytes]]) -> None:
    for child in children:
        if child.poll() is None:
            child.terminate()
    for child in children:
        try:
            child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _dies_with_parent() -> Callable[[], None]:
    """What a child calls first, so that it ends even if this process is killed (prctl(2))."""
    library, parent = ctypes.CDLL(None), os.getpid()

    def begin() -> None:
        library.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
        if os.getppid() != parent:  # it ended before that
            os.kill(os.getpid(), signal.SIGTERM)

    return begin
