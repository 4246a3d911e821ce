"""The ranks that this process has of one NCCL communicator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xladev.platforms.cuda.driver.interface import DriverDevice, DriverError, Share
from xladev.platforms.cuda.driver.rank_calls import call_rank
from xladev.platforms.cuda.driver.ranks import IN_PROGRESS, SUCCESS, Rank, RankLibrary
from xladev.platforms.cuda.libraries.collectives import LibraryCollective


class RankGroup:
    """See `Rank`; all of them are begun, and end, together.

    Args:
        library: that makes them.
        devices: of this process.
        numbers: the rank of each device.
        size: ranks in all processes.
        unique_id: the same in all processes.

    Raises:
        DriverError: the library refuses them.
    """

    def __init__(
        self,
        library: RankLibrary,
        devices: Sequence[DriverDevice],
        numbers: Sequence[int],
        size: int,
        unique_id: bytes,
    ) -> None:
        self._library, self._devices = library, tuple(devices)
        self._numbers, self._size = tuple(numbers), size
        self._ranks: list[Rank] = []

        def make(device: DriverDevice, number: int) -> None:
            self._ranks.append(library.rank(device, size, unique_id, number))

        try:
            self._together(
                [partial(make, d, number) for d, number in zip(devices, numbers, strict=True)]
            )
        except DriverError:
            self.abort()
            raise

    def _together(self, calls: Sequence[Callable[[], None]]) -> None:
        self._library.begin_group()
        try:
            for call in calls:
                call()
        finally:
            self._library.end_group()

    @property
    def is_begun(self) -> bool:
        """True if nothing that the host asked for waits to be begun."""
        return all(rank.state() != IN_PROGRESS for rank in self._ranks)

    def trouble(self) -> str:
        """What the library says is wrong; empty if nothing is."""
        try:
            states = [rank.state() for rank in self._ranks]
        except DriverError as e:
            return str(e)
        wrong = [s for s in states if s not in (SUCCESS, IN_PROGRESS)]
        return f"NCCL: {self._library.name(wrong[0])}" if wrong else ""

    def enqueue(self, collective: LibraryCollective, shares: Sequence[Share]) -> None:
        """Enqueues a collective on the streams of these ranks; begun once `is_begun`.

        Raises:
            DriverError: it was refused.
        """
        self._together(
            [
                partial(self._call, at, collective, share)
                for at, share in zip(range(len(self._ranks)), shares, strict=True)
            ]
        )

    def _call(self, at: int, collective: LibraryCollective, share: Share) -> None:
        def fill_zeros(address: int, nbytes: int) -> None:
            self._library.fill_zeros(self._devices[at], address, nbytes, share.stream)

        call_rank(
            self._ranks[at], collective, self._numbers[at], self._size,
            (share.operand, share.result), self._library.stream(share.stream), fill_zeros,
        )  # fmt: skip

    def abort(self) -> None:
        """Ends what is under way, and the ranks, whatever the other processes do."""
        for rank in self._ranks:
            rank.abort()

    def close(self) -> None:
        """Ends the ranks, on which nothing is under way."""
        for rank in self._ranks:
            rank.close()
