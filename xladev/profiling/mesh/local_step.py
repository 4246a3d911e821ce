"""What a step takes of one device: measured here, by its part of the program with silent peers.

All that the device's process does is in it: kernels, launches, the copies and sums of collectives.
Messages are not. Processes that share a machine can wait for each other at each collective, as in a
step: where they share processors, too, that is what a step takes longer than its parts.
"""

from __future__ import annotations

import statistics
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from xladev.client import CompiledModule, compile
from xladev.compiler.options import CompileOptions
from xladev.hlo.ir import HloModule
from xladev.profiling.mesh.silent_transport import SilentTransport
from xladev.runtime.array import DeviceArray, put
from xladev.runtime.distributed.job import Job, instead_of_job
from xladev.runtime.distributed.messages import run_tag
from xladev.runtime.distributed.transport import Channel, Exchange

Clock = Callable[[], float]

WARM_UP = 3
_LEAST_STEPS, _MOST_STEPS, _MOST_S = 5, 200, 2.0


class LocalStep:
    """The part of one device of a program of several, one for each process of a job.

    Args:
        module: the program.
        platform: that runs it.
        options: how it is compiled.
        arguments: of one device.
        clock: tells the time.
        beside: the processes that share this machine and make the same calls at the same time: at
            each collective they wait for each other. None: nobody waits.

    Attributes:
        meetings: how often processes waited for each other in the last step.

    Raises:
        XladevError: it cannot be compiled.
    """

    def __init__(
        self,
        module: HloModule,
        platform: str,
        options: CompileOptions,
        arguments: Sequence[Any],
        clock: Clock = time.perf_counter,
        beside: Channel | None = None,
    ) -> None:
        header = module.header
        partitions = max(options.num_partitions, header.num_partitions)
        count = max(options.num_replicas, header.replica_count) * partitions
        self._beside, self._run = beside, b""
        self.meetings = 0
        peers = SilentTransport(count, _operand_nbytes(module), meet=self._meet)
        with instead_of_job(Job(peers)):
            self._program = compile(module, platform, options)
        self._arguments = on_device(self._program, arguments)
        self._clock = clock

    def _meet(self, exchange: Exchange) -> None:
        if self._beside is None:
            return
        if exchange.run != self._run:
            self._run, self.meetings = exchange.run, 0
        self.meetings += 1
        self._beside.all_gather(exchange, b"")

    def seconds(self, steps: int | None = None) -> float:
        """The mean of so many steps, after some that do not count; see `timed_s`.

        Processes that wait for each other agree on how many, if none is said.

        Raises:
            XladevError: it cannot be run.
        """
        measured = partial(timed_s, self._program, self._arguments, self._clock)
        if steps is None and self._beside is not None:
            once = measured(1)
            steps = steps_for(slowest(self._beside, f"once, before {self._run.hex()}", once))
        return measured(steps)


def slowest(channel: Channel, name: str, seconds: float) -> float:
    """The most that a process of a channel measured: the others have to wait for it.

    Where processes share processors, those that come first took more than their share.

    Args:
        channel: whose processes all call this.
        name: different for each call.
        seconds: that this one measured.
    """
    exchange = Exchange(run_tag(b"slowest", 0), name)
    said = channel.all_gather(exchange, struct.pack("<d", seconds))
    return float(max(struct.unpack("<d", bytes(each))[0] for each in said))


def on_device(program: CompiledModule, arguments: Sequence[Any]) -> list[Any]:
    """Arguments of a program of one device in this process, on that device."""
    is_array = [a is not None and not isinstance(a, tuple) for a in arguments]
    pairs = zip(arguments, is_array, strict=True)
    return [put(program.devices[0], a) if is_one else a for a, is_one in pairs]


def timed_s(
    program: CompiledModule, arguments: Sequence[Any], clock: Clock, steps: int | None = None
) -> float:
    """What a run takes of some that follow each other, in seconds: the mean.

    Args:
        program: of one device in this process.
        arguments: of that device.
        clock: tells the time.
        steps: how many; None: for a second or two. Processes of one job name the same number.
    """
    for _ in range(WARM_UP):
        once = step_s(program, arguments, clock)
    count = steps_for(once) if steps is None else steps
    return statistics.fmean(step_s(program, arguments, clock) for _ in range(count))


def steps_for(once: float) -> int:
    """How many steps of so many seconds are measured."""
    return int(max(_LEAST_STEPS, min(_MOST_STEPS, _MOST_S / max(once, 1e-9))))


def step_s(program: CompiledModule, arguments: Sequence[Any], clock: Clock) -> float:
    """Seconds of one run, until all results are there."""
    start = clock()
    for leaf in _leaves(program.run_on_devices([arguments])):
        leaf.block_until_ready()
    return clock() - start


def _leaves(value: Any) -> Iterable[DeviceArray]:
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _leaves(part)
    elif value is not None:
        yield value


def _operand_nbytes(module: HloModule) -> Callable[[str], int]:
    """Bytes of the first operand of a collective, by the name of its exchange."""
    found = {
        i.name: i.operands[0].shape.nbytes
        for c in module.computations
        for i in c.instructions
        if i.op.category == "collective" and i.operands
    }
    return lambda name: next((n for known, n in found.items() if name.startswith(known)), 0)
