"""Errors as PyTorch programs expect them: of torch's usual classes, with xladev's four parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from xladev.errors import (
    ArgumentError,
    DeviceError,
    ExecutionError,
    OutOfMemoryError,
    UnsupportedError,
    XladevError,
)

USUAL: tuple[tuple[type[XladevError], type[Exception]], ...] = (
    (OutOfMemoryError, torch.OutOfMemoryError),
    (UnsupportedError, NotImplementedError),
    (ArgumentError, RuntimeError),
    (DeviceError, torch.AcceleratorError),
    (ExecutionError, torch.AcceleratorError),
    (XladevError, RuntimeError),
)
"""What torch raises where xladev raises this; the first that fits. All are `RuntimeError`s."""


_classes: dict[str, Any] = {}


def _class_of(kind: type[XladevError]) -> type[XladevError]:
    """A subclass of a class of xladev's and of torch's, the same one each time."""
    name = f"{kind.__module__}.{kind.__name__}"
    if name not in _classes:
        _classes[name] = _made(kind)
    found: type[XladevError] = _classes[name]
    return found


def _made(kind: type[XladevError]) -> type[XladevError]:
    usual = next(torchs for ours, torchs in USUAL if issubclass(kind, ours))
    if issubclass(kind, usual):
        return kind
    return type(kind.__name__, (kind, usual), {"__module__": kind.__module__})


def as_torch(error: XladevError) -> XladevError:
    """The same error, which is of torch's usual class too: both `except` clauses catch it."""
    return _class_of(type(error))(
        error.what, where=error.where, why=error.why, hint=error.hint, code=error.code
    )


@contextmanager
def told_as_torch(where: str) -> Iterator[None]:
    """Errors of xladev that leave it are of torch's usual classes.

    Args:
        where: the place of errors that have none.

    Raises:
        XladevError: as `as_torch` makes it.
    """
    try:
        yield
    except XladevError as error:
        raise as_torch(error.at(where)) from error


def refusal(kind: type[XladevError], what: str, *, where: str, why: str, hint: str) -> XladevError:
    """An error of a class of xladev's that is of torch's usual class too."""
    return _class_of(kind)(what, where=where, why=why, hint=hint)
