"""Where the devices of one execution meet in native code: the block that they share, and failures.

`exchange.ll` says how they meet, `codegen/exchange.py` what they do there.
"""

from __future__ import annotations

import ctypes
from collections.abc import Hashable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from xladev.errors import ArgumentError, XladevError, counted
from xladev.platforms.cpu.codegen.exchange import EXCHANGE, ExchangePlan
from xladev.platforms.cpu.engine import target_traits
from xladev.platforms.cpu.native_block import keep_forever
from xladev.platforms.cpu.object_cache import load_cached
from xladev.platforms.cpu.word_wait import word_wait_text
from xladev.runtime.collectives.host_communicator import collective_timeout_s
from xladev.runtime.collectives.launch_collectives import Collectives, CommunicatorPool
from xladev.runtime.collectives.rendezvous import peer_failed, timed_out
from xladev.runtime.communicator import Communicator
from xladev.runtime.loaded_executable import LaunchContext

EXCHANGE_LEVEL = 1
"""How far the code is optimised."""

ABORTED, TIMED_OUT = 1, 2
"""What the first word of a block says."""

_SLICE_US = 100_000
"""How long a device sleeps before it looks whether the execution was given up."""


def exchange_text(triple: str) -> str:
    """The code for machines of a triple, as LLVM assembly."""
    text = (Path(__file__).parent / "exchange.ll").read_text("utf-8")
    return text + word_wait_text(triple, _SLICE_US)


@cache
def exchange_symbols() -> Mapping[str, int]:
    """The address of what programs with collectives import, by symbol; made at the first call."""
    text = exchange_text(target_traits().triple)
    code, _ = load_cached("exchange", text, EXCHANGE_LEVEL, (EXCHANGE,))
    keep_forever(code, *code.parts)
    return MappingProxyType({EXCHANGE: code.address(EXCHANGE)})


class ExchangeBlock:
    """Memory that the devices of one execution share while it runs."""

    def __init__(self, plan: ExchangePlan) -> None:
        self._words = (ctypes.c_int64 * (plan.nbytes // 8 + 8))()
        start = ctypes.addressof(self._words)
        self.address = start + -start % 64
        self._timeout_s = collective_timeout_s()
        self._wide(8).value = int(self._timeout_s * 1e6)

    @property
    def failure(self) -> int:
        """`ABORTED`, `TIMED_OUT` or 0."""
        return self._word(0).value

    def abort(self) -> None:
        """Ends all meetings that are not complete, and those to come."""
        if not self.failure:
            self._word(0).value = ABORTED

    def renew(self) -> None:
        """Makes it as it was at first, once nobody is at a meeting any more."""
        wait_us = self._wide(8).value
        ctypes.memset(self._words, 0, ctypes.sizeof(self._words))
        self._wide(8).value = wait_us

    def timed_out(self, name: str) -> XladevError:
        """Who was missing where somebody waited too long."""
        slot = self._wide(16).value
        size = self._word(slot + 4).value
        frames = (ctypes.c_size_t * size).from_address(self.address + slot + 8)
        came = [rank for rank, frame in enumerate(frames) if frame]
        missing = [rank for rank, frame in enumerate(frames) if not frame]
        return timed_out(name, self._timeout_s, missing, came)

    def _word(self, offset: int) -> ctypes.c_int32:
        return ctypes.c_int32.from_address(self.address + offset)

    def _wide(self, offset: int) -> ctypes.c_int64:
        return ctypes.c_int64.from_address(self.address + offset)


class Exchange:
    """One device's part in one launch.

    Args:
        plan: the program's.
        key: of the program, the same on all devices.
        context: who takes part.
        mark: the address that the device's marks come from (`trace_points.PROGRAM_WORD`).

    Raises:
        ArgumentError: the launch has another number of devices.
    """

    def __init__(
        self, plan: ExchangePlan, key: Hashable, context: LaunchContext, mark: int
    ) -> None:
        others = context.communicator or _alone()
        self._block: ExchangeBlock | None = None
        if not plan.nbytes:
            self.words = (ctypes.c_size_t * 3)(0, others.device_index, mark)
            return
        if others.pool.size != plan.devices:
            raise ArgumentError(
                f"a program that exchanges data between {counted(plan.devices, 'device')} was "
                f"launched on {others.pool.size}",
                hint="launch it on as many as num_replicas times num_partitions",
            )
        self._run_id, self._pool = context.run_id, others.pool
        block = self._pool.shared(context.run_id, key, lambda: ExchangeBlock(plan))
        self._block = block
        self.words = (ctypes.c_size_t * 3)(block.address, others.device_index, mark)

    def check(self, name: str) -> None:
        """Raises why collectives failed, if they did.

        Args:
            name: of the program, for the error.

        Raises:
            ExecutionError: a device did not come in time, or failed.
        """
        if self._block is None or not (failure := self._block.failure):
            return
        if failure == TIMED_OUT:
            raise self._block.timed_out(f"of {name}")
        if (cause := self._pool.failure(self._run_id)) is not None:
            raise peer_failed(cause)


def _alone() -> Collectives:
    def nobody(group: tuple[int, ...]) -> Communicator:
        raise ArgumentError(f"no communicator for {group}", why="a device is alone")

    return Collectives(CommunicatorPool(1, nobody), 0)
