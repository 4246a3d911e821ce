"""Meetings of devices in native code: those that do not come, fail, or are too few."""

import gc
import threading
import time
import weakref

import numpy as np
import pytest

import xladev
from xladev.errors import ArgumentError, ExecutionError
from xladev.hlo.text import parse_module
from xladev.platforms.cpu import exchange
from xladev.platforms.cpu.codegen.exchange import ExchangePlan
from xladev.runtime.collectives.launch_collectives import Collectives, CommunicatorPool
from xladev.runtime.launch.launchable import next_run_id

SUM = parse_module("""HloModule sum, num_partitions=2
c { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY e { x = f32[3] parameter(0)  ROOT r = f32[3] all-reduce(x), channel_id=1, to_apply=c }""")
X = np.arange(3, dtype=np.float32)


def pool(size=2):
    def nobody(group):
        raise AssertionError(group)

    return CommunicatorPool(size, nobody)


def launched(index, shared, run_id):
    """One device of the program alone."""
    compiled = xladev.compile(SUM, "cpu")
    launchable = compiled._launchables[index]
    (result,) = launchable.execute(
        [X], run_id=run_id, collectives=Collectives(shared, index, 1, shared.size)
    )
    return result.numpy()


def test_a_device_that_does_not_come(monkeypatch):
    monkeypatch.setenv("XLADEV_COLLECTIVE_TIMEOUT_S", "0.2")
    with pytest.raises(ExecutionError, match=r"waited 0\.2 s for ranks \[1\]"):
        launched(0, pool(), next_run_id())


def test_a_run_that_is_given_up_while_a_device_waits():
    shared, run_id = pool(), next_run_id()
    timer = threading.Timer(0.2, lambda: shared.abort(run_id, ExecutionError("it broke")))
    timer.start()
    start = time.perf_counter()
    with pytest.raises(ExecutionError, match="another replica failed"):
        launched(0, shared, run_id)
    assert time.perf_counter() - start < 20
    timer.join()


def test_a_run_that_was_given_up_before():
    shared, run_id = pool(), next_run_id()
    shared.abort(run_id, ExecutionError("it broke"))
    with pytest.raises(ExecutionError, match="another replica failed"):
        launched(0, shared, run_id)


def test_a_launch_on_another_number_of_devices():
    with pytest.raises(ArgumentError, match="between 2 devices was launched on 3"):
        launched(0, pool(3), next_run_id())


def test_a_failing_device_fails_the_others_and_the_next_run_works():
    compiled = xladev.compile(SUM, "cpu")
    with pytest.raises(ArgumentError):
        compiled.run_on_devices([[X], [np.zeros(4, np.float32)]])
    for _ in range(3):
        for result in compiled.run_on_devices([[X], [X + 1]]):
            np.testing.assert_array_equal(np.asarray(result), 2 * X + 1)


def test_what_devices_share_is_forgotten_with_the_run():
    shared = pool()
    plan = ExchangePlan(2, 128)
    made = shared.shared(1, "key", lambda: exchange.ExchangeBlock(plan))
    assert shared.shared(1, "key", lambda: exchange.ExchangeBlock(plan)) is made
    assert made.address % 64 == 0
    shared.end(1)
    assert shared.shared(1, "key", lambda: exchange.ExchangeBlock(plan)) is not made


@pytest.mark.parametrize("triple", ["x86_64-linux-gnu", "aarch64-linux-gnu", "riscv64-linux-gnu"])
def test_the_code_is_complete_for_every_machine(triple):
    text = exchange.exchange_text(triple)
    assert "define internal i64 @sleep" in text
    assert ("@syscall" in text) == (not triple.startswith("riscv64"))


NUMBERS = parse_module("""HloModule numbers, replica_count=2, num_partitions=3
ENTRY e { r = u32[] replica-id()  p = u32[] partition-id()  ten = u32[] constant(10)
  tens = u32[] multiply(r, ten)  ROOT n = u32[] add(tens, p) }""")
LOOP = parse_module("""HloModule loop, num_partitions=2
body { s = (s32[], u32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)  next = s32[] add(i, one)  sum = u32[] get-tuple-element(s), index=1
  p = u32[] partition-id()  more = u32[] add(sum, p)  ROOT t = (s32[], u32[]) tuple(next, more) }
test { s = (s32[], u32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)  ROOT r = pred[] compare(i, n), direction=LT }
ENTRY e { i = s32[] constant(0)  zero = u32[] constant(0)  s = (s32[], u32[]) tuple(i, zero)
  w = (s32[], u32[]) while(s), condition=test, body=body
  ROOT r = u32[] get-tuple-element(w), index=1 }""")


def executables(compiled):
    """The program's parts."""
    return compiled.program.executables


def test_device_numbers_are_part_of_one_region():
    compiled = xladev.compile(NUMBERS, "cpu")
    assert [e.signature.platform for e in executables(compiled)] == ["cpu"]
    results = compiled.run_on_devices([[]] * 6)
    assert [int(np.asarray(r)) for r in results] == [0, 1, 2, 10, 11, 12]


def test_a_loop_that_asks_for_the_device_number_is_native():
    compiled = xladev.compile(LOOP, "cpu")
    assert [e.signature.platform for e in executables(compiled)] == ["cpu"]
    assert [int(np.asarray(r)) for r in compiled.run_on_devices([[], []])] == [0, 5]


def test_of_one_device_all_numbers_are_zero_and_nothing_is_shared():
    text = "HloModule one\nENTRY e { ROOT p = u32[] partition-id() }"
    compiled = xladev.compile(parse_module(text), "cpu")
    assert int(compiled()) == 0
    (launchable,) = compiled._launchables
    assert launchable.loaded.native_entry is not None


SCALED = parse_module("""HloModule scaled, num_partitions=2
ENTRY e { x = f32[3] parameter(0)  ROOT r = f32[3] add(x, x) }""")


@pytest.mark.parametrize("module", [SUM, SCALED], ids=["meets", "does not meet"])
def test_devices_share_the_code_of_a_program(module):
    compiled = xladev.compile(module, "cpu")
    first, second = (launchable.loaded for launchable in compiled._launchables)
    assert first._code is second._code
    assert first._mark != second._mark
    for result in compiled.run_on_devices([[X], [X]]):
        np.testing.assert_array_equal(np.asarray(result), 2 * X)


def test_code_goes_with_the_last_device_that_has_it():
    compiled = xladev.compile(SUM, "cpu")
    code = weakref.ref(compiled._launchables[0].loaded._code)
    assert code() is not None
    del compiled
    gc.collect()
    assert code() is None


def test_a_timeline_tells_the_devices_of_shared_code_apart():
    compiled = xladev.compile(SUM, "cpu")
    with xladev.profile() as timeline:
        compiled.run_on_devices([[X], [X]])
    kernels = [e for e in timeline.events if e.category == "kernel"]
    assert {e.track.partition("/")[0] for e in kernels} == {"cpu:0", "cpu:1"}
