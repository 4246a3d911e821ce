"""What native code needs to run a program on several devices: a context for each, and the block."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NoReturn

from xladev.instrument import interruption
from xladev.platforms.cpu.codegen.exchange import HEADER_NBYTES, ExchangePlan
from xladev.platforms.cpu.exchange import TIMED_OUT, ExchangeBlock
from xladev.runtime.loaded_executable import JointEntry

_Words = ctypes.c_size_t * 3


class JointLaunch:
    """Launches of one program on all its devices, one after the other.

    Args:
        name: of the program, for errors.
        plan: what its collectives want.
        parts: of each device, the address of its code, and that which its marks come from
            (`trace_points.PROGRAM_WORD`).
        has_loops: whether its code has loops.

    Attributes:
        entry: what the contract says of it.
    """

    def __init__(
        self,
        name: str,
        plan: ExchangePlan,
        parts: Sequence[tuple[int, int]],
        *,
        has_loops: bool,
    ) -> None:
        self._name = name
        self._block = ExchangeBlock(plan) if plan.nbytes > HEADER_NBYTES else None
        block = self._block.address if self._block else 0
        self._words = [_Words(block, number, mark) for number, (_, mark) in enumerate(parts)]
        codes, contexts = [code for code, _ in parts], list(map(ctypes.addressof, self._words))
        self.entry = JointEntry(codes, contexts, block, self._explain, has_loops)

    def _explain(self, threads: Sequence[int]) -> NoReturn:
        """Raises why a launch failed.

        Args:
            threads: those whose functions said so.

        Raises:
            ExecutionError: a device did not come in time.
            BaseException: a signal's handler raised it, or an `InterruptionError`.
        """
        late = None
        if self._block is not None:
            if self._block.failure == TIMED_OUT:
                late = self._block.timed_out(f"of {self._name}")
            self._block.renew()
        interruption.rethrow_of(threads, late)
