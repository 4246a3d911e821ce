"""The forms that a program goes through on its way to a platform, pass by pass."""

from __future__ import annotations

from dataclasses import dataclass, field

from xladev.compiler.assignment import CompileTarget
from xladev.compiler.fusion import without_fusions
from xladev.compiler.kernel_compiler import KernelCompiler
from xladev.compiler.layout import with_row_major_layouts
from xladev.compiler.options import CompileOptions
from xladev.compiler.prepare import prepare
from xladev.hlo.ir import HloModule
from xladev.passes.pipeline import Instrumentation, PassRecord

KERNELS = "forming of kernels"
_EXPANSION = "expansion of what the platform refuses"


@dataclass(frozen=True, slots=True)
class Form:
    """A program after a step of its way.

    Attributes:
        step: the pass that changed it, or what else did; empty for the program as it was given.
        module: the program then.
    """

    step: str
    module: HloModule


@dataclass(slots=True)
class _Watch:
    """Collects what the pipelines show: the module before the first pass, and after each change."""

    forms: list[Form] = field(default_factory=list[Form])
    records: list[PassRecord] = field(default_factory=list[PassRecord])
    _seen: int = 0

    def __call__(self, module: HloModule) -> None:
        if self.forms and module is self.forms[-1].module:
            return
        by_pass = len(self.records) > self._seen
        step = self.records[-1].name if by_pass else _EXPANSION
        self._seen = len(self.records)
        self.forms.append(Form(step if self.forms else "", module))


def forms_of(module: HloModule, target: CompileTarget, options: CompileOptions) -> tuple[Form, ...]:
    """The program as given, and after each step that changed it.

    The last step is the forming of kernels, if the platform leaves that to the SDK.

    Raises:
        XladevError: a step failed.
    """
    watch = _Watch([Form("", module)])
    last = prepare(module, target, options, Instrumentation(watch, None, watch.records))
    if last is not watch.forms[-1].module:
        watch(last)
    pipeline = target.compiler.pipeline(options)
    if pipeline is not None:
        around = Instrumentation(watch, None, watch.records)
        last = pipeline.run_instrumented(last, around)
    forms = watch.forms
    if isinstance(target.compiler, KernelCompiler):
        plain = without_fusions(with_row_major_layouts(last))
        kernels = target.compiler.form_kernels(plain) if options.fusion else plain
        forms.append(Form(KERNELS, kernels))
    return tuple(forms)
