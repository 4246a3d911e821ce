"""What one rank calls of NCCL for a collective."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xladev.hlo.dtype import by_name
from xladev.platforms.cuda.driver.ranks import Collectives
from xladev.platforms.cuda.libraries.collectives import OPERATIONS, SUMS, LibraryCollective


def call_rank(
    rank: Collectives,
    c: LibraryCollective,
    number: int,
    size: int,
    addresses: tuple[int, int],
    stream: Any,
    fill_zeros: Callable[[int, int], object],
) -> None:
    """Calls what a collective is, within a group of calls.

    Args:
        rank: of the communicator.
        c: the collective.
        number: of the rank.
        size: of the communicator.
        addresses: of operand and result.
        stream: as the rank takes it.
        fill_zeros: enqueues so many zero bytes at an address, on the same stream.
    """
    (a, b), n = addresses, c.count
    dtype, operation = SUMS[c.dtype], OPERATIONS[c.operation]
    match c.opcode:
        case "all-reduce":
            rank.allReduce(a, b, n, dtype, operation, stream)
        case "collective-reduce":
            rank.reduce(a, b, n, dtype, operation, c.root, stream)
        case "reduce-scatter":
            rank.reduceScatter(a, b, n, dtype, operation, stream)
        case "all-gather":
            rank.allGather(a, b, n, dtype, stream)
        case "collective-broadcast":
            rank.broadcast(a, b, n, dtype, c.root, stream)
        case "all-to-all":
            nbytes = n * by_name(c.dtype).np.itemsize
            for peer in range(size):
                rank.send(a + peer * nbytes, n, dtype, peer, stream)
                rank.recv(b + peer * nbytes, n, dtype, peer, stream)
        case _:
            if number not in {target for _, target in c.pairs}:
                fill_zeros(b, n * by_name(c.dtype).np.itemsize)
            for source, target in c.pairs:
                if source == number:
                    rank.send(a, n, dtype, target, stream)
                if target == number:
                    rank.recv(b, n, dtype, source, stream)
