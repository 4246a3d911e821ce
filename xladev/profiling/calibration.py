"""Measures what a device needs for kinds of work, by small programs of one kind each.

Two sizes of a program differ by work alone, two lengths of a chain by kernels alone. So what a call
takes in any case drops out of the differences.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from xladev.client import CompiledModule, compile
from xladev.compiler.description import Link
from xladev.compiler.options import CompileOptions
from xladev.compiler.placement.rates import DeviceRates
from xladev.errors import UnsupportedError
from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.physical import HostArray
from xladev.hlo.shape import array
from xladev.runtime.array import DeviceArray, put
from xladev.runtime.device import Device
from xladev.runtime.host_link import Clock, measure_host_link

_ROUNDS = 5
_CHAIN = 9
"""Kernels of a chain of products."""
_SIDES = (256, 512)
"""Rows of the products whose difference is work."""
_STEPS = 64
"""Operations on each element of a kernel that computes much."""
_TINY = 8


def measure_rates(device: Device, clock: Clock = time.perf_counter) -> DeviceRates:
    """The rates of a device, measured in a second or two; nothing else should run meanwhile.

    Args:
        device: which.
        clock: tells the time.

    Raises:
        XladevError: elementwise programs of f32 do not run.
    """
    return _Measurement(device, clock).rates()


class _Kernels(NamedTuple):
    """As in `DeviceRates`."""

    product_s: float
    product_start_s: float
    launch_s: float
    start_s: float


@dataclass(frozen=True, slots=True)
class _Measurement:
    """Programs on one device."""

    device: Device
    clock: Clock

    def rates(self) -> DeviceRates:
        """All rates; what the device does not take goes by the rate of what is most like it."""
        byte_s = self._per_element("add", 1 << 20) / 12
        vector_s = self._per_element("multiply", 1 << 15) / _STEPS
        least = self._elementwise(_TINY, 1, "add")
        kernels = self._kernels(least, byte_s) or _Kernels(vector_s, 0.0, 0.0, 0.0)
        waited = kernels.launch_s + kernels.start_s
        return DeviceRates(
            product_s=kernels.product_s,
            vector_s=vector_s,
            function_s=_supported(lambda: self._per_element("tanh", 1 << 13) / _STEPS) or vector_s,
            byte_s=byte_s,
            rearranged_byte_s=_supported(lambda: self._transposed() / 8) or byte_s,
            launch_s=kernels.launch_s,
            start_s=kernels.start_s,
            product_start_s=kernels.product_start_s,
            region_s=max(0.0, least - waited),
            link=self._link(),
        )

    def _link(self) -> Link | None:
        """The way to the device; None where the memory is the host's."""
        if self.device.description.host_addressable:
            return None
        return measure_host_link(self.device, self.clock)

    def _kernels(self, least: float, byte_s: float) -> _Kernels | None:
        """What products and kernels take, by chains of products; None if it takes none.

        Args:
            least: the time of a call of one small kernel of another kind.
            byte_s: what a byte takes.
        """
        tiny = _supported(lambda: self._products(_TINY, 1))
        if tiny is None:
            return None
        small, large = (self._products(side, 1) for side in _SIDES)
        flops = [2.0 * side**3 for side in _SIDES]
        product_s = _slope(small, large, *flops)
        product_start_s = max(0.0, tiny - least)
        per_tiny = (self._products(_TINY, _CHAIN) - tiny) / (_CHAIN - 1)
        if self.device.description.host_addressable:
            return _Kernels(product_s, product_start_s, max(0.0, per_tiny - product_start_s), 0.0)
        per_small = (self._products(_SIDES[0], _CHAIN) - small) / (_CHAIN - 1)
        work = max(product_start_s + product_s * flops[0], 12 * _SIDES[0] ** 2 * byte_s)
        start_s = min(per_small - work, per_tiny - product_start_s)
        return _Kernels(product_s, product_start_s, max(0.0, per_tiny), max(0.0, start_s))

    def _products(self, side: int, count: int) -> float:
        """A chain of products of square matrices."""
        b = HloBuilder("products")
        x = value = b.parameter(array(dt.F32, (side, side)))
        for _ in range(count):
            value = b.op("dot", value, x, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))
        return self._time(b.module(value), np.full((side, side), 1 / side, np.float32))

    def _per_element(self, opcode: str, size: int) -> float:
        """What one more element takes; of all steps, where there are several."""
        steps = 1 if opcode == "add" else _STEPS
        times = [self._elementwise(n, steps, opcode) for n in (size, 2 * size)]
        return _slope(times[0], times[1], size, 2 * size)

    def _elementwise(self, size: int, steps: int, opcode: str) -> float:
        b = HloBuilder(opcode)
        x = b.parameter(array(dt.F32, (size,)))
        y = b.parameter(array(dt.F32, (size,)))
        value = x
        for step in range(steps):
            value = _step(b, opcode, value, y, step)
        return self._time(b.module(value), *[np.full(size, 0.5, np.float32)] * 2)

    def _transposed(self) -> float:
        """What one more element takes that is read out of order."""
        times, sizes = [], (512, 1024)
        for rows in sizes:
            b = HloBuilder("transpose")
            x = b.parameter(array(dt.F32, (rows, 1024)))
            root = b.op("transpose", x, dimensions=(1, 0))
            times.append(self._time(b.module(root), np.zeros((rows, 1024), np.float32)))
        return _slope(times[0], times[1], *(rows * 1024 for rows in sizes))

    def _time(self, module: HloModule, *arguments: HostArray) -> float:
        """The least time of a call, until its result is there."""
        options = CompileOptions(strict=True)
        program = compile(module, self.device.name, options)
        given = [put(self.device, a) for a in arguments]
        for array_ in given:
            array_.block_until_ready()
        return min(_calls(program, given, self.clock))


def _supported(measure: Callable[[], float]) -> float | None:
    """What is measured; None if the device does not take the program."""
    try:
        return measure()
    except UnsupportedError:
        return None


def _step(
    b: HloBuilder, opcode: str, value: HloInstruction, other: HloInstruction, step: int
) -> HloInstruction:
    """One more operation that no simplification takes away."""
    if opcode == "tanh":
        return b.op("tanh", value)
    name = opcode if step % 2 == 0 else "subtract"
    return b.op(name, value, other)


def _calls(program: CompiledModule, given: list[DeviceArray], clock: Clock) -> Iterator[float]:
    for _ in range(_ROUNDS + 1):
        begin = clock()
        program(*given).block_until_ready()
        yield clock() - begin


def _slope(first: float, second: float, less: float, more: float) -> float:
    """What one unit takes; never nothing, however noisy the clock."""
    return max(second - first, 1e-12) / (more - less)
