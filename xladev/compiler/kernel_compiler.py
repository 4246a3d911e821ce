"""KernelCompiler: the base of backends that write kernels and leave the program to the SDK.

The SDK forms kernels, has each lowered once, and assigns buffers. A backend writes
`lower_<family>` per kind of kernel, or overrides `link` to make one native entry of a whole plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from xladev import instrument
from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.buffers.arena import arena_alignment
from xladev.compiler.compile_record import note_plan
from xladev.compiler.contract import Compiler
from xladev.compiler.description import DeviceDescription
from xladev.compiler.executable import Executable
from xladev.compiler.fusion.fusion_pipeline import CompilerMethod, fusion_passes, plugin_name
from xladev.compiler.fusion.instruction_fusion import Defuser
from xladev.compiler.fusion.multi_output_fusion import MultiOutputFusion
from xladev.compiler.isolation import expect, plugin_call
from xladev.compiler.kernel_code import KernelCode
from xladev.compiler.options import CompileOptions
from xladev.compiler.plan.kernel_plan import KernelPlan
from xladev.compiler.plan.kernel_table import ProgramKernels
from xladev.compiler.plan.layout import LayoutNormalization
from xladev.compiler.plan.memory_plan import plan_memory
from xladev.compiler.plan.plan_file import plan_executable
from xladev.compiler.signature import Alias, Signature
from xladev.compiler.streams.forks import ForkSpread
from xladev.compiler.streams.stream_choice import StreamSpread
from xladev.errors import UnsupportedError
from xladev.hlo.dot import module_to_dot
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.shape import flattened_indices, flattened_shapes
from xladev.hlo.text import print_module
from xladev.passes.pipeline import HloPassPipeline

FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        "dot": "dot", "ragged-dot": "dot", "scaled-dot": "dot", "convolution": "convolution",
        "reduce": "reduce", "reduce-window": "window", "select-and-scatter": "window",
        "scatter": "scatter", "dynamic-update-slice": "scatter", "gather": "gather",
        "dynamic-slice": "gather", "sort": "sort", "topk": "sort", "scan": "scan",
        "cholesky": "linear_algebra", "triangular-solve": "linear_algebra",
        "fft": "linear_algebra", "rng-bit-generator": "random",
    }
)  # fmt: skip
"""Family of a kernel by the opcode that it is built around; all others are ``loop``."""

PLAIN = HloPassPipeline("plain", (LayoutNormalization(), Defuser()))
"""What comes before kernels are formed."""

COPY_STEP = "copy"
"""What decisions on copies within the memory of a plan are about."""


class KernelCompiler(Compiler):
    """Compiles by kernels: write `lower_<family>` for the families you have.

    A family's function is called as ``lower_<family>(spec, options)`` and returns a `KernelCode`,
    with the size of the workspace that the kernel wants, if any. It is called once for each kernel
    that differs from others (in what it computes, or in which results overwrite operands), before
    memory is planned, and sometimes for one that the program then does without.
    """

    def compile(self, module: HloModule, options: CompileOptions) -> Executable:
        """Forms kernels, lowers and orders them, assigns buffers, and links.

        Raises:
            CompileError: with the kernel at fault as its place.
        """
        module = PLAIN.run(module)
        forming = self.fusion_pipeline(options) if options.fusion else None
        fused = module if forming is None else forming.run(module)
        instrument.dump(f"{module.name}.fused", "hlo", lambda: print_module(fused))
        instrument.dump(f"{module.name}.fused", "dot", lambda: module_to_dot(fused))
        kernels = ProgramKernels(lambda spec: self.lower(spec, options))
        apart = None if forming is None else forming.without(MultiOutputFusion)
        plan = self._plan(module, fused, kernels, options, apart)
        instrument.dump(f"{module.name}.buffers", "txt", lambda: f"{plan}\n")
        for copy in plan.copies:
            instrument.decision(COPY_STEP, copy.name, f"{copy.nbytes:,} bytes: {copy.why}")
        note_plan(plan)
        codes = tuple(map(kernels.code, plan.kernels))
        return self.link(plan, codes, self.signature(module, plan, options), options)

    def _plan(
        self,
        module: HloModule,
        fused: HloModule,
        kernels: ProgramKernels,
        options: CompileOptions,
        apart: HloPassPipeline | None,
    ) -> KernelPlan:
        device = self.describe(options.target)
        space = device.memory_space(0)
        limit = space.nbytes if options.memory_limit is None else options.memory_limit
        return plan_memory(
            fused,
            kernels,
            honoured_aliases(fused),
            schedule=options.schedule,
            limit_nbytes=limit,
            spread=spread_of(options, device) or self.forks(module, options),
            apart=None if apart is None else partial(apart.run, module),
            alignment=arena_alignment(space),
        )

    def forks(self, module: HloModule, options: CompileOptions) -> ForkSpread | None:
        """How independent loops of a program run at once (`Fork`); None: one after the other.

        For a backend whose `link` runs the parts of a fork in several threads of the host. The
        SDK's own run of a plan takes them in order.

        Args:
            module: the program before kernels were formed.
            options: of the compilation.
        """
        return None

    def fusion_pipeline(self, options: CompileOptions) -> HloPassPipeline:
        """The passes that form kernels: `fusion` instructions of what one kernel computes.

        By default those of the SDK, by the answers of `can_fuse`, `can_share_kernel`, `epilogues`,
        `copied_from_nbytes` and `has_row_kernels`. A backend with passes of its own puts them
        around those (`compiler.fusion_pipeline.fusion_passes`). They run on a module of row-major
        arrays without fusions, unless the option ``fusion`` is false; and once more without passes
        derived from `MultiOutputFusion` where memory is short: kernels of one result can run again.
        """
        if _overrides(self, "form_kernels"):
            passes = HloPassPipeline(
                "kernels", (CompilerMethod("form-kernels", self.form_kernels),)
            )
        else:
            passes = self._by_answers()
        if not _overrides(self, "arrange"):
            return passes
        arrange = CompilerMethod("arrange", partial(self.arrange, options=options))
        return replace(passes, passes=(*passes.passes, arrange))

    def _by_answers(self) -> HloPassPipeline:
        return fusion_passes(
            self,
            epilogues=self.epilogues,
            rows=self.has_row_kernels,
            copied_from_nbytes=self.copied_from_nbytes,
        )

    def form_kernels(self, module: HloModule) -> HloModule:
        """What `fusion_pipeline` makes of a module; as it was called before that was there."""
        if _overrides(self, "form_kernels"):
            return self._by_answers().run(module)
        return self.fusion_pipeline(CompileOptions()).run(module)

    def arrange(self, module: HloModule, options: CompileOptions) -> HloModule:
        """The module, its kernels formed, with values as they should be in memory.

        As it was written before there was `fusion_pipeline`, whose last pass does the same: kernels
        of a constant may be given another constant, and their computations then say how the two go
        together. By default all stays row-major.
        """
        return module

    def signature(self, module: HloModule, plan: KernelPlan, options: CompileOptions) -> Signature:
        """The outside of the executable that `link` makes."""
        layout = module.entry_layout
        return Signature(
            name=module.name,
            platform=self.platform,
            target=self.describe(options.target).target,
            parameters=layout.parameters,
            result=layout.result,
            aliases=tuple(Alias(r, p) for r, p in plan.aliases),
            scratch_nbytes=plan.scratch_nbytes,
        )

    @property
    def platform(self) -> str:
        """Name of the platform that this compiler is for."""
        return ""

    @property
    def epilogues(self) -> frozenset[str]:
        """Opcodes (dot, convolution, reduce) whose kernels go on with elementwise instructions.

        `can_fuse` is asked for each; the kernel's family stays that of the opcode.
        """
        return frozenset()

    @property
    def copied_from_nbytes(self) -> int | None:
        """Size from which kernels compute a cheap value each for themselves; None for never."""
        return None

    @property
    def has_row_kernels(self) -> bool:
        """Whether a kernel may reduce rows and go on with them (`codegen.row_program`)."""
        return False

    def link(
        self,
        plan: KernelPlan,
        codes: Sequence[KernelCode],
        signature: Signature,
        options: CompileOptions,
    ) -> Executable:
        """Makes an Executable of a plan: by default its steps and the code of its kernels.

        Such an executable is run step by step by the SDK, through `Executor.load_kernel` and
        `Executor.launch_kernel`.

        Args:
            plan: kernels, steps, constants, sizes.
            codes: what `lower` made of each of the plan's kernels.
            signature: the outside of the executable.
            options: of the compilation.
        """
        return plan_executable(plan, codes, signature)

    def lower(self, spec: KernelSpec, options: CompileOptions) -> KernelCode:
        """Code of one kernel, by the family of its root.

        A compiler that writes all code in `link` overrides this one to say what workspace the
        kernel wants, and leaves the code empty.

        Raises:
            UnsupportedError: `supports` accepted a kernel that no ``lower_<family>`` is for.
            PluginError: it raised, or gave no KernelCode.
        """
        core = self._core(spec)
        family = FAMILIES.get(core.opcode, "loop")
        lower = getattr(self, f"lower_{family}", None)
        if lower is None:
            raise UnsupportedError(
                f"{type(self).__name__} has no lower_{family}",
                where=f"kernel {spec.name}",
                why=f"its supports() accepted a kernel of {core.opcode}",
            )
        function, where = f"KernelCompiler.lower_{family}", f"kernel {spec.name}, {core!r}"
        with plugin_call(plugin_name(self), function, where=where):
            return expect(lower(spec, options), KernelCode, plugin_name(self), function, where)

    def _core(self, spec: KernelSpec) -> HloInstruction:
        """What a kernel is built around: its root, or the instruction with an epilogue."""
        root = spec.computation.root
        reduces = [i for i in root.operands if i.opcode == "reduce"]
        if root.opcode == "tuple" and reduces:
            return reduces[0]
        if root.opcode in FAMILIES:
            return root
        inside = spec.computation.instructions
        return next((i for i in inside if i.opcode in self.epilogues), root)


def _overrides(compiler: KernelCompiler, method: str) -> bool:
    return getattr(type(compiler), method) is not getattr(KernelCompiler, method)


def spread_of(options: CompileOptions, device: DeviceDescription) -> StreamSpread | None:
    """How a plan is spread over streams; None for one stream."""
    wanted = device.compute_streams if options.streams is None else options.streams
    if device.compute_streams == 1 or wanted == 1:
        return None
    return StreamSpread(wanted, options.streams is not None, device)


def honoured_aliases(module: HloModule) -> tuple[tuple[int, int], ...]:
    """Pairs (result array, parameter array) that the module wants in one buffer."""
    results = {index: n for n, index in enumerate(flattened_indices(module.entry.root.shape))}
    parameters: dict[tuple[int, tuple[int, ...]], int] = {}
    for number, parameter in enumerate(module.entry.parameters):
        for index in flattened_indices(parameter.shape):
            parameters[number, index] = len(parameters)
    result_shapes = flattened_shapes(module.entry.root.shape)
    parameter_shapes = [s for p in module.entry.parameters for s in flattened_shapes(p.shape)]
    pairs: list[tuple[int, int]] = []
    for alias in module.header.aliases:
        result = results.get(alias.output_index)
        argument = parameters.get((alias.parameter, alias.parameter_index))
        if result is None or argument is None:
            continue
        if result_shapes[result].nbytes == parameter_shapes[argument].nbytes:
            pairs.append((result, argument))
    return tuple(pairs)
