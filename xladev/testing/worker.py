"""Runs a function in a process of its own, so that a crash, a hang or a leak costs one call.

The function takes bytes and gives bytes; it is named as ``package.module:function`` and imported by
the child, which stays alive between calls and is replaced when it dies. Any interpreter will do:
the child runs one file that needs nothing but the standard library.
"""

from __future__ import annotations

import os
import selectors
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import IO

from xladev.errors import ArgumentError

_CHILD = Path(__file__).with_name("worker_child.py")
_HEADER = struct.Struct("<BQ")
_STDERR_TAIL = 4000
_ALWAYS = {"XLADEV_CACHE": "off"}
"""What is tested is compiled, and random programs are not kept."""
_UNLESS_SET = {"XLADEV_POISON": "1"}
"""What a program never writes is seen to be wrong."""


class Status(Enum):
    """How a call ended."""

    OK = "ok"
    ERROR = "error"
    CRASH = "crash"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one call.

    Attributes:
        status: how it ended.
        value: what the function returned; empty unless OK.
        detail: the traceback, the signal, or the end of what the child wrote to standard error.
        seconds: how long it took.
    """

    status: Status
    value: bytes = b""
    detail: str = ""
    seconds: float = 0.0


@dataclass(slots=True)
class Worker:
    """One child process at a time, started at the first call and after each death.

    Attributes:
        function: ``package.module:function``, bytes to bytes.
        timeout_s: seconds that one call may take, the start of the child included.
        memory_nbytes: address space of the child; None for no limit.
        python: the interpreter to run it.
        environment: variables added to those of this process.
        restarts: how many children have died.
    """

    function: str
    timeout_s: float = 60.0
    memory_nbytes: int | None = None
    python: str = sys.executable
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    restarts: int = 0
    _child: subprocess.Popen[bytes] | None = None
    _stderr: IO[bytes] | None = None

    def __post_init__(self) -> None:
        if self.function.count(":") != 1:
            raise ArgumentError(f"{self.function!r} is not spelled module:function")

    def call(self, request: bytes, timeout_s: float | None = None) -> Outcome:
        """Runs the function once; never raises for what happens in the child."""
        start = time.monotonic()
        deadline = start + (self.timeout_s if timeout_s is None else timeout_s)
        child = self._ready_child()
        try:
            status, value = self._exchange(child, request, deadline)
        except (BrokenPipeError, EOFError):
            return self._bury(Status.CRASH, start)
        except TimeoutError:
            return self._bury(Status.TIMEOUT, start)
        seconds = time.monotonic() - start
        if status == 0:
            return Outcome(Status.OK, value, seconds=seconds)
        return Outcome(Status.ERROR, detail=value.decode(errors="replace"), seconds=seconds)

    def close(self) -> None:
        """Ends the child."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            for pipe in (self._child.stdin, self._child.stdout):
                if pipe is not None:
                    pipe.close()
            self._child = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ready_child(self) -> subprocess.Popen[bytes]:
        if self._child is not None and self._child.poll() is None:
            return self._child
        self.close()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        limit = str(self.memory_nbytes or 0)
        self._child = subprocess.Popen(
            [self.python, str(_CHILD), self.function, limit],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**_UNLESS_SET, **os.environ, **_ALWAYS, **_search_path(), **self.environment},
        )
        return self._child

    def _exchange(
        self, child: subprocess.Popen[bytes], request: bytes, deadline: float
    ) -> tuple[int, bytes]:
        if child.stdin is None or child.stdout is None:
            raise EOFError
        child.stdin.write(_HEADER.pack(0, len(request)) + request)
        child.stdin.flush()
        status, nbytes = _HEADER.unpack(_read(child.stdout, _HEADER.size, deadline))
        return status, _read(child.stdout, nbytes, deadline)

    def _bury(self, status: Status, start: float) -> Outcome:
        """Ends a child that died or hung, and says what is known of it."""
        child, self.restarts = self._child, self.restarts + 1
        code = None
        if child is not None:
            if status is Status.TIMEOUT:
                child.kill()
            code = child.wait()
        detail = f"{_ending(code)}\n{self._stderr_tail()}".strip()
        self.close()
        return Outcome(status, detail=detail, seconds=time.monotonic() - start)

    def _stderr_tail(self) -> str:
        if self._stderr is None:
            return ""
        end = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, end - _STDERR_TAIL))
        text = self._stderr.read().decode(errors="replace")
        self._stderr.close()
        self._stderr = None
        return text


def _search_path() -> dict[str, str]:
    """The parent's import path, so that the child finds the same modules."""
    return {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def _read(pipe: IO[bytes], nbytes: int, deadline: float) -> bytes:
    """Exactly that many bytes; EOFError if the child is gone, TimeoutError if it is late."""
    parts: list[bytes] = []
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while nbytes:
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(left):
                raise TimeoutError
            part = os.read(pipe.fileno(), min(nbytes, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            nbytes -= len(part)
    return b"".join(parts)


def _ending(code: int | None) -> str:
    if code is None:
        return "the child could not be started"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exited with code {code}"
