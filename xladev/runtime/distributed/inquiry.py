"""Whom a late message is to be laid to: who waits may itself be waited for by one that does not.

A process that gives up on a peer asks it first whom it waits for, then that one, and so on. One
that does not answer does not wait for messages either: it hangs, is stopped, or computes.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Collection, Mapping, Sequence

from xladev.errors import ProcessError

MOST_ASKED_S = 1.0
"""How long an answer is waited for."""
_NUMBER = struct.Struct("<I")
_HINT = "if it is just slow, raise XLADEV_COLLECTIVE_TIMEOUT_S"


def pack_waits(peers: Collection[int]) -> bytes:
    """The answer of a process that waits for these."""
    return b"".join(_NUMBER.pack(peer) for peer in sorted(peers))


def unpack_waits(data: bytes) -> list[int]:
    """The processes of an answer."""
    return [number for (number,) in _NUMBER.iter_unpack(data[: len(data) // 4 * 4])]


class Inquiry:
    """One chain of questions.

    Args:
        peer: that is late.
        own: this process.
    """

    def __init__(self, peer: int, own: int | None) -> None:
        self.chain = [peer]
        self._own = own
        self._deadline: float | None = None

    @property
    def asked(self) -> int:
        """Who is asked now."""
        return self.chain[-1]

    def start_waiting(self, limit_s: float) -> None:
        """The question was sent."""
        self._deadline = time.monotonic() + min(limit_s, MOST_ASKED_S)

    @property
    def left_s(self) -> float | None:
        """How long the answer may still take, in seconds; None if nothing was asked."""
        return None if self._deadline is None else self._deadline - time.monotonic()

    def take(self, waits: Sequence[int], known: Collection[int]) -> bool:
        """Takes an answer; False if there is nobody else to ask."""
        others = [p for p in waits if p in known and p not in self.chain]
        if not others:
            return False
        self._deadline = None
        self.chain.append(others[0])
        return True

    def error(
        self, what: str, timeout_s: float, names: Mapping[int, str], waits: bool
    ) -> ProcessError:
        """What is said in the end.

        Args:
            what: was waited for.
            timeout_s: how long, in seconds.
            names: of processes.
            waits: True if the last one that was asked waits for this process, or for one before.
        """
        first, *others = (names[peer] for peer in self.chain)
        why = "it did not come to it: it hangs, is stopped, or runs something else"
        if others:
            way = ", which waits for ".join(others)
            why = (
                f"that one waits for {way}; the last one hangs, is stopped, or runs something else"
            )
        if waits:
            why = "they wait for each other: they run different collectives, or in another order"
        return ProcessError(f"{what} waited {timeout_s:g} s for {first}", why=why, hint=_HINT)
