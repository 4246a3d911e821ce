"""The Compiler contract: what a vendor's compiler answers and does, by tier, with defaults.

A compiler needs no driver and no device. Tier 2 writes `supports` and one of two routes: `compile`
here (whole graph), or the `lower_<family>` methods of `KernelCompiler` (per kernel).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xladev.compiler.description import DeviceDescription
from xladev.compiler.support import Support, no
from xladev.errors import UnsupportedError
from xladev.hlo.shape import Layout, Shape, row_major

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xladev.compiler.executable import Executable
    from xladev.compiler.options import CompileOptions, PlatformOption
    from xladev.hlo.ir import HloInstruction, HloModule
    from xladev.passes.pipeline import HloPassPipeline


@dataclass(frozen=True, slots=True)
class ExportedObject:
    """What ahead-of-time compilation writes.

    Attributes:
        data: an object file that needs no external library.
        entry: its entry symbol, of the C signature of `NativeEntry`.
    """

    data: bytes = field(repr=False)
    entry: str


class Compiler(ABC):
    """Turns HLO modules into Executables for one platform; stateless and thread-safe."""

    # Tier 1

    def describe(self, target: str | None = None) -> DeviceDescription:
        """The device type that ``target`` names; None means the one of this machine.

        Raises:
            OptionError: an unknown target.
        """
        return DeviceDescription(target=target or "")

    def with_rates(self, description: DeviceDescription) -> DeviceDescription:
        """The description with rates that must be measured first, which may take a second.

        Asked where rates are shown (`xladev cost`), never by a compilation.
        """
        return description

    def version(self) -> str:
        """Version of the code generator; part of every cache key."""
        return ""

    def cache_state(self, options: CompileOptions) -> str:
        """What else code depends on, such as a table of what was measured; empty for nothing.

        Part of every cache key. A program during whose compilation it changed is not kept.
        """
        return ""

    def platform_options(self) -> Sequence[PlatformOption] | None:
        """The options of the platform's own; others are refused, with the names of near ones.

        None leaves them unchecked: a spelling error in one goes unnoticed.
        """
        return None

    # Tier 2

    @abstractmethod
    def supports(self, instruction: HloInstruction, description: DeviceDescription) -> Support:
        """Whether the device runs ``instruction``, called computations and shapes included.

        Must not raise: `YES`, or `no(reason)`. A "no" sends the instruction to the host, or a
        loop to the SDK's own loop with its body asked one by one.
        """

    def compile(self, module: HloModule, options: CompileOptions) -> Executable:
        """Compiles a module all of whose instructions are supported (the whole-graph route).

        Raises:
            CompileError: with the instruction at fault as its place.
        """
        raise UnsupportedError(
            f"{type(self).__name__} does not compile whole modules",
            where=f"module {module.name}",
            hint="override Compiler.compile, or derive from KernelCompiler",
        )

    # Tier 3

    def pipeline(self, options: CompileOptions) -> HloPassPipeline | None:
        """The backend's own passes, run after the SDK's; None for none."""
        return None

    def can_fuse(self, producer: HloInstruction, consumer: HloInstruction) -> Support:
        """Whether both may be computed in one kernel.

        Asked for a value and each of its readers that would be in a kernel with it, also where the
        kernel would compute a copy of a cheap value; not for scalar constants, which any kernel
        may hold.
        """
        return no("the backend does not fuse")

    # Optional, at any tier

    def device_layout(self, shape: Shape) -> Layout:
        """The layout in which the device wants an array of ``shape``; row-major by default.

        The SDK converts at transfers.
        """
        return row_major(shape.rank)

    def can_share_kernel(self, first: HloInstruction, second: HloInstruction) -> Support:
        """Whether one kernel may give the results of both, as a fusion whose root is a tuple.

        Asked for kernels (fusions or single instructions) that go over the same elements: readers
        of one value, or a producer that others need too and its consumer. Either may fold some of
        the dimensions by a reduce.
        """
        return no("the backend has no kernels of several results")

    def export(self, executable: Executable, format: str) -> ExportedObject:
        """An ahead-of-time file of ``format`` (``object``).

        Raises:
            UnsupportedError: the backend has no such format.
        """
        raise UnsupportedError(
            f"{type(self).__name__} exports no {format!r} files",
            where=f"executable {executable.signature.name}",
        )


class HostOnlyCompiler(Compiler):
    """The compiler of a tier-1 backend: memory only, every instruction runs on the host."""

    def platform_options(self) -> Sequence[PlatformOption]:
        """None at all."""
        return ()

    def supports(self, instruction: HloInstruction, description: DeviceDescription) -> Support:
        """No to everything."""
        return no("the backend has no compiler")
