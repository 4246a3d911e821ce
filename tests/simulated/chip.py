"""Chips, and how long their kernels and copies truly take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType

from xladev.compiler.description import DeviceDescription, Link, MemorySpace
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.shape import flattened_shapes

FUNCTIONS = frozenset(
    {
        "tanh", "exponential", "exponential-minus-one", "log", "log-plus-one", "sine", "cosine",
        "tan", "logistic", "erf", "power", "rsqrt", "cbrt", "atan2", "sqrt", "divide",
    }
)  # fmt: skip
REARRANGING = frozenset({"transpose", "gather", "scatter", "sort", "reverse", "concatenate", "pad"})
NEVER = frozenset({"while", "conditional", "call"})
"""What the SDK runs itself, step by step."""


@dataclass(frozen=True)
class Chip:
    """One kind of device; rates per second.

    Attributes:
        name: of its platform.
        products: multiplications and additions of products of matrices, at best.
        vector: operations on elements.
        bandwidth: bytes of its memory, at best.
        start_s: what each kernel takes beside its work.
        launch_s: what each launch takes the host.
        link: to the host; None for the host itself, which computes while it waits.
        half: operations of a product that reaches half of the rate.
        function: operations that a transcendental function is worth.
        refused: opcodes that it does not take.
        count: devices.
    """

    name: str
    products: float
    vector: float
    bandwidth: float
    start_s: float = 2e-6
    launch_s: float = 4e-6
    link: Link | None = None
    half: float = 1e6
    function: float = 6.0
    refused: frozenset[str] = field(default_factory=frozenset)
    count: int = 1

    @property
    def description(self) -> DeviceDescription:
        """Its data sheet."""
        space = MemorySpace(
            "memory", 1 << 30, bandwidth=self.bandwidth, host_addressable=self.link is None
        )
        links = {} if self.link is None else {"host": self.link}
        return DeviceDescription(
            name=self.name,
            target=self.name,
            memory_spaces=(space,),
            peak_flops=MappingProxyType({"f32": self.products}),
            links=MappingProxyType(links),
            launch_overhead_s=self.launch_s,
        )

    def kernel_seconds(self, computation: HloComputation) -> float:
        """What one kernel takes."""
        products = vector = functions = 0.0
        rearranges = False
        for i in _within(computation):
            if i.opcode in ("dot", "convolution"):
                products += _multiplications(i)
            elif i.opcode in FUNCTIONS:
                functions += i.shape.size
            elif i.opcode in ("reduce", "reduce-window"):
                vector += sum(o.shape.size for o in i.operands if o.shape.is_array)
            elif i.op.elementwise:
                vector += i.shape.size
            rearranges = rearranges or i.opcode in REARRANGING
        multiplied = (products + self.half) / self.products if products else 0.0
        compute = multiplied + (vector + self.function * functions) / self.vector
        root = computation.root
        arrays = [p.shape for p in computation.parameters] + list(flattened_shapes(root.shape))
        nbytes = sum(s.nbytes for s in arrays)
        memory = nbytes / (self.bandwidth * (0.3 if rearranges else 0.8))
        return self.start_s + (compute**4 + memory**4) ** 0.25


def _within(computation: HloComputation) -> Iterator[HloInstruction]:
    for i in computation.instructions:
        yield i
        if i.opcode == "fusion":
            yield from _within(i["calls"])


def _multiplications(i: HloInstruction) -> float:
    """Twice the elements of the result times what is added up for each."""
    lhs, rhs = (o.shape for o in i.operands[:2])
    if i.opcode == "dot":
        summed = prod(lhs.dims[d] for d in i["lhs_contracting_dims"])
    else:
        summed = rhs.size // max(1, rhs.dims[i["dim_labels"].kernel_output_feature])
    return 2.0 * i.shape.size * summed
