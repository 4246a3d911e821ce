"""Watches a program run on the evaluator: the instruction that made the first NaN, and the like."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from xladev.compiler.fusion.instruction_fusion import kernel_programs
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.literal import Array, Value
from xladev.hlo.numerics.casts import as_indices
from xladev.hlo.ops.index_dims import IndexDims, starts
from xladev.passes.call_inliner import CallInliner
from xladev.testing.noise import is_float, leaves, wide


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something that an instruction made out of operands that had none of it.

    Attributes:
        instruction: which.
        path: the computations that it ran in, outermost first, each with its iteration, from 1.
        detail: what exactly.
        operands: what the operands were, a line each.
    """

    instruction: HloInstruction
    path: tuple[tuple[HloComputation, int], ...]
    detail: str
    operands: tuple[str, ...]


Test = Callable[[HloInstruction, tuple[Value, ...], Value], str]
"""What is odd about an instruction's operands and value; empty if nothing is."""


def _made_nan(instruction: HloInstruction, operands: tuple[Value, ...], value: Value) -> str:
    return _made(np.isnan, "NaN", _computed(instruction, operands), value)


def _made_infinity(instruction: HloInstruction, operands: tuple[Value, ...], value: Value) -> str:
    return _made(np.isinf, "infinite", _computed(instruction, operands), value)


def _computed(instruction: HloInstruction, operands: tuple[Value, ...]) -> tuple[Value, ...]:
    """Operands that are no constants: those have NaN and infinities on purpose."""
    pairs = zip(instruction.operands, operands, strict=True)
    return tuple(value for operand, value in pairs if not _is_constant(operand))


def _is_constant(instruction: HloInstruction) -> bool:
    """True for constants, also in another shape."""
    while instruction.opcode in ("broadcast", "reshape", "convert"):
        (instruction,) = instruction.operands
    return instruction.opcode == "constant"


def _made(
    is_odd: Callable[[Array], Array], word: str, operands: tuple[Value, ...], value: Value
) -> str:
    """Where the value is odd, though none of these operands is."""
    odd = [mask for array in _floats((value,)) if (mask := is_odd(wide(array))).any()]
    if not odd or any(is_odd(wide(array)).any() for array in _floats(operands)):
        return ""
    mask = odd[0]
    at = [int(i[0]) for i in np.nonzero(np.atleast_1d(mask))][: mask.ndim]
    return f"{int(mask.sum())} of {mask.size} elements are {word}, first at {at}"


def _floats(values: Sequence[Value]) -> Iterator[Array]:
    return (leaf for value in values for leaf in leaves(value) if is_float(leaf) and leaf.size)


def _left_bounds(instruction: HloInstruction, operands: tuple[Value, ...], value: Value) -> str:
    """Starts of windows outside of the array, which are moved inside or skipped."""
    find = _STARTS.get(instruction.opcode)
    if find is None or not all(isinstance(o, (np.ndarray, np.generic)) for o in operands):
        return ""  # of dynamic sizes
    for d, start, last in find(instruction, tuple(map(np.asarray, operands))):
        out = (start < 0) | (start > last)
        if out.any():
            first = int(np.atleast_1d(start)[np.atleast_1d(out)][0])
            what = "skipped" if instruction.opcode == "scatter" else "moved inside"
            return (
                f"{int(out.sum())} of {out.size} starts in dimension {d} are not in 0 to {last}, "
                f"such as {first}: those windows are {what}"
            )
    return ""


_Starts = Iterator[tuple[int, Array, int]]
"""Per dimension: which, the starts, and the last that keeps the window inside."""


def _slice_starts(instruction: HloInstruction, operands: tuple[Value, ...]) -> _Starts:
    sizes = instruction["dynamic_slice_sizes"]
    return _scalar_starts(operands[0].shape, sizes, operands[1:])


def _update_starts(instruction: HloInstruction, operands: tuple[Value, ...]) -> _Starts:
    return _scalar_starts(operands[0].shape, operands[1].shape, operands[2:])


def _scalar_starts(dims: Sequence[int], sizes: Sequence[int], indices: Sequence[Array]) -> _Starts:
    if len(indices) == 1 and indices[0].ndim == 1:
        indices = list(indices[0])
    for d, (dim, size, index) in enumerate(zip(dims, sizes, indices, strict=True)):
        yield d, as_indices(np.asarray(index)), dim - size


def _gather_starts(instruction: HloInstruction, operands: tuple[Value, ...]) -> _Starts:
    dims = IndexDims.of_gather(instruction)
    return _vector_starts(operands[0], operands[1], dims, instruction["slice_sizes"])


def _scatter_starts(instruction: HloInstruction, operands: tuple[Value, ...]) -> _Starts:
    count = len(operands) // 2
    array, indices, updates = operands[0], operands[count], operands[count + 1]
    dims = IndexDims.of_scatter(instruction)
    shown = dict(zip(dims.windowed(array.ndim), dims.window, strict=True))
    sizes = [updates.shape[shown[d]] if d in shown else 1 for d in range(array.ndim)]
    return _vector_starts(array, indices, dims, sizes)


def _vector_starts(array: Array, indices: Array, dims: IndexDims, sizes: Sequence[int]) -> _Starts:
    begins, _ = starts(indices, dims, array.ndim)
    for d in sorted(dims.index_map):
        yield d, begins[d], array.shape[d] - sizes[d]


_STARTS: Mapping[str, Callable[[HloInstruction, tuple[Value, ...]], _Starts]] = MappingProxyType(
    {
        "dynamic-slice": _slice_starts,
        "dynamic-update-slice": _update_starts,
        "gather": _gather_starts,
        "scatter": _scatter_starts,
    }
)
TESTS: Mapping[str, Test] = MappingProxyType(
    {"nan": _made_nan, "inf": _made_infinity, "bounds": _left_bounds}
)
"""What can be looked for, by name."""


@dataclass(slots=True)
class _Log:
    first: Anomaly | None = None
    count: int = 0
    path: list[tuple[HloComputation, int]] = field(default_factory=list[tuple[HloComputation, int]])
    iterations: dict[HloComputation, int] = field(default_factory=dict[HloComputation, int])


@dataclass(frozen=True, slots=True)
class _WatchingEvaluator(HloEvaluator):
    """Tests the value of each instruction of the computations that run one by one."""

    watched: AbstractSet[HloInstruction] = frozenset()
    test: Test = _made_nan
    log: _Log = field(default_factory=_Log)

    def call(self, computation: HloComputation, arguments: Sequence[Value]) -> Value:
        """The value of a computation; counts its iterations."""
        iteration = self.log.iterations.get(computation, 0) + 1
        self.log.iterations[computation] = iteration
        self.log.path.append((computation, iteration))
        try:
            # zero-argument super() does not work in slotted dataclasses
            return HloEvaluator.call(self, computation, arguments)
        finally:
            self.log.path.pop()

    def value(self, instruction: HloInstruction, operands: tuple[Value, ...]) -> Value:
        """The value, tested."""
        value = HloEvaluator.value(self, instruction, operands)
        if instruction in self.watched:
            detail = self.test(instruction, operands, value)
            if detail:
                self._note(instruction, operands, detail)
        return value

    def _note(self, instruction: HloInstruction, operands: tuple[Value, ...], detail: str) -> None:
        self.log.count += 1
        if self.log.first is None:
            lines = tuple(map(_described, instruction.operands, operands))
            self.log.first = Anomaly(instruction, tuple(self.log.path), detail, lines)


def _described(operand: HloInstruction, value: Value) -> str:
    shape = operand.shape.to_string(layout=False)
    arrays = [a for a in leaves(value) if isinstance(a, np.ndarray) and a.size]
    if len(arrays) != 1 or arrays[0].dtype.kind == "c":
        return f"{operand.name}: {shape}"
    array = wide(arrays[0])
    known = array[~np.isnan(array)]
    if not known.size:
        return f"{operand.name}: {shape} of NaN"
    return f"{operand.name}: {shape} from {known.min():.6g} to {known.max():.6g}"


def first_anomaly(
    module: HloModule, arguments: Sequence[Value], kind: str
) -> tuple[Anomaly | None, int]:
    """The first anomaly of a kind, and how many instructions, iteration by iteration, made one.

    Args:
        module: run on the evaluator, on one device.
        arguments: one value per parameter.
        kind: ``nan``, ``inf``, or ``bounds``: windows that are not inside of the array.

    Raises:
        EvaluationError: an instruction has no value on the evaluator.
    """
    module = CallInliner().run(module)  # so that constants are seen as such
    programs = kernel_programs(module)
    watched = frozenset(
        i
        for c in module.computations
        if c.name in programs
        for i in c.instructions
        if i.opcode not in ("while", "conditional", "call") and not _is_constant(i)
    )
    log = _Log()
    _WatchingEvaluator(watched=watched, test=TESTS[kind], log=log).run(module, *arguments)
    return log.first, log.count
