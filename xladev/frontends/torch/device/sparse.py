"""Sparse tensors of coordinates on the device: torch's own objects, of tensors of the device.

Torch makes and asks them by the kernels that it has for the host, which look at no element. What
computes is composed here of the device's operators on indices and values. The places of unequal
coordinates are as many as values say: `torch.unique` runs on the host, on indices alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from xladev.errors import ArgumentError, UnsupportedError, XladevError
from xladev.frontends.torch.device import hooks
from xladev.frontends.torch.device.tensor import STATE, Inner
from xladev.frontends.torch.errors import refusal

_MAKER = "aten::_sparse_coo_tensor_with_dims_and_tensors"
_ABOUT = (
    "_indices", "_values", "_nnz", "sparse_dim", "dense_dim", "is_coalesced", "_coalesced_",
    "_dimI", "_dimV", "indices", "values", "empty.memory_format", "sparse_resize_",
    "sparse_resize_and_clear_", "copy_sparse_to_sparse_",
)  # fmt: skip
"""Operators that ask or change what holds indices and values."""


def register_sparse(library: torch.library.Library) -> None:
    """Gives torch the kernels of this file, for sparse tensors of the device."""
    library.impl(_MAKER, _maker, hooks.AUTOGRAD)
    for name in _ABOUT:
        full = f"aten::{name}"
        library.impl(full, _about(hooks.sparse_kernel(full)), hooks.SPARSE, with_keyset=True)
    for name, kernel in KERNELS.items():
        library.impl(f"aten::{name}", kernel, hooks.SPARSE)
    for name, kernel in OF_DENSE.items():
        library.impl(f"aten::{name}", kernel, hooks.AUTOGRAD)


def _about(usual: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        return usual(keys, *args, **kwargs)

    return kernel


def is_sparse(value: Any) -> bool:
    """Whether a value is a sparse tensor of the device."""
    return isinstance(value, Tensor) and value.is_sparse and value.device.type == STATE.name


class _Recorded(torch.autograd.Function):  # type: ignore[misc]
    """A sparse tensor of values whose gradient is wanted."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, indices: Tensor, *given: Any) -> Tensor:
        """The sparse tensor."""
        ctx.save_for_backward(indices)
        return hooks.sparse_tensor(_MAKER, indices, values, *given)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """What the gradient has where values are."""
        (indices,) = ctx.saved_tensors
        dense = grad.to_dense() if grad.is_sparse else grad
        return dense[tuple(indices.unbind(0))], None, None, None, None, None


def _maker(
    sparse_dim: int, dense_dim: int, size: Any, indices: Tensor, values: Tensor,
    *, is_coalesced: bool | None = None, **_: Any,
) -> Tensor:  # fmt: skip
    given = (sparse_dim, dense_dim, tuple(size), is_coalesced)
    if torch.is_grad_enabled() and values.requires_grad:
        recorded: Tensor = _Recorded.apply(values, indices, *given)
        return recorded
    return hooks.sparse_tensor(_MAKER, indices, values, *given)


def _made(like: Tensor, indices: Tensor, values: Tensor, *, is_coalesced: bool) -> Tensor:
    """A sparse tensor of a size, on the device or, where its parts are there, on the host."""
    if values.device.type != STATE.name:
        return torch.sparse_coo_tensor(indices, values, like.shape, is_coalesced=is_coalesced,
                                       check_invariants=False)  # fmt: skip
    dense_dim = values.dim() - 1
    return _maker(like.dim() - dense_dim, dense_dim, like.shape, indices, values,
                  is_coalesced=is_coalesced)  # fmt: skip


def _refused(what: str, hint: str) -> XladevError:
    return refusal(
        UnsupportedError,
        f"device {STATE.name} has no kernel for {what}",
        where="a sparse tensor",
        why="kernels of sparse tensors are composed one by one of the device's dense operators",
        hint=hint,
    )


def _unfit(what: str, where: str, hint: str) -> XladevError:
    """An error in the host's words."""
    return refusal(
        ArgumentError,
        what,
        where=where,
        why="elements that a sparse tensor does not hold stay zero",
        hint=hint,
    )


def _outer(tensor: Tensor) -> Tensor:
    return hooks.wrapped(tensor) if tensor.__class__ is Inner else tensor


def _at(sparse: Tensor) -> tuple[Tensor, ...]:
    """An index for each sparse dimension."""
    return tuple(sparse._indices().unbind(0))


# Within one sparse tensor


def _coalesce(sparse: Tensor) -> Tensor:
    """Each coordinate once, in order; values of the same one are summed."""
    indices, values = sparse._indices(), sparse._values()
    sizes = sparse.shape[: sparse.sparse_dim()]
    line = torch.zeros_like(indices[0]) if len(sizes) else indices.sum(0)
    for at, size in enumerate(sizes):
        line = line * size + indices[at]
    places, to = torch.unique(line, return_inverse=True)
    summed = torch.zeros((places.shape[0], *values.shape[1:]), dtype=values.dtype,
                         device=values.device).index_add(0, to, values)  # fmt: skip
    found = []
    for size in reversed(sizes):
        found.append(places % size)
        places = torch.div(places, size, rounding_mode="floor")
    return _made(sparse, torch.stack(found[::-1]), summed, is_coalesced=True)


def _to_dense(sparse: Tensor, dtype: torch.dtype | None = None, *_: Any, **__: Any) -> Tensor:
    values = sparse._values()
    zeros = torch.zeros(sparse.shape, dtype=values.dtype, device=values.device)
    made = torch.index_put(zeros, _at(sparse), values, accumulate=True)
    return made if dtype is None else made.to(dtype)


def _to_copy(sparse: Tensor, **kwargs: Any) -> Tensor:
    kept = {k: kwargs[k] for k in ("device", "dtype") if kwargs.get(k) is not None}
    values = sparse._values().to(**kept)
    indices = sparse._indices().to(values.device)
    return _made(sparse, indices, values, is_coalesced=sparse.is_coalesced())


def _with_values(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A kernel that changes values alone."""

    def kernel(sparse: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        kwargs.pop("memory_format", None)
        values = function(sparse._values(), *args, **kwargs)
        return _made(sparse, sparse._indices(), values, is_coalesced=sparse.is_coalesced())

    return kernel


def _clone(values: Tensor) -> Tensor:
    return values.clone()


def _of_each(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A kernel of each element, for functions that are not linear: coordinates come once."""
    changed = _with_values(function)
    return lambda sparse, *args: changed(sparse.coalesce(), *args)


def _sum(sparse: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    return sparse._values().sum(dtype=dtype)


def _zero_(sparse: Tensor) -> Tensor:
    return sparse.sparse_resize_and_clear_(sparse.shape, sparse.sparse_dim(), sparse.dense_dim())


# Of two


def _add(first: Tensor, second: Tensor, *, alpha: Any = 1) -> Tensor:
    _check_sum(first, second)
    if is_sparse(first) and is_sparse(second):
        dtype = torch.result_type(first, second)
        parts = first._values().to(dtype), second._values().to(dtype) * alpha
        indices = torch.cat((first._indices(), second._indices()), 1)
        return _made(first, indices, torch.cat(parts), is_coalesced=False)
    return torch.index_put(_outer(first), _at(second), second._values().to(first.dtype) * alpha,
                           accumulate=True)  # fmt: skip


def _check_sum(first: Any, second: Any) -> None:
    """Refuses sums that torch's CPU refuses.

    Raises:
        ArgumentError: a sparse tensor and a number or a dense one, or of other sizes.
    """
    where = "a sum with a sparse tensor"
    if not is_sparse(second):
        hint = "call to_dense first, or give the dense tensor first"
        what = "add(sparse, dense) is not supported. Use add(dense, sparse) instead."
        raise _unfit(what, where, hint)
    sizes = list(first.shape) if isinstance(first, Tensor) else []
    if not is_sparse(first) and sizes != list(second.shape):
        raise _unfit(
            f"add: expected 'self' and 'other' to have same size, but self has size {sizes} while "
            f"other has size {list(second.shape)} (FYI: dense-sparse addition does not currently "
            "support broadcasting)",
            where,
            "expand the dense operand first",
        )
    if is_sparse(first) and sizes != list(second.shape):
        raise _unfit(
            "add: expected sizes of 'self' and 'other' to match, but "
            f"{sizes} != {list(second.shape)}",
            where,
            "give both the same sizes",
        )
    if is_sparse(first) and first.sparse_dim() != second.sparse_dim():
        raise _unfit(
            f"add: expected 'self' and 'other' to have same density, but 'self' has "
            f"{first.sparse_dim()} sparse dimensions while 'other' has {second.sparse_dim()} "
            "sparse dimensions",
            where,
            "give both as many sparse dimensions",
        )


def _in_place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A kernel that puts what a function gives in the place of its first operand."""

    def kernel(first: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        made: Tensor = torch.ops.aten.copy_sparse_to_sparse_(
            first, function(first, *args, **kwargs)
        )
        return made

    return kernel


def _to_out(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A kernel that puts what a function gives into ``out``."""

    def kernel(*args: Any, out: Tensor, **kwargs: Any) -> Tensor:
        made: Tensor = torch.ops.aten.copy_sparse_to_sparse_(out, function(*args, **kwargs))
        return made

    return kernel


def _sub(first: Tensor, second: Tensor, *, alpha: Any = 1) -> Tensor:
    return _add(first, second, alpha=-alpha)


def _mul(first: Any, second: Any) -> Tensor:
    if not is_sparse(first):
        first, second = second, first
    if not isinstance(second, Tensor) or (not second.dim() and not second.is_sparse):
        return _with_values(lambda values: values * second)(first)
    if not is_sparse(second):
        raise _refused("a product of a sparse tensor and a dense one", "call to_dense first")
    is_coalesced = first.is_coalesced() and second.is_coalesced()
    first = first.coalesce()
    values = first._values() * second.to_dense()[_at(first)]
    return _made(first, first._indices(), values, is_coalesced=is_coalesced)


def _div(sparse: Tensor, divisor: Any, **kwargs: Any) -> Tensor:
    """Divided by a number."""
    if isinstance(divisor, Tensor) and (divisor.dim() or divisor.is_sparse):
        raise _unfit(
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{list(divisor.shape)} for divisor)",
            "a quotient of a sparse tensor",
            "call to_dense first",
        )
    return _with_values(lambda values: torch.div(values, divisor, **kwargs))(sparse)


def _mm(first: Tensor, second: Tensor) -> Tensor:
    """A sparse matrix and one of which all elements are there."""
    rows, columns = _at(first)
    terms = first._values()[:, None] * _outer(second)[columns]
    zeros = torch.zeros((first.shape[0], second.shape[1]), dtype=terms.dtype, device=terms.device)
    return zeros.index_add(0, rows, terms)


def _addmm(
    added: Tensor, first: Tensor, second: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    return _outer(added) * beta + _mm(first, second) * alpha


def _transposed(sparse: Tensor, *dims: int) -> Tensor:
    """A matrix with rows as columns."""
    if sparse.sparse_dim() != 2 or sparse.dense_dim():
        raise _refused("a transposed sparse tensor that is no matrix", "call to_dense first")
    if tuple(at % 2 for at in dims) in ((0, 0), (1, 1)):
        return sparse.detach()
    rows, columns = sparse.shape
    return _maker(2, 0, (columns, rows), sparse._indices().flip(0), sparse._values(),
                  is_coalesced=False)  # fmt: skip


def _norm(sparse: Tensor, p: Any = 2, *args: Any, **kwargs: Any) -> Tensor:
    return torch.linalg.vector_norm(sparse.coalesce()._values(), 2 if p is None else p)


def _to_sparse(
    dense: Tensor, sparse_dim: int | None = None, *, layout: Any = None, **_: Any
) -> Tensor:
    """The elements that are not zero, or where there is one in what lies behind."""
    if layout not in (None, torch.sparse_coo):
        raise _refused(f"a tensor of {layout}", "use torch.sparse_coo")
    rank = dense.dim() if sparse_dim is None else sparse_dim
    seen = dense.detach() != 0
    if rank < dense.dim():
        seen = seen.flatten(rank).any(-1)
    indices = seen.nonzero().t()
    return _made(dense, indices, dense[tuple(indices.unbind(0))], is_coalesced=True)


def sparse_mask(dense: Tensor, mask: Tensor, *_: Any, **__: Any) -> Tensor:
    """The elements of a tensor where a sparse one has some."""
    if not is_sparse(mask):
        raise _refused(f"a mask of {mask.layout}, {mask.device}", "use torch.sparse_coo, there")
    if is_sparse(dense):
        dense = dense.to_dense()
    mask = mask.coalesce()
    return _made(mask, mask._indices(), dense[_at(mask)], is_coalesced=True)


def add_to(dense: Tensor, sparse: Tensor, alpha: Any = 1) -> Tensor:
    """Adds a sparse tensor to one of the device, in place."""
    values = sparse._values().to(dense.dtype) * alpha
    return dense.index_put_(_at(sparse), values, accumulate=True)


KERNELS: Mapping[str, Callable[..., Any]] = {
    "_coalesce": _coalesce,
    "_to_dense": _to_dense,
    "_to_copy": _to_copy,
    "sum": _sum,
    "zero_": _zero_,
    "detach": _with_values(Tensor.detach),
    "clone": _with_values(_clone),
    "neg": _with_values(torch.neg),
    "div.Tensor": _div,
    "abs": _of_each(torch.abs),
    "pow.Tensor_Scalar": _of_each(torch.pow),
    "sqrt": _of_each(torch.sqrt),
    "sign": _of_each(torch.sign),
    "add.Tensor": _add,
    "add_.Tensor": _in_place(_add),
    "sub_.Tensor": _in_place(_sub),
    "mul_.Tensor": _in_place(_mul),
    "div_.Tensor": _in_place(_div),
    "neg_": _in_place(_with_values(torch.neg)),
    "add.out": _to_out(_add),
    "sub.out": _to_out(_sub),
    "mul.out": _to_out(_mul),
    "div.out": _to_out(_div),
    "addmm": _addmm,
    "t": _transposed,
    "transpose.int": _transposed,
    "norm.ScalarOpt_dim": _norm,
    "norm.Scalar": _norm,
    "sub.Tensor": _sub,
    "mul.Tensor": _mul,
    "mm": _mm,
    "_sparse_mm": _mm,
    "sparse_mask": sparse_mask,
}
"""Kernels of sparse tensors, by overload."""

OF_DENSE: Mapping[str, Callable[..., Any]] = {
    "sparse_mask": sparse_mask,
    "_to_sparse": _to_sparse,
    "_to_sparse.sparse_dim": _to_sparse,
}
"""Kernels that give a sparse tensor of one that is not, in the place of autograd's."""
