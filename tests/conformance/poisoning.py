"""Tier 4, failures at run time: they belong to values, and spread to what is computed from them.

What fails is a custom call of the suite's own. Wherever it runs, on the device or beside it, the
values that depend on it are poisoned, their error is raised where they are read or waited for, and
everything else goes on.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from xladev.client import CompiledModule
from xladev.errors import ExecutionError, XladevError
from xladev.hlo.custom_calls.definition import CustomCall
from xladev.hlo.custom_calls.registry import register, unregister
from xladev.runtime.array import DeviceArray, put
from xladev.testing.conformance.case import checks_of
from xladev.testing.conformance.probe import Probe

TARGET = "xladev_conformance_fails"
FAILS = f"""HloModule fails
ENTRY e {{ x = s32[1000]{{0}} parameter(0)
  y = s32[1000]{{0}} add(x, x)
  z = s32[1000]{{0}} custom-call(y), custom_call_target="{TARGET}"
  ROOT r = s32[1000]{{0}} negate(z) }}"""
SUM = """HloModule sum
ENTRY e { x = s32[1000]{0} parameter(0)
  y = s32[1000]{0} parameter(1)
  ROOT r = s32[1000]{0} add(x, y) }"""
LOOP = f"""HloModule loop
turn {{ s = (s32[], s32[1000]{{0}}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = s32[1000]{{0}} get-tuple-element(s), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  y = s32[1000]{{0}} custom-call(x), custom_call_target="{TARGET}"
  ROOT t = (s32[], s32[1000]{{0}}) tuple(n, y) }}
on {{ s = (s32[], s32[1000]{{0}}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  m = s32[] constant(3)
  ROOT c = pred[] compare(i, m), direction=LT }}
ENTRY e {{ x = s32[1000]{{0}} parameter(0)
  zero = s32[] constant(0)
  start = (s32[], s32[1000]{{0}}) tuple(zero, x)
  w = (s32[], s32[1000]{{0}}) while(start), condition=on, body=turn
  ROOT r = s32[1000]{{0}} get-tuple-element(w), index=1 }}"""
BROKEN = "the custom call of the suite broke"
ONES = np.ones(1000, np.int32)


def broken(*_: Any) -> Any:
    raise ExecutionError(BROKEN)


@contextmanager
def failing() -> Iterator[None]:
    """The custom call is known while the check runs."""
    register(CustomCall(TARGET, "Fails.", evaluate=broken), replace=True)
    try:
        yield
    finally:
        unregister(TARGET)


def error_of(value: DeviceArray) -> str:
    """What reading a value says is wrong; empty if nothing is."""
    try:
        value.numpy()
    except XladevError as error:
        return str(error)
    return ""


def poisoned(probe: Probe, compiled: CompiledModule, x: Any) -> DeviceArray:
    """The result of a launch that fails: a value, for a launch raises nothing."""
    try:
        return compiled(x)
    except XladevError as error:
        probe.fail("a launch raised the error that belongs to its values", str(error))


def check_a_failure_is_raised_where_the_value_is_read(probe: Probe) -> None:
    with failing():
        value = poisoned(probe, probe.compile(FAILS), ONES)
        for turn in ("first", "second"):
            said = error_of(value)
            probe.require(BROKEN in said, f"the {turn} reading of a failed value says {said!r}")


def check_waiting_for_a_failed_value_raises(probe: Probe) -> None:
    with failing():
        value = poisoned(probe, probe.compile(FAILS), ONES)
        try:
            value.block_until_ready()
        except XladevError as error:
            probe.require(BROKEN in str(error), "waiting raised another error", str(error))
            return
    probe.fail("waiting for a failed value raised nothing")


def check_a_failure_spreads_to_what_is_computed_from_it(probe: Probe) -> None:
    total = probe.compile(SUM)
    with failing():
        value = poisoned(probe, probe.compile(FAILS), ONES)
        chain = [value]
        for _ in range(5):
            chain.append(total(chain[-1], ONES))
        for depth, one in enumerate(chain):
            said = error_of(one)
            probe.require(BROKEN in said, f"{depth} launches behind a failed one: {said!r}")


def check_a_failure_leaves_everything_else_alone(probe: Probe) -> None:
    """Values from before, from after, and computed beside it from the same argument."""
    total, x = probe.compile(SUM), put(probe.device, ONES)
    before = total(x, x)
    with failing():
        value = poisoned(probe, probe.compile(FAILS), x)
        beside = total(x, before)
        after = total(before, beside)
        said = error_of(value)
    probe.require(BROKEN in said, f"reading the failed value: {said!r}")
    for name, one, want in (("before", before, 2), ("beside", beside, 3), ("after", after, 5)):
        found = error_of(one) or bool((one.numpy() == want).all())
        probe.require(found is True, f"the value computed {name} a failed one", str(found))
    probe.require(np.array_equal(x.numpy(), ONES), "the argument of a failed launch changed")


def check_a_program_works_again_after_it_failed(probe: Probe) -> None:
    with failing():
        compiled = probe.compile(FAILS)
        probe.require(bool(error_of(poisoned(probe, compiled, ONES))), "nothing failed")
        register(CustomCall(TARGET, "Works.", evaluate=lambda _, __, v: v[0]), replace=True)
        mended = compiled(ONES).numpy()
    probe.require(bool((mended == -2).all()), "the launch after a failed one is wrong")


def check_a_failure_in_a_loop_belongs_to_its_result(probe: Probe) -> None:
    with failing():
        said = error_of(poisoned(probe, probe.compile(LOOP), ONES))
    probe.require(BROKEN in said, f"the result of a loop whose body failed: {said!r}")


def check_failed_launches_give_their_memory_back(probe: Probe) -> None:
    device = probe.device
    with failing():
        compiled = probe.compile(FAILS)
        error_of(poisoned(probe, compiled, ONES))
        device.synchronize()
        before = probe.live_nbytes(device)
        for _ in range(20):
            error_of(poisoned(probe, compiled, ONES))
        device.synchronize()
        grown = probe.live_nbytes(device) - before
    probe.require(grown <= 0, f"20 failed launches left {grown} bytes allocated")


CASES = tuple(checks_of(__name__, 4, globals()))
