"""Writes to tensors of the device: refused where torch's CPU refuses them, and exact behind views.

The kernels here stand before autograd's, look at what is written to, and call autograd's.
Source: the function `assert_no_internal_overlap` and its like in torch's ATen/MemoryOverlap.h.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from xladev.errors import ArgumentError
from xladev.frontends.torch.device import hooks
from xladev.frontends.torch.device.fused import STEPS
from xladev.frontends.torch.device.inverses import WRITING
from xladev.frontends.torch.device.node import Layout
from xladev.frontends.torch.device.outputs import (
    check_devices,
    check_fits,
    check_view,
    may_not_fit,
    warn_of_sizes,
)
from xladev.frontends.torch.device.record import is_ours
from xladev.frontends.torch.device.sparse import add_to, is_sparse
from xladev.frontends.torch.device.tensor import Inner, tensor_of
from xladev.frontends.torch.errors import refusal
from xladev.frontends.torch.layouts import dense_order

ABOUT_SIZES = frozenset((
    "as_strided_", "detach_", "resize_", "resize_as_", "resize_as_sparse_", "set_",
    "sparse_resize_", "sparse_resize_and_clear_", "squeeze_", "t_", "transpose_", "unsqueeze_",
    "_coalesced_", "_resize_output_",
))  # fmt: skip
"""Operators that change what a tensor says of its memory, and no elements."""

MAY_OVERLAP = frozenset((
    "fill_", "zero_", "masked_fill_", "index_fill_", "index_put_", "_index_put_impl_", "tril_",
    "triu_", "fill_diagonal_",
))  # fmt: skip
"""Operators that the CPU lets write to an element by several indices."""

PROMOTING = frozenset(("add_", "sub_", "mul_", "div_", "floor_divide_", "remainder_", "fmod_"))
"""Operators of two operands whose result must fit the type of what is written to."""

APART = frozenset(("index_add_", "index_copy_", "index_reduce_", "put_", "scatter_", "scatter_add_",
                   "scatter_reduce_"))  # fmt: skip
"""Operators that read nothing of the memory that they write to, not even the same tensor."""


def register_writes(library: torch.library.Library) -> None:
    """Gives torch a kernel of each operator that writes, for tensors of the device."""
    for full, op in hooks.operators():
        name = full.removeprefix("aten::").partition(".")[0]
        if not hooks.writes(op) or hooks.is_composite(full, op) or name in {*ABOUT_SIZES, *STEPS}:
            continue
        if name.endswith("_") or op._schema.arguments[-1].name == "out":
            library.impl(full, _writer(full, name, op), hooks.AUTOGRAD, with_keyset=True)


def _writer(full: str, name: str, op: Any) -> Callable[..., Any]:
    call = hooks.autograd_kernel(full)
    is_out = op._schema.arguments[-1].name == "out"
    refuses = name not in MAY_OVERLAP
    reads = name == "copy_" or name in APART or hooks.is_pointwise(op)
    apart, promotes, adds = name in APART, name in PROMOTING, full == "aten::add_.Tensor"
    places = [at for at, a in enumerate(op._schema.arguments) if str(a.type) == "Tensor"]
    of_numbers = hooks.autograd_kernel_of_numbers(op)

    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        written = kwargs["out"] if is_out else args[0]
        chosen: Any = call
        numbers = [] if of_numbers is None else _numbers(args, places)
        if numbers and _is_recorded(args):
            args = _with_tensors(args, numbers)
        elif numbers:
            chosen = of_numbers
        if is_sparse(written):
            return chosen(keys, *args, **kwargs)
        if adds and is_sparse(args[1]):
            return add_to(*args, **kwargs)
        if is_out:
            check_devices(written, args, name)
        if refuses:
            check_one_place(written)
            if reads:
                check_apart(written, args if is_out else args[1:], same_too=apart)
        if is_out and written._base is not None:
            check_view(written, op, args, kwargs)
        if promotes and may_not_fit(written, args[1]):
            check_fits(written, args[1], is_true_division=name == "div_" and not kwargs)
        inner = _inner(written)
        if inner is None:
            with WRITING:
                made = chosen(keys, *args, **kwargs)
            if isinstance(written, (list, tuple)):
                for each in filter(hooks.is_functional, written):
                    hooks.bring_up_to_date(each)
            return made
        layout, base = inner.handle.layout, _inner(written._base)
        if inner.handle.base is not None:
            WRITING.own = hooks.unwrapped(written).handle.base
        try:
            with WRITING:
                WRITING.out = (inner.dtype, op, args, kwargs) if is_out else None
                made = chosen(keys, *args, **kwargs)
        except RuntimeError:
            if is_out:  # torch has put the result there before it is refused
                hooks.replace(written, inner)
            raise
        if base is not None:
            _keep_layout(written._base, base.handle.layout, base.shape)
        _keep_layout(written, layout, inner.shape)
        if is_out and written.shape != inner.shape:
            warn_of_sizes(inner.shape, written.shape)
            if name.endswith("_copy"):
                _lay_plainly(written)
        return made

    return kernel


def _numbers(args: tuple[Any, ...], places: list[int]) -> list[int]:
    """Places of tensors where numbers are given."""
    return [at for at in places if at < len(args) and not isinstance(args[at], torch.Tensor)]


def _with_tensors(args: tuple[Any, ...], numbers: Sequence[int]) -> tuple[Any, ...]:
    """Arguments with tensors in the places of some numbers."""
    return tuple(
        hooks.as_saved_number(each) if at in numbers else each for at, each in enumerate(args)
    )


def _is_recorded(args: tuple[Any, ...]) -> bool:
    """Whether autograd records an operator, and may save its operands, or refuses ``out=``."""
    return torch.is_grad_enabled() and any(
        isinstance(each, torch.Tensor) and each.requires_grad for each in args
    )


def _inner(tensor: Any) -> Inner | None:
    """What is inside a tensor of the device as it was last brought up to date; None of others."""
    if isinstance(tensor, torch.Tensor) and hooks.is_functional(tensor):
        found: Any = hooks.inside(tensor)
        return found if found.__class__ is Inner else None
    return None


def _keep_layout(tensor: torch.Tensor, layout: Layout | None, sizes: torch.Size) -> None:
    """A tensor lies where it did; the operator that made its new value may say otherwise.

    The value before goes here, too: torch would keep it until the tensor is next read.
    """
    after: Any = hooks.unwrapped(tensor)
    if after.handle.layout != layout and after.shape == sizes:
        hooks.replace(tensor, tensor_of(after.handle.node, layout))


def _lay_plainly(tensor: torch.Tensor) -> None:
    """What takes new sizes from a copy of a view has its elements one after another."""
    after: Any = hooks.unwrapped(tensor)
    if after.handle.layout is not None:
        hooks.replace(tensor, tensor_of(after.handle.node))


def check_one_place(written: Any) -> None:
    """Refuses to write to a tensor, or several, with two elements in one place.

    Raises:
        ArgumentError: an index moves nothing; a RuntimeError too, as torch's CPU raises it.
    """
    if isinstance(written, torch.Tensor):
        strides = written.stride()
        if (
            0 in strides
            and written.numel()
            and any(not s and n > 1 for s, n in zip(strides, written.shape, strict=True))
        ):
            raise refusal(
                ArgumentError,
                "unsupported operation: more than one element of the written-to tensor refers to "
                "a single memory location",
                where=f"a tensor of shape {tuple(written.shape)} and strides {strides}",
                why="it is expanded, and its elements would be written several times",
                hint="clone() the tensor before performing the operation",
            )
    elif isinstance(written, (list, tuple)):
        for each in written:
            check_one_place(each)


def check_apart(written: torch.Tensor, read: Sequence[Any], *, same_too: bool) -> None:
    """Refuses to read some of the memory that is written to.

    Args:
        written: what is written to.
        read: arguments of the operator.
        same_too: whether the same elements in the same order are refused too.

    Raises:
        ArgumentError: some elements are; a RuntimeError too, as torch's CPU raises it.
    """
    for each in read:
        if not isinstance(each, torch.Tensor) or (each is written and not same_too):
            continue
        if is_ours(each) and _meets(written, each, same_too):
            raise refusal(
                ArgumentError,
                "unsupported operation: some elements of the input tensor and the written-to "
                "tensor refer to a single memory location",
                where=f"tensors of shapes {tuple(written.shape)} and {tuple(each.shape)}",
                why="what is read would have been written to before",
                hint="clone() the tensor before performing the operation",
            )


def _meets(written: torch.Tensor, read: torch.Tensor, same_too: bool) -> bool:
    if not hooks.share_memory(written, read) or not written.numel() or not read.numel():
        return False
    if not (_is_dense(written) and _is_dense(read)):
        return False
    start, other = (t.storage_offset() * t.element_size() for t in (written, read))
    end, other_end = start + _nbytes(written), other + _nbytes(read)
    if (start, end) == (other, other_end) and written.stride() == read.stride():
        return same_too
    return start < other_end and other < end


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether elements lie without gaps and each in a place of its own."""
    strides, sizes = tensor.stride(), tuple(tensor.shape)
    step = 1
    for at in reversed(dense_order(strides, sizes)):
        if sizes[at] != 1 and strides[at] != step:
            return False
        step *= sizes[at]
    return True


def _nbytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
