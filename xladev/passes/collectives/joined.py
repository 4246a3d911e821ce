"""The passes that make fewer collectives of a program of one device, in their order."""

from __future__ import annotations

from xladev.passes.collectives.all_reduce_combiner import AllReduceCombiner
from xladev.passes.collectives.all_reduce_reassociate import AllReduceReassociate
from xladev.passes.pass_ import HloModulePass

BUCKET_NBYTES = 1 << 22
"""Most bytes of all-reduces that become one, unless somebody says otherwise."""


def joined_collectives(bucket_nbytes: int = BUCKET_NBYTES) -> tuple[HloModulePass, ...]:
    """The passes.

    Args:
        bucket_nbytes: most bytes of all-reduces that become one; 0: each stays by itself.
    """
    combiner = AllReduceCombiner(most_total=bucket_nbytes)
    return (AllReduceReassociate(), combiner) if bucket_nbytes else (AllReduceReassociate(),)
