"""A peer as the coordinator sees it: a child process that may refuse, crash or hang."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from benchmarks.cpu.wire import Message, receive, send

ROOT = Path(__file__).parents[2]
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class PeerGone(Exception):
    """The peer died or did not answer in time; the message says how."""


@dataclass(frozen=True, slots=True)
class PeerSpec:
    """How a peer is started.

    Attributes:
        name: as the report calls it.
        python: its interpreter.
        module: what it runs, with arguments.
        root: the checkout whose modules it imports.
    """

    name: str
    python: str
    module: tuple[str, ...]
    root: Path = ROOT


class Peer:
    """A running child. Start again with a new one if it has gone.

    Args:
        spec: what to start.
        threads: number of threads it may use; it is bound to as many processors.
        log: file for what it prints.
    """

    def __init__(self, spec: PeerSpec, threads: int, log: Path) -> None:
        self.spec = spec
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            [spec.python, "-m", *spec.module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment(threads, spec.root),
            cwd=spec.root,
            bufsize=0,
            start_new_session=True,
        )
        with contextlib.suppress(OSError):
            os.sched_setaffinity(self._process.pid, processors(threads))

    @property
    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        to, back = self._process.stdin, self._process.stdout
        if to is None or back is None:
            raise PeerGone("it was closed")
        return to, back

    def ask(self, request: Mapping[str, Any], timeout_s: float) -> Message:
        """The reply to a request.

        Raises:
            PeerGone: it died, or gave no reply in time and was killed.
        """
        to, back = self._pipes
        try:
            send(to, request)
        except OSError:
            raise PeerGone(self._end()) from None
        if not select.select([back], [], [], timeout_s)[0]:
            self.close()
            raise PeerGone(f"no reply to {request['op']} within {timeout_s:.0f} s")
        reply = receive(back)
        if reply is None:
            raise PeerGone(self._end())
        return reply

    def _end(self) -> str:
        """How the process ended."""
        try:
            code = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.close()
            return "it closed its output"
        if code < 0:
            return f"crashed: {signal.Signals(-code).name}"
        return f"exited with status {code}"

    def close(self) -> None:
        """Ends the process, and what it started."""
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._log):
            if pipe is not None:
                pipe.close()


def processors(threads: int) -> Sequence[int]:
    """The last so many processors that this process may use; the first ones are busiest."""
    return sorted(os.sched_getaffinity(0))[-threads:]


def environment(threads: int, root: Path = ROOT) -> dict[str, str]:
    """The environment of a child that may use so many threads, and imports from a checkout."""
    changed = dict.fromkeys(_THREAD_VARIABLES, str(threads))
    changed |= {"XLADEV_NUM_THREADS": str(threads), "JAX_PLATFORMS": "cpu"}
    changed |= {"PYTHONPATH": str(root), "TF_CPP_MIN_LOG_LEVEL": "3"}
    return {**os.environ, **changed}


def started(spec: PeerSpec, threads: int, log: Path, timeout_s: float) -> tuple[Peer | None, str]:
    """A peer with its versions in words, or None and why it is left out."""
    try:
        peer = Peer(spec, threads, log)
    except OSError as e:
        return None, f"cannot start {spec.python}: {e.strerror}"
    start = time.monotonic()
    try:
        reply = peer.ask({"op": "hello"}, timeout_s)
    except PeerGone as gone:
        return None, str(gone)
    if "versions" not in reply:
        peer.close()
        return None, str(reply.get("missing") or reply.get("error") or reply)
    versions = ", ".join(f"{k} {v}" for k, v in reply["versions"].items())
    return peer, f"{versions} ({time.monotonic() - start:.1f} s to start)"
