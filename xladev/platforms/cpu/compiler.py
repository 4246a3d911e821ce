"""The CPU's compiler: kernels by the shared emitters, linked into one native entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

from xladev import instrument
from xladev.codegen.attention import Attention
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import ModuleBuilder
from xladev.codegen.reductions import reduction_of
from xladev.compiler.contract import ExportedObject
from xladev.compiler.cost import loop_iterations
from xladev.compiler.description import DeviceDescription, MemorySpace
from xladev.compiler.executable import Executable
from xladev.compiler.fusion.attention_fusion import AttentionFusion
from xladev.compiler.fusion.constant_kernels import ConstantKernels
from xladev.compiler.fusion.fusion_pipeline import fusion_passes
from xladev.compiler.fusion.multi_output_fusion import loop_space
from xladev.compiler.kernel_code import KernelCode
from xladev.compiler.kernel_compiler import KernelCompiler
from xladev.compiler.options import CompileOptions, PlatformOption
from xladev.compiler.partition.assignment import CompileTarget
from xladev.compiler.partition.expansion import ExpandRejected
from xladev.compiler.plan.kernel_plan import KernelPlan
from xladev.compiler.plan.operations import pack_operations
from xladev.compiler.signature import Signature
from xladev.compiler.streams.forks import ForkSpread
from xladev.compiler.support import YES, Support, no
from xladev.errors import UnsupportedError
from xladev.hlo.in_threads import processors
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.passes.algebraic_simplifier import AlgebraicSimplifier
from xladev.passes.complex_dot_rewriter import ComplexDotRewriter
from xladev.passes.cse import CommonSubexpressionElimination
from xladev.passes.dce import DeadCodeElimination
from xladev.passes.dilated_convolutions import DilatedConvolutions
from xladev.passes.dot_canonicalizer import DotCanonicalizer
from xladev.passes.dot_strength_reduction import DotStrengthReduction
from xladev.passes.pass_ import HloModulePass
from xladev.passes.pipeline import HloPassPipeline
from xladev.passes.reduce_window_rewriter import ReduceWindowRewriter
from xladev.passes.while_transpose_sinking import WhileTransposeSinking
from xladev.platforms.cpu.ahead import compile_ahead, entry_symbol
from xladev.platforms.cpu.bytecode import KERNELS
from xladev.platforms.cpu.bytecode_writer import bytecode_of
from xladev.platforms.cpu.codegen.attention import attention_refusal
from xladev.platforms.cpu.codegen.exchange import is_number
from xladev.platforms.cpu.codegen.lapack.choice import tell_lapack
from xladev.platforms.cpu.codegen.products.dot import is_fast_as_it_is
from xladev.platforms.cpu.codegen.products.few_rows import is_fast_along_memory
from xladev.platforms.cpu.codegen.products.row_sums import is_faster_reduced
from xladev.platforms.cpu.codegen.scan import is_scan
from xladev.platforms.cpu.codegen.sharing import PARALLEL
from xladev.platforms.cpu.codegen.table import workspace_nbytes
from xladev.platforms.cpu.codegen.tactics import DEFAULT, Tactic
from xladev.platforms.cpu.constant_panels import ConstantPanels
from xladev.platforms.cpu.convolution_epilogues import ConvolutionEpilogues
from xladev.platforms.cpu.engine import (
    ENTRY,
    compile_module,
    host_cpu,
    host_target,
    target_name,
    target_traits,
)
from xladev.platforms.cpu.fork import FORK, kernel_s
from xladev.platforms.cpu.fourier_fusion import FourierFusion
from xladev.platforms.cpu.interruption import POLL
from xladev.platforms.cpu.lapack.found import lapack_identity
from xladev.platforms.cpu.lapack.option import LAPACK_AUTO, LAPACK_DOC, wants_lapack
from xladev.platforms.cpu.lapack.routines import LIBRARY_PREFIX
from xladev.platforms.cpu.layouts.channels_last import ChannelsLast
from xladev.platforms.cpu.library import LIBRARY
from xladev.platforms.cpu.linker import add_entry, add_exchanges, kernels_module, program_module
from xladev.platforms.cpu.moved_constants import MovedConstants
from xladev.platforms.cpu.optimization_levels import has_loops, kernels_worth_passes, light_kernels
from xladev.platforms.cpu.payload import CpuPayload
from xladev.platforms.cpu.pool import threads_wanted
from xladev.platforms.cpu.rates import with_rates
from xladev.platforms.cpu.support import cpu_supports
from xladev.platforms.cpu.targets import CpuTarget, target_of
from xladev.platforms.cpu.trials import trial_plan, trial_signature
from xladev.platforms.cpu.tuning import (
    AUTOTUNE_DOC,
    OFF,
    Choose,
    Chooser,
    Mode,
    table_digest,
    tuning_mode,
)
from xladev.platforms.cpu.weight_fusion import WeightFusion
from xladev.runtime.distributed.job import current_job

LEAST_REUSE = 4
"""Transposing an operand of a matrix product pays if the product uses each element so often."""

LEAST_COMPLEX_PRODUCTS = 4096
"""Products of complex numbers below which loops over them are as fast as products of real ones."""

LEAST_COMPLEX_ROW = 8
"""Elements of a row below which its sum with a vector is as fast in complex numbers."""

LEAST_COPIED_NBYTES = 1 << 16
"""Writing and reading fewer bytes costs no more than another step in each kernel."""

_PIPELINE = HloPassPipeline(
    "cpu",
    (
        WhileTransposeSinking(is_fast_along_memory),
        ComplexDotRewriter(LEAST_COMPLEX_PRODUCTS, LEAST_COMPLEX_ROW),
        DotStrengthReduction(is_faster_reduced),
        DotCanonicalizer(LEAST_REUSE, either_order=True, spares=is_fast_as_it_is),
        ReduceWindowRewriter(spares=is_scan),
        AlgebraicSimplifier(),
        CommonSubexpressionElimination(),
        DeadCodeElimination(),
    ),
)


def _takes_attention(found: Attention) -> Support:
    reason = attention_refusal(found)
    return no(reason) if reason else YES


_ATTENTION = AttentionFusion(_takes_attention)


@dataclass(frozen=True, slots=True)
class CpuKernelCode(KernelCode):
    """A kernel whose code `link` writes, so that ``code`` is empty.

    Attributes:
        tactic: how it is computed.
    """

    tactic: Tactic = DEFAULT


class CpuCompiler(KernelCompiler):
    """Compiles for the processor of this machine, or for another one that the options name.

    Args:
        choose: says how kernels are computed; without it, the options say who does.
        has_lapack: whether it may call LAPACK, where this process has it.
    """

    def __init__(self, choose: Choose | None = None, *, has_lapack: bool = True) -> None:
        self._choose = choose
        self._has_lapack = has_lapack

    @property
    def platform(self) -> str:
        """``cpu``."""
        return "cpu"

    def describe(self, target: str | None = None) -> DeviceDescription:
        """This machine, or the one that a target of `targets` names.

        Raises:
            OptionError: an unknown target.
        """
        return _description(_target(target))

    def with_rates(self, description: DeviceDescription) -> DeviceDescription:
        """Rates measured on this machine, or given by variables: `xladev/platforms/cpu/rates.py`.

        Raises:
            OptionError: a variable is no positive number.
        """
        return with_rates(description)

    def version(self) -> str:
        """Processor features, threads, and whether devices may be in other processes.

        All change the code.
        """
        threads = "alone" if threads_wanted() == 1 else "threads"
        return ":".join([*host_cpu(), threads, *(["job"] if current_job() else [])])

    def platform_options(self) -> tuple[PlatformOption, ...]:
        """How kernels are chosen: `xladev/platforms/cpu/tuning.py`."""
        return (
            PlatformOption("autotune", OFF, AUTOTUNE_DOC),
            PlatformOption("lapack", LAPACK_AUTO, LAPACK_DOC),
        )

    def cache_state(self, options: CompileOptions) -> str:
        """LAPACK, and the table of what was measured, each if the options ask for it."""
        lapack = lapack_identity() if wants_lapack(options) else ""
        table = "" if _mode(options) is Mode.OFF else table_digest(options)
        return "; ".join(filter(None, (lapack, table)))

    def compile(self, module: HloModule, options: CompileOptions) -> Executable:
        """As ever, with one state of the table of what was measured.

        Raises:
            CompileError: with the kernel at fault as its place.
            OptionError: an unknown mode.
        """
        mode = _mode(options)
        tell_lapack(module)
        if self._choose is not None or mode is Mode.OFF:
            return super().compile(module, options)
        return CpuCompiler(Chooser(mode, options, compile_trial).choose).compile(module, options)

    def supports(self, instruction: HloInstruction, description: DeviceDescription) -> Support:
        """Whatever the tables of emitters have code for."""
        is_here = description.target == target_name()
        has_peers = is_here and current_job() is None  # others' memory is out of reach
        return cpu_supports(instruction, self._has_lapack and is_here, has_peers=has_peers)

    def pipeline(self, options: CompileOptions) -> HloPassPipeline | None:
        """Matrix products in the one form that is fast here, accumulations in linear time.

        Measured: a product of two transposed 512x512 matrices takes 40 times as long as it is; a
        cumulative sum over 2,048 elements, 1,800 times.
        """
        passes: tuple[HloModulePass, ...] = ()
        if options.optimization_level:
            traits = _target(options.target).traits
            passes = (DilatedConvolutions(), ChannelsLast(traits), *_PIPELINE.passes)
        if not wants_lapack(options) and _target(options.target).is_host:
            passes = (_without_lapack(), *passes)
        return HloPassPipeline("cpu", passes) if passes else None

    def fusion_pipeline(self, options: CompileOptions) -> HloPassPipeline:
        """Attention first: its parts are kernels of other kinds too.

        Rows that were reduced are still in the L1 cache, and values of `LEAST_COPIED_NBYTES`
        would not stay there. At the end, kernels that read nothing become constants, and constants
        that products would pack in each run are packed for the target; others that are moved are
        moved once. Convolutions then go on with the loops that alone read them.
        """
        packs, traits = options.optimization_level > 0, _target(options.target).traits
        packing = ConstantKernels(), ConstantPanels(traits), MovedConstants()
        last = *packing, ConvolutionEpilogues(traits)
        return fusion_passes(
            self,
            rows=True,
            copied_from_nbytes=LEAST_COPIED_NBYTES,
            first=(_ATTENTION, FourierFusion(), WeightFusion()),
            last=last if packs else (),
        )

    def can_fuse(self, producer: HloInstruction, consumer: HloInstruction) -> Support:
        """Whatever the general rule allows."""
        return YES

    def can_share_kernel(self, first: HloInstruction, second: HloInstruction) -> Support:
        """Reduces together, with the loops that go their way where they are reduced in vectors.

        Loops together if what they share does not stay in the cache. A loop that also reduces
        single elements is in no vectors, and costs more than the trip to memory that it saves.
        """
        if first.shape.size == 1 and second.shape.size == 1:
            return YES
        spaces = loop_space(first), loop_space(second)
        reducing = {space.reduced is not None for space in spaces if space is not None}
        if reducing == {True}:
            return YES
        if reducing == {True, False}:
            reduced = all(map(_is_reduced_in_vectors, (first, second)))
            return YES if reduced else no("a loop that reduces single elements is in no vectors")
        if max(first.shape.nbytes, second.shape.nbytes) < self.describe().cache_nbytes:
            return no("what they share stays in the cache")
        return YES

    def export(self, executable: Executable, format: str) -> ExportedObject:
        """The relocatable object file of a program that was compiled for a target by its name.

        Its entry is `entry_symbol` of the program's name, and the only symbol that others see.

        Raises:
            UnsupportedError: another format than ``object``, or code that this process must load.
        """
        if format != "object":
            return super().export(executable, format)
        name, target = executable.signature.name, executable.signature.target
        if target == target_name():
            raise UnsupportedError(
                f"the code of {name} is for this process alone",
                where=f"executable {name}",
                why="its constants and microkernels are kept beside it, to be shared",
                hint='compile it with CompileOptions(target="x86_64-linux-gnu") or another triple',
            )
        payload = CpuPayload.from_bytes(executable.payload)
        return ExportedObject(payload.codes[0], entry_symbol(name))

    def forks(self, module: HloModule, options: CompileOptions) -> ForkSpread | None:
        """Loops at once on the threads of this machine, unless several devices share those."""
        wanted = options.threads or threads_wanted()
        devices = options.num_replicas * options.num_partitions
        if wanted == 1 or devices > 1 or not _target(options.target).is_host:
            return None
        loops = (i for c in module.computations for i in c.instructions if i.opcode == "while")
        if len(list(islice(loops, 2))) < 2:
            return None
        return ForkSpread(wanted, kernel_s, loop_iterations(module))

    def lower(self, spec: KernelSpec, options: CompileOptions) -> CpuKernelCode:
        """The tactic, and the workspace that the kernel then wants; `link` writes the code."""
        tactic = DEFAULT if self._choose is None else self._choose(spec)
        nbytes = workspace_nbytes(spec, tactic)
        return CpuKernelCode(spec.name, b"", workspace_nbytes=nbytes, tactic=tactic)

    def link(
        self,
        plan: KernelPlan,
        codes: Sequence[KernelCode],
        signature: Signature,
        options: CompileOptions,
    ) -> Executable:
        """One object file with all kernels and the entry, and the microkernels that they share.

        For another target, one that holds all it needs: see `export`.
        """
        target = _target(options.target)
        if not target.is_host:
            return _linked_ahead(plan, signature, options, target)
        level = options.optimization_level
        known = {} if instrument.dumping() else LIBRARY.known(target_traits(), level)
        alone = options.threads == 1 or (options.threads is None and threads_wanted() == 1)
        with instrument.trace_scope("emission", "codegen"):
            threads = None if alone else options.threads or 0
            tactics = [c.tactic if isinstance(c, CpuKernelCode) else DEFAULT for c in codes]
            module = kernels_module(plan, threads, known, tactics=tactics)
            devices = options.num_replicas, options.num_partitions
            exchange, light_exchanges = add_exchanges(module, plan, devices, threads)
            light = [*light_kernels(module, plan), *light_exchanges]
            wants_context = exchange is not None or any(map(is_number, plan.kernels))
            bytecode = () if wants_context else _bytecode(plan, module, light, level)
        is_shared = exchange is not None
        files = bytecode or _object_files(
            plan, module, light, level, threads=threads or 0, is_shared=is_shared
        )
        microkernels = LIBRARY.microkernels_of(module, level)
        is_parallel, has_loops, has_forks = map(module.declares, (PARALLEL, POLL, FORK))
        operations = pack_operations(plan)
        library = module.declared(LIBRARY_PREFIX)
        payload = CpuPayload(
            codes=files,
            is_parallel=is_parallel,
            microkernels=microkernels,
            operations=operations,
            has_loops=has_loops,
            library=library,
            exchange=exchange,
            has_forks=has_forks,
        )
        constants = tuple(literal.view() for literal in plan.constants)
        return Executable(signature, payload.to_bytes(), constants)


def _bytecode(
    plan: KernelPlan, module: ModuleBuilder, light: Sequence[str], level: int
) -> tuple[bytes, ...]:
    """Bytecode and the object files of what it calls; empty where code is looked at."""
    if not level or instrument.dumping() or has_loops(plan):
        return ()
    found = bytecode_of(plan, module, set(light))
    if found is None:
        return ()
    bytecode, kernels = found
    if not kernels:
        return (bytecode.to_bytes(),)
    module.function_array(KERNELS, kernels)
    optimized = [name for name in kernels_worth_passes(module, plan) if name in kernels]
    least = [name for name in light if name in kernels]
    return (
        bytecode.to_bytes(),
        *compile_module(plan.name, module, optimized, level, least, kernels),
    )


def _object_files(
    plan: KernelPlan,
    module: ModuleBuilder,
    light: Sequence[str],
    level: int,
    *,
    threads: int,
    is_shared: bool,
) -> tuple[bytes, ...]:
    """The object files of kernels and entry."""
    add_entry(module, plan, threads=threads, is_shared=is_shared)
    instrument.dump(plan.name, "ll", lambda: str(module))
    optimized = [name for name in kernels_worth_passes(module, plan) if name not in set(light)]
    least = light if has_loops(plan) else [*light, ENTRY]
    return compile_module(plan.name, module, optimized, level, least)


def _without_lapack() -> ExpandRejected:
    """Expands what LAPACK would compute."""
    compiler = CpuCompiler(has_lapack=False)
    return ExpandRejected(CompileTarget(compiler.platform, compiler, compiler.describe()))


def _mode(options: CompileOptions) -> Mode:
    """Off for other machines, on which nothing can be measured."""
    mode = tuning_mode(options)
    return mode if _target(options.target).is_host else Mode.OFF


def compile_trial(spec: KernelSpec, tactic: Tactic, options: CompileOptions) -> Executable:
    """The program of one kernel alone, computed in one way."""
    compiler = CpuCompiler(lambda spec: tactic)
    code = compiler.lower(spec, options)
    plan = trial_plan(spec, code.workspace_nbytes)
    signature = trial_signature(spec, code.workspace_nbytes, target_name())
    return compiler.link(plan, (code,), signature, options)


def _target(text: str | None) -> CpuTarget:
    """The target of an option; without one, this machine."""
    return host_target() if text in (None, "", target_name()) else target_of(text)


@cache
def _description(target: CpuTarget) -> DeviceDescription:
    return DeviceDescription(
        name=target.cpu,
        kind="cpu",
        target=target.name,
        memory_spaces=(MemorySpace("host", host_addressable=True),),
        cores=processors() if target.is_host else 1,
        vector_nbytes=target.traits.vector_nbytes,
        dlpack_device_type=1,
    )


def _linked_ahead(
    plan: KernelPlan, signature: Signature, options: CompileOptions, target: CpuTarget
) -> Executable:
    entry = entry_symbol(signature.name)
    threads = options.threads if (options.threads or 1) > 1 else None
    if threads and target.architecture == "wasm32":
        raise UnsupportedError(
            f"code for {target.name} with {threads} threads",
            where=f"module {signature.name}",
            why="WebAssembly has no threads of its own",
            hint="leave `threads` unset",
        )
    with instrument.trace_scope("emission", "codegen"):
        module = program_module(plan, threads, target=target.traits, exported=entry)
    instrument.dump(plan.name, "ll", lambda: str(module))
    code = compile_ahead(plan, module, entry, target, options.optimization_level)
    return Executable(signature, CpuPayload((code,)).to_bytes())


def _is_reduced_in_vectors(kernel: HloInstruction) -> bool:
    """False for a reduction whose elements are reduced one by one."""
    root = kernel["calls"].root if kernel.opcode == "fusion" else kernel
    return root.opcode != "reduce" or reduction_of(root) is not None
