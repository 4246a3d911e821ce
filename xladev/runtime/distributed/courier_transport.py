"""What transports of messages have in common: one courier carries everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xladev.runtime.distributed.mailbox import Mailbox
from xladev.runtime.distributed.message_channel import MessageChannel
from xladev.runtime.distributed.transport import Channel, Transport


class CourierTransport(Transport):
    """See `Transport`.

    Args:
        rank: the number of this process.
        size: number of processes.
        courier: to all others.
    """

    def __init__(self, rank: int, size: int, courier: Mailbox) -> None:
        super().__init__(rank, size)
        self._courier = courier

    def channel(self, key: bytes, processes: Sequence[int]) -> Channel:
        """See `Transport.channel`."""
        return MessageChannel(self._courier, key, processes, self.rank)

    @property
    def sent_nbytes(self) -> Mapping[int, int]:
        """See `Transport.sent_nbytes`."""
        return self._courier.sent_nbytes

    def fail_run(self, run: bytes, reason: str) -> None:
        """See `Transport.fail_run`."""
        self._courier.fail_run(run, reason)

    def lose(self, process: int, reason: str) -> None:
        """See `Transport.lose`."""
        if process != self.rank:
            self._courier.lose(process, reason)

    def close(self) -> None:
        """See `Transport.close`."""
        self._courier.close()
