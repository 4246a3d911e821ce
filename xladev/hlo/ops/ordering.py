"""Stable sorting by a comparator that is a computation.

A comparator that compares the same key of both sides is recognised, and the key is sorted. Any
other is run on whole arrays by a merge sort that merges all runs of one length at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.literal import Array
from xladev.hlo.numerics.precision import widen
from xladev.hlo.numerics.reals import total_order_key
from xladev.hlo.opdef import Evaluation

Before = Callable[[Array, Array], Array]
"""Says, for two arrays of element numbers, where the first must come before the second."""


def sorted_order(
    evaluation: Evaluation, comparator: HloComputation, arrays: Sequence[Array]
) -> Array:
    """Stable order of the last dimension, as numbers of elements.

    Args:
        evaluation: runs the comparator.
        comparator: takes a left and a right scalar of each array in turn, and gives pred: must
            the left ones come first?
        arrays: ``[rows, n]`` each.
    """
    keys = comparison_keys(evaluation, comparator, arrays)
    if keys is not None:
        return np.argsort(keys, axis=-1, kind="stable")

    def before(left: Array, right: Array) -> Array:
        pairs = [np.take_along_axis(a, at, -1) for a in arrays for at in (left, right)]
        return np.asarray(evaluation.apply(comparator, pairs))

    return merge_sort(before, *arrays[0].shape)


def comparison_keys(
    evaluation: Evaluation, comparator: HloComputation, arrays: Sequence[Array]
) -> Array | None:
    """Keys whose ascending order is the comparator's; None where it is no such comparator."""
    root = comparator.root
    if root.opcode != "compare" or root["direction"] not in ("LT", "GT"):
        return None
    left, right = root.operands
    if not same_function_of_sides(left, right):
        return None
    body = HloComputation(comparator.name, comparator.instructions, left, "")
    if not left.shape.is_scalar or left.shape.element_type.is_complex:
        return None
    found = np.asarray(evaluation.apply(body, [a for a in arrays for _ in range(2)]))
    return _ascending(found, root["type"] == "TOTALORDER", root["direction"] == "GT")


def _ascending(keys: Array, total_order: bool, descending: bool) -> Array | None:
    """Keys to sort upwards; None for floats with NaN, which plain comparison does not order."""
    if not dt.by_numpy(keys.dtype).is_float:
        wide = widen(keys).astype(np.uint8) if keys.dtype == np.bool_ else widen(keys)
        return ~wide if descending else wide
    if total_order:
        ordered = total_order_key(keys)
        return ~ordered if descending else ordered
    wide = widen(keys)
    if np.isnan(wide).any():
        return None
    return -wide if descending else wide


def same_function_of_sides(left: HloInstruction, right: HloInstruction) -> bool:
    """True if ``left`` is of the left parameters what ``right`` is of the right ones."""
    stack, done = [(left, right)], set[tuple[HloInstruction, HloInstruction]]()
    while stack:
        a, b = stack.pop()
        if (a, b) in done:
            continue
        done.add((a, b))
        if a.opcode != b.opcode or len(a.operands) != len(b.operands):
            return False
        if a.opcode == "parameter":
            number = a["parameter_number"]
            if number % 2 or b["parameter_number"] != number + 1:
                return False
        elif a.shape != b.shape or dict(a.attrs) != dict(b.attrs):
            return False
        stack.extend(zip(a.operands, b.operands, strict=True))
    return True


def merge_sort(before: Before, rows: int, count: int) -> Array:
    """Stable order of ``count`` elements in each of ``rows``, by O(log(count)^2) comparisons."""
    order = np.broadcast_to(np.arange(count), (rows, count))
    width = 1
    while width < count:
        order = _merge_runs(before, order, width)
        width *= 2
    return order


def _merge_runs(before: Before, order: Array, width: int) -> Array:
    """Merges each two neighbouring sorted runs of ``width`` elements.

    Every left element looks up how many right ones come before it, and both are sorted by that, so
    the result is a permutation whatever the comparator says.
    """
    count = order.shape[1]
    places = np.arange(count)
    lefts = places[places % (2 * width) < width]
    right_start = np.minimum(lefts // (2 * width) * 2 * width + width, count)
    right_end = np.minimum(right_start + width, count)
    rank = _insertion_points(before, order, lefts, right_start, right_end)
    keys = np.broadcast_to(2 * places + 1, order.shape).copy()
    keys[:, lefts] = 2 * rank
    return np.take_along_axis(order, np.argsort(keys, axis=1, kind="stable"), 1)


def _insertion_points(before: Before, order: Array, lefts: Array, low: Array, high: Array) -> Array:
    """By bisection: the first place in ``[low, high)`` whose element is not before the left one."""
    shape = (order.shape[0], lefts.size)
    low, high = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
    mine = order[:, lefts]
    while (open_ := low < high).any():
        middle = (low + high) // 2
        other = np.take_along_axis(order, np.minimum(middle, order.shape[1] - 1), 1)
        earlier = before(other, mine) & open_
        low = np.where(earlier, middle + 1, low)
        high = np.where(open_ & ~earlier, middle, high)
    return low
