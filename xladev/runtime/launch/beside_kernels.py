"""Collectives of one run that are under way while its kernels run: events order the two.

The collectives' stream, a branch of the kernels', waits for the events of the operands; a thread of
the device's calls the communicator, which may block. Whoever needs the results waits until that
call returned, and lets the kernels' stream wait for the mark that was made behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

from xladev.compiler.isolation import as_error
from xladev.errors import XladevError
from xladev.instrument import is_tracing
from xladev.runtime.collectives.collective_threads import CollectiveThreads
from xladev.runtime.device import Device
from xladev.runtime.event import Event
from xladev.runtime.launch.launch_trace import LaunchTrace
from xladev.runtime.launch.run_queue import Explain, RunQueue, awaited_event
from xladev.runtime.launch.slot_value import SlotValue, Values
from xladev.runtime.stream import Stream, finish

_THREADS = CollectiveThreads()
_CALL = "Communicator"
"""What an error of it names."""


class BegunCollective:
    """A collective that is under way.

    Args:
        name: of the instruction.
        call: calls the communicator, with the stream that operands and results belong to.
        arguments, results: kept until it has ended.
    """

    def __init__(
        self, name: str, call: Callable[[Stream], None], arguments: Values, results: Values
    ) -> None:
        self.name, self.call = name, call
        self.arguments, self.results = arguments, results
        self.end: Event | None = None
        self.future: Future[None] = Future()


class BesideKernels:
    """What is under way of one run on one device; used by the thread that launches.

    Args:
        queue: what the device is given in this run.
        stream: a branch of the device's stream.
        program: name of the program, for timelines.
        explain: what an error is to say.
        abort: tells the other participants that a collective failed; else they would wait for it,
            and this one's next collectives for them.
    """

    def __init__(
        self,
        queue: RunQueue,
        stream: Stream,
        program: str,
        explain: Explain,
        abort: Callable[[XladevError], None],
    ) -> None:
        self._queue, self._device = queue, queue.device
        self._stream = stream
        self._program = program
        self._explain, self._abort = explain, abort
        self._begun: dict[BegunCollective, None] = {}

    def start(
        self, name: str, call: Callable[[Stream], None], arguments: Values, results: Values
    ) -> BegunCollective:
        """Lets a collective begin as soon as its operands are there.

        Args:
            name: of the instruction.
            call: see `BegunCollective`.
            arguments, results: operands, and memory for the results.
        """
        begun = BegunCollective(name, call, arguments, results)
        begun.future = _THREADS.submit(self._device.name, partial(self._run, begun))
        self._begun[begun] = None
        return begun

    def _run(self, begun: BegunCollective) -> None:
        """Enqueues a collective, or runs it; in the device's thread for them."""
        try:
            self._wait_for_operands(begun)
            self._run_traced(begun)
            with self._device.call("Stream.mark"):
                begun.end = self._stream.mark()
        except BaseException as e:
            self._abort(as_error(e, self._device.name, _CALL))
            raise

    def _wait_for_operands(self, begun: BegunCollective) -> None:
        for value in begun.arguments:
            event = awaited_event(value, self._stream)
            if event is not None:
                with self._device.call("Stream.wait"):
                    self._stream.wait(event)

    def _run_traced(self, begun: BegunCollective) -> None:
        if not is_tracing():
            begun.call(self._stream)
            return
        trace = LaunchTrace(self._stream, self._device.name, self._program)
        with trace.around_collective(begun.name):
            begun.call(self._stream)
        trace.finish()

    def done(self, begun: BegunCollective) -> Values:
        """The results; all that is enqueued from now on begins when they are there.

        Raises:
            XladevError: it failed.
        """
        begun.future.result()
        del self._begun[begun]
        kept = (begun.arguments, begun.results)
        event = self._queue.enqueue(partial(self._wait, begun), (), kept, self._explain)
        return [SlotValue(v.memory, v.owner, event, self._queue.stream) for v in begun.results]

    def _wait(self, begun: BegunCollective, stream: Stream) -> None:
        assert begun.end is not None, begun.name
        with self._device.call("Stream.wait"):
            stream.wait(begun.end)

    def wait_for_calls(self) -> None:
        """Blocks until all calls of communicators returned, so that the next one comes after.

        Raises:
            XladevError: one of them failed.
        """
        for begun in self._begun:
            begun.future.result()

    def give_up(self) -> None:
        """Blocks until nothing uses the memory of a run that fails; raises nothing in its place."""
        for begun in self._begun:
            with suppress(Exception):
                begun.future.result()
        if self._begun:
            finish(self._stream)
        self._begun.clear()


def collective_stream(device: Device) -> Stream | None:
    """The branch that collectives of a device run on; None if they run among its kernels.

    It is the last one, which kernels of one program are not spread over.
    """
    if not device.description.overlaps_collectives or device.stream.is_synchronous:
        return None
    count = max(1, device.description.compute_streams)
    with device.call("Stream.branches"):
        branches = device.stream.branches(count)
    return branches[count - 1] if len(branches) >= count else None
