"""Mutants written by hand of what orders streams: in the asynchronous device, and in the runtime.

The device's own search for mistakes is off, so that results alone tell, as on hardware.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.async_npu import plugin
from tests.async_npu.driver import library
from tests.async_npu.executor import AsyncExecutor
from tests.async_npu.stream import AsyncEvent, AsyncStream
from tests.differential.planted import function
from tests.mutants.wrong import Plant, WrongBackend, method
from xladev.compiler.streams.stream_waits import MAIN, START
from xladev.errors import DeviceError
from xladev.runtime.device import Device
from xladev.runtime.event import READY, Event
from xladev.runtime.launch.definition_event import DefinitionEvent
from xladev.runtime.registry import current_registry
from xladev.runtime.stream import Stream
from xladev.runtime.stream_order import StreamOrder

# Waits of the device


def _ignores_on_branches(right: Any, self: AsyncStream, event: Event) -> None:
    if not self.is_branch:
        right(self, event)


def _ignores_on_others(right: Any, self: AsyncStream, event: Event) -> None:
    if self.is_branch:
        right(self, event)


def _ignores(right: Any, self: AsyncStream, event: Event) -> None:
    return None


def _some_left_out(patch: pytest.MonkeyPatch) -> None:
    """One wait in ten is left out, by chance."""
    chance = random.Random(1)

    def wait(right: Any, self: AsyncStream, event: Event) -> None:
        if chance.random() > 0.1:
            right(self, event)

    method(AsyncStream, "wait", wait)(patch)


def _one_branch(plant: Plant) -> Plant:
    """The device has two queues: one of its own and one of a branch."""

    def planted(patch: pytest.MonkeyPatch) -> None:
        def branches(right: Any, self: AsyncStream, count: int) -> Any:
            return right(self, 1)

        method(AsyncStream, "branches", branches)(patch)
        plant(patch)

    return planted


def _before_next(act: Callable[[Any, AsyncStream, list[Event]], None], *, after: bool) -> Plant:
    """Waits are kept until the next command, and done before or after it."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        wait = AsyncStream.wait
        held: dict[AsyncStream, list[Event]] = {}

        def flush(stream: AsyncStream) -> None:
            act(wait, stream, held.pop(stream, []))

        def command(right: Any, stream: AsyncStream, *args: Any) -> Any:
            if not after:
                flush(stream)
            found = right(*args)
            flush(stream)
            return found

        def kept(stream: AsyncStream, event: Event) -> None:
            held.setdefault(stream, []).append(event)

        def copied(right: Any, self: AsyncStream, *args: Any) -> Any:
            return command(right, self, self, *args)

        def launched(right: Any, self: AsyncExecutor, stream: AsyncStream, *args: Any) -> Any:
            return command(right, stream, self, stream, *args)

        def marked(right: Any, self: AsyncStream) -> Any:
            flush(self)
            return right(self)

        patch.setattr(AsyncStream, "wait", kept)
        method(AsyncStream, "copy", copied)(patch)
        method(AsyncExecutor, "launch_kernel", launched)(patch)
        for name in ("mark", "record"):
            method(AsyncStream, name, marked)(patch)

    return plant


def _all(wait: Any, stream: AsyncStream, events: list[Event]) -> None:
    for event in events:
        wait(stream, event)


def _last(wait: Any, stream: AsyncStream, events: list[Event]) -> None:
    _all(wait, stream, events[-1:])


# Marks, order and failures of the device


def _ready_mark(right: Any, self: AsyncStream) -> Event:
    return READY


def _stale_mark(right: Any, self: AsyncStream) -> Event:
    """The mark before: what came since is not waited for."""
    last: Event = vars(self).get("last", READY)
    vars(self)["last"] = right(self)
    return last


def _taking_mark(right: Any, self: AsyncStream) -> Event:
    return self.record()


def _own_failures(right: Any, self: AsyncStream, count: int) -> Any:
    """Branches remember what failed on them, and nobody asks them."""
    known = vars(self).setdefault("others", [])
    known.extend(AsyncStream(self._device) for _ in range(count - len(known)))
    return known[:count]


def _new_branches(right: Any, self: AsyncStream, count: int) -> Any:
    self._branches = []
    return right(self, count)


def _swapped(patch: pytest.MonkeyPatch) -> None:
    """Two commands of a branch with no mark or wait between them change places."""
    held: dict[AsyncStream, Callable[[], Any]] = {}

    def command(stream: AsyncStream, run: Callable[[], Any]) -> None:
        if not stream.is_branch:
            run()
        elif stream in held:
            run()
            held.pop(stream)()
        else:
            held[stream] = run

    def copied(right: Any, self: AsyncStream, *args: Any) -> Any:
        command(self, lambda: right(self, *args))

    def launched(right: Any, self: AsyncExecutor, stream: AsyncStream, *args: Any) -> Any:
        command(stream, lambda: right(self, stream, *args))

    def flushed(right: Any, self: AsyncStream, *args: Any) -> Any:
        held.pop(self, lambda: None)()
        return right(self, *args)

    method(AsyncStream, "copy", copied)(patch)
    method(AsyncExecutor, "launch_kernel", launched)(patch)
    for name in ("mark", "record", "wait"):
        method(AsyncStream, name, flushed)(patch)


def _early_events(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AsyncEvent, "is_ready", lambda self: True)
    patch.setattr(AsyncEvent, "wait", lambda self, timeout_s=None: True)


# The runtime, which asks for waits


def _orders(waits: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Plant:
    """Steps wait for a part of what they must follow."""

    def before(right: Any, self: StreamOrder, number: int) -> Stream:
        step = self._step
        rows = [waits(row) if n == number else row for n, row in enumerate(step.waits)]
        self._step = replace(step, waits=tuple(rows))
        try:
            return right(self, number)
        finally:
            self._step = step

    return method(StreamOrder, "before", before)


def _no_join(self: StreamOrder) -> None:
    return None


def _joins_one(self: StreamOrder) -> None:
    for number in self._step.joins[:1]:
        self._streams[MAIN].wait(self._marks[number])


def _retains_nothing(self: Device, event: DefinitionEvent, objects: Any) -> None:
    return None


def _unchecked(plant: Plant) -> Plant:
    """The mistake, in a process that knows the device and lets it search for nothing."""

    def planted(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(library, "SETTINGS", replace(library.SETTINGS, checks=False))
        try:
            current_registry().platform("async_npu")
        except DeviceError:
            current_registry().register(*plugin.xladev_platforms())
        plant(patch)

    return planted


def _async(name: str, plant: Plant, *cases: str) -> WrongBackend:
    return WrongBackend(name, "async_npu", _unchecked(plant), cases=cases or ("branches::*",))


def _wait(wrong: Any) -> Plant:
    return method(AsyncStream, "wait", wrong)


MUTANTS = (
    _async("branches do not wait", _wait(_ignores_on_branches)),
    _async("a stream does not wait for its branches", _wait(_ignores_on_others)),
    _async("no stream waits for another", _wait(_ignores), "streams::*-wait*", "branches::*"),
    _async("one wait in ten is left out", _some_left_out, "streams::*wait*"),
    _async("of two queues none waits", _one_branch(_wait(_ignores))),
    _async("of two queues one wait in ten is left out", _one_branch(_some_left_out)),
    _async("waits begin one command late", _before_next(_all, after=True)),
    _async("of several waits the last one counts", _before_next(_last, after=False)),
    _async("marks are ready at once", method(AsyncStream, "mark", _ready_mark)),
    _async("a mark is the one before", method(AsyncStream, "mark", _stale_mark)),
    _async("a mark takes the failure away", method(AsyncStream, "mark", _taking_mark)),
    _async("failures of branches are lost", method(AsyncStream, "branches", _own_failures)),
    _async("branches are new at each call", method(AsyncStream, "branches", _new_branches)),
    _async("commands of a branch change places", _swapped),
    _async("events of an asynchronous device are ready at once", _early_events,
           "streams::*", "memory::*"),
    _async("the runtime lets no step wait", _orders(lambda row: ())),
    _async("the runtime lets steps wait for one of several", _orders(lambda row: row[:1])),
    _async("the runtime lets branches begin before the launch",
           _orders(lambda row: tuple(n for n in row if n != START))),
    _async("the runtime does not join branches", function(StreamOrder, "join", _no_join)),
    _async("the runtime joins one of several branches", function(StreamOrder, "join", _joins_one)),
    _async("the runtime keeps nothing alive that pending work uses",
           function(Device, "retain", _retains_nothing), "streams::*"),
)  # fmt: skip
