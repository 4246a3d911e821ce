"""What an operator's result may be written to: a tensor of the same device, of a type that fits."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from xladev.errors import ArgumentError
from xladev.frontends.torch.device.record import is_ours, mapped, of_several_devices
from xladev.frontends.torch.errors import refusal

aten = torch.ops.aten

_EXACT = (aten.nonzero, aten.triu, aten.tril, aten.index_select, aten.neg, aten.round)
"""Operators of which torch tells by nothing but its CPU's kernels that they are such."""


def check_devices(out: torch.Tensor, args: Any, name: str) -> None:
    """Refuses to write to another device than that of the operands.

    Args:
        out: what is written to.
        args: of the operator.
        name: of the operator.

    Raises:
        ArgumentError: some are on the device and some are not.
    """
    for each in (out, *_tensors(args)):
        if not is_ours(each) and (each.dim() or each is out):
            raise of_several_devices(name, each.device)


def _tensors(args: Any) -> Iterator[torch.Tensor]:
    for each in args:
        if isinstance(each, torch.Tensor):
            yield each
        elif isinstance(each, (list, tuple)):
            yield from _tensors(each)


def may_not_fit(written: torch.Tensor, other: Any) -> bool:
    """Whether what is written to is to be compared with the type of the other operand."""
    if written.is_floating_point():
        return other.is_complex() if isinstance(other, torch.Tensor) else type(other) is complex
    return not written.is_complex()


def check_fits(written: torch.Tensor, other: Any, *, is_true_division: bool) -> None:
    """Refuses to write numbers to a type that does not hold them.

    Raises:
        ArgumentError: as torch's CPU raises it.
    """
    made = torch.result_type(written, other)
    if is_true_division and not (made.is_floating_point or made.is_complex):
        made = torch.get_default_dtype()
    check_type(made, written.dtype)


def check_result(made: torch.dtype, held: torch.dtype, op: Any, args: Any, kwargs: Any) -> None:
    """Refuses a result that an operator does not write to an `out=` of another type.

    Some operators write to any type that holds the result, and some to its own alone: torch tells
    by what it does with tensors without elements, where it has such a form of the operator.

    Args:
        made: type of the result.
        held: type of the `out=`.
        op: the operator.
        args: its arguments.
        kwargs: its arguments by name, `out` among them.

    Raises:
        RuntimeError: as torch's CPU raises it.
    """
    check_type(made, held)
    if op.overloadpacket in _EXACT:
        raise refusal(
            ArgumentError,
            f"Expected out tensor to have scalar type {_of_torch(made)} but got scalar type "
            f"{_of_torch(held)}",
            where=str(op),
            why="the operator writes to the type of its result alone",
            hint="give a tensor of that type",
        )
    with contextlib.suppress(NotImplementedError):
        op(*mapped(args, _without_elements), **mapped(kwargs, _without_elements))


def warn_of_sizes(before: torch.Size, after: torch.Size) -> None:
    """Says that an `out=` with elements has taken other sizes, as torch's CPU does."""
    if before.numel():
        warnings.warn(
            "An output with one or more elements was resized since it had shape "
            f"{list(before)}, which does not match the required output shape {list(after)}; "
            "give a tensor of the result's sizes, or one without elements",
            stacklevel=3,
        )


def check_view(out: torch.Tensor, op: Any, args: Any, kwargs: Any) -> None:
    """Refuses to give a view the sizes of a result; nothing has been written then.

    Args:
        out: a view that is written to.
        op: the operator.
        args: its arguments.
        kwargs: its arguments by name, `out` among them.

    Raises:
        ArgumentError: the result has other sizes.
    """
    made = _without_elements(out)
    given = {**mapped(kwargs, _without_elements), "out": made}
    with contextlib.suppress(RuntimeError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        op(*mapped(args, _without_elements), **given)  # what it refuses is refused again
    if made.shape != out.shape:
        raise refusal(
            ArgumentError,
            f"out= has sizes {tuple(out.shape)}, and the result {tuple(made.shape)}",
            where=str(op),
            why="it is a view, and of views the device does not change the sizes",
            hint="give a tensor that is no view, or a view of the result's sizes",
        )


def _without_elements(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def check_type(made: torch.dtype, held: torch.dtype) -> None:
    """Refuses to write a result of one type to a tensor of a type that does not hold it.

    Raises:
        ArgumentError: as torch's CPU raises it.
    """
    if not torch.can_cast(made, held):
        raise refusal(
            ArgumentError,
            f"result type {_of_torch(made)} can't be cast to the desired output type "
            f"{_of_torch(held)}",
            where=f"a tensor of {held}",
            why=f"the result of the operation is of {made}",
            hint="write to a tensor of the result's type, or use the operation that makes one",
        )


def _of_torch(dtype: torch.dtype) -> str:
    """A type as torch's errors call it."""
    names = {torch.int64: "Long", torch.int32: "Int", torch.int16: "Short", torch.int8: "Char",
             torch.uint8: "Byte", torch.bool: "Bool", torch.float32: "Float",
             torch.float64: "Double", torch.float16: "Half", torch.bfloat16: "BFloat16",
             torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble"}  # fmt: skip
    return names.get(dtype, str(dtype))
