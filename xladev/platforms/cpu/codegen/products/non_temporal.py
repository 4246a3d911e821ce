"""Results that are written past the caches, for what is larger than they are."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.llvm import I64, FunctionBuilder, Value

NON_TEMPORAL_NBYTES = 24 << 20
"""Bytes that are read and written from which on the result is written past the caches. On a core
with 32 MiB of third-level cache, copies of 24 MiB in all take as long in both ways, smaller ones
are faster by way of the caches, and larger ones past them."""
CACHED = Value("0", I64)
"""What says that results are written by way of the caches."""


def store_non_temporal_or_cached(
    b: FunctionBuilder, is_non_temporal: Value, values: Sequence[Value], places: Sequence[Value]
) -> None:
    """Stores vectors, aligned and past the caches if a number is not zero.

    Whoever lets others see such stores ends them with `fence_non_temporal`.
    """

    def non_temporal() -> None:
        for value, place in zip(values, places, strict=True):
            nbytes = value.lanes * b.alignment(value.type)
            b.store(value, place, align=nbytes, metadata="!nontemporal !{i32 1}")

    def cached() -> None:
        for value, place in zip(values, places, strict=True):
            b.store(value, place)

    b.switch(is_non_temporal, [cached, non_temporal])


def fence_non_temporal(b: FunctionBuilder) -> None:
    """Makes stores past the caches visible before whatever is stored after them."""
    b.fence()
