"""The SPMD partitioner as a pass."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.hlo.ir import HloModule
from xladev.passes.pass_ import HloModulePass
from xladev.passes.sharding.cut_values import is_sharded, partition_count
from xladev.passes.spmd.program import partition


@dataclass(frozen=True, slots=True)
class SpmdPartitioner(HloModulePass):
    """Partitions a program whose values are to be cut: each device computes its parts.

    Programs in which nothing is cut outside of manual regions stay as they are.

    Attributes:
        num_partitions: how many partitions there are, if more than the module says.
        poison: fill padding with NaN and extremes, to see who takes it for elements.
    """

    name = "spmd-partitioner"
    num_partitions: int = 1
    poison: bool = False

    def run(self, module: HloModule) -> HloModule:
        """See the class.

        Raises:
            UnsupportedError: of code ``SHARDING``; the program needs what is not there yet.
        """
        said = max(self.num_partitions, module.header.num_partitions)
        count = partition_count(module, said)
        if not is_sharded(module, count):
            return module
        return partition(module, count, poison=self.poison).module
