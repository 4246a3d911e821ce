"""A graph with symbolic sizes: which program a call of given sizes takes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from xladev.errors import XladevError, one_line
from xladev.frontends.torch.symbols import Source, sizes_of
from xladev.instrument import logger

EXACT_SIZES = 2
"""So many sets of sizes have a program of their own before there is one with bounds: most programs
see no more, such as a last batch that is smaller."""

LEAST_BOUND = 8
MOST_FILLED = 4
"""A program with bounds runs for sizes whose product is at least this part of the bounds'."""

_log = logger("torch")

Call = Callable[[list[Any]], Sequence[Any]]
Key = tuple[int, ...]


class SizedCalls:
    """Programs of one graph, made as sizes come.

    Args:
        symbols: where the sizes are found among the arguments.
        limit: how many sets of sizes have programs of their own, where bounds are impossible.
        exact: compiles for a set of sizes.
        bounded: compiles for all sizes up to bounds, or raises an XladevError that tells why not.
        by_torch: gives what runs the graph in torch, told why.
    """

    def __init__(
        self,
        symbols: Mapping[Any, Source],
        limit: int,
        exact: Callable[[Mapping[Any, int]], Call],
        bounded: Callable[[Mapping[Any, int]], Call],
        by_torch: Callable[[str], Call],
    ) -> None:
        self._symbols = symbols
        self._limit = limit
        self._exact = exact
        self._bounded = bounded
        self._by_torch = by_torch
        self._calls: dict[Key, Call] = {}
        self._exact_count = 0
        self._bounded_calls: dict[Key, Call] = {}
        self._torch: Call | None = None
        self._reason = ""
        self._lock = threading.Lock()

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        """The graph's results."""
        key = sizes_of(args, self._symbols)
        return (self._calls.get(key) or self._found(key))(args)

    def _found(self, key: Key) -> Call:
        with self._lock:
            if key not in self._calls:
                self._calls[key] = self._made(key)
            return self._calls[key]

    def _made(self, key: Key) -> Call:
        if self._exact_count >= min(EXACT_SIZES, self._limit) and not self._reason and all(key):
            call = self._with_bounds(key)
            if call is not None:
                return call
        if self._exact_count < self._limit:
            self._exact_count += 1
            return self._exact(dict(zip(self._symbols, key, strict=True)))
        self._torch = self._torch or self._by_torch(self._reason)
        return self._torch

    def _with_bounds(self, key: Key) -> Call | None:
        for bounds, call in self._bounded_calls.items():
            fits = all(n <= bound for n, bound in zip(key, bounds, strict=True))
            if fits and _count(bounds) <= MOST_FILLED * _count(key):
                return call
        bounds = tuple(max(LEAST_BOUND, 1 << (n - 1).bit_length()) for n in key)
        try:
            call = self._bounded(dict(zip(self._symbols, bounds, strict=True)))
        except XladevError as error:
            self._reason = one_line(str(error))
            _log.info("no program takes all sizes up to a bound: %s", self._reason)
            return None
        self._bounded_calls[bounds] = call
        return call


def _count(sizes: Sequence[int]) -> int:
    return prod(sizes)
