"""What one entry of the opset says: arity, attributes, shape rule, meaning, traits.

Parser, printer, proto, verifier, builder, evaluator, documentation and conformance cases are all
driven by these entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NoReturn, Protocol

from xladev.errors import ShapeError
from xladev.hlo.expense import DIVISION, INSTRUCTION
from xladev.hlo.literal import Value
from xladev.hlo.shape import Shape


class AttrKind(Enum):
    """The form of an attribute's value; text and proto each have one codec per kind."""

    INT = "int"  # 3
    BOOL = "bool"  # true
    FLOAT = "float"  # 1e-05
    STRING = "string"  # "text"
    WORD = "word"  # EQ, kLoop, rng_uniform
    INTS = "ints"  # {1,0}
    BOOLS = "bools"  # {true,false}
    WORDS = "words"  # {highest,default}
    INT_LISTS = "int-lists"  # {{1,2},{3}}
    COMPUTATION = "computation"  # %region.1
    COMPUTATIONS = "computations"  # {%a, %b}
    WINDOW = "window"  # {size=2x2 stride=2x2}
    CONV_DIMS = "conv-dims"  # bf01_01io->bf01
    SLICE = "slice"  # {[0:4:2], [1:3]}
    PADDING = "padding"  # 0_1_2x0_0
    LITERAL = "literal"  # positional in text: constant(1)
    NUMBER = "number"  # positional in text: parameter(0)
    GROUPS = "groups"  # replica groups: {{0,1}}, [2,4]<=[8], mesh['d'=4] {'d'}
    PAIRS = "pairs"  # {{0,1},{1,2}}
    SHAPE = "shape"  # f32[2]{0}
    SHAPES = "shapes"  # {f32[2]{0}, f32[]}
    ALIASING = "aliasing"  # { {0}: (1, {}) }
    ACCURACY = "accuracy"  # {mode=highest} or {tolerance={atol=..,rtol=..,ulps=..}}
    SHARDINGS = "shardings"  # domain={kind="sharding", entry={..}, exit={..}}
    SPARSITY = "sparsity"  # {lhs={sparsity=2x4 dimension=1 stride=1 idx=2}}, kept as its text


COMPUTATION_KINDS = frozenset({AttrKind.COMPUTATION, AttrKind.COMPUTATIONS})


@dataclass(frozen=True, slots=True)
class Attr:
    """One attribute of an opcode.

    Attributes:
        name: its spelling in HLO text, and key in ``HloInstruction.attrs``.
        kind: the form of its value.
        required: True if an instruction without it is malformed.
        default: value where it is absent; absent and default are the same instruction.
        proto: field of ``HloInstructionProto``, dotted where nested; empty where the same as name.
        shown: True if text has it even at its default, as XLA's grammar asks for it.
    """

    name: str
    kind: AttrKind
    required: bool = False
    default: Any = None
    proto: str = ""
    shown: bool = False


class Tolerance(Enum):
    """How closely a backend must agree with the evaluator; limits are per dtype."""

    EXACT = "exact"  # same bits (NaN equal to NaN)
    ROUNDED = "rounded"  # correctly rounded in the result type, or off by one ulp
    FUNCTION = "function"  # a mathematical function: a few ulp
    SUM = "sum"  # reassociated sums: relative to the sum of absolute terms
    SOLVER = "solver"  # factorisations and transforms: relative to the largest element


class InstructionView(Protocol):
    """What shape rules and evaluation see of an instruction."""

    @property
    def shape(self) -> Shape: ...

    @property
    def opcode(self) -> str: ...

    @property
    def operands(self) -> tuple[InstructionView, ...]: ...

    @property
    def note(self) -> Any: ...

    def __getitem__(self, name: str) -> Any: ...


class Evaluation(Protocol):
    """What the meaning of an opcode may ask of the evaluator that runs it."""

    def call(self, computation: Any, arguments: Sequence[Value]) -> Value:
        """Value of a computation on these arguments."""
        ...

    def value(self, instruction: Any, operands: tuple[Value, ...]) -> Value:
        """Value of one instruction, of operands that may be whole arrays where it says scalars."""
        ...

    def apply(self, computation: Any, arguments: Sequence[Value]) -> Value:
        """Values of a computation of scalars on arrays of equal shape, element by element."""
        ...

    @property
    def replica(self) -> int: ...

    @property
    def partition(self) -> int: ...

    @property
    def seed(self) -> int: ...

    @property
    def shared(self) -> dict[str, Any]:
        """State that all calls of one run share: random state, links between devices."""
        ...


@dataclass(frozen=True, slots=True)
class OpCall:
    """Operand shapes, attributes and declared result of an instruction about to be checked."""

    op: OpDef
    operands: tuple[Shape, ...]
    attrs: Mapping[str, Any]
    declared: Shape | None = None

    def __getitem__(self, name: str) -> Any:
        """The attribute, or its default."""
        if name in self.attrs:
            return self.attrs[name]
        return self.op.attr(name).default

    def fail(self, constraint: str, what: str, hint: str | None = None) -> NoReturn:
        """Raises a ShapeError that cites ``constraint``, spelled with underscores."""
        shapes = ", ".join(map(str, self.operands))
        where = f"{self.op.name}({shapes})"
        why = f"constraint {constraint.replace('-', '_')}"
        raise ShapeError(what, where=where, why=why, hint=hint)

    def require(self, holds: bool, constraint: str, what: str) -> None:
        """Raises a ShapeError that cites ``constraint`` unless it holds."""
        if not holds:
            self.fail(constraint, what)

    def result(self) -> Shape:
        """The declared shape; a ShapeError where none was given."""
        if self.declared is None:
            self.fail(f"{self.op.name}_shape", "the result shape must be given")
        return self.declared


@dataclass(frozen=True, slots=True)
class Cost:
    """Work of one instruction: floating-point operations, transcendental calls, bytes moved."""

    flops: int = 0
    transcendentals: int = 0
    bytes_accessed: int = 0


InferFn = Callable[[OpCall], Shape]
EvaluateFn = Callable[[Evaluation, InstructionView, tuple[Value, ...]], Value]
CostFn = Callable[[Shape, tuple[Shape, ...], InstructionView], Cost]
MovedFn = Callable[[InstructionView], int]

VARIADIC = -1


@dataclass(frozen=True, slots=True, eq=False)
class OpDef:
    """One opcode; a singleton, compared by identity.

    Attributes:
        name: spelling in text and proto.
        arity: number of operands, or the pair (least, most) with most VARIADIC for no limit.
        summary: one sentence for the reference page.
        attrs: its attributes, in printing order.
        infer: checks a call and gives the result shape.
        evaluate: its meaning in NumPy; None where ``exempt`` says why.
        category: chapter of the reference page and of the conformance suite; it also says whether
            a result without elements needs no evaluation (`hlo/evaluator.py`).
        expense: simple operations for one element of the result, about: a grade of
            `hlo/expense.py`, which every cost model reads.
        over_operands: True if that is for one element of the largest operand instead.
        elementwise: True if each result element depends on the same element of each operand.
        side_effect: True if it may not be removed, merged or reordered.
        tolerance: how closely a backend must agree with the evaluator.
        forms: forms that its operands and layouts may have and that a backend has to know of, a
            sentence or two each; for the reference page.
        differences: known differences between xladev's meaning and XLA's CPU.
        exempt: why there is no evaluation (infeed, send...); empty otherwise.
        cost: flops and bytes; None for the default (one flop per element if elementwise).
        moved: bytes that it reads and writes; None for each operand once, and the result.
        by_name: its attributes by name.
        calling: those that name computations.
    """

    name: str
    arity: int | tuple[int, int]
    summary: str
    attrs: tuple[Attr, ...] = ()
    infer: InferFn | None = None
    evaluate: EvaluateFn | None = None
    category: str = ""
    expense: int = INSTRUCTION
    over_operands: bool = False
    elementwise: bool = False
    side_effect: bool = False
    tolerance: Tolerance = Tolerance.EXACT
    forms: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    exempt: str = ""
    cost: CostFn | None = None
    moved: MovedFn | None = None
    by_name: Mapping[str, Attr] = field(init=False, repr=False)
    calling: tuple[Attr, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {a.name: a for a in self.attrs})
        calling = tuple(a for a in self.attrs if a.kind in COMPUTATION_KINDS)
        object.__setattr__(self, "calling", calling)

    def __repr__(self) -> str:
        return f"OpDef({self.name})"

    def attr(self, name: str) -> Attr:
        """The attribute called ``name``; a ShapeError naming the ones there are."""
        found = self.by_name.get(name)
        if found is None:
            known = ", ".join(self.by_name) or "none"
            raise ShapeError(f"{self.name} has no attribute {name!r}", hint=f"it has: {known}")
        return found

    @property
    def is_expensive(self) -> bool:
        """True if an element is better kept than computed again.

        As `InstructionFusion::IsExpensive` in xla/service/instruction_fusion.cc, but that calls
        sines, cosines and moves cheap, and divisions of integers by constants.
        """
        return self.expense >= DIVISION

    @property
    def arity_range(self) -> tuple[int, int]:
        """Least and most operands; most is VARIADIC for no limit."""
        return self.arity if isinstance(self.arity, tuple) else (self.arity, self.arity)

    def accepts(self, count: int) -> bool:
        """True if an instruction may have ``count`` operands."""
        least, most = self.arity_range
        return count >= least and (most == VARIADIC or count <= most)
