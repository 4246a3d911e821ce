"""Lets loops of native code look for interruptions: what they call, and what they count down.

A loop costs one subtraction and one branch an iteration for it: it counts down what its kernels are
estimated to take, and looks at the clock after a millisecond of that. Ten times a second it asks
Python (`xladev/instrument/interruption.py`). Programs that nobody loads (ahead of time) have none
of it.
"""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from xladev.codegen.llvm import I64, FunctionBuilder, Value
from xladev.compiler.plan.kernel_plan import Copy, KernelPlan, RunKernel, Step
from xladev.instrument.interruption import (
    add_signal_counter,
    keep,
    look,
    signals_address,
)
from xladev.platforms.cpu.codegen.cost import NBYTES_PER_NS, estimated_ns
from xladev.platforms.cpu.engine import LoadedObject
from xladev.platforms.cpu.native_block import keep_forever
from xladev.platforms.cpu.object_cache import load_cached

POLL = "xladev_poll"
"""``i64 xladev_poll(ptr state)``: nanoseconds until the next call, or `ENDED`."""

ENDED = -(2**63)
"""In place of what is left: the program ends at once."""

INTERRUPTION_LEVEL = 0
"""Not optimised: it compiles in 4 ms instead of 10, and is called about once a millisecond."""

BETWEEN_POLLS_NS = 1_000_000
"""Estimated work between two looks at the clock, each of some ten nanoseconds."""

_CALL_NS = 1
"""The least that a step takes."""
_STATE_WORDS = 6
_GIVEN_WORD = 3


class Watch:
    """Looks of one function: a count that is in a register, and the state of `interruption.ll`.

    Args:
        b: the function.
        state: given to it; None to begin one.
        left: nanoseconds until the next call of `POLL`, given to it; None for a whole interval.
    """

    def __init__(
        self, b: FunctionBuilder, state: Value | None = None, left: Value | None = None
    ) -> None:
        self._b = b
        self.state = self._begun() if state is None else state
        self._left = b.alloca(I64)
        self.set(b.const(I64, BETWEEN_POLLS_NS) if left is None else left)

    def _begun(self) -> Value:
        b = self._b
        state = b.alloca(I64, _STATE_WORDS)
        for word in range(_STATE_WORDS):
            first = BETWEEN_POLLS_NS if word == _GIVEN_WORD else 0
            b.store(b.const(I64, first), b.element_address(state, word, I64))
        return state

    @property
    def left(self) -> Value:
        """What is left now."""
        return self._b.load(I64, self._left)

    def set(self, left: Value) -> None:
        """Says what is left."""
        self._b.store(left, self._left)

    def count(self, nanoseconds: int) -> None:
        """Counts work that was done."""
        self.set(self._b.binary("sub", self.left, nanoseconds))

    def poll(self) -> Value:
        """Asks whether to go on; what is left then, or `ENDED`."""
        self._b.module.declare(POLL, I64, ("ptr",))
        self.set(self._b.call(POLL, I64, self.state))
        return self.left


def own_ns(plan: KernelPlan, steps: Sequence[Step]) -> int:
    """Estimated nanoseconds of the kernels and copies among some steps, at least 1 each."""
    return sum(max(_CALL_NS, round(_step_ns(plan, step))) for step in steps)


def _step_ns(plan: KernelPlan, step: Step) -> float:
    match step:
        case RunKernel():
            return estimated_ns(plan.kernels[step.kernel])
        case Copy():
            return 2 * step.source.nbytes / NBYTES_PER_NS
        case _:
            return 0.0


def interruption_text() -> str:
    """The code, as LLVM assembly."""
    return (Path(__file__).parent / "interruption.ll").read_text("utf-8")


def poll_symbols() -> dict[str, int]:
    """The address of what programs with loops import, by symbol; made at the first call."""
    count_interrupts()
    return {POLL: _code().address(POLL)}


@cache
def _code() -> LoadedObject:
    """The code in this process, for good: programs and the system call it."""
    objects = {"look": look, "keep": keep, "false": False, "true": True}
    names = (POLL, "signals", "handler", "on_signal", *objects)
    code, _ = load_cached("interruption", interruption_text(), INTERRUPTION_LEVEL, names)
    keep_forever(code, *code.parts, *objects.values())
    addresses = {name: id(value) for name, value in objects.items()}
    addresses["signals"] = signals_address()
    for name, address in addresses.items():
        ctypes.c_size_t.from_address(code.address(name)).value = address
    return code


class _SignalAction(ctypes.Structure):
    """``struct sigaction`` of 64-bit Linux."""

    _fields_ = [("handler", ctypes.c_size_t), ("mask", ctypes.c_uint64 * 16),
                ("flags", ctypes.c_int), ("restorer", ctypes.c_size_t)]  # fmt: skip


def count_interrupts() -> None:
    """Lets SIGINTs be counted on their way to Python's C handler, where that is in place.

    Whoever calls `signal.signal` takes that away, which is why this is called again and again.
    Another handler than the first one found is left alone: it may call ours. The interpreter lock
    is held all the time, so `signal.signal` does not come between.
    """
    if not sys.platform.startswith("linux") or not callable(signal.getsignal(signal.SIGINT)):
        return
    code, action = _code(), _SignalAction()
    sigaction = ctypes.PyDLL(None).sigaction
    ours, first = code.address("on_signal"), ctypes.c_size_t.from_address(code.address("handler"))
    sigaction(signal.SIGINT, None, ctypes.byref(action))
    if action.handler == ours or action.handler != (first.value or action.handler):
        return
    first.value, action.handler = action.handler, ours
    sigaction(signal.SIGINT, ctypes.byref(action), None)


add_signal_counter(count_interrupts)
