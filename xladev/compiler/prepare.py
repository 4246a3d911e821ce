"""Makes a module ready to be split: target-independent passes, then needed expansions."""

from __future__ import annotations

from xladev.compiler.assignment import STRUCTURAL_OPCODES, CompileTarget
from xladev.compiler.expansion import expand_rejected
from xladev.compiler.limits import refuse_depth, refuse_growth
from xladev.compiler.options import CompileOptions
from xladev.errors import LiteralError
from xladev.hlo.dot import module_to_dot
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.literal import Literal
from xladev.hlo.text import print_module
from xladev.hlo.verifier import verify
from xladev.instrument import dump
from xladev.passes.default import clean_up_pipeline, default_pipeline
from xladev.passes.dynamic_padder import DynamicPadder, has_dynamic_shape
from xladev.passes.expanders import EXPANDERS
from xladev.passes.pipeline import HloPassPipeline, Instrumentation
from xladev.passes.rng_expander import RngExpander


def prepare(
    module: HloModule,
    target: CompileTarget,
    options: CompileOptions,
    around: Instrumentation | None = None,
) -> HloModule:
    """The module as the partition sees it.

    Args:
        module: verified or not.
        target: whose answers decide what is expanded.
        options: how.
        around: what happens between passes; by default what the options ask for.

    Raises:
        VerifyError: the module breaks a rule of HLO.
        PassError: a pass failed.
        LiteralError: a constant whose value the text left out.
        CompileError: computations nest too deep, or written out they would be too many.
    """
    verify(module)
    refuse_growth(module)
    refuse_depth(module, with_calls=False)
    if around is None:
        around = Instrumentation(verify if options.verify_passes else None, print_module)
    _dump(module, module.name)
    level = options.optimization_level
    ready = module
    for pipeline, is_rejected in ((_RANDOM, _is_rejected_draw), (_STATIC, _is_rejected_dynamic)):
        if any(is_rejected(i, target) for c in ready.computations for i in c.instructions):
            ready = pipeline.run_instrumented(ready, around)
    ready = default_pipeline(level).run_instrumented(ready, around)
    expanded = expand_rejected(ready, target, EXPANDERS)
    if expanded is not ready:
        ready = clean_up_pipeline(level).run_instrumented(expanded, around)
    refuse_depth(ready, with_calls=True)
    _refuse_elided_constants(ready)
    if ready is not module:
        _dump(ready, f"{module.name}.prepared")
    return ready


def _is_rejected_draw(instruction: HloInstruction, target: CompileTarget) -> bool:
    return instruction.opcode == "rng" and not target.supports(instruction)


def _is_rejected_dynamic(instruction: HloInstruction, target: CompileTarget) -> bool:
    if instruction.opcode in STRUCTURAL_OPCODES:
        return False
    shapes = (instruction.shape, *(o.shape for o in instruction.operands))
    return has_dynamic_shape(shapes) and not target.supports(instruction)


_STATIC = HloPassPipeline("static", (DynamicPadder(),))
_RANDOM = HloPassPipeline("random", (RngExpander(),))


def _refuse_elided_constants(module: HloModule) -> None:
    """Backends would take the memory behind such a constant for its value."""
    for computation in module.computations:
        for instruction in computation.instructions:
            if instruction.opcode == "constant":
                _check_value(instruction)


def _check_value(constant: HloInstruction) -> None:
    literal: Literal = constant["literal"]
    try:
        _ = literal.value
    except LiteralError as error:
        raise error.at(repr(constant)) from None


def _dump(module: HloModule, name: str) -> None:
    dump(name, "hlo", lambda: print_module(module))
    dump(name, "dot", lambda: module_to_dot(module))
