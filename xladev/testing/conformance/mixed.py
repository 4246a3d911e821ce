"""Arguments with every special value of their type among ordinary numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xladev.hlo.dtype import PRED
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Array, Value
from xladev.hlo.shape import Shape
from xladev.testing.random_inputs import random_arguments, special_values


def mixed_arguments(module: HloModule, seed: int) -> list[Value]:
    """One value per parameter: NaN, infinities, extremes, zeros of either sign, random bits.

    Where all parameters are arrays of the same sizes, every combination of special values comes
    first, as far as there is room: elementwise opcodes meet each pair of them.
    """
    values = random_arguments(module, seed, wild=True)
    shapes = [p.shape for p in module.entry.parameters]
    if not shapes or any(
        not s.is_array or s.is_dynamic or s.dims != shapes[0].dims for s in shapes
    ):
        return values
    return list(_with_combinations(values, shapes))


def _with_combinations(values: Sequence[Value], shapes: Sequence[Shape]) -> list[Array]:
    made: list[Array] = []
    period = 1
    for value, shape in zip(values, shapes, strict=True):
        specials = _specials(shape)
        flat = np.array(value).reshape(-1)
        count = min(flat.size, period * len(specials))
        flat[:count] = specials[(np.arange(count) // period) % len(specials)]
        for at in range(count, min(flat.size, 4 * count), count):
            # the combinations of later parameters need the same ones again
            flat[at : at + count] = flat[: min(count, flat.size - at)]
        period *= len(specials)
        made.append(flat.reshape(shape.dims))
    return made


def _specials(shape: Shape) -> Array:
    if shape.element_type is PRED:
        return np.array([False, True])
    return special_values(shape.element_type)
