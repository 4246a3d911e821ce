"""Live sizes of a reshape between bounded dynamic shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from xladev.errors import EvaluationError
from xladev.hlo.shape import Shape


def common_factors(source: Sequence[int], target: Sequence[int]) -> Iterator[tuple[range, range]]:
    """Yields smallest runs of dimensions of both that hold equally many elements, in order.

    A dimension of size 1 (or one left over at the end) joins the run before it.
    """
    i = j = 0
    while i < len(source) or j < len(target):
        start = i, j
        have, want = 1, 1
        while i < len(source) and (have < want or i == start[0]):
            have, i = have * source[i], i + 1
            while j < len(target) and want < have:
                want, j = want * target[j], j + 1
        while j < len(target) and (i == len(source) or target[j] == 1):
            want, j = want * target[j], j + 1
        while i < len(source) and (j == len(target) or source[i] == 1):
            have, i = have * source[i], i + 1
        yield range(start[0], i), range(start[1], j)


def reshaped_dynamic(live: Sequence[int], source: Shape, target: Shape) -> tuple[int, ...]:
    """Sizes that an array of ``live`` sizes, bounded by ``source``, has as ``target``.

    Raises:
        EvaluationError: the live elements do not fill the static dimensions of a run.
    """
    sizes = list(target.dims)
    for inputs, outputs in common_factors(source.dims, target.dims):
        dynamic = [d for d in outputs if target.is_dynamic_dimension(d)]
        count = prod(live[d] for d in inputs)
        if len(dynamic) == 1:
            others = prod(target.dims[d] for d in outputs if d != dynamic[0])
            sizes[dynamic[0]] = count // others if others else 0
        if prod(sizes[d] for d in outputs) != count:
            raise EvaluationError(
                f"{list(live)} live elements of {source} cannot become {target}",
                why="each run of dimensions with a dynamic one must keep its element count",
            )
    return tuple(sizes)
