"""The interpreter's compiler: its code is the module itself."""

from __future__ import annotations

from xladev import __version__
from xladev.compiler.contract import Compiler
from xladev.compiler.description import DeviceDescription, MemorySpace
from xladev.compiler.executable import Executable
from xladev.compiler.options import CompileOptions, PlatformOption
from xladev.compiler.partition.assignment import RANDOM_STATE_OPCODE, exchanges
from xladev.compiler.signature import Signature
from xladev.compiler.support import YES, Support, no
from xladev.hlo.ir import HloInstruction, HloModule, reachable
from xladev.hlo.proto import write_module
from xladev.hlo.shape import Shape
from xladev.hlo.valued import no_value

_DESCRIPTION = DeviceDescription(
    name="NumPy interpreter",
    kind="interpreter",
    target="numpy",
    memory_spaces=(MemorySpace(host_addressable=True),),
    dlpack_device_type=1,
)
_HIDDEN_STATE = frozenset({"rng", RANDOM_STATE_OPCODE})


class InterpreterCompiler(Compiler):
    """Accepts every opcode that the evaluator gives a value, but leaves collectives to the SDK."""

    def describe(self, target: str | None = None) -> DeviceDescription:
        """Host memory and all dtypes."""
        return _DESCRIPTION

    def version(self) -> str:
        """The evaluator's."""
        return __version__

    def platform_options(self) -> tuple[PlatformOption, ...]:
        """None at all."""
        return ()

    def supports(self, instruction: HloInstruction, description: DeviceDescription) -> Support:
        """Yes if it, and all that it calls, has a value that no run before it decides."""
        if instruction.opcode in _HIDDEN_STATE:
            return no("the state behind it outlives a run; the SDK keeps it")
        within = (i for c in instruction.called for c in reachable(c) for i in c.instructions)
        if any(map(exchanges, (instruction, *within))):
            return no("values of other devices are exchanged by the SDK")
        missing = no_value(instruction)
        return YES if missing is None else no(missing.why or missing.what)

    def compile(self, module: HloModule, options: CompileOptions) -> Executable:
        """The module's serialized proto, with row-major arrays outside."""
        signature = Signature(
            name=module.name,
            platform="interpreter",
            target="numpy",
            parameters=tuple(_row_major(p.shape) for p in module.entry.parameters),
            result=_row_major(module.entry.root.shape),
        )
        return Executable(signature, write_module(module))


def _row_major(shape: Shape) -> Shape:
    return shape.without_layout().with_default_layout()
