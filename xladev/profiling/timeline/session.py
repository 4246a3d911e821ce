"""`xladev.profile`: records a timeline while a block runs, and writes it."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from xladev.errors import XladevError
from xladev.instrument import Trace, TraceEvent, logger, trace_counter, tracing
from xladev.instrument.trace import MOST_EVENTS
from xladev.profiling.timeline.chrome import chrome_trace
from xladev.profiling.timeline.file import check_writable, write_trace
from xladev.profiling.timeline.together import gather_timelines
from xladev.runtime.distributed.job import current_job
from xladev.runtime.host.exit import open_devices

_log = logger("profile")


class Timeline:
    """What was recorded.

    Attributes:
        path: the file that it is written to; None if to none.
    """

    def __init__(self, path: Path | None, trace: Trace) -> None:
        self.path = path
        self._trace = trace
        self._start_ns = time.perf_counter_ns()
        self._wall_ns = time.time_ns()

    @property
    def events(self) -> list[TraceEvent]:
        """The events; those of devices and of native code once the block has ended."""
        return self._trace.events

    @property
    def dropped(self) -> int:
        """How many events there was no room for."""
        return self._trace.dropped

    def to_json(self) -> dict[str, Any]:
        """The document of the file."""
        events = self.events
        facts = {
            "pid": os.getpid(),
            "start_unix_ns": self._wall_ns,
            "start_perf_counter_ns": self._start_ns,
            "dropped": self.dropped,
        }
        return chrome_trace(events, self._start_ns, facts)

    def save(self, path: str | Path) -> None:
        """Writes the timeline to a file, compressed if its name ends in ``.gz``.

        Raises:
            FileError: it cannot be written.
        """
        write_trace(Path(path), self.to_json())

    def save_together(self, path: str | Path) -> None:
        """Writes one file with the timelines of all processes of the job; process 0 does.

        All processes call it, after their blocks have ended. Alone it is `save`.

        Args:
            path: the file; compressed if its name ends in ``.gz``.

        Raises:
            FileError: it cannot be written.
            ProcessError: a process does not come.
        """
        job, document = current_job(), self.to_json()
        whole = document if job is None else gather_timelines(job, document)
        if whole is not None:
            write_trace(Path(path), whole)


class Profile:
    """A block that is recorded; see `profile`."""

    def __init__(self, path: str | Path | None, most_events: int) -> None:
        self._path = None if path is None else Path(path)
        self._most_events = most_events
        self._stack = ExitStack()
        self._process = os.getpid()
        self._timeline: Timeline | None = None

    def __enter__(self) -> Timeline:
        if self._path is not None:
            check_writable(self._path)
            self._path = self._path.absolute()  # the block may change the folder
        trace = self._stack.enter_context(tracing(self._most_events, watch=False))
        self._timeline = Timeline(self._path, trace)
        self._process = os.getpid()
        _count_memory()
        return self._timeline

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> None:
        self.stop(wait=error is None)
        try:
            self.write()
        except XladevError as failure:
            if error is None:
                raise
            _log.error("%s", failure)  # what ended the block matters more

    def stop(self, *, wait: bool) -> None:
        """Ends recording.

        Args:
            wait: whether for what is pending on devices, which is recorded then.
        """
        if wait:
            _finish_devices()
        _count_memory()
        self._stack.close()

    def write(self) -> None:
        """Writes the file, if there is to be one; a child forked in the block writes none.

        Raises:
            FileError: it cannot be written.
        """
        timeline = self._timeline
        if timeline is None or timeline.path is None or self._process != os.getpid():
            return
        timeline.save(timeline.path)
        if timeline.dropped:
            _log.warning("%s: %d events did not fit", timeline.path, timeline.dropped)


def profile(path: str | Path | None = None, *, most_events: int = MOST_EVENTS) -> Profile:
    """Records what compiles, launches, copies and computes while a block runs, in all threads.

    ``with xladev.profile("trace.json") as timeline:`` writes a Chrome trace when the block ends,
    however it ends, once devices have done what is pending. Perfetto and chrome://tracing show it,
    `xladev trace query` answers questions on it. Blocks nest: the outer one sees all.

    Args:
        path: the file; compressed if its name ends in ``.gz``; None to keep the `Timeline` only.
        most_events: more are dropped, and their number is told. Of native code the first million
            steps are kept.

    Raises:
        FileError: the file cannot be written: said before the block runs where that is plain.
    """
    return Profile(path, most_events)


def _finish_devices() -> None:
    for device in open_devices():
        try:
            device.synchronize()
        except XladevError as error:
            _log.warning("the timeline may lack work of %s: %s", device.name, error)


def _count_memory() -> None:
    for device in open_devices():
        trace_counter("memory", device.name, device.allocator.nbytes_in_use)
