"""The forms that a program goes through on its way to a platform, pass by pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xladev.compiler.compile import Hosts
from xladev.compiler.kernel_compiler import PLAIN, KernelCompiler
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import CompileTarget
from xladev.compiler.prepare import instrumented_by, prepare
from xladev.hlo.ir import HloModule
from xladev.passes.pipeline import Instrumentation, instrumented
from xladev.testing.debug.assembly import Split, assembled, split


@dataclass(frozen=True, slots=True)
class ProgramForm:
    """A program after a step of its way.

    Attributes:
        step: the pass that changed it, with its pipelines; empty for the program as it was given.
        module: the program then.
        has_kernels: whether the pass is one of those that form kernels.
    """

    step: str
    module: HloModule
    has_kernels: bool = False


def forms_of(
    module: HloModule, target: CompileTarget, options: CompileOptions, hosts: Hosts = tuple
) -> tuple[ProgramForm, ...]:
    """The program as given, and after each pass that changed it.

    The last passes are those that form kernels, if the platform leaves that to the SDK: in the
    regions that the platform runs, and nowhere else.

    Args:
        module: the program.
        target: the platform wanted.
        options: how it is compiled.
        hosts: gives host platforms for what it refuses, best first.

    Raises:
        XladevError: a step failed, or nobody runs an instruction.
    """
    forms = [ProgramForm("", module)]

    def watch(name: str, before: HloModule, after: HloModule) -> None:
        if after is not before:
            forms.append(ProgramForm(name, after))

    with instrumented(Instrumentation(watch=watch)):
        ready = prepare(module, target, options)
    found = split(ready, target, options, hosts)
    if found.is_whole(target.name):
        return (*forms, *_region_forms(ready, target, options))
    return (*forms, *_forms_by_pass(found, target, options))


def _region_forms(
    region: HloModule, target: CompileTarget, options: CompileOptions
) -> list[ProgramForm]:
    """What one region becomes, by the backend's passes and those that form kernels."""
    forms: list[ProgramForm] = []
    is_forming = False

    def watch(name: str, before: HloModule, after: HloModule) -> None:
        if after is not before:
            forms.append(ProgramForm(name, after, is_forming))

    compiler = target.compiler
    with instrumented(Instrumentation(watch=watch)), instrumented_by(options):
        pipeline = compiler.pipeline(options)
        ready = region if pipeline is None else pipeline.run(region)
        if isinstance(compiler, KernelCompiler):
            plain = PLAIN.run(ready)
            is_forming = True
            if options.fusion:
                compiler.fusion_pipeline(options).run(plain)
    return forms


def _forms_by_pass(
    found: Split, target: CompileTarget, options: CompileOptions
) -> Iterator[ProgramForm]:
    """The whole program after each pass went through all regions of the platform."""
    regions: list[list[ProgramForm]] = []

    def note(where: str, module: HloModule) -> HloModule:
        if where == target.name:
            regions.append(_region_forms(module, target, options))
        return module

    assembled(found, note)
    names = dict.fromkeys((f.has_kernels, f.step) for forms in regions for f in forms)
    done: set[str] = set()
    for has_kernels, name in sorted(names, key=lambda found: found[0]):
        done.add(name)
        now = iter([_latest(forms, done) for forms in regions])

        def change(
            where: str, module: HloModule, now: Iterator[ProgramForm | None] = now
        ) -> HloModule:
            form = next(now) if where == target.name else None
            return module if form is None else form.module

        yield ProgramForm(name, assembled(found, change), has_kernels)


def _latest(forms: Sequence[ProgramForm], done: set[str]) -> ProgramForm | None:
    """The last form by one of these passes; None if none of them changed anything."""
    return next((form for form in reversed(forms) if form.step in done), None)
