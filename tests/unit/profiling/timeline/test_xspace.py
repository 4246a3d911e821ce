"""Timelines as XSpace: planes, lines, times and statistics, read back field by field."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from xladev.hlo.proto.wire import read_uint64
from xladev.instrument import TraceEvent
from xladev.profiling.timeline.xspace import DEVICE_PLANE, HOST_PLANE, xspace

WALL_NS = 1_700_000_000_000_000_000
KERNEL = {"hlo_op": "dot.1", "op_name": "f/dot", "bytes": 64, "share": 0.5, "hlo_module": "f"}
EVENTS = [
    TraceEvent("f", "compile", 1_000, 500, "MainThread", {"platform": "npu"}),
    TraceEvent("cse", "pass", 1_100, 50, "MainThread"),
    TraceEvent("memory", "counter", 1_200, 0, "npu:0", {"value": 7}),
    TraceEvent("dot.1", "kernel", 2_010, 70, "npu:0/stream", KERNEL),
    TraceEvent("add.2", "kernel", 2_081, 9, "npu:0/stream", {"hlo_module": "f"}),
    TraceEvent("f", "cluster", 2_000, 100, "npu:0/stream", {"hlo_module": "f"}),
    TraceEvent("f", "cluster", 2_500, 40, "npu:1/stream", {"hlo_module": "f"}),
]


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        tag, at = read_uint64(data, at)
        if tag & 7 == 0:
            value, at = read_uint64(data, at)
            yield tag >> 3, value
            continue
        if tag & 7 == 1:
            yield tag >> 3, struct.unpack_from("<d", data, at)[0]
            at += 8
            continue
        assert tag & 7 == 2
        size, at = read_uint64(data, at)
        yield tag >> 3, data[at : at + size]
        at += size


def names(plane: bytes, field: int) -> dict[int, str]:
    """A map of metadata: the name of each number."""
    found = {}
    for number, entry in fields(plane):
        if number == field:
            metadata = dict(fields(dict(fields(entry))[2]))
            assert metadata[1] == dict(fields(entry))[1]
            found[metadata[1]] = metadata[2].decode()
    return found


def statistics(event: bytes, known: dict[int, str]) -> dict[str, Any]:
    found = {}
    for number, data in fields(event):
        if number == 4:
            value = dict(fields(data))
            name = known[value.pop(1)]
            ((kind, told),) = value.items()
            found[name] = known[told] if kind == 7 else told
    return found


def read(data: bytes) -> dict[str, Any]:
    """Events by plane and line: name, start, duration in picoseconds, statistics."""
    planes: dict[str, Any] = {}
    for _, plane in fields(data):
        kinds, stats = names(plane, 4), names(plane, 5)
        lines = planes.setdefault(dict(fields(plane))[2].decode(), {})
        for number, line in fields(plane):
            if number != 3:
                continue
            head = dict(fields(line))
            events = [
                (
                    kinds[dict(fields(event))[1]],
                    head[3] * 1000 + dict(fields(event))[2],
                    dict(fields(event))[3],
                    statistics(event, stats),
                )
                for field, event in fields(line)
                if field == 4
            ]
            lines[head[2].decode()] = events
    return planes


def test_each_device_and_the_host_have_a_plane() -> None:
    planes = read(xspace(EVENTS, WALL_NS, str.upper))
    assert list(planes) == [HOST_PLANE, f"{DEVICE_PLANE}NPU:0", f"{DEVICE_PLANE}NPU:1"]
    assert list(planes[HOST_PLANE]) == ["xladev: MainThread"]
    assert list(planes[f"{DEVICE_PLANE}NPU:0"]) == ["XLA Modules", "XLA Ops"]


def test_times_are_those_of_the_system() -> None:
    planes = read(xspace(EVENTS, WALL_NS))
    (program,) = planes[f"{DEVICE_PLANE}npu:0"]["XLA Modules"]
    assert program == ("f", (WALL_NS + 2_000) * 1000, 100_000, {"hlo_module": "f"})
    whole, part = planes[HOST_PLANE]["xladev: MainThread"]
    assert whole == ("compile: f", (WALL_NS + 1_000) * 1000, 500_000, {"platform": "npu"})
    assert part == ("pass: cse", (WALL_NS + 1_100) * 1000, 50_000, {})


def test_kernels_have_the_statistics_that_tools_know() -> None:
    first, second = read(xspace(EVENTS, WALL_NS))[f"{DEVICE_PLANE}npu:0"]["XLA Ops"]
    assert first[0] == "dot.1"
    assert first[3] == {
        "hlo_op": "dot.1", "tf_op": "f/dot", "bytes_accessed": 64, "share": 0.5, "hlo_module": "f",
    }  # fmt: skip
    assert second[0] == "add.2"


def test_planes_have_numbers_of_their_own() -> None:
    """Viewers make process ids of them, which must be small."""
    data = xspace(EVENTS, WALL_NS)
    devices = [dict(fields(plane)) for _, plane in fields(data)][1:]
    assert [plane[1] for plane in devices] == [0, 1]


def test_slices_that_overlap_are_in_lines_of_their_own() -> None:
    overlapping = [
        TraceEvent("a", "kernel", 0, 10, "npu:0/stream"),
        TraceEvent("b", "kernel", 5, 10, "npu:0/stream"),
    ]
    ((_, plane),) = fields(xspace(overlapping, WALL_NS))
    lines = [dict(fields(line)) for number, line in fields(plane) if number == 3]
    assert [line[11].decode() for line in lines] == ["XLA Ops: stream", "XLA Ops: stream (2)"]
    assert len({line[1] for line in lines}) == 2


def test_nothing_makes_nothing() -> None:
    assert xspace([], WALL_NS) == b""
    assert xspace(EVENTS[2:3], WALL_NS) == b""
