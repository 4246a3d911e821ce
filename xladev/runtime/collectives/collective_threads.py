"""Threads that call communicators while kernels are enqueued: one for each device."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

_Job = tuple[Callable[[], None], "Future[None]"]


class CollectiveThreads:
    """One daemon thread for each device, made when first needed; they end with the process.

    All participants of a run begin its collectives in the same order, and runs of several devices
    are queued on all of them in one step, so two threads never wait for each other crosswise.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, SimpleQueue[_Job]] = {}

    def submit(self, device: str, job: Callable[[], None]) -> Future[None]:
        """Runs a job after those that the device was given before."""
        future: Future[None] = Future()
        with self._lock:
            queue = self._queues.get(device)
            if queue is None:
                queue = self._queues[device] = SimpleQueue()
                name = f"xladev-collective-{device}"
                threading.Thread(target=_work, args=(queue,), name=name, daemon=True).start()
        queue.put((job, future))
        return future


def _work(queue: SimpleQueue[_Job]) -> None:
    while True:
        job, future = queue.get()
        try:
            job()
            future.set_result(None)
        except BaseException as e:  # noqa: BLE001 (handed to whoever waits)
            future.set_exception(e)
        del job, future
