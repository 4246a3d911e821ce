"""What has been compiled in this process, and what runs in torch itself and why."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field

from xladev.client import CompiledModule


@dataclass(frozen=True, slots=True)
class Fallback:
    """An operator of a graph that torch itself runs.

    Attributes:
        operator: its overload, such as ``aten.nonzero.default``.
        reason: why it is not part of a program.
    """

    operator: str
    reason: str


@dataclass(frozen=True, slots=True)
class GraphRecord:
    """One graph that torch handed over.

    Attributes:
        kind: ``forward``, ``backward``, or ``inference`` where no gradient is wanted.
        operators: how often each operator is called.
        programs: what they were compiled to; several where torch runs some in between.
        fallbacks: calls that torch runs.
        sizes: values of symbolic sizes that this was compiled for.
        is_bound: whether the program takes all sizes up to these.
    """

    kind: str
    operators: Counter[str]
    programs: tuple[CompiledModule, ...]
    fallbacks: tuple[Fallback, ...] = ()
    sizes: tuple[int, ...] = ()
    is_bound: bool = False


@dataclass(slots=True)
class _Records:
    kept: list[GraphRecord] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


_RECORDS = _Records()


def add(record: GraphRecord) -> None:
    """Remembers a graph."""
    with _RECORDS.lock:
        _RECORDS.kept.append(record)


def compiled_graphs() -> tuple[GraphRecord, ...]:
    """Every graph that was compiled in this process since `forget`, in order."""
    with _RECORDS.lock:
        return tuple(_RECORDS.kept)


def fallbacks() -> Counter[Fallback]:
    """How often each operator is left to torch, with the reason."""
    return Counter(each for record in compiled_graphs() for each in record.fallbacks)


def forget() -> None:
    """Empties the record; programs that nobody else holds are freed."""
    with _RECORDS.lock:
        _RECORDS.kept.clear()
