"""What a client's profiler, such as `jax.profiler.trace`, is told of compilation and execution."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from xladev.frontends.jax.platform_names import jax_name
from xladev.hlo.proto.wire import read_uint64
from xladev.profiling.timeline.session import Profile, Timeline, profile
from xladev.profiling.timeline.xspace import xspace

_HOST_LEVEL, _DEVICE_LEVEL = 2, 3
"""Fields of tensorflow.ProfileOptions (`tsl/profiler/protobuf/profiler_options.proto`)."""


@dataclass(slots=True)
class _Running:
    """A recording."""

    recording: Profile
    timeline: Timeline
    wall_ns: int
    with_host: bool
    with_devices: bool


class ProfilerSession:
    """One session of a client's profiler.

    Every name under which the library is registered has one. They see the same process, so one at
    a time records, and the others have nothing to tell.
    """

    def __init__(self, options: bytes) -> None:
        self._running: _Running | None = None
        with _lock:
            global _recording
            if _recording is not None:
                return
            _recording = self
        self._running = _start(options)

    def stop(self) -> bytes:
        """Ends recording; what was recorded, as a serialized XSpace."""
        global _recording
        running, self._running = self._running, None
        with _lock:
            if _recording is self:
                _recording = None
        return b"" if running is None else _finish(running)


_lock = threading.Lock()
_recording: ProfilerSession | None = None


def _start(options: bytes) -> _Running:
    levels = _levels(options)
    recording = profile()
    timeline = recording.__enter__()
    wall_ns = time.time_ns() - time.perf_counter_ns()
    wanted = [not options or bool(levels.get(f)) for f in (_HOST_LEVEL, _DEVICE_LEVEL)]
    return _Running(recording, timeline, wall_ns, *wanted)


def _finish(running: _Running) -> bytes:
    running.recording.stop(wait=True)
    return xspace(
        running.timeline.events,
        running.wall_ns,
        _plane_name,
        host=running.with_host,
        devices=running.with_devices,
    )


def _plane_name(device: str) -> str:
    """The device as JAX prints it."""
    platform, colon, ordinal = device.partition(":")
    return f"{jax_name(platform)}{colon}{ordinal}"


def _levels(options: bytes) -> dict[int, int]:
    """The numbers in a serialized ProfileOptions, by field."""
    found: dict[int, int] = {}
    at = 0
    while at < len(options):
        tag, at = read_uint64(options, at)
        if tag & 7 == 0:
            found[tag >> 3], at = read_uint64(options, at)
        elif tag & 7 == 2:
            length, at = read_uint64(options, at)
            at += length
        else:
            at += 8 if tag & 7 == 1 else 4
    return found
