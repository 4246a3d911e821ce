"""The Transport contract: how the processes of one job exchange data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Data = bytes | bytearray | memoryview


class Exchange(NamedTuple):
    """One collective between processes: the same in all that take part.

    Attributes:
        run: eight bytes that name the execution.
        name: different for each exchange of a run.
        agreement: what all must agree on; processes that differ get an error.
    """

    run: bytes
    name: str
    agreement: bytes = b""


class Progress(Enum):
    """Of work that processes do together, by another way than a channel."""

    AHEAD = auto()
    UNDER_WAY = auto()
    DONE = auto()


class JointWork(Protocol):
    """Work that processes do together, by another way than a channel."""

    def progress(self) -> Progress:
        """How far it is; `AHEAD` while it waits for nothing but this process."""
        ...

    def trouble(self) -> str:
        """What is known against it, such as that a connection broke; empty if nothing is."""
        ...


class Channel(ABC):
    """The processes of one group, by their ranks in it. Thread-safe.

    Everything blocks until it is done, and raises `ProcessError` if a process ended, failed,
    disagrees, or does not come within the transport's time limit.
    """

    @property
    @abstractmethod
    def processes(self) -> Sequence[int]:
        """The process of each rank."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """The rank of this process."""

    @abstractmethod
    def all_reduce(self, exchange: Exchange, array: Array, combine: np.ufunc) -> None:
        """Combines one-dimensional arrays of all ranks in place; all get the same bits.

        Args:
            exchange: which one.
            array: contiguous, of the same size and dtype everywhere.
            combine: commutative and associative but for rounding.
        """

    @abstractmethod
    def all_gather(self, exchange: Exchange, data: Data) -> list[Data]:
        """What each rank brought, in rank order; sizes may differ."""

    @abstractmethod
    def exchange(
        self, exchange: Exchange, sent: Mapping[int, Data], sources: Collection[int]
    ) -> dict[int, Data]:
        """Sends to each rank what is meant for it; returns what each of ``sources`` sent here."""

    @property
    def can_attend(self) -> bool:
        """True if `attend` and `has_failed` are there: the processes may work together."""
        return False

    def attend(self, exchange: Exchange, work: JointWork, also: bytes = b"") -> None:
        """Waits for work that all ranks do by another way, and fails as its own exchanges do.

        The time limit begins when the work is under way.

        Args:
            exchange: which one.
            work: is asked again and again how far it is.
            also: eight more bytes that `Transport.fail_run` may name; empty for none.
        """
        raise NotImplementedError

    def has_failed(self, run: bytes) -> bool:
        """True if `Transport.fail_run` named this here, or in a process whose word has come."""
        raise NotImplementedError


class Transport(ABC):
    """The connections of this process to the others of its job. Thread-safe.

    Args:
        rank: the number of this process.
        size: number of processes.
    """

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size

    @abstractmethod
    def channel(self, key: bytes, processes: Sequence[int]) -> Channel:
        """The channel of these processes, this one among them.

        Args:
            key: different for channels whose exchanges may overlap.
            processes: in the order of their ranks.
        """

    @property
    def sent_nbytes(self) -> Mapping[int, int]:
        """Bytes of data that were sent to each process; headers and errors do not count."""
        return {}

    def fail_run(self, run: bytes, reason: str) -> None:
        """Tells the others that an execution failed here; what waits for it there fails."""
        return

    def lose(self, process: int, reason: str) -> None:
        """Makes all exchanges with a process fail, those that wait and those to come."""
        return

    def close(self) -> None:
        """Ends all connections; the others are told that this is no failure."""
        return
