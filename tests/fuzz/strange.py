"""Values that programs seldom hold and files easily do, and how to make them from honest ones."""

import dataclasses
import math
import random
from collections.abc import Sequence
from typing import Any

from xladev.hlo.ir import HloComputation
from xladev.hlo.opset import OPSET

INTEGERS = (
    0, 1, 2, 3, 7, 63, 64, 65, 127, 128, 254, 255, 256, 1000, 65536, 2**20, 2**31 - 1, 2**31, 2**32,
    2**40, 2**53, 2**62, 2**63 - 1, -1, -2, -3, -7, -128, -(2**31), -(2**62), -(2**63),
)  # fmt: skip
FLOATS = (0.0, -0.0, 1e-45, 1e38, -1.0, math.inf, -math.inf, math.nan, 0.5, 1e300, 5e-324)
TEXTS = (
    "", "x", "\x00", "\u00e9", "\U0001f600", "a" * 5000, "{}", "}{", '"', "%a", "../..", "1", "-1",
    "a\nb",
)  # fmt: skip
WORDS = (
    "EQ", "NE", "LT", "GE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED", "FFT", "IFFT", "RFFT",
    "IRFFT", "TRANSPOSE", "ADJOINT", "NO_TRANSPOSE", "rng_uniform", "rng_normal", "rng_three_fry",
    "rng_philox", "rng_default", "kLoop", "kInput", "kOutput", "kCustom", "highest", "high",
    "default", "packed_nibble", "SORT", *OPSET,
)  # fmt: skip


def strange_integer(value: int, draw: random.Random) -> int:
    """Another number: near, wrong in sign or size, or one that is seldom right."""
    near = (value + 1, value - 1, 2 * value, -value, value // 2, value + 100)
    return draw.choice(near if draw.random() < 0.6 else INTEGERS)


def strange(value: Any, draw: random.Random, computations: Sequence[HloComputation] = ()) -> Any:
    """A value of the same kind that differs, where one can be made; else the value itself."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return strange_integer(value, draw)
    if isinstance(value, float):
        return draw.choice(FLOATS)
    if isinstance(value, str):
        return draw.choice(WORDS + TEXTS)
    if isinstance(value, HloComputation):
        return draw.choice(computations) if computations else value
    if isinstance(value, tuple):
        return _strange_tuple(value, draw, computations)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _strange_fields(value, draw, computations)
    return value


def _strange_tuple(
    value: tuple[Any, ...], draw: random.Random, computations: Sequence[HloComputation]
) -> tuple[Any, ...]:
    if not value:
        return draw.choice(((0,), (1, 0), (-1,), (2**40,)))
    parts = list(value)
    at, other = draw.randrange(len(parts)), draw.randrange(len(parts))
    what = draw.random()
    if what < 0.6:
        parts[at] = strange(parts[at], draw, computations)
    elif what < 0.7:
        parts[at], parts[other] = parts[other], parts[at]
    elif what < 0.8:
        del parts[at]
    elif what < 0.9:
        parts.insert(at, parts[other])
    else:
        parts = parts * draw.choice((0, 2, 3))
    return tuple(parts)


def _strange_fields(value: Any, draw: random.Random, computations: Sequence[HloComputation]) -> Any:
    names = [f.name for f in dataclasses.fields(value) if f.init]
    if not names:
        return value
    name = draw.choice(names)
    return dataclasses.replace(value, **{name: strange(getattr(value, name), draw, computations)})
