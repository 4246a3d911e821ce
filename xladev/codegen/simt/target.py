"""What kernels ask of a device whose threads run in blocks: a description, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from xladev.codegen.elemental.emitter import ElementRule
from xladev.codegen.elemental.rules import ELEMENT_RULES
from xladev.codegen.elemental.vectors import VECTOR_RULES
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import TargetTraits
from xladev.codegen.simt.approximations import Approximation
from xladev.codegen.simt.kernel_kind import KernelKind, Recogniser
from xladev.codegen.simt.kinds import KINDS, PRODUCTS, kind_of
from xladev.codegen.simt.machine import SimtMachine
from xladev.errors import CompileError

REQUIRED = frozenset(
    {"xd.tid.x", "xd.block.x", "xd.barrier", "xd.exchange", "xd.shuffle", "xd.shared"}
)
"""Primitives that every target defines."""

EntryAttributes = Callable[[int, int], str]
"""LLVM attributes of a kernel's entry, from the threads of a block and the blocks that should be
resident together."""


def no_attributes(block: int, resident: int) -> str:
    """An entry that needs none."""
    return ""


@dataclass(frozen=True, slots=True, eq=False)
class TargetEmulation:
    """What the emulator of blocks has to know of a target's own primitives.

    Attributes:
        approximations: how wrong its approximate instructions may be, by primitive.
        primitives: definitions of others for the host, by symbol.
        text: what these call; in modules that have one of them.
    """

    approximations: Mapping[str, Approximation] = field(default_factory=dict)
    primitives: Mapping[str, str] = field(default_factory=dict)
    text: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class SimtTarget:
    """A target of kernels.

    Attributes:
        name: for messages.
        traits: what text emission must know.
        machine: how kernels are spread over it.
        primitives: definitions in LLVM's assembly, by symbol; see `primitives`.
        linkage: of a kernel's entry, such as a calling convention.
        array_space: address space of the arrays that an entry is given; flat addresses reach it.
        entry_attributes: of a kernel's entry.
        kinds: of kernels, most particular first; what none of them knows is a loop.
        rules: code for opcodes that are not elementwise, by opcode.
        vector_rules: the same, of vectors.
        emulation: what the emulator has to know.

    Raises:
        CompileError: a primitive of `REQUIRED` is missing.
    """

    name: str
    traits: TargetTraits
    primitives: Mapping[str, str]
    machine: SimtMachine = SimtMachine()
    linkage: str = ""
    array_space: int = 0
    entry_attributes: EntryAttributes = no_attributes
    kinds: Sequence[Recogniser] = (*KINDS, *PRODUCTS)
    rules: Mapping[str, ElementRule] = field(default_factory=lambda: ELEMENT_RULES)
    vector_rules: Mapping[str, ElementRule] = field(default_factory=lambda: VECTOR_RULES)
    emulation: TargetEmulation = field(default_factory=TargetEmulation)

    def __post_init__(self) -> None:
        missing = sorted(REQUIRED - set(self.primitives))
        if missing:
            raise CompileError(
                f"target {self.name} does not define {', '.join(missing)}",
                why="kernels of any kind may ask for them",
                hint="docs/reference/simt.md says what each of them does",
            )

    def kind_of(self, spec: KernelSpec) -> KernelKind:
        """How a kernel is computed."""
        return kind_of(spec, self.machine, self.kinds)
