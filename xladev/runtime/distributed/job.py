"""The job that this process is a part of: its transport, and which device is whose."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar, cast

from xladev.errors import AbsentDeviceError, OptionError, ProcessError, XladevError
from xladev.runtime.distributed.messages import run_tag
from xladev.runtime.distributed.transport import Exchange, Transport

DEFAULT_TIMEOUT_S = 60.0

Place = tuple[int, int]
"""A process, and the number of one of its devices there."""


def timeout_from_environment() -> float:
    """How long exchanges wait: XLADEV_COLLECTIVE_TIMEOUT_S, or 60 s.

    Raises:
        OptionError: it is no positive number.
    """
    text = os.environ.get("XLADEV_COLLECTIVE_TIMEOUT_S", str(DEFAULT_TIMEOUT_S))
    try:
        seconds = float(text)
    except ValueError as error:
        raise OptionError(f"XLADEV_COLLECTIVE_TIMEOUT_S is {text!r}", why="no number") from error
    if not seconds > 0:
        raise OptionError(f"XLADEV_COLLECTIVE_TIMEOUT_S is {text!r}", why="it is above zero")
    return seconds


class Closing(Protocol):
    """What ends with a job."""

    def close(self) -> None:
        """Lets go of everything; waits for no other process."""
        ...


_Kept = TypeVar("_Kept", bound=Closing)


class Job:
    """A job of several processes. Thread-safe.

    Args:
        transport: between its processes.
        device_counts: of each process, where devices are numbered through all processes; None
            where each program is divided evenly.
        platform: whose devices these are; None: of any.
    """

    def __init__(
        self,
        transport: Transport,
        device_counts: Sequence[int] | None = None,
        platform: str | None = None,
    ) -> None:
        self.transport = transport
        self.platform = platform
        self.device_counts = None if device_counts is None else tuple(device_counts)
        self._lock = threading.RLock()
        self._runs: dict[bytes, int] = {}
        self._compared: dict[bytes, list[bytes]] = {}
        self._kept: dict[Hashable, Closing] = {}
        self._last_work: list[Callable[[], None]] = []

    def kept(self, key: Hashable, make: Callable[[], _Kept]) -> _Kept:
        """What is made once under this key, and closed when this process leaves the job."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = make()
            return cast("_Kept", self._kept[key])

    def before_leaving(self, work: Callable[[], None]) -> None:
        """Notes what is done before anything is closed; it waits no longer than the time limit."""
        with self._lock:
            self._last_work.append(work)

    def finish(self) -> None:
        """Does what was noted by `before_leaving`."""
        with self._lock:
            noted, self._last_work = self._last_work, []
        for work in noted:
            work()

    def close(self) -> None:
        """Closes what was kept, the last one first, then the connections."""
        with self._lock:
            kept, self._kept = [*self._kept.values()], {}
        try:
            for each in reversed(kept):
                each.close()
        finally:
            self.transport.close()

    @property
    def index(self) -> int:
        """The number of this process."""
        return self.transport.rank

    @property
    def count(self) -> int:
        """Number of processes."""
        return self.transport.size

    @cached_property
    def numbered(self) -> tuple[Place, ...]:
        """The place of each device that is numbered through all processes."""
        counts = self.device_counts or ()
        return tuple((p, d) for p, count in enumerate(counts) for d in range(count))

    def places(self, count: int, assignment: Sequence[int] | None) -> tuple[Place, ...]:
        """Where the participants of a program are.

        Args:
            count: how many.
            assignment: numbers of devices through all processes; None: nobody said.

        Raises:
            AbsentDeviceError: there is none, or the participants cannot be divided evenly.
        """
        if self.device_counts is not None:
            numbers = range(count) if assignment is None else assignment
            return tuple(self._place(number) for number in numbers)
        if count == 1:
            return ((self.index, 0 if assignment is None else assignment[0]),)
        if count % self.count:
            raise AbsentDeviceError(
                f"a program of {count} devices cannot run in {self.count} processes",
                why="each process takes the same number of its devices",
                hint="start as many processes as divide the program's replicas and partitions",
            )
        each = count // self.count
        return tuple((i // each, i % each) for i in range(count))

    def _place(self, number: int) -> Place:
        if not 0 <= number < len(self.numbered):
            raise AbsentDeviceError(
                f"there is no device {number}", why=f"{len(self.numbered)} are known"
            )
        return self.numbered[number]

    def next_run(self, key: bytes) -> int:
        """How many executions of this began here before: the same in all processes."""
        with self._lock:
            self._runs[key] = number = self._runs.get(key, -1) + 1
            return number

    def compare(self, group: bytes, processes: Sequence[int], name: str, digest: bytes) -> None:
        """Compares a program with that of the other processes, the first time that it runs.

        Raises:
            ProcessError: another process came with another program, or does not come.
        """
        with self._lock:
            known = self._compared.setdefault(group, [])
            if digest in known:
                return
            known.append(digest)
            number = len(known)
        channel = self.transport.channel(b"programs" + group, processes)
        said = digest + name.encode()
        exchange = Exchange(run_tag(b"programs" + group, number), "first run of a program")
        try:
            found = [bytes(data) for data in channel.all_gather(exchange, said)]
        except ProcessError as error:
            self.transport.fail_run(exchange.run, f"{error.what} ({error.why})")
            raise
        for process, theirs in zip(processes, found, strict=True):
            if theirs != said:
                text = theirs[len(digest) :].decode(errors="replace")
                raise ProcessError(
                    "processes run different programs",
                    where=f"process {process}",
                    why=f"it runs {text!r} ({theirs[:4].hex()}), process {self.index} runs "
                    f"{name!r} ({digest[:4].hex()})",
                    hint="run the same program, of the same version, in all processes",
                )


@dataclass(slots=True)
class _Current:
    """What job this process is in."""

    job: Job | None = None


_current = _Current()


def current_job() -> Job | None:
    """The job of this process; None if it is alone."""
    return _current.job


def enter_job(job: Job) -> None:
    """Makes this process a part of a job.

    Raises:
        ProcessError: it is a part of one already.
    """
    if _current.job is not None:
        raise ProcessError(
            "this process is a part of a job already",
            why=f"it is process {_current.job.index} of {_current.job.count}",
            hint="call xladev.distributed.shutdown() first",
        )
    _current.job = job


def leave_job() -> None:
    """Ends the connections to the other processes, if there are any.

    What others wait for goes to them first.
    """
    try:
        if (staying := _current.job) is not None:
            staying.finish()
    finally:
        job, _current.job = _current.job, None
        if job is not None:
            job.close()


@contextmanager
def instead_of_job(job: Job) -> Iterator[None]:
    """Compiles and runs for another job than that of this process, which goes on afterwards.

    Not for several threads at once.
    """
    before, _current.job = _current.job, job
    try:
        yield
    finally:
        _current.job = before


@dataclass(frozen=True)
class Spread:
    """The participants of one program over the processes of a job.

    Attributes:
        job: the job.
        places: of each participant.
        name: of the program.
        digest: the same in all processes.
    """

    job: Job
    places: tuple[Place, ...]
    name: str
    digest: bytes

    @cached_property
    def own(self) -> tuple[int, ...]:
        """The participants of this process."""
        return tuple(i for i, (p, _) in enumerate(self.places) if p == self.job.index)

    @cached_property
    def processes(self) -> tuple[int, ...]:
        """The processes that take part."""
        return tuple(sorted({p for p, _ in self.places}))

    @cached_property
    def group(self) -> bytes:
        """What names these devices."""
        return repr(self.places).encode()

    @cached_property
    def key(self) -> bytes:
        """What names this program on these devices."""
        return self.digest + self.group

    def begin(self) -> int:
        """The number of the next execution, after the program was compared."""
        self.job.compare(self.group, self.processes, self.name, self.digest)
        return self.job.next_run(self.key)

    def run(self, run_id: int) -> bytes:
        """What names an execution in all processes."""
        return run_tag(self.key, run_id)

    def abort(self, run_id: int, error: XladevError) -> None:
        """Tells the other processes that an execution failed here."""
        why = f" ({error.why})" if error.why else ""
        self.job.transport.fail_run(self.run(run_id), f"{error.what}{why}")
