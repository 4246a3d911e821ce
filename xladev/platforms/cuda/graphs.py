"""CUDA graphs of whole programs: recorded when the same addresses come again, then replayed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

from xladev.errors import XladevError
from xladev.instrument import counter, logger
from xladev.platforms.cuda.driver.interface import DriverError, DriverGraph
from xladev.platforms.cuda.faults import driver_errors
from xladev.platforms.cuda.stream import CudaStream, device_address
from xladev.runtime.launch_graphs import LaunchGraphs
from xladev.runtime.memory import DeviceMemory
from xladev.runtime.stream import Stream

MOST_GRAPHS = 8
"""Sets of addresses that a program keeps graphs for; those not used for longest go."""
_log = logger("runtime")

Enqueue = Callable[[Stream], None]


class CudaGraphs(LaunchGraphs):
    """The graphs of one program.

    The first launch on some addresses runs as it is. The second is recorded, on a stream of its
    own that no other thread puts work on; from then on it is one launch. Work of several streams
    becomes branches of the graph. A program that cannot be recorded is run as it is from then on.

    Args:
        create_stream: of the device.
    """

    def __init__(self, create_stream: Callable[[], Stream]) -> None:
        self._create_stream = create_stream
        self._graphs: OrderedDict[tuple[int, ...], DriverGraph | None] = OrderedDict()
        self._lock = threading.Lock()
        self._is_refused = False

    def launch(self, stream: Stream, memory: Sequence[DeviceMemory], enqueue: Enqueue) -> None:
        """See `LaunchGraphs.launch`."""
        key = tuple(map(device_address, memory))
        with self._lock:
            graph = None if self._is_refused else self._graph(key, stream, enqueue)
        if graph is None or not isinstance(stream, CudaStream):
            enqueue(stream)
            return
        with driver_errors("a graph"):
            stream.stream.launch_graph(graph)
        counter("cuda.graph_launches")

    def _graph(self, key: tuple[int, ...], stream: Stream, enqueue: Enqueue) -> DriverGraph | None:
        """The graph of some addresses; None when they are seen for the first time."""
        if key not in self._graphs:
            self._graphs[key] = None
            while len(self._graphs) > MOST_GRAPHS:
                self._graphs.popitem(last=False)
            return None
        self._graphs.move_to_end(key)
        if self._graphs[key] is None:
            self._graphs[key] = self._recorded(stream, enqueue)
        return self._graphs[key]

    def _recorded(self, launched_on: Stream, enqueue: Enqueue) -> DriverGraph | None:
        stream = self._create_stream()
        if not isinstance(stream, CudaStream) or not isinstance(launched_on, CudaStream):
            return None
        stream.branches(launched_on.branch_count)  # none may be made while a stream is captured
        try:
            stream.stream.begin_capture()
            try:
                enqueue(stream)
            finally:
                graph = stream.stream.end_capture()
        except (DriverError, XladevError) as e:
            _log.warning("a program is not recorded as a CUDA graph: %s", e)
            self._is_refused = True
            return None
        counter("cuda.graphs")
        return graph
