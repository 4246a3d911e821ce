"""Values of tuples: flattened to their arrays, and nested again as a shape says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xladev.hlo.shape import Shape


def flattened(value: Any) -> list[Any]:
    """What the tuples of a value hold, in order: arrays, what stands for them, None for tokens."""
    if isinstance(value, tuple):
        return [part for each in value for part in flattened(each)]
    return [value]


def nested(shape: Shape, take: Callable[[Shape], Any]) -> Any:
    """A value of a shape; ``take`` gives its arrays and tokens, in order, by their shapes."""
    if shape.is_tuple:
        return tuple(nested(part, take) for part in shape.tuple_shapes)
    return take(shape)
