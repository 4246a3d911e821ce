"""What wrong elements have in common: the last tile, a row off by one, a transposed result...

A pattern is a hint for whoever debugs the backend; it takes no part in the verdict.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xladev.hlo.literal import Array

_TILES = (1024, 512, 256, 128, 64, 32, 16, 8)


def pattern_of(got: Array, want: Array, bad: Array) -> str:
    """A few words about the wrong elements; empty if nothing stands out.

    Args:
        got: the backend's result.
        want: the right one, of the same type and sizes.
        bad: where ``got`` is wrong.
    """
    if not bad.any():
        return ""
    with np.errstate(all="ignore"):
        found = [text for look in _LOOKS for text in [look(got, want, bad)] if text]
    return "; ".join(found[:2])


def _values(got: Array, want: Array, bad: Array) -> str:
    """What stands where something else should be."""
    wide_got, wide_want = _wide(got)[bad], _wide(want)[bad]
    if np.isnan(wide_got).all():
        return "all nan" if bad.all() else "nan where wrong"
    if np.isnan(wide_want).all():
        return "nan is lost"
    if (wide_got == 0).all():
        small = np.abs(wide_want) < np.finfo(np.float32).tiny
        return "subnormals become zero" if small.all() else "zero where wrong"
    if np.isinf(wide_want).all():
        return "infinities are lost"
    if (
        len(wide_got) > 1
        and (wide_got == wide_got[0]).all()
        and not (wide_want == wide_want[0]).all()
    ):
        return f"{got[bad][0]} wherever wrong"
    return ""


def _relation(got: Array, want: Array, bad: Array) -> str:
    """How the wrong values follow from right ones."""
    wide_got, wide_want = _wide(got), _wide(want)
    if (wide_got == -wide_want)[bad].all() and (wide_want != 0)[bad].any():
        return "sign flipped"
    if (wide_got == wide_want)[bad].all():
        return "sign of zero"
    with np.errstate(all="ignore"):
        ratio = (wide_got / wide_want)[bad]
    finite = ratio[np.isfinite(ratio)]
    if len(finite) < 3 or len(finite) < len(ratio) or np.ptp(finite.real) > 1e-3:
        return ""
    if abs(finite.real.mean() - 1) > 1e-2:
        return f"{finite.real.mean():.4g} times what is wanted"
    return ""


def _moved(got: Array, want: Array, bad: Array) -> str:
    """The right values in wrong places."""
    if want.size < 4 or got.ndim == 0:
        return ""
    if got.ndim >= 2 and _same(got, want.T.reshape(want.shape)):
        return "transposed"
    for axis in range(got.ndim):
        for shift in (1, -1):
            moved = np.roll(want, shift, axis)
            if got.shape[axis] > 1 and _same(_inner(got, axis, shift), _inner(moved, axis, shift)):
                return f"off by one along dimension {axis}"
        if got.shape[axis] > 1 and _same(got, np.flip(want, axis)):
            return f"reversed along dimension {axis}"
    return ""


def _inner(array: Array, axis: int, shift: int) -> Array:
    """The array without the slice that came round the edge."""
    kept = slice(1, None) if shift > 0 else slice(None, -1)
    return array[(slice(None),) * axis + (kept,)]


def _same(a: Array, b: Array) -> bool:
    return bool(
        a.size and ((_wide(a) == _wide(b)) | (np.isnan(_wide(a)) & np.isnan(_wide(b)))).all()
    )


def _place(got: Array, want: Array, bad: Array) -> str:
    """Where the wrong elements are."""
    if bad.ndim == 0 or bad.size < 2:
        return ""
    if bad.all():
        return "every element"
    for axis in range(bad.ndim):
        text = _along(bad, axis)
        if text:
            return text
    return _in_order(bad)


def _along(bad: Array, axis: int) -> str:
    """Whether only some indices of one dimension are wrong."""
    others = tuple(d for d in range(bad.ndim) if d != axis)
    lines: Array = np.asarray(bad.any(axis=others))
    size, wrong = len(lines), np.flatnonzero(lines)
    if size < 2 or len(wrong) == size:
        return ""
    if len(wrong) == 1 and wrong[0] in (0, size - 1):
        return f"only the {'last' if wrong[0] else 'first'} index of dimension {axis}"
    if wrong[-1] == size - 1 and len(wrong) == size - wrong[0]:
        tile = next((t for t in _TILES if wrong[0] and wrong[0] == (size - 1) // t * t), 0)
        name = f"the last tile of {tile}" if tile else f"from index {wrong[0]} on"
        return f"{name} in dimension {axis}"
    steps = np.diff(wrong)
    if len(wrong) > 3 and (steps == steps[0]).all() and steps[0] > 1:
        return f"every {steps[0]}th index of dimension {axis}"
    return ""


def _in_order(bad: Array) -> str:
    """Whether the wrong elements are the end of the array as it is in memory."""
    wrong = np.flatnonzero(bad)
    if wrong[-1] != bad.size - 1 or len(wrong) != bad.size - wrong[0]:
        return ""
    tile = next((t for t in _TILES if wrong[0] and wrong[0] == (bad.size - 1) // t * t), 0)
    return f"the last tile of {tile} elements" if tile else f"from element {wrong[0]} on"


def _wide(array: Array) -> Array:
    return np.asarray(array, np.complex128 if array.dtype.kind == "c" else np.float64)


_LOOKS: tuple[Callable[[Array, Array, Array], str], ...] = (_moved, _place, _values, _relation)
