"""Tier 4, streams and events: order, overlap, events, waiting; poisoning.py has failures."""

import gc
import threading
import time
from itertools import product

import numpy as np

from xladev.errors import XladevError
from xladev.runtime.array import put
from xladev.runtime.stream import Endpoint, Stream
from xladev.testing.conformance.case import checks_of
from xladev.testing.conformance.probe import Probe, ended
from xladev.testing.conformance.waits import LARGE_NBYTES, hand_on, pass_on

_ABANDONED: list[object] = []
"""What a device may use for ever, because an event that says otherwise never came."""

HUGE_NBYTES = 128 << 20
"""Of copies within a device, which take it longer than the host takes to ask for them."""
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
    with ended(stream):
        for out, into in zip(sent, found, strict=True):
            stream.copy(memory, out)
            stream.copy(into, memory)
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
    with ended(own_stream(probe), own_stream(probe)) as (first, second):
        pass_on(probe, first, second, lambda stream: stream.record(), 8)


def check_none_of_many_waits_is_left_out(probe: Probe) -> None:
    hand_on(probe, own_stream(probe), own_stream(probe), lambda stream: stream.record())


def check_an_event_of_an_idle_stream_becomes_ready(probe: Probe) -> None:
    event = own_stream(probe).record()
    probe.require(event.wait(10.0), "an event of a stream without work never became ready")
    probe.require(event.is_ready(), "an event that was waited for is not ready")
    probe.require(event.error() is None, "an event of no work holds an error")


def check_waiting_for_an_own_or_a_ready_event_goes_on(probe: Probe) -> None:
    stream = own_stream(probe)
    early = stream.record()
    for _ in range(20):
        stream.wait(stream.record())
        stream.wait(early)
    probe.require(stream.record().wait(10.0), "a stream that waited for its own event hangs")


def check_streams_that_wait_for_each_other_in_turns_go_on(probe: Probe) -> None:
    """Two streams pass one buffer to and fro; each adds a byte behind those of the other."""
    held = probe.device.allocate_nbytes(64, "turns")
    memory = held.memory
    sent = [np.full(1, n + 1, np.uint8) for n in range(64)]
    found = np.zeros(64, np.uint8)
    with ended(own_stream(probe), own_stream(probe)) as (first, second):
        for n, one in enumerate(sent):
            mine, other = (first, second) if n % 2 == 0 else (second, first)
            mine.copy(memory.slice(n, 1), one)
            other.wait(mine.record())
        first.copy(found, memory.slice(0, 64))
        probe.require(first.record().wait(20.0), "streams that wait for each other in turns hang")
    probe.require(bool((found == np.arange(1, 65)).all()), "a turn was overtaken", str(found))


def check_many_streams_wait_for_one_and_one_for_many(probe: Probe) -> None:
    size = probe.at_most(7 << 20) // 7
    held = probe.device.allocate_nbytes(7 * size, "fan")
    memory = held.memory
    zeros, sent = np.zeros(size, np.uint8), np.full(size, 9, np.uint8)
    found = np.zeros(6 * size, np.uint8)
    with ended(*(own_stream(probe) for _ in range(8))) as (source, sink, *streams):
        source.copy(memory.slice(0, size), zeros)
        source.copy(memory.slice(0, size), sent)
        begun = source.record()
        for n, stream in enumerate(streams):
            stream.wait(begun)
            stream.copy(memory.slice((n + 1) * size, size), memory.slice(0, size))
            sink.wait(stream.record())
        sink.copy(found, memory.slice(size, 6 * size))
    probe.require(bool((found == 9).all()), "a copy ran before what it waits for")


def check_a_stream_copies_from_another_device_after_its_event(probe: Probe) -> None:
    """As values of one program go from device to device: by a second stream of the receiver."""
    sender, receiver = probe.some_devices(2)
    size = probe.at_most(LARGE_NBYTES)
    held = sender.allocate_nbytes(size, "sent"), receiver.allocate_nbytes(size, "received")
    source, target = (buffer.memory.slice(0, size) for buffer in held)
    zeros, sent, found = (np.full(size, n, np.uint8) for n in (0, 7, 1))
    with ended(sender.executor.create_stream(), receiver.executor.create_stream()) as (one, other):
        one.copy(source, zeros)
        one.copy(source, sent)
        other.wait(one.record())
        other.copy(target, source)
        other.copy(found, target)
    probe.require(bool((found == 7).all()), "a copy from another device ran before its event")


def check_events_outlive_their_stream(probe: Probe) -> None:
    stream = own_stream(probe)
    held = probe.device.allocate_nbytes(ROWS, "outlive")
    memory = held.memory
    sent, found = np.full(ROWS, 5, np.uint8), np.zeros(ROWS, np.uint8)
    stream.copy(memory.slice(0, ROWS), sent)
    stream.copy(found, memory.slice(0, ROWS))
    event = stream.record()
    del stream
    gc.collect()
    reached = event.wait(10.0)
    if not reached:
        _ABANDONED.append((held, sent, found))
    probe.require(reached, "an event is lost with its stream")
    probe.require(bool((found == 5).all()), "work is lost with its stream")


def check_waiting_no_time_at_all_does_not_block(probe: Probe) -> None:
    size = probe.at_most(LARGE_NBYTES)
    held = probe.device.allocate_nbytes(size, "poll")
    memory = held.memory
    sent = np.zeros(size, np.uint8)
    with ended(own_stream(probe)) as (stream,):
        for _ in range(8):
            stream.copy(memory.slice(0, size), sent)
        event = stream.record()
        polled = [event.wait(0.0) for _ in range(3)]
        probe.require(event.wait(60.0), "copies never end")
    probe.require(all(isinstance(p, bool) for p in polled), f"Event.wait gave {polled}")
    probe.require(event.wait(0.0) is True, "a ready event is not ready when asked without waiting")


def check_streams_work_independently(probe: Probe) -> None:
    """A short copy ends while another stream is busy, once at least in growing trials."""
    busy, other = own_stream(probe), own_stream(probe)
    if busy.is_synchronous:
        return  # none is ever busy
    device, size, half = probe.device, probe.at_most(LARGE_NBYTES), probe.at_most(HUGE_NBYTES) // 2
    held = device.allocate_nbytes(max(size, 2 * half), "busy")
    large, short = held.memory.slice(0, size), device.allocate_nbytes(64, "short")
    sent, few = np.zeros(size, np.uint8), np.zeros(64, np.uint8)
    within = held.memory.slice(0, half), held.memory.slice(half, half)
    small = short.memory.slice(0, 64)
    work: list[tuple[int, Endpoint, Endpoint]] = [
        *((n, large, sent) for n in (16, 64, 256, 1024)),
        (64, *within),
    ]
    short_copies: list[tuple[Endpoint, Endpoint]] = [(small, few), (few, small)]
    pending = False
    with ended(busy, other):
        # A device may have one engine for all copies of a direction: the short one goes either way.
        for (count, into, out), ends in product(work, short_copies):
            for _ in range(count):
                busy.copy(into, out)
            end = busy.record()
            pending = pending or not end.is_ready()
            other.copy(*ends)
            other.synchronize()
            overtaken = not end.is_ready()
            busy.synchronize()
            if overtaken:
                return
    if not pending:
        return  # copies end before they are asked about
    probe.fail("a stream waits for the work of another one", "64 bytes took as long as 4 GiB")


def check_copies_and_launches_overlap_in_any_order(probe: Probe) -> None:
    """Launches on the runtime's stream, copies on another; neither disturbs the other."""
    compiled, stream = probe.compile(ADD_ONE), own_stream(probe)
    held = probe.device.allocate_nbytes(50 * ROWS, "beside")
    memory = held.memory
    x = put(probe.device, np.zeros(1000, np.int32))
    sent = [np.full(ROWS, n, np.uint8) for n in range(50)]
    found = [np.zeros(ROWS, np.uint8) for _ in sent]
    with ended(stream):
        for n, (out, into) in enumerate(zip(sent, found, strict=True)):
            part = memory.slice(n * ROWS, ROWS)
            stream.copy(part, out)
            x = compiled(x)
            stream.copy(into, part)
    probe.require(bool((np.asarray(x) == 50).all()), "launches beside copies do not add up")
    for out, into in zip(sent, found, strict=True):
        probe.require(np.array_equal(out, into), "a copy beside launches went wrong")


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


def check_a_deleted_argument_is_an_error(probe: Probe) -> None:
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
