"""Executions on several devices: every participant is launched from its device's own thread.

Collectives block until all participants have come, so participants must run side by side. Each
device has one launching thread, and an execution is queued on all its devices in one step: two
executions can therefore never wait for each other crosswise.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

from xladev.compiler.isolation import expect, plugin_call
from xladev.errors import ArgumentError, InterruptionError, XladevError, counted
from xladev.instrument.interruption import Work
from xladev.runtime.array import DeviceArray
from xladev.runtime.collectives.launch_collectives import Collectives, CommunicatorPool
from xladev.runtime.communicator import Communicator
from xladev.runtime.distributed.job import Spread
from xladev.runtime.distributed.process_communicator import ProcessCommunicator
from xladev.runtime.executor import Executor
from xladev.runtime.launch.definition_event import PEER_FAILED, DefinitionEvent
from xladev.runtime.launch.launch_arguments import Donated
from xladev.runtime.launch.launchable import Launchable, next_run_id
from xladev.runtime.loaded_executable import JointEntry
from xladev.runtime.platform import Platform

Results = tuple[DeviceArray, ...]
_Job = tuple[Callable[[], Any], "Future[Any]", Work]


class LaunchThreads:
    """One daemon thread per device, made when first needed; they end with the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, SimpleQueue[_Job]] = {}

    def run_together(self, devices: Sequence[str], jobs: Sequence[Callable[[], Any]]) -> list[Any]:
        """Runs job i in the thread of device i, all at once; returns or raises when all ended.

        What a handler of a signal raises ends the wait, and the loops of all jobs.
        """
        futures: list[Future[Any]] = [Future() for _ in jobs]
        work = Work()
        with self._lock:
            for device, job, future in zip(devices, jobs, futures, strict=True):
                self._queue(device).put((job, future, work))
        try:
            errors = [e for future in futures if (e := future.exception()) is not None]
        finally:
            work.end()
        errors.sort(key=_is_of_a_peer)
        if errors:
            raise errors[0]
        return [future.result() for future in futures]

    def _queue(self, device: str) -> SimpleQueue[_Job]:
        if device not in self._queues:
            self._queues[device] = SimpleQueue()
            name = f"xladev-launch-{device}"
            work = (self._queues[device],)
            threading.Thread(target=_work, args=work, name=name, daemon=True).start()
        return self._queues[device]


def _is_of_a_peer(error: BaseException) -> bool:
    """True if it only says that another participant failed."""
    return isinstance(error, XladevError) and error.code == PEER_FAILED


def _work(queue: SimpleQueue[_Job]) -> None:
    while True:
        job, future, work = queue.get()
        try:
            with work:
                future.set_result(job())
        except BaseException as e:  # noqa: BLE001 (handed to the caller)
            future.set_exception(e)
        del job, future, work


_THREADS = LaunchThreads()


class ReplicatedLaunchable:
    """A program on several devices, one Launchable each. Thread-safe.

    Args:
        platform: makes communicators.
        launchables: one per device, ordered by replica, then partition.
        num_partitions: partitions of each replica.
        spread: where the program runs in several processes; the launchables are then those of its
            participants in this process.

    Raises:
        ArgumentError: no device, a device named twice, or not a whole number of replicas.
    """

    def __init__(
        self,
        platform: Platform,
        launchables: Sequence[Launchable],
        num_partitions: int = 1,
        spread: Spread | None = None,
    ) -> None:
        self._launchables = tuple(launchables)
        self._devices = tuple(launchable.device for launchable in launchables)
        names = [device.name for device in self._devices]
        self._spread = spread
        self._numbers = spread.own if spread else tuple(range(len(names)))
        self._size = len(spread.places) if spread else len(names)
        if not names or len(set(names)) < len(names) or self._size % num_partitions:
            raise ArgumentError(
                f"a program of {num_partitions} partitions cannot run on devices {names}",
                why="every participant needs a device of its own",
            )
        self._platform = platform
        self._num_partitions = num_partitions
        self._pool = CommunicatorPool(self._size, self._communicator)

    def execute(self, arguments: Sequence[Sequence[Any]], *, donate: Donated = ()) -> list[Results]:
        """Enqueues one execution on all devices.

        Args:
            arguments: for each device, what `Launchable.execute` takes.
            donate: indices of arguments, the same on every device.

        Returns:
            For each device, its results; all have one common event, so a failure on one device
            poisons the results of all.

        Raises:
            XladevError: as in `Launchable.execute`; the other participants are given up.
        """
        if len(arguments) != len(self._launchables):
            raise ArgumentError(
                f"arguments for {counted(len(arguments), 'device')}, "
                f"the program has {len(self._launchables)}"
            )
        run_id = self._spread.begin() if self._spread else next_run_id()
        launched: list[Results] = []
        jobs = [self._job(i, arguments[i], donate, run_id, launched) for i in range(len(arguments))]
        try:
            results = _THREADS.run_together([d.name for d in self._devices], jobs)
        except BaseException as e:
            for event in {id(a.event): a.event for row in launched for a in row}.values():
                event.disregard()
            if not isinstance(e, XladevError):  # of a signal's handler: nobody waits for the others
                self._abort(run_id, InterruptionError("an execution was interrupted"))
            raise
        finally:
            self._pool.end(run_id)
        return _with_common_event(results)

    def joint_entry(self) -> JointEntry | None:
        """New entry points of native code that runs all devices; None if there are none.

        Raises:
            PluginError: the plugin gave something else.
        """
        if self._spread is not None:
            return None
        participants = [each.loaded for each in self._launchables]
        plugin, function = self._devices[0].name, "LoadedExecutable.joint_entry"
        with plugin_call(plugin, function):
            made = participants[0].joint_entry(participants)
        return None if made is None else expect(made, JointEntry, plugin, function)

    def _job(
        self,
        index: int,
        arguments: Sequence[Any],
        donate: Donated,
        run_id: int,
        launched: list[Results],
    ) -> Callable[[], Results]:
        replicas, number = self._size // self._num_partitions, self._numbers[index]
        collectives = Collectives(self._pool, number, replicas, self._num_partitions)

        def job() -> Results:
            try:
                results = self._launchables[index].execute(
                    arguments, donate=donate, run_id=run_id, collectives=collectives
                )
                launched.append(results)
                return results
            except XladevError as e:
                self._abort(run_id, e)
                raise

        return job

    def _abort(self, run_id: int, error: XladevError) -> None:
        self._pool.abort(run_id, error)
        if self._spread is not None:
            self._spread.abort(run_id, error)

    def _communicator(self, group: tuple[int, ...]) -> Communicator:
        if self._spread is not None and not set(group) <= set(self._numbers):
            return self._between_processes(ProcessCommunicator(self._spread, group), group)
        plugin, function = self._devices[0].platform, "Platform.create_communicator"
        with plugin_call(plugin, function):
            made = self._platform.create_communicator(self._executors(group))
        return expect(made, Communicator, plugin, function)

    def _between_processes(
        self, through_host: ProcessCommunicator, group: Sequence[int]
    ) -> Communicator:
        own = [group[rank] for rank in through_host.own]
        plugin, function = self._devices[0].platform, "Platform.create_process_communicator"
        with plugin_call(plugin, function):
            made = self._platform.create_process_communicator(self._executors(own), through_host)
        return expect(made, Communicator, plugin, function)

    def _executors(self, group: Sequence[int]) -> list[Executor]:
        """Those of participants of this process."""
        return [self._devices[self._numbers.index(i)].executor for i in group]


def _with_common_event(results: Sequence[Results]) -> list[Results]:
    """The same arrays, with one event that is ready when all devices are."""
    events = {id(a.event): a.event for row in results for a in row}
    common = DefinitionEvent(upstream=events.values())
    return [tuple(array.with_event(common) for array in row) for row in results]
