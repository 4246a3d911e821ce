"""Events as a serialized XSpace, the format of XLA's profilers and of TensorBoard's.

Times are those of the system's clock, as in the planes of XLA's own profilers.
Source: the messages of `tsl/profiler/protobuf/xplane.proto`; names of planes, lines and statistics
that tools know are those of `xla/tsl/profiler/utils/xplane_schema.cc`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from xladev.hlo.proto.wire import double_bytes, varint
from xladev.instrument import TraceEvent
from xladev.instrument.trace import COUNTER
from xladev.profiling.timeline.launches import add_launches
from xladev.profiling.timeline.rows import HOST, Row, in_rows

HOST_PLANE = "/host:python-tracer"
"""What Python knows of this process's threads; profilers merge it into their ``/host:CPU``."""

DEVICE_PLANE = "/device:CUSTOM:"
"""How names of planes of devices begin that are neither a GPU nor a TPU."""

_PROGRAMS, _OPERATIONS = "XLA Modules", "XLA Ops"
_STATISTICS: Mapping[str, str] = MappingProxyType(
    {"op_name": "tf_op", "bytes": "bytes_accessed", "opcode": "hlo_category"}
)
"""Statistics that have a name of their own in the schema; others keep theirs."""

_FIRST_HOST_LINE = 1 << 40
"""Lines of the host count from here; with another's of equal number they would merge."""


def xspace(
    events: Sequence[TraceEvent],
    wall_ns: int,
    name_of: Callable[[str], str] = str,
    *,
    host: bool = True,
    devices: bool = True,
) -> bytes:
    """The XSpace.

    Args:
        events: in any order; counters are left out.
        wall_ns: the system's clock when `time.perf_counter_ns` was 0.
        name_of: what a device is called in the name of its plane.
        host: whether there is to be a plane for this process.
        devices: whether there are to be planes for devices.

    Returns:
        A plane for this process, and one for each device; nothing if there are no events.
    """
    slices = add_launches([event for event in events if event.category != COUNTER])
    rows = in_rows(slices)
    processes = {row.process for row in rows}
    planes = [_host_plane(slices, wall_ns)] if host and HOST in processes else []
    for number, device in enumerate(sorted(processes - {HOST}) if devices else ()):
        own = {row: members for row, members in rows.items() if row.process == device}
        planes.append(_device_plane(number, name_of(device), own, wall_ns))
    return b"".join(_message(1, plane) for plane in planes)


def _host_plane(slices: Iterable[TraceEvent], wall_ns: int) -> bytes:
    """One line for each thread; those of XLA's own profilers stand beside them."""
    tracks: dict[str, list[TraceEvent]] = {}
    for event in slices:
        if "/" not in event.track:
            tracks.setdefault(event.track, []).append(event)
    plane = _Plane(0, HOST_PLANE, wall_ns)
    for number, (track, members) in enumerate(tracks.items(), _FIRST_HOST_LINE):
        plane.add_line(number, f"xladev: {track}", "", members, _name_on_host)
    return plane.written()


def _name_on_host(event: TraceEvent) -> str:
    """What is done, and to what."""
    return f"{event.category}: {event.name}"


def _device_plane(
    number: int, name: str, rows: Mapping[Row, Sequence[TraceEvent]], wall_ns: int
) -> bytes:
    """Two lines for each stream: programs, and what they consist of."""
    plane = _Plane(number, DEVICE_PLANE + name, wall_ns)
    lines = 0
    for row in sorted(rows, key=lambda r: (r.name, r.lane)):
        for line in (_PROGRAMS, _OPERATIONS):
            wanted = [e for e in rows[row] if (e.category == "cluster") == (line == _PROGRAMS)]
            lines += 1
            if wanted:
                plane.add_line(lines, line, f"{line}: {row.title}", wanted, lambda e: e.name)
    return plane.written()


class _Plane:
    """One XPlane while it is made: names stand in it once, and events refer to them."""

    def __init__(self, number: int, name: str, wall_ns: int) -> None:
        self._head = _number(1, number) + _message(2, name.encode())
        self._wall_ns = wall_ns
        self._lines: list[bytes] = []
        self._events: dict[str, int] = {}
        self._statistics: dict[str, int] = {}

    def add_line(
        self,
        number: int,
        name: str,
        shown: str,
        events: Iterable[TraceEvent],
        name_of: Callable[[TraceEvent], str],
    ) -> None:
        """A line of slices, which nest."""
        ordered = sorted(events, key=lambda e: (e.start_ns, -e.duration_ns))
        start_ns = ordered[0].start_ns
        parts = [_number(1, number), _message(2, name.encode())]
        parts.append(_number(3, start_ns + self._wall_ns))
        parts += [_message(4, self._event(e, name_of(e), start_ns)) for e in ordered]
        parts += [_message(11, shown.encode())] if shown else []
        self._lines.append(b"".join(parts))

    def written(self) -> bytes:
        """The plane's bytes."""
        parts = [self._head, *(_message(3, line) for line in self._lines)]
        parts += _table(4, self._events)
        parts += _table(5, self._statistics)
        return b"".join(parts)

    def _event(self, event: TraceEvent, name: str, start_ns: int) -> bytes:
        parts = [
            _number(1, self._events.setdefault(name, len(self._events) + 1)),
            _number(2, (event.start_ns - start_ns) * 1000),
            _number(3, event.duration_ns * 1000),
        ]
        for key, value in event.args.items():
            parts.append(_message(4, self._statistic(_STATISTICS.get(key, key), value)))
        return b"".join(parts)

    def _statistic(self, name: str, value: object) -> bytes:
        """A value; texts are told by a reference, since they repeat."""
        head = _number(1, self._number_of(name))
        if isinstance(value, float):
            return head + varint(2 << 3 | 1) + double_bytes(value)
        if isinstance(value, int):
            return head + _number(4, int(value))
        return head + _number(7, self._number_of(str(value)))

    def _number_of(self, text: str) -> int:
        return self._statistics.setdefault(text, len(self._statistics) + 1)


def _table(field: int, names: Mapping[str, int]) -> Iterator[bytes]:
    """Entries of a map from numbers to metadata, which are a number and a name."""
    for name, number in names.items():
        metadata = _number(1, number) + _message(2, name.encode())
        yield _message(field, _number(1, number) + _message(2, metadata))


def _number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def _message(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data
