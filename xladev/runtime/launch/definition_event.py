"""DefinitionEvent: when the results of one execution are ready, and why they are not there.

A failure belongs to one event and to every event that depends on it (poisoning). It is raised
where a value is read or waited for; a failure that nobody reads is logged once, when the last
event that holds it is dropped.
"""

from __future__ import annotations

import copy
import textwrap
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence

from xladev.compiler.isolation import as_error, expect, is_contained
from xladev.errors import ExecutionError, XladevError
from xladev.instrument import logger
from xladev.runtime.event import READY, Event

_log = logger("runtime")

PEER_FAILED = "PEER_FAILED"
"""Code of the error that a participant gets when another one failed."""


class ExecutionFailure:
    """An error, and whether anybody has read it; shared by all events that it poisons.

    Attributes:
        error: what went wrong.
        origin: name of the device where it did.
    """

    __slots__ = ("_unread", "error", "origin")

    def __init__(self, error: XladevError, origin: str) -> None:
        self._unread = False  # Ctrl-C may end this function anywhere, and then nobody holds it
        _keep_traceback_as_text(error)
        self.error = error
        self.origin = origin
        self._unread = True

    def read(self) -> XladevError:
        """The error; it will not be logged any more."""
        self._unread = False
        return self.error

    def __del__(self) -> None:
        if getattr(self, "_unread", False):
            _log.error("an execution failed and nobody read its results: %s", self.error)


def _keep_traceback_as_text(error: XladevError) -> None:
    """Turns the tracebacks of an error and its causes into a note.

    Frames would keep the buffers of the failed launch alive for as long as the error.
    """
    if error.__traceback__ is None and error.__cause__ is None:
        return
    text = "".join(traceback.format_exception(error)).rstrip()
    error.add_note(f"When it happened:\n{textwrap.indent(text, '  ')}")
    chain: BaseException | None = error
    while chain is not None:
        chain.__traceback__ = None
        chain.__context__ = None
        chain = chain.__cause__


def _copy_of(error: XladevError) -> XladevError:
    """An error to raise: the traceback of each reader is its own, and ends with it."""
    copied = copy.copy(error)
    copied.__cause__ = error.__cause__
    return copied


def _root(failures: Sequence[ExecutionFailure]) -> ExecutionFailure:
    """The first failure that is not the mere consequence of a peer's."""
    roots = [f for f in failures if f.error.code != PEER_FAILED] or failures
    for failure in failures:
        if failure.error.code == PEER_FAILED:
            failure.read()
    return roots[0]


class DefinitionEvent(Event):
    """The event of one execution, shared by its results. Thread-safe.

    Args:
        origin: name of the device it was recorded on, such as ``npu:0``; empty for joins.
        event: what the platform recorded; None if nothing was launched.
        upstream: events of the arguments.
        failure: why the launch failed, if it did.
        explain: told once what the platform says of a failure, and gives the error that readers
            get; the device learns here that it is lost.
        is_read: True if nobody can read what the platform says: the results tell another failure.
    """

    def __init__(
        self,
        origin: str = "",
        event: Event | None = None,
        upstream: Iterable[DefinitionEvent] = (),
        failure: ExecutionFailure | None = None,
        *,
        explain: Callable[[XladevError], XladevError] | None = None,
        is_read: bool = False,
    ) -> None:
        self.origin = origin
        self._lock = threading.Lock()
        self._failure = failure
        self._hidden: tuple[ExecutionFailure, ...] = ()
        self._explain = explain
        self._is_read = is_read
        self._event = READY if event is None else event
        self._upstream = tuple(u for u in upstream if not u.is_done)
        self._settled = failure is not None
        self._settle_if_ready()

    @property
    def recorded(self) -> Event:
        """What the platform recorded; `READY` once settled."""
        return self._event

    @property
    def upstream(self) -> tuple[DefinitionEvent, ...]:
        """The events it depends on that were not ready, or had failed, when last looked at."""
        return self._upstream

    @property
    def is_settled(self) -> bool:
        """True if it was seen ready; never asks the platform."""
        return self._settled

    def is_ready(self) -> bool:
        """True if the results are there or failed."""
        return self._settle_if_ready()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Blocks until ready; False if ``timeout_s`` seconds passed before."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        for event in _unsettled(self):
            if self._settled:
                return True
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not event._wait_alone(left):
                return False
        return True

    def error(self) -> XladevError | None:
        """Why the execution failed; None if it did not or is not ready. Counts as reading it."""
        failure = self.failure()
        if failure is None:
            return None
        for hidden in self._hidden:
            hidden.read()
        return failure.read()

    def disregard(self) -> None:
        """Says that nobody will read how it ended: another error that was raised tells of it."""
        with self._lock:
            self._is_read = True
            failure = self._failure
        if failure is not None:
            failure.read()

    def failure(self) -> ExecutionFailure | None:
        """The failure, without reading it; None if there is none or it is not ready."""
        return self._failure if self._settle_if_ready() else None

    def on_settled(self, callback: Callable[[], None]) -> None:
        """As `on_ready`, without reading the error: a failure stays unread."""
        _Unread(self).on_ready(lambda _: callback())

    def check(self, timeout_s: float | None = None) -> None:
        """Blocks until ready and raises the error, if there is one.

        Raises:
            XladevError: the execution, or one it depends on, failed.
            ExecutionError: not ready within ``timeout_s`` seconds.
        """
        if self._settled and self._failure is None:
            return
        if not self.wait(timeout_s):
            raise ExecutionError(f"not ready after {timeout_s} s", where=self.origin or None)
        error = self.error()
        if error is not None:
            raise _copy_of(error)

    def _wait_alone(self, timeout_s: float | None) -> bool:
        """Waits for its own event and settles; everything upstream has settled."""
        try:
            if not self._event.wait(timeout_s):
                return False
        except BaseException as e:
            if not is_contained(e):
                raise
            self._settle((), self._failed(as_error(e, self.origin, "Event.wait")))
            return True
        return self._settle_alone(waited=True)

    @property
    def is_done(self) -> bool:
        """True if ready and without failure: nothing that depends on it needs it."""
        return self._settle_if_ready() and self._failure is None

    def _settle_if_ready(self) -> bool:
        if self._settled:
            return True
        if not self._upstream:
            return self._settle_alone()
        if not self._has_happened():
            return False
        return all(event._settle_alone() for event in _unsettled(self))

    def _has_happened(self) -> bool:
        """False if its own event is not ready, whatever those upstream are."""
        try:
            return bool(self._event.is_ready())
        except BaseException as e:
            if not is_contained(e):
                raise
            return True

    def _settle_alone(self, *, waited: bool = False) -> bool:
        """Settles if its own event is ready; everything upstream has settled."""
        try:
            if not (waited or self._event.is_ready()):
                return False
        except BaseException as e:
            if not is_contained(e):
                raise
            self._settle((), self._failed(as_error(e, self.origin, "Event.is_ready")))
            return True
        own = self._own_failure()
        self._settle([f for u in self._upstream if (f := u.failure()) is not None], own)
        return True

    def _own_failure(self) -> ExecutionFailure | None:
        """What the platform says of this execution."""
        try:
            error = self._event.error()
            if error is None:
                return None
            error = expect(error, XladevError, self.origin, "Event.error")
        except BaseException as e:
            if not is_contained(e):
                raise
            error = as_error(e, self.origin, "Event.error")
        return self._failed(error.at(self.origin))

    def _failed(self, error: XladevError) -> ExecutionFailure:
        failure = ExecutionFailure(
            error if self._explain is None else self._explain(error), self.origin
        )
        if self._is_read:
            failure.read()
        return failure

    def _settle(self, upstream: Sequence[ExecutionFailure], own: ExecutionFailure | None) -> None:
        """Remembers the outcome and lets go of everything it came from.

        What failed here after something upstream has failed is its consequence, if anything: it is
        read with that. A join is its executions, so who reads it has read them all.
        """
        with self._lock:
            if not self._settled:
                self._failure = _root(upstream) if upstream else own
                beside = (*(() if self.origin else upstream), *([] if own is None else [own]))
                self._hidden = tuple(f for f in beside if f is not self._failure)
                self._settled = True
                self._event, self._upstream, self._explain = READY, (), None
                return
        if own is not None:
            own.read()  # another thread was faster, and has the same error


class _Unread(Event):
    """An event as seen by those whom its error does not concern."""

    def __init__(self, event: DefinitionEvent) -> None:
        self._event = event

    def is_ready(self) -> bool:
        """The event's."""
        return self._event.is_ready()

    def wait(self, timeout_s: float | None = None) -> bool:
        """The event's."""
        return self._event.wait(timeout_s)

    def error(self) -> None:
        """None."""


def _unsettled(last: DefinitionEvent) -> list[DefinitionEvent]:
    """``last`` and what it waits for, upstream first; iterative, as chains may be long."""
    order: list[DefinitionEvent] = []
    seen = {last}
    stack = [(last, iter(last.upstream))]
    while stack:
        event, upstream = stack[-1]
        following = next((u for u in upstream if u not in seen), None)
        if following is None:
            order.append(event)
            stack.pop()
            continue
        seen.add(following)
        if not following.is_settled:
            stack.append((following, iter(following.upstream)))
    return order


DEFINED = DefinitionEvent()
"""The event of values that are there: copied from the host, or computed synchronously."""
