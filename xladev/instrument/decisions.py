"""What passes decided and why, told by themselves: off until somebody collects it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

_lock = threading.Lock()
_open: tuple[list[Decision], ...] = ()


class Decision(NamedTuple):
    """One decision.

    Attributes:
        step: the pass that made it.
        name: of the instruction that it is about.
        why: a clause without a full stop, such as ``its readers are in two kernels``.
    """

    step: str
    name: str
    why: str


def is_deciding() -> bool:
    """True while somebody collects decisions."""
    return bool(_open)


def decision(step: str, name: str, why: str) -> None:
    """Tells one decision to whoever collects them."""
    if not _open:
        return
    with _lock:
        for found in _open:
            found.append(Decision(step, name, why))


@contextmanager
def collect_decisions() -> Iterator[list[Decision]]:
    """Collects, in all threads, until the block ends; yields the live list."""
    global _open
    found: list[Decision] = []
    with _lock:
        _open = (*_open, found)
    try:
        yield found
    finally:
        with _lock:
            _open = tuple(d for d in _open if d is not found)
