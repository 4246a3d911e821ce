"""Makes a module ready to be split: target-independent passes, then needed expansions."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace

from xladev.compiler.limits import refuse_depth, refuse_growth
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import STRUCTURAL_OPCODES, CompileTarget
from xladev.compiler.partition.expansion import ExpandRejected
from xladev.compiler.partition.rejected_constants import RejectedConstants
from xladev.compiler.partition.rejected_transposes import RejectedTransposes
from xladev.compiler.partition.root_copies import RootCopies
from xladev.errors import LiteralError
from xladev.hlo.dot import module_to_dot
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.literal import Literal
from xladev.hlo.text import print_module
from xladev.hlo.verifier import verify
from xladev.instrument import dump
from xladev.passes.collectives.joined import BUCKET_NBYTES, joined_collectives
from xladev.passes.default import clean_up_pipeline, default_pipeline
from xladev.passes.dynamic_padder import DynamicPadder, has_dynamic_shape
from xladev.passes.expanders import EXPANDERS
from xladev.passes.pipeline import (
    HloPassPipeline,
    Instrumentation,
    instrumented,
    run_pass,
    surrounding,
)
from xladev.passes.rng_expander import RngExpander
from xladev.passes.spmd.spmd_partitioner import SpmdPartitioner


def instrumented_by(options: CompileOptions) -> AbstractContextManager[Instrumentation]:
    """What the options ask for happens around the passes of a block.

    Within a block of `instrumented`, that one's records and watch are kept.
    """
    check = verify if options.verify_passes else None
    outer = surrounding()
    if outer is None:
        return instrumented(Instrumentation(check, print_module))
    return instrumented(replace(outer, check=outer.check or check))


def prepare(module: HloModule, target: CompileTarget, options: CompileOptions) -> HloModule:
    """The module as the partition sees it.

    Args:
        module: verified or not.
        target: whose answers decide what is expanded.
        options: how.

    Raises:
        VerifyError: the module breaks a rule of HLO.
        PassError: a pass failed.
        LiteralError: a constant whose value the text left out.
        CompileError: computations nest too deep, or written out they would be too many.
        UnsupportedError: shardings that the partitioner cannot do (code ``SHARDING``).
    """
    verify(module)
    refuse_growth(module)
    refuse_depth(module, with_calls=False)
    _dump(module, module.name)
    with instrumented_by(options):
        local = sharding_pipeline(options.num_partitions, options.all_reduce_bucket).run(module)
        ready = _rewritten(local, target, options.optimization_level)
    refuse_depth(ready, with_calls=True)
    _refuse_elided_constants(ready)
    if ready is not module:
        _dump(ready, f"{module.name}.prepared")
    return ready


def _rewritten(module: HloModule, target: CompileTarget, level: int) -> HloModule:
    """The module after all passes that go before the partition."""
    ready = module
    for pipeline, is_rejected in ((RANDOM, _is_rejected_draw), (STATIC, _is_rejected_dynamic)):
        if any(is_rejected(i, target) for c in ready.computations for i in c.instructions):
            ready = pipeline.run(ready)
    ready = default_pipeline(level).run(ready)
    expanded = run_pass(ExpandRejected(target, EXPANDERS), ready, EXPANSION)
    if expanded is not ready:
        expanded = clean_up_pipeline(level).run(expanded)
    copies = (RootCopies(target),) if level else ()
    for each in (RejectedConstants(target), RejectedTransposes(target), *copies):
        expanded = run_pass(each, expanded, EXPANSION)
    return expanded


def sharding_pipeline(partitions: int = 1, bucket_nbytes: int = BUCKET_NBYTES) -> HloPassPipeline:
    """What makes the program of one device.

    Args:
        partitions: how many there are; the module may say that there are more.
        bucket_nbytes: see `joined_collectives`.
    """
    passes = (SpmdPartitioner(partitions), *joined_collectives(bucket_nbytes))
    return HloPassPipeline("sharding", passes)


def _is_rejected_draw(instruction: HloInstruction, target: CompileTarget) -> bool:
    return instruction.opcode == "rng" and not target.supports(instruction)


def _is_rejected_dynamic(instruction: HloInstruction, target: CompileTarget) -> bool:
    if instruction.opcode in STRUCTURAL_OPCODES:
        return False
    shapes = (instruction.shape, *(o.shape for o in instruction.operands))
    return has_dynamic_shape(shapes) and not target.supports(instruction)


EXPANSION = "expansion"
"""Name of the pipeline of what is expanded because the platform rejects it."""
STATIC = HloPassPipeline("static", (DynamicPadder(),))
RANDOM = HloPassPipeline("random", (RngExpander(),))


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
