"""What is put off, what goes before it, and what stays in order."""

from __future__ import annotations

import threading

from xladev.compiler.program.program import Procedure
from xladev.compiler.program.thunks import Evaluate, RunExecutable, Thunk, Transfer, reads, writes
from xladev.runtime.event import Event
from xladev.runtime.launch.definition_event import DefinitionEvent
from xladev.runtime.launch.slot_value import Frame, SlotValue
from xladev.runtime.launch.thunk_order import (
    OrderedThunk,
    ProcedureSteps,
    run_in_order_of_dependence,
)


class Gate(Event):
    """Ready once it is opened."""

    def __init__(self) -> None:
        self._opened = threading.Event()

    def open(self) -> None:
        self._opened.set()

    def is_ready(self) -> bool:
        return self._opened.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        return self._opened.wait(timeout_s)

    def error(self) -> None:
        return None


def order(
    thunks: list[Thunk],
    awaited: dict[Thunk, Gate],
    opens: dict[Thunk, Gate] | None = None,
    *,
    raises: bool = False,
) -> tuple[list[Thunk], set[int]]:
    """The thunks in the order in which they run, and the slots that are filled at the end.

    Args:
        thunks: of a procedure with one parameter, slot 0.
        awaited: what the host waits for before it runs them.
        opens: the events that running them makes ready.
        raises: whoever is asked what to wait for raises instead.
    """
    frame = Frame(Procedure("p", (), (0,), (), ()), [SlotValue(None)], {})
    events = {thunk: DefinitionEvent("d:0", gate) for thunk, gate in awaited.items()}
    found: list[Thunk] = []
    uses: dict[int, int] = {}
    for thunk in thunks:
        for slot in {*reads(thunk), *writes(thunk)}:
            uses[slot] = uses.get(slot, 0) + 1

    def run(frame: Frame, thunk: Thunk) -> None:
        assert all(slot in frame.values for slot in reads(thunk))
        found.append(thunk)
        frame.set(writes(thunk), [SlotValue(None)] * len(writes(thunk)))
        if opens and thunk in opens:
            opens[thunk].open()

    def asked(_: Frame, thunk: Thunk) -> DefinitionEvent | None:
        if raises:
            raise ValueError("a platform that cannot say")
        event = events.get(thunk)
        return None if event is None or event.is_ready() else event

    ordered = [OrderedThunk(t, reads(t), isinstance(t, Evaluate)) for t in thunks]
    run_in_order_of_dependence(ordered, ProcedureSteps(frame, uses, run, asked))
    return found, set(frame.values)


MOVE = Transfer(0, 1)
HOST = Evaluate(0, (1,), (2,))
OTHER = RunExecutable(1, (0,), (3,))
LAST = RunExecutable(2, (2, 3), (4,))


def test_what_depends_on_nothing_pending_goes_first() -> None:
    gate = Gate()
    found, left = order([MOVE, HOST, OTHER, LAST], {MOVE: gate}, {OTHER: gate})
    assert found == [OTHER, MOVE, HOST, LAST]
    assert left == set()


def test_as_they_stand_where_nothing_is_awaited() -> None:
    thunks: list[Thunk] = [MOVE, HOST, OTHER, LAST]
    assert order(thunks, {})[0] == thunks
    assert order(thunks, {}, raises=True)[0] == thunks


def test_what_can_be_seen_from_outside_stays_in_order() -> None:
    gate, second = Gate(), Evaluate(3, (0,), (5,))
    found, _ = order([MOVE, HOST, second, OTHER], {MOVE: gate}, {OTHER: gate})
    assert found == [OTHER, MOVE, HOST, second]


def test_the_one_that_is_ready_first_goes_first() -> None:
    slow, quick, last = Transfer(0, 1), Transfer(0, 2), RunExecutable(0, (2,), (3,))
    gates = {slow: Gate(), quick: Gate()}
    threading.Timer(0.01, gates[quick].open).start()
    found, _ = order([slow, quick, last], gates, {last: gates[slow]})
    assert found == [quick, last, slow]
