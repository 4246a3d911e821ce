"""What a base holds after a write to a view of it in which elements have one place together.

Torch takes the differences between the written view and its base, sums them up over what `expand`
repeated and adds them: elements that were all written would change several times. For `unfold` it
gives zeros where no window lies. While an operator writes, these calls are found here and answered
exactly: of the elements with one place, the first that was changed is what it holds.
Source: `expand_inverse` and `unfold_inverse` in torch's ATen/FunctionalInverses.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from xladev.frontends.torch.device.node import Node
from xladev.frontends.torch.device.record import run
from xladev.frontends.torch.device.tensor import Inner, tensor_of

aten = torch.ops.aten


class Writing:
    """The write that is going on, and how far torch is with the inverse of an `expand`.

    Attributes:
        depth: writes, one within another.
        own: what the written tensor is a view of by `unfold`.
        out: type of the `out=` that is written to, operator and arguments.
        bases: what others were, that torch made again since.
        difference: node of a difference, with its operands.
        sum: node of the sum of it, with what is the answer in its place.
    """

    __slots__ = ("bases", "depth", "difference", "out", "own", "sum")

    def __init__(self) -> None:
        self.depth = 0
        self.own: Inner | None = None
        self.out: tuple[torch.dtype, Any, Any, Any] | None = None
        self.bases: list[Inner] = []
        self.difference: tuple[Node, Inner, Inner] | None = None
        self.sum: tuple[Node, Inner, Node] | None = None

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1
        self.own = self.out = self.difference = self.sum = None
        self.bases.clear()

    def base_of(self, sizes: Sequence[int]) -> Inner | None:
        """What windows are of that has these sizes; each `unfold` adds a dimension."""
        found = [*self.bases, *([] if self.own is None else [self.own])]
        return next((each for each in reversed(found) if tuple(each.shape) == tuple(sizes)), None)


WRITING = Writing()


def _node(value: Any) -> Any:
    return value.handle.node if value.__class__ is Inner else None


_Kept = TypeVar("_Kept", bound=tuple[Any, ...])


def _kept(of: _Kept | None, value: Any) -> _Kept | None:
    """What is kept in mind of a value within a write; None if that is of another value."""
    is_it = WRITING.depth and of is not None and _node(value) is of[0]
    return of if is_it else None


def sub(*args: Any, **kwargs: Any) -> Any:
    """A difference; it is kept in mind within a write."""
    made = run(aten.sub.Tensor, args, kwargs)
    if WRITING.depth and len(args) == 2 and args[0].__class__ is args[1].__class__ is Inner:
        WRITING.difference = (_node(made), args[0], args[1])
    return made


def total(*args: Any, **kwargs: Any) -> Any:
    """A sum over dimensions, or within a write what a base holds in its place."""
    made = run(aten.sum.dim_IntList, args, kwargs)
    if (found := _kept(WRITING.difference, args[0])) is not None:
        _, view, base = found
        WRITING.sum = (_node(made), _chosen(view, base, args[1]), _node(base))
    return made


def whole(*args: Any, **kwargs: Any) -> Any:
    """A sum over all dimensions, which is what torch calls for a base without dimensions."""
    made = run(aten.sum.default, args, kwargs)
    if (found := _kept(WRITING.difference, args[0])) is not None:
        _, view, base = found
        line = run(aten.view.default, (view, [-1]), {})
        WRITING.sum = (
            _node(made),
            run(aten.view.default, (_chosen(line, base, [0]), []), {}),
            _node(base),
        )
    return made


def view(*args: Any, **kwargs: Any) -> Any:
    """A view of other sizes; within a write, of a new value that no view is of yet."""
    try:
        made = run(aten.view.default, args, kwargs)
    except RuntimeError:
        if not WRITING.depth:
            raise
        made = run(aten.view.default, (tensor_of(args[0].handle.node), args[1]), kwargs)
    if (found := _kept(WRITING.sum, args[0])) is not None:
        WRITING.sum = (_node(made), run(aten.view.default, (found[1], args[1]), {}), found[2])
    return made


def clone(*args: Any, **kwargs: Any) -> Any:
    """A copy, which torch makes of a sum that it has not viewed."""
    made = run(aten.clone.default, args, kwargs)
    if (found := _kept(WRITING.sum, args[0])) is not None:
        WRITING.sum = (_node(made), found[1], found[2])
    return made


def add(*args: Any, **kwargs: Any) -> Any:
    """A sum of two tensors, or within a write what a base holds."""
    if WRITING.depth and WRITING.sum is not None:
        summed, chosen, base = WRITING.sum
        if _node(args[1]) is summed and _node(args[0]) is base:
            WRITING.sum = None
            return chosen
    return run(aten.add.Tensor, args, kwargs)


def _changed(view: Inner, base: Inner) -> Inner:
    """Where a view is no longer as its base; a NaN is like any other."""
    differs = run(aten.ne.Tensor, (view, base), {})
    if not (view.dtype.is_floating_point or view.dtype.is_complex):
        return differs
    are = [run(aten.eq.Tensor, (each, each), {}) for each in (view, base)]
    return run(
        aten.logical_and.default, (differs, run(aten.logical_or.default, tuple(are), {})), {}
    )


def _chosen(view: Inner, base: Inner, dims: Sequence[int]) -> Inner:
    """The first changed element along dimensions, which have size 1 then."""
    flags = run(aten._to_copy.default, (_changed(view, base),), {"dtype": torch.int32})
    for dim in dims:
        at = run(aten.argmax.default, (flags, dim, True), {})
        view = run(aten.gather.default, (view, dim, at), {})
        flags = run(aten.gather.default, (flags, dim, at), {})
    return view


def unfold(*args: Any) -> Any:
    """Windows along a dimension; what they are of is kept for writes to them."""
    made = run(aten.unfold.default, args, {})
    made.handle.base = args[0]
    if WRITING.depth:
        WRITING.bases.append(args[0])
    return made


def unfold_backward(*args: Any) -> Any:
    """Windows summed up, or within a write what their base holds."""
    written, sizes, dim, size, step = args
    base = WRITING.base_of(sizes) if WRITING.depth else None
    if base is None:
        return run(aten.unfold_backward.default, args, {})
    if not sizes:
        return run(aten.select.int, (written, 0, 0), {})
    dim %= len(sizes)
    count = written.shape[dim]
    found = base
    for at in range(size):
        place = (dim, at, at + (count - 1) * step + 1, step)
        new = run(aten.select.int, (written, len(sizes), at), {})
        old = run(aten.slice.Tensor, (base, *place), {})
        held = run(aten.slice.Tensor, (found, *place), {})
        first = run(aten.logical_not.default, (_changed(held, old),), {})
        taken = run(aten.logical_and.default, (_changed(new, old), first), {})
        new = run(aten.where.self, (taken, new, held), {})
        found = run(aten.slice_scatter.default, (found, new, *place), {})
    return found


KERNELS: dict[str, Callable[..., Any]] = {
    "aten::sub.Tensor": sub,
    "aten::sum.dim_IntList": total,
    "aten::sum": whole,
    "aten::view_copy": view,
    "aten::add.Tensor": add,
    "aten::clone": clone,
    "aten::unfold_copy": unfold,
    "aten::unfold_backward": unfold_backward,
}
"""In the place of the usual ones."""
