"""What native code allocates and frees without the allocator: counts that it keeps in plain words.

A platform whose programs allocate their results in native code (see `runtime.fast_call`) writes
these words while it holds the interpreter lock, and so counts as exactly as the allocator does.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

IN_USE, PEAK, COUNT, TOTAL, GENERATION, ELSEWHERE = range(6)
"""Indices of `Account.words`, each a signed 64-bit integer."""


class Account:
    """The sums of one device.

    Attributes:
        words: bytes in use; most bytes ever in use, those of `ELSEWHERE` included; live buffers;
            buffers ever made; number of resets of the device; bytes that the allocator has in use.
    """

    __slots__ = ("words",)

    def __init__(self) -> None:
        self.words = array("q", [0] * 6)

    @property
    def address(self) -> int:
        """Where the words are."""
        return self.words.buffer_info()[0]

    def forget_all(self, generation: int) -> None:
        """Nothing is in use any more: the device was reset."""
        self.words[GENERATION] = generation
        self.words[IN_USE] = self.words[COUNT] = 0


class NativeAccounting:
    """Live buffers of one program, by what they hold; kept alive by each of them.

    Attributes:
        labels: what buffers hold, for messages.
        sizes: bytes of one of each.
        counts: how many of each are live; native code writes it.
        owner: whatever must outlive the buffers.
    """

    __slots__ = ("__weakref__", "counts", "labels", "owner", "sizes")

    def __init__(self, labels: Sequence[str], sizes: Sequence[int], owner: object) -> None:
        self.labels = tuple(labels)
        self.sizes = tuple(sizes)
        self.counts = array("q", [0] * len(self.labels))
        self.owner = owner

    def address(self, index: int) -> int:
        """Where the count of one kind of buffer is."""
        return self.counts.buffer_info()[0] + index * self.counts.itemsize

    def live(self) -> Iterator[tuple[str, int]]:
        """Labels and bytes of what is live."""
        for label, nbytes, count in zip(self.labels, self.sizes, self.counts, strict=True):
            if count:
                yield label, nbytes * count

    def forget_all(self) -> None:
        """Counts from zero again: the device was reset."""
        for index in range(len(self.counts)):
            self.counts[index] = 0
