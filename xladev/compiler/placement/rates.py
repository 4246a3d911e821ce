"""What a device needs for kinds of work: from its description, or measured.

A kernel takes what starts it, and what its operations or its bytes take, whichever is more. Units
for products are far faster than others on most devices, and data sheets state those alone; so each
kind of work has a rate of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields

from xladev.compiler.description import DeviceDescription, Link
from xladev.errors import FormatError
from xladev.hlo.ir import HloInstruction
from xladev.hlo.work import moved_nbytes, own_operations

PRODUCTS = frozenset({"dot", "ragged-dot", "scaled-dot", "convolution"})
REARRANGING = frozenset(
    {
        "transpose", "gather", "scatter", "sort", "reverse", "concatenate", "pad",
        "dynamic-slice", "dynamic-update-slice", "select-and-scatter", "topk",
    }
)  # fmt: skip
"""Opcodes that read or write memory out of order."""

_RUNNING = frozenset({"fusion", "while", "conditional", "call", "async-start"})
_DEFAULT_FLOPS, _DEFAULT_BANDWIDTH = 1e13, 1e12
"""What `DeviceDescription` says is taken where it states nothing."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a kernel does.

    Attributes:
        products: operations of products and convolutions; those of integers count too.
        vector: of all else, functions excepted.
        functions: transcendental functions.
        nbytes: read and written.
        rearranges: whether some of that is out of order.
        element_type: name of the type that it computes in.
    """

    products: float = 0.0
    vector: float = 0.0
    functions: float = 0.0
    nbytes: float = 0.0
    rearranges: bool = False
    element_type: str = "f32"

    @staticmethod
    def of(i: HloInstruction) -> Work:
        """The work of an instruction; a fusion reads its operands and writes its results once.

        What a loop, a branch or a call runs counts once.
        """
        inside = tuple(_within(i))
        if i.opcode == "fusion":
            nbytes = i.shape.nbytes + sum(o.shape.nbytes for o in dict.fromkeys(i.operands))
        else:
            nbytes = sum(map(moved_nbytes, inside))
        products = vector = functions = 0.0
        for each in inside:
            flops, transcendentals = _operations(each)
            functions += transcendentals
            if each.opcode in PRODUCTS:
                products += flops
            else:
                vector += flops
        rearranges = any(each.opcode in REARRANGING for each in inside)
        return Work(products, vector, functions, nbytes, rearranges, _element_type(i))


def _operations(i: HloInstruction) -> tuple[int, int]:
    """Operations and transcendental functions, those of integers included."""
    op = i.op
    if op.cost is not None:
        cost = op.cost(i.shape, tuple(o.shape for o in i.operands), i)
        return cost.flops, cost.transcendentals
    if not op.elementwise or not i.shape.is_array:
        return 0, 0
    own = own_operations(i)
    return own if any(own) else (i.shape.size, 0)


def _within(i: HloInstruction) -> Iterator[HloInstruction]:
    if i.opcode not in _RUNNING:
        yield i
    for computation in i.called if i.opcode in _RUNNING else ():
        for each in computation.instructions:
            yield from _within(each)


def _element_type(i: HloInstruction) -> str:
    """The type that an instruction computes in: that of its first operand, or its own."""
    shapes = (*(o.shape for o in i.operands), i.shape)
    leaves = (leaf for shape in shapes for _, leaf in shape.leaves() if leaf.is_array)
    return next((leaf.element_type.name for leaf in leaves), "")


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """Seconds, of one device; of f32 where a type matters.

    Attributes:
        product_s: of an operation of a product.
        vector_s: of another operation.
        function_s: of a transcendental function.
        byte_s: of a byte that is read or written in order.
        rearranged_byte_s: of one that is not.
        launch_s: what the launch of a kernel takes the host.
        start_s: what a kernel takes the device beside its work.
        product_start_s: what a product takes more than that, whatever its size.
        region_s: what a region takes the host, beside its kernels.
        link: to the host's memory and back; None where the device has no other.
    """

    product_s: float
    vector_s: float
    function_s: float
    byte_s: float
    rearranged_byte_s: float
    launch_s: float = 0.0
    start_s: float = 0.0
    product_start_s: float = 0.0
    region_s: float = 0.0
    link: Link | None = None

    def seconds(self, work: Work, scale: float = 1.0) -> float:
        """What the work of a kernel takes the device.

        Args:
            work: of the kernel.
            scale: how many times longer operations of its type take than those of f32.
        """
        compute = work.vector * self.vector_s + work.functions * self.function_s
        if work.products:
            compute += work.products * self.product_s + self.product_start_s
        each = self.rearranged_byte_s if work.rearranges else self.byte_s
        return max(compute * scale, work.nbytes * each)

    def to_json(self) -> str:
        """As text that `from_json` reads."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> DeviceRates:
        """Rates that `to_json` wrote.

        Raises:
            FormatError: it wrote something else.
        """
        try:
            found = json.loads(text)
            link = found.pop("link")
            numbers = {
                f.name: float(found.pop(f.name)) for f in fields(DeviceRates) if f.name != "link"
            }
            if found or any(value < 0 for value in numbers.values()):
                raise ValueError(f"there is more: {sorted(found)}")
            return DeviceRates(**numbers, link=None if link is None else Link(**link))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise FormatError("rates of a device cannot be read", why=str(error)) from error


def stated_rates(description: DeviceDescription) -> DeviceRates:
    """Rates as a description states them: one for all operations, one for all bytes."""
    peak = description.peak_flops.get("f32") or max(
        description.peak_flops.values(), default=_DEFAULT_FLOPS
    )
    byte_s = 1 / (description.memory_spaces[0].bandwidth or _DEFAULT_BANDWIDTH)
    return DeviceRates(
        product_s=1 / peak,
        vector_s=1 / peak,
        function_s=1 / peak,
        byte_s=byte_s,
        rearranged_byte_s=byte_s,
        launch_s=description.launch_overhead_s,
    )


def type_scale(description: DeviceDescription, element_type: str) -> float:
    """How many times longer operations of a type take than those of f32."""
    rates = description.peak_flops
    own, f32 = rates.get(element_type), rates.get("f32")
    return f32 / own if own and f32 else 1.0
