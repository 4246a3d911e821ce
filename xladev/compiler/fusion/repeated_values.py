"""Values that a kernel would compute anew for many elements, since what is made of them is spread.

A broadcast reads each element of its operand several times. An operand that is computed is a
kernel of its own (`instruction_fusion.py`); but a reshape before the broadcast costs nothing and
joins, and what is computed before the reshape would be repeated as well: the sigmoid of a channel
for each of its pixels.
"""

from __future__ import annotations

from collections.abc import Iterable

from xladev.hlo.ir import HloInstruction

LEAST_REPEATED = 1 << 14
"""Values computed anew from which a kernel of their own pays: to begin one takes microseconds on
some devices, in which these are computed."""


class RepeatedValues:
    """Members of kernels of which each element is read at several indices of the kernel's loop.

    Instructions are added after their readers.
    """

    def __init__(self) -> None:
        self._found: set[HloInstruction] = set()

    def refusal(self, i: HloInstruction, readers: Iterable[HloInstruction]) -> str:
        """Why a value that is expensive does not join its readers; empty if it may."""
        if not i.op.is_expensive:
            return ""
        for reader in readers:
            if self._repeats(reader, i):
                return f"the kernel of {reader.name} would compute it repeatedly"
        return ""

    def join(self, i: HloInstruction, readers: Iterable[HloInstruction]) -> None:
        """Notes an instruction that joins the kernel of its readers."""
        if any(self._repeats(reader, i) for reader in readers):
            self._found.add(i)

    def _repeats(self, reader: HloInstruction, value: HloInstruction) -> bool:
        again = reader.shape.size - value.shape.size
        is_spread = reader.opcode == "broadcast" and again >= LEAST_REPEATED
        return is_spread or reader in self._found
