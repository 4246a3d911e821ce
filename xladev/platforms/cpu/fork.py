"""Forks of native code: what a program calls to run parts of it at once (`fork.ll`)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from xladev.codegen.kernel_spec import KernelSpec
from xladev.platforms.cpu.codegen.cost import estimated_ns
from xladev.platforms.cpu.codegen.sharing import LEAST_NS, PARALLEL
from xladev.platforms.cpu.engine import target_traits
from xladev.platforms.cpu.interruption import BETWEEN_POLLS_NS, POLL, poll_symbols
from xladev.platforms.cpu.native_block import keep_forever
from xladev.platforms.cpu.object_cache import load_cached
from xladev.platforms.cpu.pool import pool_symbols
from xladev.platforms.cpu.word_wait import relax_text, word_wait_text

FORK = "xladev_fork"
"""``i64 xladev_fork(ptr part, ptr frame, i64 count, i64 threads, ptr state, i64 left)``: calls
``part(frame, number, state, left)`` for all numbers below the count, in any threads; returns what
is left of the caller's time until its next look, or `interruption.ENDED`."""

FORK_LEVEL = 1
"""How far the code is optimised."""

SHARING_S = 10e-6
"""What threads lose in a kernel that they share."""


def kernel_s(spec: KernelSpec, threads: int) -> float:
    """Estimated seconds of a kernel that so many threads work on, where it is worth sharing."""
    alone = estimated_ns(spec)
    if threads == 1 or alone < LEAST_NS:
        return alone / 1e9
    return alone / 1e9 / threads + SHARING_S


def fork_text(triple: str) -> str:
    """The code for machines of a triple, as LLVM assembly."""
    text = (Path(__file__).parent / "fork.ll").read_text("utf-8")
    return text + word_wait_text(triple, BETWEEN_POLLS_NS // 1000) + relax_text(triple)


@cache
def fork_symbols() -> Mapping[str, int]:
    """The address of what programs with forks import, by symbol; made at the first call."""
    words = {"parallel": pool_symbols()[PARALLEL], "poll": poll_symbols()[POLL]}
    code, _ = load_cached("fork", fork_text(target_traits().triple), FORK_LEVEL, (FORK, *words))
    keep_forever(code, *code.parts)
    for name, address in words.items():
        ctypes.c_size_t.from_address(code.address(name)).value = address
    return MappingProxyType({FORK: code.address(FORK)})
