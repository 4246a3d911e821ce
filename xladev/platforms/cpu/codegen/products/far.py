"""Results that are written past the caches, for what is larger than they are."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.llvm import I64, FunctionBuilder, Value

FAR_NBYTES = 24 << 20
"""Bytes that are read and written from which on the result is written past the caches. On a core
with 32 MiB of third-level cache, copies of 24 MiB in all take as long in both ways, smaller ones
are faster by way of the caches, and larger ones past them."""
NEAR = Value("0", I64)
"""What says that results are written by way of the caches."""


def store_far_or_near(
    b: FunctionBuilder, is_far: Value, values: Sequence[Value], places: Sequence[Value]
) -> None:
    """Stores vectors, aligned and past the caches if a number is not zero.

    Whoever lets others see such stores ends them with `finish_far`.
    """

    def far() -> None:
        for value, place in zip(values, places, strict=True):
            nbytes = value.lanes * b.alignment(value.type)
            b.store(value, place, align=nbytes, metadata="!nontemporal !{i32 1}")

    def near() -> None:
        for value, place in zip(values, places, strict=True):
            b.store(value, place)

    b.switch(is_far, [near, far])


def finish_far(b: FunctionBuilder) -> None:
    """Makes stores past the caches visible before whatever is stored after them."""
    b.fence()
