"""Entries of all devices of a program, called without the SDK: results, failures, what follows."""

import ctypes
import threading

import numpy as np
import pytest

import xladev
from xladev.errors import ExecutionError
from xladev.hlo.text import parse_module
from xladev.instrument.interruption import INTERRUPTED
from xladev.platforms.cpu.executor import _ENTRY_TYPE

SUM = parse_module("""HloModule sum, num_partitions=3
c { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY e { x = f32[3] parameter(0)  s = f32[3] all-reduce(x), channel_id=1, to_apply=c
  n = u32[] partition-id()  f = f32[] convert(n)  b = f32[3] broadcast(f), dimensions={}
  ROOT r = f32[3] add(s, b) }""")
ALONE = parse_module("""HloModule alone, num_partitions=3
ENTRY e { x = f32[3] parameter(0)  n = u32[] partition-id()  f = f32[] convert(n)
  b = f32[3] broadcast(f), dimensions={}  ROOT r = f32[3] add(x, b) }""")
X = np.arange(3, dtype=np.float32)


def launched(compiled, joint, devices):
    """Runs the entries of some devices side by side: their results, statuses and threads."""
    scratch = np.zeros(compiled.program.executables[0].signature.scratch_nbytes + 64, np.uint8)
    made = {}

    def run(device):
        given, result, own = X * (device + 1), np.zeros(3, np.float32), scratch.copy()
        tables = [(ctypes.c_void_p * 1)(a.ctypes.data) for a in (given, result)]
        entry = _ENTRY_TYPE(joint.addresses[device])
        status = entry(joint.contexts[device] or None, *tables, own.ctypes.data)
        made[device] = result, status, threading.get_ident()

    threads = [threading.Thread(target=run, args=[device]) for device in devices]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [made[device] for device in devices]


def test_devices_meet_in_each_launch():
    compiled = xladev.compile(SUM, "cpu")
    joint = compiled.joint_entry
    assert joint.failure
    for _ in range(3):
        for device, (result, status, _) in enumerate(launched(compiled, joint, range(3))):
            assert status == 0
            np.testing.assert_array_equal(result, 6 * X + device)


def test_devices_that_exchange_nothing_need_no_company():
    compiled = xladev.compile(ALONE, "cpu")
    joint = compiled.joint_entry
    assert joint.failure == 0
    for device in (2, 0, 1):
        ((result, status, _),) = launched(compiled, joint, [device])
        assert status == 0
        np.testing.assert_array_equal(result, X * (device + 1) + device)


def test_a_device_that_does_not_come_is_named_and_the_next_launch_is_whole(monkeypatch):
    monkeypatch.setenv("XLADEV_COLLECTIVE_TIMEOUT_S", "0.2")
    compiled = xladev.compile(SUM, "cpu")
    joint = compiled.joint_entry
    made = launched(compiled, joint, [0, 2])
    assert [status for _, status, _ in made] == [INTERRUPTED] * 2
    with pytest.raises(ExecutionError, match=r"of sum.* waited 0\.2 s for ranks \[1\]"):
        joint.explain([thread for *_, thread in made])
    for device, (result, status, _) in enumerate(launched(compiled, joint, range(3))):
        assert status == 0
        np.testing.assert_array_equal(result, 6 * X + device)


def test_those_that_wait_go_on_when_somebody_says_that_one_failed():
    compiled = xladev.compile(SUM, "cpu")
    joint = compiled.joint_entry
    failure = ctypes.c_int32.from_address(joint.failure)
    timer = threading.Timer(0.1, lambda: setattr(failure, "value", 1))
    timer.start()
    made = launched(compiled, joint, [0, 1])
    timer.join()
    assert [status for _, status, _ in made] == [INTERRUPTED] * 2
    with pytest.raises(ExecutionError, match="status 4"):
        joint.explain([thread for *_, thread in made])
    assert failure.value == 0


def test_programs_of_one_device_and_those_with_fallbacks_have_none():
    one = parse_module(
        "HloModule one\nENTRY e { x = f32[3] parameter(0)  ROOT r = f32[3] add(x, x) }"
    )
    assert xladev.compile(one, "cpu").joint_entry is None
    assert xladev.compile(SUM, "interpreter").joint_entry is None


@pytest.mark.parametrize("turns", [0, 3])
def test_loops_are_told_of(turns):
    loop = parse_module("""HloModule loop, num_partitions=2
body { s = (s32[], f32[3]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)  next = s32[] add(i, one)  x = f32[3] get-tuple-element(s), index=1
  y = f32[3] sine(x)  ROOT t = (s32[], f32[3]) tuple(next, y) }
test { s = (s32[], f32[3]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(1000)  ROOT r = pred[] compare(i, n), direction=LT }
ENTRY e { i = s32[] constant(0)  x = f32[3] parameter(0)  s = (s32[], f32[3]) tuple(i, x)
  w = (s32[], f32[3]) while(s), condition=test, body=body
  ROOT r = f32[3] get-tuple-element(w), index=1 }""")
    assert xladev.compile(loop if turns else ALONE, "cpu").joint_entry.has_loops == bool(turns)
