"""What is compiled together at each level of compilation: every instruction, clusters, all.

The levels are those that TensorFlow's users know: operations one by one, clusters that are found,
and the whole program. Scopes say within the first two what belongs together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xladev.compiler.clustering.clusters import Cluster, Needs, form_clusters
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import SDK
from xladev.compiler.placement.rules import PlacementRule
from xladev.hlo.ir import HloInstruction
from xladev.hlo.jit_scope import ALONE, scope_of
from xladev.instrument import decision, logger

WHOLE = 2
"""The level at which a program is compiled whole."""
CLUSTER_STEP = "clusters"
"""Step of the decisions that are told."""
_log = logger("compile")


@dataclass(frozen=True, slots=True)
class Clustering:
    """How a program is cut that is not compiled whole.

    Attributes:
        level: 0: only scopes make clusters; 1: whatever is on one device.
        least: instructions of the smallest cluster; smaller ones are compiled one by one, other
            than those of a scope.
        rules: scopes of instructions that name none, by pattern; the first that matches counts.
    """

    level: int
    least: int
    rules: tuple[PlacementRule, ...] = ()

    @staticmethod
    def of(options: CompileOptions) -> Clustering | None:
        """How options want it, or None where the program is compiled whole."""
        if options.level == WHOLE:
            return None
        rules = tuple(PlacementRule.of(*pair) for pair in options.scopes)
        return Clustering(options.level, options.min_cluster_size, rules)

    def clusters(self, needs: Needs, devices: Mapping[HloInstruction, str]) -> list[Cluster]:
        """Clusters and single instructions of one computation, in an order in which they can run.

        Args:
            needs: its instructions, operands first, with what must run before each.
            devices: where each runs; `SDK` for what is no part of a region.

        Returns:
            Tuples of instructions, operands first.
        """
        found = form_clusters(needs, self._kind(devices))
        made = [part for cluster in found for part in self._large_enough(cluster)]
        _report(self.level, made)
        return made

    def _kind(
        self, devices: Mapping[HloInstruction, str]
    ) -> Callable[[HloInstruction], tuple[str, str] | None]:
        def kind(i: HloInstruction) -> tuple[str, str] | None:
            scope = self._scope(i)
            if devices[i] == SDK or scope == ALONE or not (scope or self.level):
                return None
            return devices[i], scope

        return kind

    def _scope(self, i: HloInstruction) -> str:
        named = scope_of(i)
        if named:
            return named
        return next((rule.device for rule in self.rules if rule.matches(i)), "")

    def _large_enough(self, cluster: Cluster) -> list[Cluster]:
        if len(cluster) >= self.least or self._scope(cluster[0]) not in ("", ALONE):
            return [cluster]
        return [(i,) for i in cluster]


def _report(level: int, made: list[Cluster]) -> None:
    sizes = [len(cluster) for cluster in made if len(cluster) > 1]
    alone = len(made) - len(sizes)
    listed = ", ".join(map(str, sorted(sizes, reverse=True)[:10]))
    _log.info("level %d: %d clusters (%s), %d instructions alone", level, len(sizes), listed, alone)
    for cluster in made:
        if len(cluster) > 1:
            decision(CLUSTER_STEP, cluster[-1].name, f"{len(cluster)} instructions in one cluster")
