"""The pipelines that every program goes through before it is split among devices."""

from __future__ import annotations

from xladev.passes.algebraic_simplifier import AlgebraicSimplifier
from xladev.passes.call_inliner import CallInliner
from xladev.passes.computation_deduplicator import ComputationDeduplicator
from xladev.passes.conditional_simplifier import ConditionalSimplifier
from xladev.passes.conditional_to_select import ConditionalToSelect
from xladev.passes.constant_folding import ConstantFolding
from xladev.passes.cse import CommonSubexpressionElimination
from xladev.passes.dce import DeadCodeElimination
from xladev.passes.domain_remover import DomainRemover
from xladev.passes.large_constant_folding import LargeConstantFolding
from xladev.passes.manual_regions import ManualRegionExpander
from xladev.passes.map_inliner import MapInliner
from xladev.passes.pipeline import HloPassPipeline
from xladev.passes.reshape_mover import ReshapeMover
from xladev.passes.sort_simplifier import SortSimplifier
from xladev.passes.synchronous_pairs import SynchronousPairs
from xladev.passes.transpose_folding import TransposeFolding
from xladev.passes.tuple_simplifier import TupleSimplifier
from xladev.passes.while_constant_sinking import WhileConstantSinking
from xladev.passes.while_invariant_motion import WhileInvariantMotion
from xladev.passes.while_simplifier import WhileSimplifier
from xladev.passes.zero_sized_elimination import ZeroSizedElimination


def default_pipeline(optimization_level: int = 2) -> HloPassPipeline:
    """What is done to a module that was just read, for any device.

    Args:
        optimization_level: 0 only brings the module to the form that the compiler needs; 1 and
            above also simplify it.
    """
    if optimization_level == 0:
        return HloPassPipeline("default", (_CANONICAL,))
    return HloPassPipeline("default", (_CANONICAL, _SIMPLIFY))


def clean_up_pipeline(optimization_level: int = 2) -> HloPassPipeline:
    """What is done after expansions: they repeat constants, computations and whole expressions."""
    if optimization_level == 0:
        return HloPassPipeline("clean-up", (DeadCodeElimination(),))
    return HloPassPipeline("clean-up", _CLEAN_UP)


_MERGE = (ComputationDeduplicator(), CommonSubexpressionElimination(), DeadCodeElimination())
_CLEAN_UP = (CallInliner(), *_MERGE)
_CANONICAL = HloPassPipeline(
    "canonical", (ManualRegionExpander(), SynchronousPairs(), DomainRemover())
)
_CONTROL_FLOW = (
    WhileConstantSinking(),
    WhileSimplifier(),
    ConditionalSimplifier(),
    CallInliner(),  # behind the others, which make calls
)
_SIMPLIFY = HloPassPipeline(
    "simplify",
    (
        *_CONTROL_FLOW,
        ConditionalToSelect(),
        MapInliner(),
        ZeroSizedElimination(),
        SortSimplifier(),
        AlgebraicSimplifier(),
        TupleSimplifier(),
        ConstantFolding(),
        ReshapeMover(),
        TransposeFolding(),
        LargeConstantFolding(),
        WhileInvariantMotion(),
        *_MERGE,
    ),
    limit=4,
)
