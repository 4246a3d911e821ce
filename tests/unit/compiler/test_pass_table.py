"""Every step that rewrites HLO is a registered pass, and is run, checked and recorded as one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import xladev
from tests.tools.profiled_calls import calls
from tests.unit.compiler.evaluating_backend import EvaluatingCompiler
from tests.unit.compiler.sample_programs import CROSSING, LOOP_AND_BRANCH
from xladev.client import host_targets
from xladev.compiler.buffers.buffer_assignment import assign_buffers
from xladev.compiler.compile import compile_module, compile_recorded
from xladev.compiler.contract import Compiler
from xladev.compiler.fusion.fusion_pipeline import fusion_passes
from xladev.compiler.kernel_compiler import KernelCompiler
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import CompileTarget
from xladev.compiler.partition.partition import cut
from xladev.compiler.partition.region_module import region_module
from xladev.compiler.pass_table import SDK_PASSES, listed_passes, passes_of
from xladev.compiler.plan.kernel_plan import KernelPlan
from xladev.compiler.plan.memory_plan import plan_memory
from xladev.compiler.prepare import prepare
from xladev.errors import VerifyError
from xladev.hlo.ir import HloModule
from xladev.hlo.names import with_unique_names
from xladev.hlo.rebuild import rebuild
from xladev.hlo.shape import Shape
from xladev.hlo.text import parse_module
from xladev.passes.pass_ import HloModulePass
from xladev.passes.pipeline import HloPassPipeline, Instrumentation, instrumented
from xladev.runtime.registry import current_registry

PACKAGE = Path(xladev.__file__).parent
SIMPLE = """HloModule simple
ENTRY e {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  d = f32[8] subtract(x, y)
  ROOT r = f32[8] tanh(d)
}
"""


# A pass of a vendor's


@dataclass(frozen=True, slots=True)
class WrongShape(HloModulePass):
    """A wrong pass: its result is no HLO."""

    name = "wrong-shape"

    def run(self, module: HloModule) -> HloModule:
        root = module.entry.root
        dims = tuple(d + 1 for d in root.shape.dims)
        wrong = replace(root, shape=Shape(root.shape.element_type, dims))
        return replace(module, entry=rebuild(module.entry, {root: wrong}))


class Vendor(EvaluatingCompiler):
    """A backend with a pass of its own in the pipeline that is named."""

    def __init__(self, wrong: str = "", each: HloModulePass | None = None) -> None:
        self._wrong, self._pass = wrong, each or WrongShape()

    def pipeline(self, options: CompileOptions) -> HloPassPipeline | None:
        return HloPassPipeline("vendor", (self._pass,)) if self._wrong == "pipeline" else None

    def fusion_pipeline(self, options: CompileOptions) -> HloPassPipeline:
        first = (self._pass,) if self._wrong == "fusion_pipeline" else ()
        return fusion_passes(self, first=first)


def target_of(compiler: Compiler) -> CompileTarget:
    return CompileTarget("vendor", compiler, compiler.describe())


@pytest.mark.parametrize("where", ["pipeline", "fusion_pipeline"])
def test_a_wrong_pass_of_a_vendor_is_caught(where: str) -> None:
    options = CompileOptions(verify_passes=True)
    with pytest.raises(VerifyError, match="after pass wrong-shape"):
        compile_module(parse_module(SIMPLE), target_of(Vendor(where)), options)


def test_without_verification_nobody_looks() -> None:
    """Else the test above could be about the check that every compilation makes."""
    record = compile_recorded(
        parse_module(SIMPLE), target_of(Vendor("fusion_pipeline")), CompileOptions()
    )
    assert "kernels/wrong-shape" in {r.name for r in record.passes if r.changed}


def test_passes_of_a_vendor_are_dumped(tmp_path: Path) -> None:
    options = CompileOptions(dump_to=str(tmp_path))
    compile_module(parse_module(SIMPLE), target_of(Vendor("fusion_pipeline")), options)
    names = {path.name.partition(".")[2] for path in tmp_path.glob("*.hlo")}
    assert {"simple.before_wrong-shape.hlo", "simple.after_wrong-shape.hlo"} <= names
    assert "simple.after_fusion.hlo" in names


def test_passes_are_recorded_with_their_pipelines() -> None:
    target = current_registry().platform("cpu").compile_target(None)
    record = compile_recorded(parse_module(LOOP_AND_BRANCH), target, CompileOptions())
    names = [r.name for r in record.passes]
    assert {"default/simplify/cse", "plain/layout-normalization"} <= set(names)
    assert {"kernels/own-values/fusion", "memory/schedule"} <= set(names)
    assert names.index("default/simplify/cse") < names.index("cpu/dce")
    assert names.index("cpu/dce") < names.index("kernels/own-values/fusion")
    assert all(r.seconds >= 0 and r.before > 0 for r in record.passes)


def test_records_are_those_of_one_compilation() -> None:
    target = target_of(Vendor())
    with instrumented(Instrumentation()):
        first, second = (
            compile_recorded(parse_module(SIMPLE), target, CompileOptions()) for _ in range(2)
        )
    assert [r.name for r in first.passes] == [r.name for r in second.passes]


# A backend as it was written before there was fusion_pipeline


class OfOldTimes(EvaluatingCompiler):
    """Answers, and methods that change modules."""

    def __init__(self) -> None:
        self.called: list[str] = []

    @property
    def epilogues(self) -> frozenset[str]:
        return frozenset({"dot"})

    @property
    def copied_from_nbytes(self) -> int:
        return 1

    @property
    def has_row_kernels(self) -> bool:
        return True

    def form_kernels(self, module: HloModule) -> HloModule:
        self.called.append("form_kernels")
        return super().form_kernels(module)

    def arrange(self, module: HloModule, options: CompileOptions) -> HloModule:
        self.called.append(f"arrange at level {options.optimization_level}")
        return super().arrange(module, options)


def test_what_old_backends_override_is_still_asked() -> None:
    compiler = OfOldTimes()
    options = CompileOptions(optimization_level=1)
    record = compile_recorded(parse_module(SIMPLE), target_of(compiler), options)
    assert compiler.called == ["form_kernels", "arrange at level 1"]
    names = [r.name for r in record.passes]
    assert names.index("kernels/form-kernels") < names.index("kernels/arrange")
    formed = compiler.form_kernels(parse_module(SIMPLE))
    assert [i.opcode for i in formed.entry.instructions] == ["parameter", "parameter", "fusion"]


def test_answers_of_old_backends_become_options_of_passes() -> None:
    class Answers(OfOldTimes):
        form_kernels = KernelCompiler.form_kernels

    passes = {each.name: each for each in Answers().fusion_pipeline(CompileOptions()).flat()}
    assert {"broadcast-duplication", "row-fusion", "fusion", "multi-output-fusion", "cse"} <= set(
        passes
    )
    fusion: Any = passes["fusion"]
    assert fusion.epilogues == {"dot"} and fusion.copied_from_nbytes == 1
    plain = {each.name for each in EvaluatingCompiler().fusion_pipeline(CompileOptions()).flat()}
    assert plain == {"fusion", "multi-output-fusion"}


# No step goes around the passes


@dataclass
class Chain:
    """Modules that may be read: those given, cut out of others, and made by registered passes."""

    listed: set[str]
    breaks: list[str] = field(default_factory=list[str])
    ran: set[str] = field(default_factory=set[str])
    _known: list[HloModule] = field(default_factory=list[HloModule])

    def add(self, module: HloModule) -> None:
        self._known.append(module)

    def read(self, module: HloModule, by: str) -> None:
        if not any(module is known for known in self._known):
            self.breaks.append(by)

    def watch(self, name: str, before: HloModule, after: HloModule) -> None:
        self.read(before, name)
        self.add(after)
        self.ran.add(name)
        if name not in self.listed:
            self.breaks.append(f"{name} is no registered pass")


def spied(function: Callable[..., Any], by: str, chain: Chain, at: int = 0) -> Callable[..., Any]:
    """The function, which reads the module at a position of its arguments."""

    def called(*args: Any, **kwargs: Any) -> Any:
        chain.read(args[at], by)
        return function(*args, **kwargs)

    return called


def compile_chained(
    text: str, platform: str, options: CompileOptions, patch: pytest.MonkeyPatch
) -> Chain:
    """Compiles a program, and says where a module was read that no pass has made."""
    registry = current_registry()
    named = registry.platform(platform)
    target = named.compile_target(None)
    hosts = partial(host_targets, registry, named)
    listed = [p for t in (target, *hosts()) for p in listed_passes(t, options)]
    chain = Chain({f"{p.within}/{p.found.name}" for p in listed})

    def cut_out(*args: Any, **kwargs: Any) -> Any:
        made = region_module(*args, **kwargs)
        chain.add(made.module)
        return made

    patch.setattr("xladev.compiler.program.procedure_builder.region_module", cut_out)
    patch.setattr("xladev.compiler.program.program_builder.cut", spied(cut, "cut", chain))
    assigned = spied(assign_buffers, "assign_buffers", chain)
    patch.setattr("xladev.compiler.plan.memory_plan.assign_buffers", assigned)
    compiled = spied(KernelCompiler.compile, "compile", chain, at=1)
    patch.setattr(KernelCompiler, "compile", compiled)
    module = parse_module(text)
    chain.add(module)
    with instrumented(Instrumentation(watch=chain.watch)):
        compile_module(module, target, options, hosts)
    return chain


TEXTS = {"loop": LOOP_AND_BRANCH, "crossing": CROSSING, "simple": SIMPLE}
OPTIONS = {
    "default": CompileOptions(),
    "level 0": CompileOptions(optimization_level=0),
    "little memory": CompileOptions(memory_limit=1),
    "unfused": CompileOptions(fusion=False),
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("platform", ["cpu", "template_npu", "interpreter"])
def test_each_pass_reads_what_another_left(
    platform: str, text: str, options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = compile_chained(TEXTS[text], platform, OPTIONS[options], monkeypatch)
    assert chain.breaks == []
    assert platform == "interpreter" or "plain/layout-normalization" in chain.ran


def _renamed(module: HloModule) -> HloModule:
    """A rewriting step that is no pass."""
    root = module.entry.root
    renamed = rebuild(module.entry, {root: replace(root, name="renamed")})
    return with_unique_names(replace(module, entry=renamed))


def _before_planning(patch: pytest.MonkeyPatch) -> None:
    def plan(module: HloModule, *args: Any, **kwargs: Any) -> KernelPlan:
        return plan_memory(_renamed(module), *args, **kwargs)

    patch.setattr("xladev.compiler.kernel_compiler.plan_memory", plan)


def _before_kernels(patch: pytest.MonkeyPatch) -> None:
    run = KernelCompiler.compile
    patch.setattr(KernelCompiler, "compile", lambda s, module, o: run(s, _renamed(module), o))


def _after_preparation(patch: pytest.MonkeyPatch) -> None:
    path = "xladev.compiler.compile.prepare"
    patch.setattr(path, lambda *args: _renamed(prepare(*args)))


def _unwatched_schedule(patch: pytest.MonkeyPatch) -> None:
    def step(each: HloModulePass, module: HloModule, pipeline: str) -> HloModule:
        return _renamed(each.run(module))

    patch.setattr("xladev.compiler.plan.memory_plan.run_pass", step)


PLANTED = [_before_planning, _before_kernels, _after_preparation, _unwatched_schedule]


@pytest.mark.parametrize("plant", PLANTED)
def test_a_step_that_is_no_pass_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    options = CompileOptions(memory_limit=1)
    assert compile_chained(LOOP_AND_BRANCH, "cpu", options, monkeypatch).breaks != []


def rewriting_files() -> Iterator[Path]:
    """Files of compiler and platforms that use what rewrites modules are written with."""
    for folder in ("compiler", "platforms"):
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            names = {
                alias.name
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.ImportFrom) and node.module == "xladev.hlo.rebuild"
                for alias in node.names
            }
            if names & {"map_computations", "rebuild"}:
                yield path


def test_files_that_rewrite_modules_have_registered_passes() -> None:
    platforms = [current_registry().platform(n) for n in ("cpu", "template_npu", "interpreter")]
    tables = [passes_of(p.compile_target(None), CompileOptions()) for p in platforms]
    names = {type(each).__module__ for table in (SDK_PASSES, *tables) for each in table.values()}
    for path in rewriting_files():
        if "cuda" not in path.parts:
            module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
            assert module in names, f"{module} rewrites HLO, and no pass of it is registered"


# What it costs


@dataclass(frozen=True, slots=True)
class Nothing(HloModulePass):
    """Changes nothing."""

    name = "nothing"

    def run(self, module: HloModule) -> HloModule:
        return module


def test_the_runner_does_little_per_pass() -> None:
    """At most 60 calls of functions for each pass, its own among them."""
    module = parse_module(LOOP_AND_BRANCH)
    count = 200
    pipeline = HloPassPipeline("p", (Nothing(),) * count)
    assert calls(lambda: pipeline.run(module)) < 60 * count
