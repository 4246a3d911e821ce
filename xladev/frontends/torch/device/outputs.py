"""What an operator's result may be written to: a tensor of the same device, of a type that fits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from xladev.errors import ArgumentError
from xladev.frontends.torch.device.record import is_ours, of_several_devices
from xladev.frontends.torch.errors import refusal


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


def check_fits(written: torch.Tensor, other: Any, *, is_true_division: bool) -> None:
    """Refuses to write numbers to a type that does not hold them.

    Raises:
        ArgumentError: as torch's CPU raises it.
    """
    made = torch.result_type(written, other)
    if is_true_division and not (made.is_floating_point or made.is_complex):
        made = torch.get_default_dtype()
    check_type(made, written.dtype)


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
