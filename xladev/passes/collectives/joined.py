"""The passes that make fewer collectives of a program of one device, in their order."""

from __future__ import annotations

from xladev.passes.collectives.all_reduce_combiner import AllReduceCombiner
from xladev.passes.collectives.all_reduce_reassociate import AllReduceReassociate
from xladev.passes.pass_ import HloModulePass

JOINED_COLLECTIVES: tuple[HloModulePass, ...] = (AllReduceReassociate(), AllReduceCombiner())
