"""Tier 4, branches: independent kernels of one program on several streams, ordered by events alone.

A backend without `Stream.branches` runs the programs on one stream, and has nothing to show by the
checks. Where there are branches, be it a single one, each program waits at many places: a wait that
is left out, comes too late, or is for another event lets a kernel read what is not there yet.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from xladev.errors import ExecutionError, XladevError
from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.custom_calls.definition import CustomCall
from xladev.hlo.custom_calls.registry import register, unregister
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.shape import array, tuple_of
from xladev.runtime.array import DeviceArray, put
from xladev.runtime.memory import DeviceMemory
from xladev.runtime.stream import Stream
from xladev.testing.conformance.case import AnyCase, Build, Case, Row, checks_of
from xladev.testing.conformance.probe import Probe, ended
from xladev.testing.conformance.waits import LARGE_NBYTES, hand_on, pass_on

Node = HloInstruction
SIZE = 96
STREAMS = ("streams=4",)
"""Programs ask for several streams wherever steps are independent, worth it or not."""


# Programs


class Net:
    """A builder whose products no backend joins into one kernel."""

    def __init__(self, builder: HloBuilder) -> None:
        self.b = builder

    def given(self) -> Node:
        return self.b.parameter(array(dt.F32, (SIZE, SIZE)))

    def step(self, x: Node, y: Node) -> Node:
        """A product, kept small."""
        dot = self.b.op("dot", x, y, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))
        scale = self.b.constant(np.float32(0.2))
        factor = self.b.op("broadcast", scale, shape=x.shape.without_layout(), dimensions=())
        return self.b.op("tanh", self.b.op("multiply", dot, factor))

    def chain(self, x: Node, w: Node, count: int) -> Node:
        for _ in range(count):
            x = self.step(x, w)
        return x

    def total(self, *values: Node) -> Node:
        found = values[0]
        for value in values[1:]:
            found = self.b.op("add", found, value)
        return found


def fan_out_and_join(b: HloBuilder) -> Node:
    """Four chains from one value, and their sum."""
    n = Net(b)
    x = n.given()
    weights = [n.given() for _ in range(4)]
    start = n.chain(x, x, 3)
    return n.total(*(n.chain(start, w, 4) for w in weights))


def long_and_short(b: HloBuilder) -> Node:
    """What ends last is not what was enqueued last."""
    n = Net(b)
    x, w, v = n.given(), n.given(), n.given()
    return b.op("tuple", n.chain(x, w, 9), n.chain(x, v, 1), n.chain(w, v, 4), n.chain(v, x, 2))


def diamonds(b: HloBuilder) -> Node:
    """Apart and together again, five times."""
    n = Net(b)
    x, w = n.given(), n.given()
    for _ in range(5):
        x = n.step(n.step(n.step(x, w), n.step(w, x)), n.step(x, x))
    return x


def braid(b: HloBuilder) -> Node:
    """Three strands, each of which needs a neighbour at every step."""
    n = Net(b)
    strands = [n.given(), n.given(), n.given()]
    for _ in range(6):
        strands = [n.step(strands[k], strands[k - 1]) for k in range(3)]
    return b.op("tuple", *strands)


def early_and_late_readers(b: HloBuilder) -> Node:
    """One value is read at once by some and by others long after; its memory is kept till then."""
    n = Net(b)
    x, w = n.given(), n.given()
    first = n.step(x, w)
    long = n.chain(x, w, 6)
    others = [n.chain(first, value, 2) for value in (x, w, first)]
    return n.total(n.step(long, first), *others)


def memory_that_is_used_again(b: HloBuilder) -> Node:
    """Many values that die at once beside chains that read them."""
    n = Net(b)
    x, w = n.given(), n.given()
    rows = [x, w]
    for _ in range(5):
        made = [n.step(rows[0], rows[1]), n.step(rows[1], rows[0]), n.step(rows[0], rows[0])]
        rows = [n.step(made[0], made[1]), n.step(made[2], made[0])]
    return n.step(*rows)


def in_a_loop(b: HloBuilder) -> Node:
    """Turns of a loop, each of which is spread anew."""
    shape = array(dt.F32, (SIZE, SIZE))
    state = tuple_of(array(dt.S32), shape, shape, shape)
    body = Net(HloBuilder("turn"))
    whole = body.b.parameter(state)
    i, x, y, w = (body.b.op("get-tuple-element", whole, index=n) for n in range(4))
    made = body.step(x, w), body.step(y, x), body.step(w, y)
    following = body.b.op("add", i, body.b.constant(1, dt.S32))
    turn = body.b.build(body.b.op("tuple", following, *made))
    test = HloBuilder("on")
    count = test.op("get-tuple-element", test.parameter(state), index=0)
    on = test.build(test.op("compare", count, test.constant(5, dt.S32), direction="LT"))
    n = Net(b)
    start = b.op("tuple", b.constant(0, dt.S32), n.given(), n.given(), n.given())
    end = b.op("while", start, condition=on, body=turn)
    return b.op("tuple", *(b.op("get-tuple-element", end, index=k) for k in (1, 2, 3)))


PROGRAMS: dict[str, Build] = {
    "fan-out-and-join": fan_out_and_join,
    "long-and-short": long_and_short,
    "diamonds": diamonds,
    "braid": braid,
    "early-and-late-readers": early_and_late_readers,
    "memory-that-is-used-again": memory_that_is_used_again,
    "in-a-loop": in_a_loop,
}


def rows(module: HloModule, seed: int) -> Sequence[Row]:
    """Four runs of other numbers, so that what an earlier one left behind is no right result."""
    rng = np.random.default_rng(seed)
    shapes = [p.shape.dims for p in module.entry.parameters]
    return [[rng.standard_normal(s).astype(np.float32) for s in shapes] for _ in range(4)]


def programs() -> Iterator[Case]:
    for name, program in PROGRAMS.items():
        yield Case(name, program, tags=("branches",), tier=4, inputs=rows, options=STREAMS)


# Launches one after the other


def compiled_steps(probe: Probe) -> Callable[..., Any]:
    """A spread program that takes two values and gives two."""
    b = HloBuilder("steps")
    n = Net(b)
    x, y = n.given(), n.given()
    made = [n.step(n.step(x, y), n.step(y, x)), n.step(n.step(y, y), n.step(x, x))]
    return probe.compile(b.module(b.op("tuple", *made)), streams=4)


def check_launches_follow_each_other_on_all_streams(probe: Probe) -> None:
    """A launch that reads what the one before gave, ten times, none of which is waited for."""
    steps = compiled_steps(probe)
    start = np.random.default_rng(1).standard_normal((2, SIZE, SIZE)).astype(np.float32)
    want = list(start)
    for _ in range(10):
        want = [np.asarray(value) for value in steps(*want)]
    found = [put(probe.device, value) for value in start]
    for _ in range(10):
        found = list(steps(*found))
    same = all(np.array_equal(f.numpy(), w) for f, w in zip(found, want, strict=True))
    probe.require(same, "launches that are not waited for give other results")


def check_branches_begin_after_what_was_enqueued_before(probe: Probe) -> None:
    """The arguments of a launch are filled on its stream, which is busy for long before."""
    steps, stream = compiled_steps(probe), probe.device.stream
    size = probe.at_most(LARGE_NBYTES)
    held = probe.device.allocate_nbytes(size, "busy")
    memory, zeros = held.memory.slice(0, size), np.zeros(size, np.uint8)
    rng = np.random.default_rng(2)
    values = rng.standard_normal((4, 2, SIZE, SIZE)).astype(np.float32)
    given = [[put(probe.device, v) for v in row] for row in values]
    want = [[r.numpy() for r in steps(*row)] for row in given]
    into = [put(probe.device, np.zeros((SIZE, SIZE), np.float32)) for _ in range(2)]
    with ended(stream):
        for row, right in zip(given, want, strict=True):
            for _ in range(20):  # so long that a branch that does not wait is too early
                stream.copy(memory, zeros)
            for target, source in zip(into, row, strict=True):
                stream.copy(memory_of(target), memory_of(source))
            found = steps(*into)
            same = all(np.array_equal(f.numpy(), r) for f, r in zip(found, right, strict=True))
            probe.require(same, "a branch began before the work that its launch follows")


def memory_of(array: DeviceArray) -> DeviceMemory:
    buffer = array.buffer
    assert buffer is not None
    return buffer.memory


# Streams


def with_branches(probe: Probe, count: int) -> tuple[Stream, ...]:
    """A stream and its branches, as many as there are; none if the backend has none."""
    stream = probe.device.executor.create_stream()
    branches = stream.branches(count)
    probe.require(len(branches) <= count, f"{len(branches)} branches instead of {count}")
    return (stream, *branches) if branches else ()


def check_branches_are_the_same_at_each_call(probe: Probe) -> None:
    streams = with_branches(probe, 3)
    if not streams:
        return
    stream, *first = streams
    again = [*stream.branches(2), *stream.branches(3)[2:]]
    probe.require(all(a is b for a, b in zip(first, again, strict=True)), "branches are new ones")
    probe.require(len({id(s) for s in streams}) == len(streams), "a stream is its own branch")


def check_a_branch_begins_after_what_it_waits_for(probe: Probe) -> None:
    passed_on(probe, lambda streams: (streams[0], streams[1]))


def check_a_stream_goes_on_after_its_branches(probe: Probe) -> None:
    passed_on(probe, lambda streams: (streams[1], streams[0]))


def check_branches_wait_for_each_other(probe: Probe) -> None:
    passed_on(probe, lambda streams: (streams[-1], streams[1 % (len(streams) - 1)]))


Pair = Callable[[tuple[Stream, ...]], tuple[Stream, Stream]]


def passed_on(probe: Probe, choose: Pair) -> None:
    """One stream writes for long, then another one reads what it wrote last."""
    streams = with_branches(probe, 2)
    if not streams:
        return
    with ended(*streams):
        pass_on(probe, *choose(streams), lambda stream: stream.mark(), 4)


def check_branches_pass_one_buffer_round(probe: Probe) -> None:
    """Each stream copies the last byte of the one before, and waits for nothing else."""
    streams = with_branches(probe, 3)
    if not streams:
        return
    held = probe.device.allocate_nbytes(256, "round")
    memory, sent, found = held.memory, np.full(1, 9, np.uint8), np.zeros(256, np.uint8)
    with ended(*streams):
        streams[0].copy(memory.slice(0, 1), sent)
        for n in range(1, 256):
            last, now = streams[(n - 1) % len(streams)], streams[n % len(streams)]
            now.wait(last.mark())
            now.copy(memory.slice(n, 1), memory.slice(n - 1, 1))
        streams[0].wait(streams[255 % len(streams)].mark())
        streams[0].copy(found, memory.slice(0, 256))
    probe.require(bool((found == 9).all()), "a copy overtook what it waits for", str(found))


def check_none_of_many_waits_of_branches_is_left_out(probe: Probe) -> None:
    streams = with_branches(probe, 1)
    if streams:
        hand_on(probe, streams[0], streams[1], lambda stream: stream.mark())


def check_work_of_a_branch_runs_in_order(probe: Probe) -> None:
    streams = with_branches(probe, 1)
    if not streams:
        return
    held = probe.device.allocate_nbytes(4096, "order")
    memory = held.memory.slice(0, 4096)
    sent = [np.full(4096, n + 1, np.uint8) for n in range(50)]
    found = [np.zeros(4096, np.uint8) for _ in sent]
    stream, branch = streams
    with ended(*streams):
        branch.wait(stream.mark())
        for out, into in zip(sent, found, strict=True):
            branch.copy(memory, out)
            branch.copy(into, memory)
        stream.wait(branch.mark())
    for n, each in enumerate(found):
        probe.require(bool((each == n + 1).all()), f"copy {n} of 50 on a branch overtook another")


# Failures

WORKS, FAILS = "xladev_conformance_works", "xladev_conformance_fails_beside"
BROKEN = "the custom call of a branch broke"


def broken(*_: Any) -> Any:
    raise ExecutionError(BROKEN)


@contextmanager
def custom_calls() -> Iterator[None]:
    """Two targets that are known while the check runs."""
    register(CustomCall(WORKS, "Works.", evaluate=lambda _, __, v: v[0]), replace=True)
    register(CustomCall(FAILS, "Fails.", evaluate=broken), replace=True)
    try:
        yield
    finally:
        unregister(WORKS)
        unregister(FAILS)


def four_calls(failing: int) -> str:
    """Four custom calls that go to four streams; one fails, or none."""
    lines = [f"p{k} = s32[64]{{0}} parameter({k})" for k in range(4)]
    for k in range(4):
        target = FAILS if k == failing else WORKS
        lines.append(f'c{k} = s32[64]{{0}} custom-call(p{k}), custom_call_target="{target}"')
    lines.append(f"ROOT t = ({', '.join(4 * ['s32[64]{0}'])}) tuple(c0, c1, c2, c3)")
    return "HloModule calls\nENTRY e {\n  " + "\n  ".join(lines) + "\n}"


def check_failures_of_branches_belong_to_their_launch(probe: Probe) -> None:
    """Wherever a launch fails, its results are poisoned, and the launches around it are not."""
    given = [np.full(64, k, np.int32) for k in range(4)]
    with custom_calls():
        whole = probe.compile(four_calls(failing=-1), streams=4)
        for failing in range(4):
            before = whole(*given)
            values = probe.compile(four_calls(failing), streams=4)(*given)
            after = whole(*given)
            said = error_of(values)
            probe.require(BROKEN in said, f"branch {failing} failed, a result says {said!r}")
            for name, row in (("before", before), ("after", after)):
                said = error_of(row)
                probe.require(not said, f"the launch {name} a failed one failed, too", said)


def error_of(values: Sequence[DeviceArray]) -> str:
    """What reading the last of some values says is wrong; empty if nothing is."""
    try:
        values[-1].numpy()
    except XladevError as error:
        return str(error)
    return ""


CASES: tuple[AnyCase, ...] = (*programs(), *checks_of(__name__, 4, globals()))
