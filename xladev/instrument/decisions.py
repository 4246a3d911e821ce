"""What passes decided and why, told by themselves: off until somebody collects it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

_lock = threading.Lock()
_muted: ContextVar[bool] = ContextVar("muted", default=False)
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
    return bool(_open) and not _muted.get()


def decision(step: str, name: str, why: str) -> None:
    """Tells one decision to whoever collects them."""
    if not is_deciding():
        return
    with _lock:
        for found in _open:
            found.append(Decision(step, name, why))


@contextmanager
def without_decisions() -> Iterator[None]:
    """What this thread decides in the block is told to nobody: it is a trial."""
    token = _muted.set(True)
    try:
        yield
    finally:
        _muted.reset(token)


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
