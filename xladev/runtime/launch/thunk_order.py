"""The order in which a run takes thunks: each as soon as the host need not wait for it.

A thunk that reads on the host what a device still computes is put off, and those that do not depend
on it go before it: devices are given work while the host would wait. What can be seen from outside
a program stays in order: random numbers, what the evaluator and control flow do, and regions that
the host computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

from xladev.compiler.isolation import is_contained
from xladev.compiler.program.thunks import Slots, Thunk, writes
from xladev.runtime.launch.definition_event import DefinitionEvent
from xladev.runtime.launch.slot_value import Frame

_PATIENCE_S = 2e-4
"""How long one event is waited for while another one may be ready sooner."""


@dataclass(frozen=True, slots=True)
class OrderedThunk:
    """A thunk, and what must have happened before it.

    Attributes:
        thunk: what runs.
        reads: slots that must have been filled.
        is_in_order: True if it may go before no other such thunk.
    """

    thunk: Thunk
    reads: Slots
    is_in_order: bool


class ProcedureSteps:
    """A procedure that runs; lets go of slots that nothing reads any more.

    Args:
        frame: its slots.
        uses: how many thunks touch a slot; those that are not here are kept.
        run: runs a thunk.
        awaited: gives what the host would have to wait for before it runs a thunk; None if for
            nothing. Asked when the slots that it reads are filled, and again after it was put off.
    """

    def __init__(
        self,
        frame: Frame,
        uses: Mapping[int, int],
        run: Callable[[Frame, Thunk], None],
        awaited: Callable[[Frame, Thunk], DefinitionEvent | None],
    ) -> None:
        self._frame, self._run, self._awaited = frame, run, awaited
        self._uses = dict(uses)

    def has_what_it_reads(self, thunk: OrderedThunk) -> bool:
        """True if all slots that a thunk reads have been filled."""
        values = self._frame.values
        return all(slot in values for slot in thunk.reads)

    def awaited(self, thunk: OrderedThunk) -> DefinitionEvent | None:
        """What the host would have to wait for; a platform that raises raises again in `run`."""
        try:
            return self._awaited(self._frame, thunk.thunk)
        except Exception as e:
            if not is_contained(e):
                raise
            return None

    def run(self, thunk: OrderedThunk) -> None:
        """Runs a thunk."""
        self._run(self._frame, thunk.thunk)
        for slot in {*thunk.reads, *writes(thunk.thunk)}:
            left = self._uses.get(slot)
            if left == 1:
                self._frame.values.pop(slot, None)
            elif left is not None:
                self._uses[slot] = left - 1


def run_in_order_of_dependence(thunks: Sequence[OrderedThunk], run: ProcedureSteps) -> None:
    """Runs all thunks; the host waits when there is none left that it need not wait for."""
    put_off: list[OrderedThunk] = []
    for thunk in thunks:
        if put_off and run.awaited(put_off[0]) is None:
            put_off = _run_those_that_can(put_off, run)
        if _can_run(thunk, put_off, run):
            run.run(thunk)
        else:
            put_off.append(thunk)
    while put_off:
        left = _run_those_that_can(put_off, run)
        if len(left) == len(put_off):
            _wait_for_one(left, run)
        put_off = left


def _run_those_that_can(put_off: Sequence[OrderedThunk], run: ProcedureSteps) -> list[OrderedThunk]:
    """Those that are left."""
    left: list[OrderedThunk] = []
    for thunk in put_off:
        if _can_run(thunk, left, run):
            run.run(thunk)
        else:
            left.append(thunk)
    return left


def _can_run(thunk: OrderedThunk, before: Sequence[OrderedThunk], run: ProcedureSteps) -> bool:
    """Whether it runs without waiting, while those before it were put off."""
    if before:
        if thunk.is_in_order and any(other.is_in_order for other in before):
            return False
        if not run.has_what_it_reads(thunk):
            return False
    return run.awaited(thunk) is None


def _wait_for_one(put_off: Sequence[OrderedThunk], run: ProcedureSteps) -> None:
    """Blocks until one of them can run. The first one waits for an event and nothing else."""
    events = [
        event
        for thunk in put_off
        if run.has_what_it_reads(thunk) and (event := run.awaited(thunk)) is not None
    ]
    if len(events) == 1:
        events[0].wait()
        return
    for event in cycle(events):
        if event.wait(_PATIENCE_S):
            return
