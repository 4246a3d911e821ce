"""Makes a module ready to be split: target-independent passes, then needed expansions."""

from __future__ import annotations

from xladev.compiler.assignment import CompileTarget
from xladev.compiler.expansion import expand_rejected
from xladev.compiler.options import CompileOptions
from xladev.hlo.ir import HloModule
from xladev.hlo.verifier import verify
from xladev.passes.call_inliner import CallInliner
from xladev.passes.cse import CommonSubexpressionElimination
from xladev.passes.dce import DeadCodeElimination
from xladev.passes.expanders import EXPANDERS
from xladev.passes.manual_regions import ManualRegionExpander
from xladev.passes.pipeline import HloPassPipeline
from xladev.passes.synchronous_pairs import SynchronousPairs


def prepare(module: HloModule, target: CompileTarget, options: CompileOptions) -> HloModule:
    """The module as the partition sees it.

    Raises:
        VerifyError: the module breaks a rule of HLO.
        PassError: a pass failed.
    """
    verify(module)
    module = _ALWAYS.run(module)
    if options.optimization_level > 0:
        module = _SIMPLIFY.run(module)
    expanded = expand_rejected(module, target, EXPANDERS)
    return expanded if expanded is module else _CLEAN_UP.run(expanded)


_ALWAYS = HloPassPipeline("canonical", (ManualRegionExpander(), SynchronousPairs()))
_SIMPLIFY = HloPassPipeline(
    "simplify", (CallInliner(), CommonSubexpressionElimination(), DeadCodeElimination())
)
_CLEAN_UP = HloPassPipeline(
    "clean-up", (CallInliner(), CommonSubexpressionElimination(), DeadCodeElimination())
)
