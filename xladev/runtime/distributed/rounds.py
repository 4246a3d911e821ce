"""What `MessageChannel` sends, round by round: who to whom, how many bytes.

A round is what all ranks send before they wait for each other. Pieces of one message are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xladev.runtime.distributed.message_channel import DIRECT_RANKS, uses_ring

Message = tuple[int, int, int]
"""From which rank to which, and how many bytes."""
Round = Sequence[Message]


def all_reduce_rounds(ranks: int, size: int, itemsize: int) -> Iterator[Round]:
    """Of an all-reduce.

    Args:
        ranks: how many.
        size: numbers that each brings.
        itemsize: bytes of one.
    """
    nbytes = size * itemsize
    if uses_ring(ranks, size, nbytes):
        yield from _ring(ranks, size, itemsize)
    elif ranks <= DIRECT_RANKS:
        yield from exchange_rounds(_all_pairs(ranks, nbytes))
    else:
        yield from _tree(ranks, nbytes)


def all_gather_rounds(ranks: int, nbytes: int) -> Iterator[Round]:
    """Of an all-gather; each rank brings so many bytes."""
    yield from exchange_rounds(_all_pairs(ranks, nbytes))


def exchange_rounds(messages: Iterable[Message]) -> Iterator[Round]:
    """Of messages that are all sent at once; what stays in its rank is none."""
    found = [message for message in messages if message[0] != message[1]]
    if found:
        yield found


def _all_pairs(ranks: int, nbytes: int) -> Iterator[Message]:
    return ((a, b, nbytes) for a in range(ranks) for b in range(ranks))


def _ring(ranks: int, size: int, itemsize: int) -> Iterator[Round]:
    bounds = [size * i // ranks for i in range(ranks + 1)]
    parts = [(bounds[i + 1] - bounds[i]) * itemsize for i in range(ranks)]
    for first in (0, 1):
        for turn in range(ranks - 1):
            yield [
                (rank, (rank + 1) % ranks, parts[(rank - turn + first) % ranks])
                for rank in range(ranks)
            ]


def _tree(ranks: int, nbytes: int) -> Iterator[Round]:
    distances = [1 << i for i in range((ranks - 1).bit_length())]
    for d in distances:
        yield [(r, r - d, nbytes) for r in range(d, ranks, 2 * d)]
    for d in reversed(distances):
        yield [(r, r + d, nbytes) for r in range(0, ranks - d, 2 * d)]
