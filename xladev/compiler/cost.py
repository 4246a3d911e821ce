"""What a program costs: operations and bytes per instruction and in sum, and the roofline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xladev.compiler.description import DeviceDescription
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.opdef import Cost
from xladev.hlo.work import own_cost, own_operations
from xladev.passes.loops.loop import KnownLoop
from xladev.passes.loops.trip_count import trip_count


@dataclass(frozen=True, slots=True)
class InstructionCost:
    """One instruction of a program.

    Attributes:
        instruction: which; a `fusion` stands for all within it.
        iterations: how often it runs: iterations of the loops around it, counted where that is
            plain to see and once where it is not.
        cost: of one iteration.
    """

    instruction: HloInstruction
    iterations: int
    cost: Cost

    @property
    def total(self) -> Cost:
        """Of all iterations."""
        return _times(self.cost, self.iterations)


@dataclass(frozen=True, slots=True)
class ProgramCost:
    """What a program costs.

    Attributes:
        instructions: those that cost anything, in the order of the program.
        total: the sum.
        uncounted: loops whose number of iterations is not known: their bodies count once.
    """

    instructions: tuple[InstructionCost, ...]
    total: Cost
    uncounted: tuple[HloInstruction, ...]


def loop_iterations(module: HloModule) -> dict[str, int]:
    """How often each loop runs, by name of the `while`, where that is plain to see."""
    whiles = (i for c in module.computations for i in c.instructions if i.opcode == "while")
    loops = ((i.name, KnownLoop.of(i)) for i in whiles)
    counts = ((name, trip_count(loop)) for name, loop in loops if loop is not None)
    return {name: count for name, count in counts if count is not None}


def program_cost(module: HloModule, iterations: Mapping[str, int] | None = None) -> ProgramCost:
    """What a module costs, instruction by instruction.

    Of the branches of a conditional each counts. Bytes are those that instructions, or fusions,
    read and write, as if nothing stayed in a cache.

    Args:
        module: the program, or its kernels.
        iterations: what `loop_iterations` says of the program before kernels were formed, within
            which counters are no longer plain to see; default: what it says of this module.
    """
    walk = _Walk(module, loop_iterations(module) if iterations is None else iterations)
    found = tuple(walk.instructions())
    total = Cost()
    for each in found:
        total = _plus(total, each.total)
    return ProgramCost(found, total, tuple(walk.uncounted))


class _Walk:
    def __init__(self, module: HloModule, loops: Mapping[str, int]) -> None:
        self._module = module
        self._loops = loops
        self.uncounted: list[HloInstruction] = []

    def instructions(self) -> Iterator[InstructionCost]:
        """Those of the entry and of what it runs, with their iterations."""
        iterations = self._iterations()
        for computation in self._module.computations:
            for i in computation.instructions if iterations[computation] else ():
                cost = whole_cost(i)
                if cost != Cost():
                    yield InstructionCost(i, iterations[computation], cost)

    def _iterations(self) -> Counter[HloComputation]:
        """How often each computation that is run as a program runs."""
        iterations = Counter({self._module.entry: 1})
        for computation in reversed(self._module.computations):
            for i in computation.instructions if iterations[computation] else ():
                for callee, times in self._called(i):
                    iterations[callee] += times * iterations[computation]
        return iterations

    def _called(self, i: HloInstruction) -> Iterator[tuple[HloComputation, int]]:
        if i.opcode == "while":
            count = self._loops.get(i.name)
            if count is None:
                self.uncounted.append(i)
                count = 1
            yield i["body"], count
            yield i["condition"], count + 1
        elif i.opcode in ("conditional", "call", "async-start"):
            yield from ((c, 1) for c in i.called)


def whole_cost(i: HloInstruction) -> Cost:
    """The cost of an instruction; a fusion reads its operands and writes its results once."""
    if i.opcode != "fusion":
        return own_cost(i)
    inside = [own_operations(each) for each in i["calls"].instructions]
    flops, transcendentals = map(sum, zip(*inside, strict=True))
    moved = i.shape.nbytes + sum(o.shape.nbytes for o in dict.fromkeys(i.operands))
    return Cost(flops, transcendentals, moved)


def _plus(a: Cost, b: Cost) -> Cost:
    return Cost(
        a.flops + b.flops,
        a.transcendentals + b.transcendentals,
        a.bytes_accessed + b.bytes_accessed,
    )


def _times(cost: Cost, count: int) -> Cost:
    return Cost(cost.flops * count, cost.transcendentals * count, cost.bytes_accessed * count)


@dataclass(frozen=True, slots=True)
class Roofline:
    """The least time that a device's rates allow.

    Attributes:
        compute_s: seconds for the operations; None if the device does not say its rate.
        memory_s: seconds for the bytes; None if the device does not say its bandwidth.
    """

    compute_s: float | None
    memory_s: float | None

    @property
    def seconds(self) -> float:
        """The larger of the two; 0 if neither is known."""
        return max(self.compute_s or 0.0, self.memory_s or 0.0)

    @property
    def bound(self) -> str:
        """``compute``, ``memory``, or empty if a rate is missing."""
        if self.compute_s is None or self.memory_s is None:
            return ""
        return "compute" if self.compute_s > self.memory_s else "memory"


def roofline(cost: InstructionCost, device: DeviceDescription) -> Roofline:
    """The least time of all iterations of an instruction on a device."""
    total = cost.total
    rate = device.peak_flops.get(_element_type(cost.instruction))
    bandwidth = device.memory_spaces[0].bandwidth
    return Roofline(
        None if not rate else (total.flops + total.transcendentals) / rate,
        None if not bandwidth else total.bytes_accessed / bandwidth,
    )


def _element_type(i: HloInstruction) -> str:
    """The type that an instruction computes in: that of its first operand, or its own."""
    shapes = (*(o.shape for o in i.operands), i.shape)
    leaves = (leaf for shape in shapes for _, leaf in shape.leaves() if leaf.is_array)
    return next((leaf.element_type.name for leaf in leaves), "")
