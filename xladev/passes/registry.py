"""The passes of this folder by name. Those of the compiler: `xladev.compiler.pass_table`."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType

from xladev.errors import OptionError
from xladev.passes.algebraic_simplifier import AlgebraicSimplifier
from xladev.passes.call_inliner import CallInliner
from xladev.passes.collectives.all_reduce_combiner import AllReduceCombiner
from xladev.passes.collectives.all_reduce_reassociate import AllReduceReassociate
from xladev.passes.complex_dot_rewriter import ComplexDotRewriter
from xladev.passes.computation_deduplicator import ComputationDeduplicator
from xladev.passes.conditional_simplifier import ConditionalSimplifier
from xladev.passes.conditional_to_select import ConditionalToSelect
from xladev.passes.constant_folding import ConstantFolding
from xladev.passes.cse import CommonSubexpressionElimination
from xladev.passes.dce import DeadCodeElimination
from xladev.passes.domain_remover import DomainRemover
from xladev.passes.dot_canonicalizer import DotCanonicalizer
from xladev.passes.dot_strength_reduction import DotStrengthReduction
from xladev.passes.dynamic_padder import DynamicPadder
from xladev.passes.expand import Expand
from xladev.passes.float_normalization import FloatNormalization
from xladev.passes.large_constant_folding import LargeConstantFolding
from xladev.passes.manual_regions import ManualRegionExpander
from xladev.passes.map_inliner import MapInliner
from xladev.passes.opt_barrier_remover import OptBarrierRemover
from xladev.passes.pass_ import HloModulePass
from xladev.passes.reduce_window_rewriter import ReduceWindowRewriter
from xladev.passes.reshape_mover import ReshapeMover
from xladev.passes.rng_expander import RngExpander
from xladev.passes.sort_simplifier import SortSimplifier
from xladev.passes.spmd.spmd_partitioner import SpmdPartitioner
from xladev.passes.sub_byte_normalization import SubByteNormalization
from xladev.passes.synchronous_pairs import SynchronousPairs
from xladev.passes.transpose_folding import TransposeFolding
from xladev.passes.tuple_simplifier import TupleSimplifier
from xladev.passes.while_constant_sinking import WhileConstantSinking
from xladev.passes.while_invariant_motion import WhileInvariantMotion
from xladev.passes.while_simplifier import WhileSimplifier
from xladev.passes.while_transpose_sinking import WhileTransposeSinking
from xladev.passes.while_unroller import WhileUnroller
from xladev.passes.zero_sized_elimination import ZeroSizedElimination

_PASSES: tuple[type[HloModulePass], ...] = (
    AlgebraicSimplifier,
    AllReduceCombiner,
    AllReduceReassociate,
    CallInliner,
    CommonSubexpressionElimination,
    ComplexDotRewriter,
    ComputationDeduplicator,
    ConditionalSimplifier,
    ConditionalToSelect,
    ConstantFolding,
    DeadCodeElimination,
    DomainRemover,
    DotCanonicalizer,
    DotStrengthReduction,
    DynamicPadder,
    Expand,
    FloatNormalization,
    LargeConstantFolding,
    ManualRegionExpander,
    MapInliner,
    OptBarrierRemover,
    ReduceWindowRewriter,
    ReshapeMover,
    RngExpander,
    SortSimplifier,
    SpmdPartitioner,
    SubByteNormalization,
    SynchronousPairs,
    TransposeFolding,
    TupleSimplifier,
    WhileConstantSinking,
    WhileInvariantMotion,
    WhileSimplifier,
    WhileTransposeSinking,
    WhileUnroller,
    ZeroSizedElimination,
)

PASSES: Mapping[str, type[HloModulePass]] = MappingProxyType({p.name: p for p in _PASSES})
"""Every pass of this folder by name."""


def parse_pass(text: str, known: Mapping[str, HloModulePass]) -> HloModulePass:
    """The pass that ``name`` or ``name{option=value,option=value}`` names.

    Args:
        text: name and options.
        known: passes by name (`xladev.compiler.pass_table`).

    Raises:
        OptionError: an unknown pass, option or value.
    """
    name, brace, rest = text.strip().partition("{")
    found = known.get(name)
    if found is None:
        near = get_close_matches(name, known, 1) or sorted(known)
        raise OptionError(f"there is no pass {name!r}", hint=f"there is: {', '.join(near)}")
    if not brace:
        return found
    if not rest.endswith("}"):
        raise OptionError(f"options of pass {name} are not closed", hint=f"write {name}{{a=b}}")
    pairs = [item.partition("=") for item in rest[:-1].split(",") if item.strip()]
    return found.with_options({k.strip().replace("-", "_"): v.strip() for k, _, v in pairs})


def parse_passes(text: str, known: Mapping[str, HloModulePass]) -> tuple[HloModulePass, ...]:
    """The passes of a comma-separated list, such as ``call-inliner,cse``.

    Raises:
        OptionError: see `parse_pass`.
    """
    return tuple(parse_pass(part, known) for part in _split(text) if part.strip())


def _split(text: str) -> list[str]:
    """Cuts at commas that are not inside braces."""
    parts, depth = [""], 0
    for character in text:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts
