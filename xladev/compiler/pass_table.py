"""Every pass that rewrites HLO while a program is compiled, by name and by pipeline.

What `xladev opt` runs alone, and what it lists. A step that changes a module and is in no pipeline
of this table makes a test fail (`tests/unit/compiler/test_pass_table.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from xladev.compiler.buffers.arena import arena_alignment
from xladev.compiler.fusion.attention_fusion import AttentionFusion
from xladev.compiler.fusion.broadcast_duplication import BroadcastDuplication
from xladev.compiler.fusion.constant_kernels import ConstantKernels
from xladev.compiler.fusion.instruction_fusion import Defuser, Fusion
from xladev.compiler.fusion.multi_output_fusion import MultiOutputFusion
from xladev.compiler.fusion.row_fusion import RowFusion
from xladev.compiler.isolation import plugin_call
from xladev.compiler.kernel_compiler import PLAIN, KernelCompiler
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import CompileTarget
from xladev.compiler.partition.expansion import ExpandRejected
from xladev.compiler.partition.rejected_constants import RejectedConstants
from xladev.compiler.partition.rejected_transposes import RejectedTransposes
from xladev.compiler.partition.root_copies import RootCopies
from xladev.compiler.placement.forms import DeviceForms
from xladev.compiler.placement.rules import ApplyPlacementRules
from xladev.compiler.plan.layout import LayoutNormalization
from xladev.compiler.plan.memory_plan import PIPELINE
from xladev.compiler.prepare import EXPANSION, RANDOM, STATIC, sharding_pipeline
from xladev.compiler.schedule.rematerialization import Rematerialization
from xladev.compiler.schedule.schedule import Schedule
from xladev.passes.default import clean_up_pipeline, default_pipeline
from xladev.passes.pass_ import HloModulePass
from xladev.passes.pipeline import HloPassPipeline
from xladev.passes.registry import PASSES

_COMPILER_PASSES: tuple[type[HloModulePass], ...] = (
    ApplyPlacementRules,
    AttentionFusion,
    ConstantKernels,
    Defuser,
    DeviceForms,
    ExpandRejected,
    Fusion,
    LayoutNormalization,
    MultiOutputFusion,
    BroadcastDuplication,
    RejectedConstants,
    RejectedTransposes,
    Rematerialization,
    RootCopies,
    RowFusion,
    Schedule,
)

COMPILER_PASSES: Mapping[str, type[HloModulePass]] = MappingProxyType(
    {p.name: p for p in _COMPILER_PASSES}
)
"""The passes of `xladev/compiler/`: what depends on the answers of a platform."""

SDK_PASSES: Mapping[str, HloModulePass] = MappingProxyType(
    {name: made() for name, made in sorted({**PASSES, **COMPILER_PASSES}.items())}
)
"""Every pass of the SDK, as it is where no platform is named."""


class ListedPass(NamedTuple):
    """A pass, and where a compilation runs it.

    Attributes:
        found: the pass, with the options that the platform gives it.
        within: the pipelines around it, such as ``default/simplify``; empty if it is in none.
    """

    found: HloModulePass
    within: str


def pipelines_of(target: CompileTarget, options: CompileOptions) -> tuple[HloPassPipeline, ...]:
    """The pipelines that a compilation for a platform may run, in their order.

    Raises:
        PluginError: the compiler raised.
    """
    level, compiler = options.optimization_level, target.compiler
    expansion = HloPassPipeline(
        EXPANSION,
        (
            ExpandRejected(target),
            RejectedConstants(target),
            RejectedTransposes(target),
            *((RootCopies(target),) if level else ()),
        ),
    )
    first = (
        sharding_pipeline(),
        RANDOM,
        STATIC,
        default_pipeline(level),
        expansion,
        clean_up_pipeline(level),
    )
    with plugin_call(target.name, "Compiler.pipeline"):
        own = compiler.pipeline(options)
    before = first if own is None else (*first, own)
    if not isinstance(compiler, KernelCompiler):
        return before
    alignment = arena_alignment(target.description.memory_space(0))
    memory = HloPassPipeline(
        PIPELINE, (Schedule(alignment=alignment), Rematerialization(alignment=alignment))
    )
    if not options.fusion:
        return (*before, PLAIN, memory)
    with plugin_call(target.name, "KernelCompiler.fusion_pipeline"):
        return (*before, PLAIN, compiler.fusion_pipeline(options), memory)


def listed_passes(target: CompileTarget, options: CompileOptions) -> tuple[ListedPass, ...]:
    """The passes that a compilation for a platform may run, in their order.

    Raises:
        PluginError: the compiler raised.
    """
    return tuple(p for each in pipelines_of(target, options) for p in _within(each, each.name))


def _within(pipeline: HloPassPipeline, path: str) -> Iterator[ListedPass]:
    for each in (*pipeline.passes, *pipeline.tidied_by):
        if isinstance(each, HloPassPipeline):
            yield from _within(each, f"{path}/{each.name}")
        else:
            yield ListedPass(each, path)


def passes_of(target: CompileTarget, options: CompileOptions) -> Mapping[str, HloModulePass]:
    """The passes that can be run for a platform, by name, with the options that it gives them.

    Of one that runs several times, the last: the backend's own pipelines come after the SDK's.

    Raises:
        PluginError: the compiler raised.
    """
    own = {listed.found.name: listed.found for listed in listed_passes(target, options)}
    return MappingProxyType({**SDK_PASSES, **own})
