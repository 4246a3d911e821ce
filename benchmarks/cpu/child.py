"""A peer's process: answers the coordinator's requests with one library.

Every peer measures the same way: a call runs the row's function on inputs that are already where
the library wants them, lets the library allocate the results, waits for them and reads an element
of each.
"""

from __future__ import annotations

import os
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks.cpu.wire import Array, Message, load_arrays, receive, save_arrays, send

WARM_UP_S = 0.2
"""Calls go on for so long, and for three at least, before any is timed."""


class Refused(Exception):
    """The library does not have what a row wants."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a peer prepares.

    Attributes:
        kind: which function, of `benchmarks.cpu.workloads`; ``program`` for an HLO file.
        parameters: its sizes; ``fed`` says how many of the arguments each call is given, where
            the others are constants of the program.
        hlo: the module as a serialized proto.
        threads: how many it may use.
        inputs: arguments.
    """

    kind: str
    parameters: Mapping[str, Any]
    hlo: Path | None
    threads: int
    inputs: list[Array]

    @property
    def fed(self) -> list[Array]:
        """What each call is given."""
        return self.inputs[: self.parameters.get("fed", len(self.inputs))]

    @property
    def constants(self) -> list[Array]:
        """The other arguments: weights, say."""
        return self.inputs[len(self.fed) :]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A row, ready to run.

    Attributes:
        call: runs it once: waits, reads, and returns whatever keeps the results alive.
        results: arrays of what `call` returned.
        memory: bytes by name, where the library tells: ``temporary``, ``results``, ``aliased``.
        compile_s: wall and CPU seconds from HLO to what can be run; None if nothing is compiled.
        warm_s: the same where another process compiled it before; None without such a cache.
    """

    call: Callable[[], Any]
    results: Callable[[Any], list[Array]]
    memory: Mapping[str, int] = field(default_factory=dict[str, int])
    compile_s: tuple[float, float] | None = None
    warm_s: tuple[float, float] | None = None


class Library(Protocol):
    """What a peer's module has."""

    def versions(self) -> dict[str, str]:
        """Versions by package."""
        ...

    def prepare(self, job: Job) -> Prepared:
        """Makes a row ready.

        Raises:
            Refused: the library does not have it.
        """
        ...


def touch(arrays: Iterable[Any]) -> None:
    """Reads the first element of each array that has one."""
    for array in arrays:
        if array.size:
            array.item(0)


class Clock:
    """Wall and CPU seconds since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        """Seconds: wall, CPU of all threads."""
        return time.perf_counter() - self._wall, time.process_time() - self._cpu


class Server:
    """Holds the prepared row between requests."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._prepared: Prepared | None = None

    def answer(self, request: Message) -> Message:
        """The reply to one request; an exception becomes ``error``, a refusal ``refused``."""
        try:
            return self._operations[request["op"]](request)
        except Refused as refusal:
            return {"refused": str(refusal)}
        except Exception as e:  # noqa: BLE001 (the coordinator reports it)
            traceback.print_exc()
            first = (str(e) or repr(e)).splitlines()[0]
            return {"error": f"{type(e).__name__}: {first}"[:300]}

    @property
    def _operations(self) -> dict[str, Callable[[Message], Message]]:
        return {
            "hello": lambda _: {"versions": self._library.versions()},
            "prepare": self._prepare,
            "run": self._run,
            "release": self._release,
        }

    def _prepare(self, request: Message) -> Message:
        self._prepared = None
        job = Job(
            request["kind"],
            request["parameters"],
            Path(request["hlo"]) if request.get("hlo") else None,
            request["threads"],
            load_arrays(Path(request["inputs"])),
        )
        prepared = self._library.prepare(job)
        first = Clock()
        kept = prepared.call()
        first_s = first.read()
        save_arrays(Path(request["results"]), prepared.results(kept))
        del kept
        self._prepared = prepared
        return {
            "seconds": _warm_up(prepared.call),
            "first_s": first_s,
            "compile_s": prepared.compile_s,
            "warm_s": prepared.warm_s,
            "memory": {**prepared.memory, "peak": peak_nbytes()},
        }

    def _run(self, request: Message) -> Message:
        if self._prepared is None:
            raise ValueError("no row is prepared")
        call, calls = self._prepared.call, int(request["calls"])
        clock = Clock()
        for _ in range(calls):
            call()
        wall, cpu = clock.read()
        return {"wall": wall / calls, "cpu": cpu / calls}

    def _release(self, _: Message) -> Message:
        self._prepared = None
        return {}


def _warm_up(call: Callable[[], Any]) -> float:
    """Calls for a while; seconds of the fastest."""
    start, fastest, count = time.perf_counter(), float("inf"), 0
    while count < 3 or time.perf_counter() - start < WARM_UP_S:
        before = time.perf_counter()
        call()
        fastest = min(fastest, time.perf_counter() - before)
        count += 1
    return fastest


def peak_nbytes() -> int:
    """Most memory that this process ever had, in bytes; not what its parent had when it began."""
    status = Path("/proc/self/status")
    for line in status.read_text().splitlines() if status.exists() else ():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def serve(library: Callable[[], Library]) -> None:
    """Answers until the coordinator goes; libraries' own output is sent to the error stream."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        server = Server(library())
    except ImportError as e:
        send(replies, {"missing": str(e)})
        return
    while (request := receive(sys.stdin.buffer)) is not None:
        send(replies, server.answer(request))
