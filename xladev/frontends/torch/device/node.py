"""What is recorded: calls of operators, their operands, and the tensors that need them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from xladev.runtime.array import DeviceArray

_numbers = itertools.count()


class Spec:
    """Sizes and type of an array; one object for each that comes, so that `is` compares them.

    Attributes:
        number: of its own, for keys.
    """

    __slots__ = ("dtype", "number", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self.shape = shape
        self.dtype = dtype
        self.number = next(_numbers)


_specs: dict[tuple[tuple[int, ...], torch.dtype], Spec] = {}


def spec_of(tensor: torch.Tensor) -> Spec:
    """The one object for a tensor's sizes and type."""
    key = (tuple(tensor.shape), tensor.dtype)
    found = _specs.get(key)
    if found is None:
        found = _specs[key] = Spec(*key)
    return found


class Layout(NamedTuple):
    """Where torch's CPU would have the elements of a tensor: by it torch tells views from copies.

    Attributes:
        strides: elements from one index to the next, by dimension.
        offset: elements before the first.
    """

    strides: tuple[int, ...]
    offset: int = 0


def layout_of(tensor: torch.Tensor) -> Layout | None:
    """A tensor's layout; None where elements follow one another from the first."""
    return plain(tensor.shape, Layout(tensor.stride(), int(tensor.storage_offset())))


def plain(sizes: Sequence[int], layout: Layout) -> Layout | None:
    """A layout, or None where elements follow one another from the first."""
    return None if layout == (contiguous(sizes), 0) else layout


def contiguous(sizes: Sequence[int]) -> tuple[int, ...]:
    """Strides of elements that follow one another."""
    found, step = [], 1
    for size in reversed(sizes):
        found.append(step)
        step *= max(size, 1)
    return tuple(reversed(found))


def view_strides(
    sizes: Sequence[int], strides: Sequence[int], wanted: Sequence[int]
) -> tuple[int, ...] | None:
    """Strides of a view of other sizes; None where there is no such view.

    Dimensions of which each goes on where the next one ends are one block: within each block, sizes
    may be others. Source: torch's documentation of `torch.Tensor.view`.

    Args:
        sizes: of a tensor; none is 0.
        strides: of it.
        wanted: sizes of the view, as many elements together.
    """
    found: list[int] = []
    left, kept = list(wanted), list(zip(sizes, strides, strict=True)) or [(1, 1)]
    while kept:
        size, step = kept.pop()
        while kept and (kept[-1][0] == 1 or kept[-1][1] == step * size):
            size *= kept.pop()[0]
        while left and (size > 1 or left[-1] == 1):
            if size % left[-1]:
                return None
            found.append(step)
            step *= left[-1]
            size //= left.pop()
        if size > 1:
            return None
    return tuple(reversed(found))


class Call:
    """An operator with arguments of certain sizes and types; one object for all such calls.

    Attributes:
        name: of the overload.
        number: of its own, for keys.
        specs: of the results.
        layouts: of the results, by those of the operands where one of these is strided.
        is_several: whether there is a list of results.
        lower: makes HLO of a builder, operands, scalars, and the place if the node has one.
        draws: whether it takes a seed.
        why_not: why it has no HLO and runs on the host; empty if it has.
    """

    __slots__ = ("draws", "is_several", "layouts", "lower", "name", "number", "specs", "why_not")

    def __init__(
        self,
        name: str,
        specs: tuple[Spec | None, ...],
        lower: Callable[..., Any] | None,
        *,
        is_several: bool = False,
        draws: bool = False,
        layouts: tuple[Layout | None, ...] = (),
        why_not: str = "",
    ) -> None:
        self.name = name
        self.number = next(_numbers)
        self.specs = specs
        self.layouts: dict[Any, tuple[Layout | None, ...]] = {None: layouts}
        self.lower = lower
        self.is_several = is_several
        self.draws = draws
        self.why_not = why_not


def takes_doubles(specs: Sequence[Spec | None]) -> bool:
    """Whether a call takes its numbers in f64: its result, told by its specs, has such."""
    return bool(specs) and specs[0] is not None and specs[0].dtype is torch.float64


class Node:
    """A value: computed, or a call whose operands are nodes.

    Attributes:
        call: what computes it; None once it is computed, and for a part of several results.
        inputs: operands; of a part, the node of all results.
        scalars: numbers that are parameters of programs.
        spec: None of several results together.
        part: which of several results; -1 otherwise.
        value: the array, once it is computed.
        place: of a slice or select; negative of other calls.
        seed: two words, where the call draws random numbers.
    """

    __slots__ = ("call", "inputs", "part", "place", "scalars", "seed", "spec", "value")

    def __init__(
        self,
        spec: Spec | None,
        call: Call | None = None,
        inputs: tuple[Node, ...] = (),
        scalars: tuple[float, ...] = (),
        part: int = -1,
        value: DeviceArray | None = None,
        place: int = -1,
    ) -> None:
        self.spec = spec
        self.call = call
        self.inputs = inputs
        self.scalars = scalars
        self.part = part
        self.value = value
        self.place = place
        self.seed: Any = None

    def compute(self, value: DeviceArray) -> None:
        """The value is there; what it was computed from may go."""
        self.value = value
        self.call = None
        self.inputs = ()
        self.scalars = ()
        self.place = -1


class Handle:
    """Lives as long as the tensor that holds it: what must be computed.

    Attributes:
        layout: the tensor's; None where elements follow one another.
        base: the tensor that an `unfold` is a view of.
    """

    __slots__ = ("__weakref__", "base", "layout", "node")

    def __init__(self, node: Node, layout: Layout | None = None) -> None:
        self.node = node
        self.layout = layout
        self.base: Any = None
