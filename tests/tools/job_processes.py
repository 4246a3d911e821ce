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

_ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("job_worker.py")
PATIENCE_S = 120.0
"""How long a test waits for what must come, on a busy machine."""


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Process:
    """One process, and the lines that it printed."""

    popen: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def listen(self) -> None:
        """Keeps what it prints, until it ends."""
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()

    def wait_for(self, line: str) -> None:
        """Waits until it prints a line."""
        with self.changed:
            found = self.changed.wait_for(lambda: line in self.lines, PATIENCE_S)
        assert found, (line, self.lines)

    @property
    def text(self) -> str:
        """All it printed."""
        return "\n".join(self.lines)


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
                stderr=subprocess.STDOUT, text=True, cwd=_ROOT,
            )  # fmt: skip
            process = Process(popen)
            threading.Thread(target=process.listen, daemon=True).start()
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
        self._hear_the_rest(chosen)
        return codes

    def _hear_the_rest(self, indices: Sequence[int]) -> None:
        """What a process printed last may come after its end."""
        for index in indices:
            process = self[index]
            with process.changed:
                process.changed.wait_for(
                    lambda p=process: any(line.startswith("sockets") for line in p.lines), 2.0
                )

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
        if error is not None:  # as a whole: a failed comparison shows a part of it
            for index, process in enumerate(self.processes):
                print(f"--- process {index} said", process.text, sep="\n")
