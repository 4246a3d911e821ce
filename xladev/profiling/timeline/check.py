"""The schema of trace files: what `xladev` promises of them, checked event by event.

Fields by kind of event, ids that exist, slices that nest, flows with both ends, times that only
grow. Times are compared in whole nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import Any

from xladev.profiling.timeline.chrome import VERSION
from xladev.profiling.timeline.sound import LATEST_US

Json = Mapping[str, Any]
MOST_FAULTS = 20
"""Faults that are told; a broken file has thousands of one kind."""


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < inf


def _is_time(value: Any) -> bool:
    return _is_number(value) and value < LATEST_US


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_dict(value: Any) -> bool:
    return isinstance(value, Mapping)


def _are_numbers(value: Any) -> bool:
    return _is_dict(value) and bool(value) and all(map(_is_number, value.values()))


_PLACE = {"name": _is_text, "pid": _is_id, "tid": _is_id}
_TIMED = {**_PLACE, "ts": _is_time}
_FLOW = {**_TIMED, "cat": _is_text, "id": _is_id}
SCHEMA: Mapping[str, Mapping[str, Callable[[Any], bool]]] = MappingProxyType(
    {
        "M": {**_PLACE, "args": _is_dict},
        "X": {**_TIMED, "cat": _is_text, "dur": _is_time},
        "C": {**_TIMED, "args": _are_numbers},
        "s": _FLOW,
        "f": {**_FLOW, "bp": lambda value: value == "e"},
    }
)
"""Fields that an event of each phase must have, and what they are."""

_KERNEL = {"hlo_op": _is_text, "hlo_module": _is_text, "flops": _is_number, "bytes": _is_number}
ARGUMENTS: Mapping[str, Mapping[str, Callable[[Any], bool]]] = MappingProxyType(
    {
        "kernel": _KERNEL,
        "copy": {"hlo_op": _is_text, "hlo_module": _is_text},
        "help": {"hlo_op": _is_text, "hlo_module": _is_text},
        "cluster": {"hlo_module": _is_text},
        "launch": {"device": _is_text},
        "transfer": {"device": _is_text, "bytes": _is_number},
    }
)
"""Arguments that a slice of each category must have."""


def check_trace(document: Json) -> list[str]:
    """What is wrong with a trace; nothing if it keeps the schema.

    Args:
        document: as `read_trace` gives it.
    """
    faults: list[str] = []
    for fault in _faults(document):
        if len(faults) == MOST_FAULTS:
            return [*faults, "and more"]
        faults.append(fault)
    return faults


def _faults(document: Json) -> Iterator[str]:
    other = document.get("otherData")
    if not isinstance(other, Mapping) or other.get("version") != VERSION:
        yield f"otherData.version is not {VERSION}"
    events: Sequence[Any] = document.get("traceEvents", ())
    shapes = [list(_field_faults(number, event)) for number, event in enumerate(events)]
    yield from (fault for faults in shapes for fault in faults)
    sound = [event for event, faults in zip(events, shapes, strict=True) if not faults]
    yield from _name_faults(sound)
    yield from _order_faults(sound)
    slices = _slices_by_row(sound)
    for (pid, tid), row in slices.items():
        yield from _nesting_faults(row, f"row {tid} of process {pid}")
    yield from _flow_faults(sound, slices)


def _field_faults(number: int, event: Any) -> Iterator[str]:
    where = f"event {number}"
    if not isinstance(event, Mapping):
        yield f"{where} is no object"
        return
    fields = SCHEMA.get(str(event.get("ph")))
    if fields is None:
        yield f"{where}: no such phase: {event.get('ph')!r}"
        return
    for field, is_right in fields.items():
        if not is_right(event.get(field)):
            yield f"{where} ({event.get('name')}): {field} is {event.get(field)!r}"
    arguments = event.get("args", {})
    wanted = ARGUMENTS.get(str(event.get("cat")), {}) if event["ph"] == "X" else {}
    for name, is_right in wanted.items():
        if not _is_dict(arguments) or not is_right(arguments.get(name)):
            yield f"{where} ({event.get('name')}): args.{name} is missing or wrong"


def _name_faults(events: Sequence[Json]) -> Iterator[str]:
    named = {"process_name": set[int](), "thread_name": set[int]()}
    for event in events:
        if event["ph"] == "M" and event["name"] in named:
            key = event["pid"] if event["name"] == "process_name" else event["tid"]
            if key in named[event["name"]]:
                yield f"{event['name']} of {key} is said twice"
            named[event["name"]].add(key)
    pids = {e["pid"] for e in events if e["ph"] != "M"}
    tids = {e["tid"] for e in events if e["ph"] in ("X", "s", "f")}
    yield from (f"process {pid} has no name" for pid in pids - named["process_name"])
    yield from (f"row {tid} has no name" for tid in tids - named["thread_name"])


def _order_faults(events: Sequence[Json]) -> Iterator[str]:
    last = 0
    for event in events:
        if event["ph"] == "M":
            continue
        now = nanoseconds(event["ts"])
        if now < last:
            yield f"{event['name']} at {event['ts']} comes after a later event"
        last = max(last, now)


def nanoseconds(microseconds: float) -> int:
    """A time of a trace file as a whole number."""
    return round(microseconds * 1000)


_Row = list[tuple[int, int, str]]
"""Start, end and name of slices."""


def _slices_by_row(events: Sequence[Json]) -> dict[tuple[int, int], _Row]:
    rows: dict[tuple[int, int], _Row] = {}
    for event in events:
        if event["ph"] == "X":
            start, took = nanoseconds(event["ts"]), nanoseconds(event["dur"])
            row = rows.setdefault((event["pid"], event["tid"]), [])
            row.append((start, start + took, event["name"]))
    return rows


def _nesting_faults(row: _Row, where: str) -> Iterator[str]:
    ends: list[tuple[int, str]] = []
    for start, end, name in sorted(row, key=lambda s: (s[0], -s[1])):
        while ends and ends[-1][0] <= start:
            ends.pop()
        if ends and end > ends[-1][0]:
            yield f"{where}: {name} begins within {ends[-1][1]} and ends after it"
        ends.append((end, name))


def _flow_faults(events: Sequence[Json], slices: Mapping[tuple[int, int], _Row]) -> Iterator[str]:
    starts = _by_id(events, "s")
    ends = _by_id(events, "f")
    yield from (f"flow {number} has {len(s)} starts" for number, s in starts.items() if len(s) > 1)
    yield from (f"flow {number} does not end" for number in starts.keys() - ends.keys())
    yield from (f"flow {number} does not start" for number in ends.keys() - starts.keys())
    times = {place: {time for s in row for time in s[:2]} for place, row in slices.items()}
    for number in starts.keys() & ends.keys():
        first = starts[number][0]
        for end in ends[number]:
            if end["ts"] < first["ts"]:
                yield f"flow {number} ends before it starts"
            if nanoseconds(end["ts"]) not in times.get((end["pid"], end["tid"]), ()):
                yield f"flow {number} ends at no slice"
        if not _is_within(first, slices):
            yield f"flow {number} starts outside of any slice"


def _by_id(events: Sequence[Json], phase: str) -> dict[int, list[Json]]:
    found: dict[int, list[Json]] = {}
    for event in events:
        if event["ph"] == phase:
            found.setdefault(event["id"], []).append(event)
    return found


def _is_within(event: Json, slices: Mapping[tuple[int, int], _Row]) -> bool:
    now = nanoseconds(event["ts"])
    row = slices.get((event["pid"], event["tid"]), ())
    return any(start <= now <= end for start, end, _ in row)
