"""KernelCompiler: the base of backends that write kernels and leave the program to the SDK.

The SDK forms kernels, has each lowered once, and assigns buffers. A backend writes
`lower_<family>` per kind of kernel, or overrides `link` to make one native entry of a whole plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

from xladev import instrument
from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.contract import Compiler
from xladev.compiler.description import DeviceDescription
from xladev.compiler.executable import Executable
from xladev.compiler.fusion import Fusion, without_fusions
from xladev.compiler.isolation import expect
from xladev.compiler.kernel_code import KernelCode
from xladev.compiler.kernel_plan import KernelPlan
from xladev.compiler.kernel_table import ProgramKernels
from xladev.compiler.layout import with_row_major_layouts
from xladev.compiler.leaves import leaf_shapes
from xladev.compiler.memory_plan import plan_memory
from xladev.compiler.multi_output_fusion import MultiOutputFusion
from xladev.compiler.options import CompileOptions
from xladev.compiler.own_broadcasts import with_own_broadcasts
from xladev.compiler.plan_file import plan_executable
from xladev.compiler.row_fusion import RowFusion
from xladev.compiler.signature import Alias, Signature
from xladev.compiler.stream_choice import Spread
from xladev.errors import UnsupportedError
from xladev.hlo.dot import module_to_dot
from xladev.hlo.ir import HloModule
from xladev.hlo.text import print_module

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
        module = without_fusions(with_row_major_layouts(module))
        fused = self.arrange(self.form_kernels(module), options) if options.fusion else module
        instrument.dump(f"{module.name}.fused", "hlo", lambda: print_module(fused))
        instrument.dump(f"{module.name}.fused", "dot", lambda: module_to_dot(fused))
        kernels = ProgramKernels(lambda spec: self.lower(spec, options))
        plan = self._plan(module, fused, kernels, options)
        instrument.dump(f"{module.name}.buffers", "txt", lambda: f"{plan}\n")
        for copy in plan.copies:
            instrument.decision("copy", copy.name, f"{copy.nbytes:,} bytes: {copy.why}")
        codes = tuple(map(kernels.code, plan.kernels))
        return self.link(plan, codes, self.signature(module, plan, options), options)

    def _plan(
        self,
        module: HloModule,
        fused: HloModule,
        kernels: ProgramKernels,
        options: CompileOptions,
    ) -> KernelPlan:
        limit = options.memory_limit
        if limit is None:
            limit = self.describe(options.target).memory_space(0).nbytes
        return plan_memory(
            fused,
            kernels,
            honoured_aliases(fused),
            schedule=options.schedule,
            limit_nbytes=limit,
            spread=spread_of(options, self.describe(options.target)),
            apart=partial(self._form_apart, module, options) if options.fusion else None,
        )

    def form_kernels(self, module: HloModule) -> HloModule:
        """The module with `fusion` instructions where `can_fuse` and `can_share_kernel` allow."""
        if self.copied_from_nbytes is None:
            return self._form_joined_kernels(module)
        return with_own_broadcasts(module, self._form_joined_kernels)

    def _form_joined_kernels(self, module: HloModule) -> HloModule:
        return MultiOutputFusion(self.can_share_kernel).run(self._form_single_kernels(module))

    def _form_apart(self, module: HloModule, options: CompileOptions) -> HloModule:
        if self.copied_from_nbytes is None:
            return self.arrange(self._form_single_kernels(module), options)
        return self.arrange(with_own_broadcasts(module, self._form_single_kernels), options)

    def arrange(self, module: HloModule, options: CompileOptions) -> HloModule:
        """The module, its kernels formed, with values as they should lie in memory.

        A backend may give kernels of a constant another constant, and say in their computations how
        the two go together. By default all stays row-major.
        """
        return module

    def _form_single_kernels(self, module: HloModule) -> HloModule:
        rows = RowFusion().run(module) if self.has_row_kernels else module
        return Fusion(
            self.can_fuse, epilogues=self.epilogues, copied_from_nbytes=self.copied_from_nbytes
        ).run(rows)

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
        """Whether a kernel may fold rows and go on with them (`codegen.row_program`)."""
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
            PluginError: it gave no KernelCode.
        """
        opcode = self._core_opcode(spec)
        family = FAMILIES.get(opcode, "loop")
        lower = getattr(self, f"lower_{family}", None)
        if lower is None:
            raise UnsupportedError(
                f"{type(self).__name__} has no lower_{family}",
                where=f"kernel {spec.name}",
                why=f"its supports() accepted a kernel of {opcode}",
            )
        return expect(
            lower(spec, options), KernelCode, self.platform, f"KernelCompiler.lower_{family}"
        )

    def _core_opcode(self, spec: KernelSpec) -> str:
        """The opcode that a kernel is built around: its root's, or the one with an epilogue."""
        root = spec.computation.root.opcode
        results = {i.opcode for i in spec.computation.root.operands}
        if root == "tuple" and "reduce" in results:
            return "reduce"
        if root in FAMILIES:
            return root
        opcodes = (i.opcode for i in spec.computation.instructions)
        return next((opcode for opcode in opcodes if opcode in self.epilogues), root)


def spread_of(options: CompileOptions, device: DeviceDescription) -> Spread | None:
    """How a plan is spread over streams; None for one stream."""
    wanted = device.compute_streams if options.streams is None else options.streams
    if device.compute_streams == 1 or wanted == 1:
        return None
    return Spread(wanted, options.streams is not None, device)


def honoured_aliases(module: HloModule) -> tuple[tuple[int, int], ...]:
    """Pairs (result leaf, parameter leaf) that the module wants in one buffer."""
    results = {index: n for n, (index, _) in enumerate(module.entry.root.shape.leaves())}
    parameters: dict[tuple[int, tuple[int, ...]], int] = {}
    for number, parameter in enumerate(module.entry.parameters):
        for index, _ in parameter.shape.leaves():
            parameters[number, index] = len(parameters)
    result_shapes = leaf_shapes(module.entry.root.shape)
    parameter_shapes = [s for p in module.entry.parameters for s in leaf_shapes(p.shape)]
    pairs: list[tuple[int, int]] = []
    for alias in module.header.aliases:
        result = results.get(alias.output_index)
        argument = parameters.get((alias.parameter, alias.parameter_index))
        if result is None or argument is None:
            continue
        if result_shapes[result].nbytes == parameter_shapes[argument].nbytes:
            pairs.append((result, argument))
    return tuple(pairs)
