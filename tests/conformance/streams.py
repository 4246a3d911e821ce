"""Tier 4, streams and events: order, events, waiting, failures that belong to values."""

import threading
import time

import numpy as np

from xladev.errors import XladevError
from xladev.runtime.array import put
from xladev.runtime.stream import Stream
from xladev.testing.conformance.case import checks_of
from xladev.testing.conformance.probe import Probe

ROWS = 4096
CHAIN = """HloModule chain
turn { s = (s32[], f32[64,64]{1,0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[64,64]{1,0} get-tuple-element(s), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  y = f32[64,64]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[64,64]{1,0} tanh(y)
  ROOT t = (s32[], f32[64,64]{1,0}) tuple(n, z) }
on { s = (s32[], f32[64,64]{1,0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  m = s32[] constant(200)
  ROOT c = pred[] compare(i, m), direction=LT }
ENTRY e { x = f32[64,64]{1,0} parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[64,64]{1,0}) tuple(zero, x)
  w = (s32[], f32[64,64]{1,0}) while(start), condition=on, body=turn
  ROOT r = f32[64,64]{1,0} get-tuple-element(w), index=1 }"""
ADD_ONE = """HloModule add_one
ENTRY e { x = s32[1000]{0} parameter(0)
  one = s32[] constant(1)
  ones = s32[1000]{0} broadcast(one), dimensions={}
  ROOT r = s32[1000]{0} add(x, ones) }"""


def own_stream(probe: Probe) -> Stream:
    """Another stream than the one that the runtime uses."""
    return probe.device.executor.create_stream()


def copies(probe: Probe, stream: Stream, count: int) -> list[np.ndarray]:
    """Arrays copied to the device and back in order through one buffer."""
    device = probe.device
    buffer = device.allocate_nbytes(ROWS, "stream")
    found = [np.zeros(ROWS, np.uint8) for _ in range(count)]
    sent = [np.full(ROWS, n + 1, np.uint8) for n in range(count)]
    memory = buffer.memory.slice(0, ROWS)
    for out, into in zip(sent, found, strict=True):
        stream.copy(memory, out)
        stream.copy(into, memory)
    stream.synchronize()
    return found


def check_work_of_a_stream_runs_in_order(probe: Probe) -> None:
    found = copies(probe, probe.device.stream, 50)
    for n, each in enumerate(found):
        probe.require(bool((each == n + 1).all()), f"copy {n} of 50 overtook another")


def check_a_second_stream_runs_in_order(probe: Probe) -> None:
    found = copies(probe, own_stream(probe), 50)
    for n, each in enumerate(found):
        probe.require(bool((each == n + 1).all()), f"copy {n} of 50 overtook another")


def check_events_are_ready_after_synchronize(probe: Probe) -> None:
    stream = probe.device.stream
    event = stream.record()
    stream.synchronize()
    probe.require(event.is_ready(), "an event is not ready after synchronize")
    probe.require(event.wait(1.0), "waiting for a ready event timed out")
    probe.require(event.error() is None, "an event of no work holds an error")


def check_events_stay_ready(probe: Probe) -> None:
    stream = probe.device.stream
    events = [stream.record() for _ in range(100)]
    stream.synchronize()
    probe.require(all(e.is_ready() for e in events), "one of 100 events is not ready")
    probe.require(all(e.is_ready() for e in events), "an event was ready once only")


def check_one_stream_waits_for_another(probe: Probe) -> None:
    first, second = own_stream(probe), own_stream(probe)
    device = probe.device
    memory = device.allocate_nbytes(1 << 22, "wait").memory.slice(0, 1 << 22)
    zeros, sent = np.zeros(1 << 22, np.uint8), np.full(1 << 22, 7, np.uint8)
    for turn in range(8):
        found = zeros.copy()
        for _ in range(20):  # so long that a stream that does not wait is too early
            first.copy(memory, zeros)
        first.copy(memory, sent)
        second.wait(first.record())
        second.copy(found, memory)
        second.synchronize()
        right = bool((found == 7).all())
        probe.require(right, "a stream did not wait for the event of another", f"turn {turn}")


def check_callbacks_are_called_once(probe: Probe) -> None:
    calls: list[object] = []
    done = threading.Event()

    def callback(error: XladevError | None) -> None:
        calls.append(error)
        done.set()

    event = probe.device.stream.record()
    event.on_ready(callback)
    probe.device.stream.synchronize()
    probe.require(done.wait(10), "the callback of an event was never called")
    time.sleep(0.05)
    probe.require(calls == [None], f"the callback of an event got {calls}")


def check_results_feed_the_next_launch(probe: Probe) -> None:
    compiled = probe.compile(ADD_ONE)
    x = put(probe.device, np.zeros(1000, np.int32))
    for _ in range(200):
        x = compiled(x)
    probe.require(bool((np.asarray(x) == 200).all()), "200 launches in a row do not add up")


def check_many_launches_in_flight(probe: Probe) -> None:
    compiled = probe.compile(ADD_ONE)
    starts = [np.full(1000, n, np.int32) for n in range(100)]
    results = [compiled(start) for start in starts]
    for n, result in enumerate(results):
        probe.require(bool((np.asarray(result) == n + 1).all()), f"launch {n} of 100")


def check_arguments_dropped_while_pending_stay_alive(probe: Probe) -> None:
    compiled = probe.compile(CHAIN)
    x = np.eye(64, dtype=np.float32) * 0.5
    want = np.asarray(compiled(x))
    results = [compiled(put(probe.device, x)) for _ in range(8)]
    for result in results:
        probe.require(np.array_equal(np.asarray(result), want), "memory was reused too early")


def check_reading_waits_for_the_value(probe: Probe) -> None:
    compiled = probe.compile(CHAIN)
    x = np.eye(64, dtype=np.float32)
    first = compiled(x)
    probe.require(bool(np.isfinite(first.numpy()).all()), "a value was read before it was there")
    probe.require(first.is_ready(), "a value that was read is not ready")


def check_a_failed_value_poisons_what_follows(probe: Probe) -> None:
    """A deleted argument is an error, and the next launch works."""
    compiled = probe.compile(ADD_ONE)
    x = put(probe.device, np.zeros(1000, np.int32))
    x.delete()
    try:
        np.asarray(compiled(x))
    except XladevError:
        found = np.asarray(compiled(np.zeros(1000, np.int32)))
        probe.require(bool((found == 1).all()), "the launch after a failed one")
        return
    probe.fail("a deleted array was taken as an argument")


CASES = tuple(checks_of(__name__, 4, globals()))
