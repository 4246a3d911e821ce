"""Where the replica threads of one execution meet, exchange values, and learn who is missing."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from xladev.errors import ExecutionError, XladevError
from xladev.instrument import is_interruption
from xladev.runtime.launch.definition_event import PEER_FAILED

Combine = Callable[[list[Any]], Sequence[Any]]
_REMEMBERED_FAILURES = 64


class _Meeting:
    """One call of one collective: what each rank brought, and what it takes away."""

    def __init__(self, size: int) -> None:
        self.brought: dict[int, Any] = {}
        self.taken: Sequence[Any] = ()
        self.error: XladevError | None = None
        self.done = threading.Event()
        self.still_inside = size


class Rendezvous:
    """Meetings of all ranks of one group. Thread-safe."""

    def __init__(self, size: int, timeout_s: float) -> None:
        self._size = size
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._meetings: dict[tuple[int, str], _Meeting] = {}
        self._failed_runs: OrderedDict[int, XladevError] = OrderedDict()

    def exchange(self, run_id: int, name: str, rank: int, value: Any, combine: Combine) -> Any:
        """Blocks until every rank has brought its value; returns this rank's share.

        Args:
            run_id: same on all ranks of one execution.
            name: same on all ranks for one call, different for any other of the run.
            rank: who brings ``value``.
            value: what this rank brings.
            combine: turns the values, in rank order, into shares, in rank order; runs once, in
                the thread that came last.

        Raises:
            ExecutionError: a rank did not come in time, came twice, or ``combine`` failed.
        """
        meeting, complete = self._arrive(run_id, name, rank, value)
        try:
            if complete:
                self._combine(meeting, combine)
            elif not meeting.done.wait(self._timeout_s):
                self._give_up(run_id, name, meeting)
        finally:
            self._leave(run_id, name, meeting)
        if meeting.error is not None:
            raise meeting.error
        return meeting.taken[rank]

    def abort(self, run_id: int, error: XladevError) -> None:
        """Makes all calls of run ``run_id`` fail, those that wait and those to come."""
        with self._lock:
            self._fail_run(run_id, peer_failed(error))

    def _arrive(self, run_id: int, name: str, rank: int, value: Any) -> tuple[_Meeting, bool]:
        with self._lock:
            failure = self._failed_runs.get(run_id)
            if failure is not None:
                raise failure
            meeting = self._meetings.setdefault((run_id, name), _Meeting(self._size))
            if rank in meeting.brought:
                raise ExecutionError(
                    f"rank {rank} came twice to collective {name!r}",
                    why="a name is used once per execution",
                )
            meeting.brought[rank] = value
            return meeting, len(meeting.brought) == self._size

    def _combine(self, meeting: _Meeting, combine: Combine) -> None:
        try:
            meeting.taken = combine([meeting.brought[r] for r in range(self._size)])
        except XladevError as e:
            meeting.error = e
        except BaseException as e:
            meeting.error = ExecutionError(f"a collective raised {type(e).__name__}", why=str(e))
            meeting.error.__cause__ = e
            if is_interruption(e):
                raise
        finally:
            meeting.done.set()

    def _give_up(self, run_id: int, name: str, meeting: _Meeting) -> None:
        with self._lock:
            missing = sorted(set(range(self._size)) - meeting.brought.keys())
            if missing:
                came = sorted(meeting.brought)
                self._fail_run(run_id, timed_out(name, self._timeout_s, missing, came))
        meeting.done.wait()

    def _fail_run(self, run_id: int, error: XladevError) -> None:
        self._failed_runs.setdefault(run_id, error)
        if len(self._failed_runs) > _REMEMBERED_FAILURES:
            self._failed_runs.popitem(last=False)
        for key in [key for key in self._meetings if key[0] == run_id]:
            meeting = self._meetings.pop(key)
            if len(meeting.brought) < self._size:
                meeting.error = error
                meeting.done.set()

    def _leave(self, run_id: int, name: str, meeting: _Meeting) -> None:
        with self._lock:
            meeting.still_inside -= 1
            if not meeting.still_inside:
                self._meetings.pop((run_id, name), None)


def timed_out(name: str, timeout_s: float, missing: list[int], came: list[int]) -> ExecutionError:
    """The error of a rank that waited too long for others."""
    return ExecutionError(
        f"collective {name!r} waited {timeout_s:g} s for ranks {missing}",
        why=f"ranks {came} came",
        hint="all replicas must run the same collectives; if they are just slow, raise "
        "XLADEV_COLLECTIVE_TIMEOUT_S",
    )


def peer_failed(error: XladevError) -> ExecutionError:
    """The error of a rank whose peer failed with ``error``."""
    failure = ExecutionError(
        "a collective was given up because another replica failed",
        where=error.where,
        why=error.what,
        code=PEER_FAILED,
    )
    failure.__cause__ = error
    return failure
