"""Jobs of several processes of this machine, for tests: started, stopped, killed, heard."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO

_ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("job_worker.py")
PATIENCE_S = 120.0
"""How long a test waits for what must come, on a busy machine."""
_REST_S = 2.0
"""How long for the end of a stream: a process that was left behind may hold it."""


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Process:
    """One process, and the lines that it printed.

    Its two streams come by two pipes: a library's message may start in the middle of a line of
    Python's, between its text and its end.
    """

    popen: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    """Of its standard output."""
    said: list[str] = field(default_factory=list)
    """Of both streams, as they came."""
    changed: threading.Condition = field(default_factory=threading.Condition)
    listeners: list[threading.Thread] = field(default_factory=list)

    def listen(self) -> None:
        """Keeps what it prints from now on, until it ends."""
        for stream, kept in ((self.popen.stdout, [self.lines, self.said]),
                             (self.popen.stderr, [self.said])):  # fmt: skip
            assert stream is not None
            listener = threading.Thread(target=self._keep, args=(stream, kept), daemon=True)
            listener.start()
            self.listeners.append(listener)

    def _keep(self, stream: IO[str], kept: Sequence[list[str]]) -> None:
        for line in stream:
            with self.changed:
                for each in kept:
                    each.append(line.rstrip("\n"))
                self.changed.notify_all()

    def hear_the_rest(self) -> None:
        """Waits for what it printed last, which may come after its end."""
        for listener in self.listeners:
            listener.join(_REST_S)

    def wait_for(self, line: str) -> None:
        """Waits until it prints a line."""
        with self.changed:
            found = self.changed.wait_for(lambda: line in self.lines, PATIENCE_S)
        assert found, (line, self.lines)

    @property
    def text(self) -> str:
        """All it printed."""
        with self.changed:
            return "\n".join(self.said)


class JobProcesses:
    """A job whose processes all run one script of Python.

    Args:
        count: of processes.
        arguments: of all of them; a row for each process may be added.
        timeout_s: of exchanges, in seconds.
        script: that runs.
        environment: added to that of this process, for all; a row for each may be added.
        port: of process 0.
    """

    def __init__(
        self,
        count: int,
        arguments: Sequence[str] = (),
        timeout_s: float = 60.0,
        script: Path = WORKER,
        environment: Mapping[str, str] | None = None,
        port: int | None = None,
        rows: Mapping[int, Sequence[str]] | None = None,
        environments: Mapping[int, Mapping[str, str]] | None = None,
    ) -> None:
        self.port = port or free_port()
        said = {
            **os.environ,
            "PYTHONPATH": str(_ROOT),
            "XLADEV_COORDINATOR": f"127.0.0.1:{self.port}",
            "XLADEV_PROCESSES": str(count),
            "XLADEV_SECRET": "a secret of this test",
            "XLADEV_COLLECTIVE_TIMEOUT_S": str(timeout_s),
            **(environment or {}),
        }
        self.processes = []
        for index in range(count):
            command = [sys.executable, str(script), *arguments, *(rows or {}).get(index, ())]
            more = {"XLADEV_PROCESS": str(index), **(environments or {}).get(index, {})}
            popen = subprocess.Popen(
                command, env={**said, **more}, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True, cwd=_ROOT,
            )  # fmt: skip
            process = Process(popen)
            process.listen()
            self.processes.append(process)

    def __getitem__(self, index: int) -> Process:
        return self.processes[index]

    def send(self, index: int, number: signal.Signals) -> None:
        """Sends a signal to one process."""
        self[index].popen.send_signal(number)

    def wait(self, indices: Sequence[int] | None = None) -> list[int]:
        """The exit codes of these processes, or of all; none may take too long."""
        chosen = range(len(self.processes)) if indices is None else indices
        deadline = time.monotonic() + PATIENCE_S
        codes = []
        for index in chosen:
            try:
                codes.append(self[index].popen.wait(max(deadline - time.monotonic(), 0.1)))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"process {index} hangs; it said {self[index].text}") from None
        for index in chosen:
            self[index].hear_the_rest()
        return codes

    def __enter__(self) -> JobProcesses:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self.processes:
            if process.popen.poll() is None:
                process.popen.kill()
            process.popen.wait()
            process.hear_the_rest()
        if error is not None:  # as a whole: a failed comparison shows a part of it
            for index, process in enumerate(self.processes):
                print(f"--- process {index} said", process.text, sep="\n")
