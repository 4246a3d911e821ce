"""Collectives of one launch of a Program: among its kernels, or beside them where a device can."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

from xladev.compiler.program.thunks import Collective, CollectiveDone, CollectiveStart
from xladev.instrument import trace_scope
from xladev.runtime.collectives.collective_run import run_collective
from xladev.runtime.launch.beside_kernels import (
    BegunCollective,
    BesideKernels,
    collective_stream,
)
from xladev.runtime.launch.program_parts import ProgramParts, explained
from xladev.runtime.launch.run_queue import RunQueue
from xladev.runtime.launch.slot_value import Frame, SlotValue, Values
from xladev.runtime.launch.value_moves import ValueMoves
from xladev.runtime.loaded_executable import LaunchContext
from xladev.runtime.stream import Stream


class RunCollectives:
    """Begins and ends collectives on the target of one launch; used by the thread that launches.

    Args:
        loaded: the program.
        context: of the launch; its communicator knows the other participants.
        queue: what the target is given in this run; None if it has done each call when it returns.
        moves: makes memory for results.
    """

    def __init__(
        self,
        loaded: ProgramParts,
        context: LaunchContext,
        queue: RunQueue | None,
        moves: ValueMoves,
    ) -> None:
        self._loaded, self._context = loaded, context
        self._queue, self._moves = queue, moves
        self._device = loaded.devices[0]
        self._calls: Counter[str] = Counter()
        self._beside = self._beside_kernels()
        self._begun: dict[tuple[Frame, str], BegunCollective] = {}

    def _beside_kernels(self) -> BesideKernels | None:
        """What runs collectives beside kernels; None where they run among them."""
        everybody, queue = self._context.communicator, self._queue
        if everybody is None or queue is None or not self._loaded.overlaps_collectives:
            return None
        stream = None if self._loaded.waits_for_each else collective_stream(queue.device)
        if stream is None:
            return None
        abort = partial(everybody.pool.abort, self._context.run_id)
        explain = partial(explained, self._loaded, queue.device, None)
        return BesideKernels(queue, stream, self._loaded.program.name, explain, abort)

    def run(self, frame: Frame, thunk: Collective) -> None:
        """Runs a collective among the kernels."""
        if self._beside is not None:
            self._beside.wait_for_calls()
        arguments, results = frame.take(thunk.arguments), self._results(frame, thunk)
        run, device = self._call(frame, thunk, arguments, results), self._device
        with trace_scope(thunk.name, "collective", device=device.name):
            if self._queue is None:
                run(device.stream)
            else:
                explain = partial(explained, self._loaded, device, None)
                event = self._queue.enqueue(run, arguments, results, explain)
                results = [SlotValue(v.memory, v.owner, event, self._queue.stream) for v in results]
        frame.set(thunk.results, results)

    def start(self, frame: Frame, thunk: CollectiveStart) -> None:
        """Begins a collective beside the kernels that come next, where the device can; else now."""
        if self._beside is None:
            self.run(frame, thunk)
            return
        arguments, results = frame.take(thunk.arguments), self._results(frame, thunk)
        call = self._call(frame, thunk, arguments, results)
        self._begun[frame, thunk.name] = self._beside.start(thunk.name, call, arguments, results)

    def end(self, frame: Frame, thunk: CollectiveDone) -> None:
        """Ends a collective that was begun."""
        if self._beside is not None:
            begun = self._begun.pop((frame, thunk.name))
            frame.set(thunk.results, self._beside.done(begun))

    def give_up(self) -> None:
        """Blocks until no collective is under way, whatever becomes of them."""
        if self._beside is not None:
            self._beside.give_up()

    def _results(self, frame: Frame, thunk: Collective) -> Values:
        return [self._moves.allocate(frame, slot) for slot in thunk.results]

    def _call(
        self, frame: Frame, thunk: Collective, arguments: Values, results: Values
    ) -> Callable[[Stream], None]:
        """Runs a collective whose operands and results belong to a stream, under a new name."""
        self._calls[thunk.name] += 1
        return partial(
            run_collective,
            self._device,
            self._context,
            thunk,
            f"{thunk.name}#{self._calls[thunk.name]}",
            [(v.place, frame.shape(s)) for v, s in zip(arguments, thunk.arguments, strict=True)],
            [(v.place, frame.shape(s)) for v, s in zip(results, thunk.results, strict=True)],
            None if thunk.reducer is None else self._loaded.module(thunk.reducer).entry,
        )
