"""Microkernels that programs share: each compiled once and linked once, and then kept.

What they compute depends on their names alone, and sizes and strides are arguments, so that there
are few: a product of matrices of any size calls the same ones.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from xladev.codegen.llvm import ModuleBuilder, TargetTraits
from xladev.platforms.cpu.engine import LoadedObject
from xladev.platforms.cpu.object_cache import load_cached
from xladev.platforms.cpu.payload import MicrokernelCode
from xladev.platforms.cpu.shipped import shipped_microkernels


class Library:
    """The microkernels of one process. Thread-safe."""

    def __init__(self) -> None:
        self._compiled: dict[tuple[TargetTraits, int], dict[str, MicrokernelCode]] = {}
        self._loaded: dict[MicrokernelCode, LoadedObject] = {}
        self._lock = threading.Lock()

    def known(self, target: TargetTraits, optimization_level: int) -> Mapping[str, MicrokernelCode]:
        """The microkernels that were compiled before, by symbol."""
        with self._lock:
            return self._table(target, optimization_level)

    def microkernels_of(
        self, module: ModuleBuilder, optimization_level: int
    ) -> tuple[MicrokernelCode, ...]:
        """What a module imports; compiled if need be.

        Raises:
            CompileError: LLVM rejects one.
        """
        with self._lock:
            known = self._table(module.target, optimization_level)
            for symbol in module.microkernels():
                if symbol not in known:
                    text = module.microkernel(symbol)
                    loaded, code = load_cached(symbol, text, optimization_level, (symbol,))
                    known[symbol] = MicrokernelCode(symbol, code)
                    # Programs from the cache may have loaded it, and call it where it is.
                    self._loaded.setdefault(known[symbol], loaded)
            return tuple(known[symbol] for symbol in module.microkernels())

    def _table(self, target: TargetTraits, optimization_level: int) -> dict[str, MicrokernelCode]:
        """The microkernels for a target by symbol: at first, those that came with xladev."""
        key = target, optimization_level
        if key not in self._compiled:
            self._compiled[key] = shipped_microkernels(target, optimization_level)
        return self._compiled[key]

    def addresses(self, microkernels: Iterable[MicrokernelCode]) -> dict[str, int]:
        """Where microkernels are in this process, by symbol; linked if need be."""
        with self._lock:
            return {p.symbol: self._load(p).address(p.symbol) for p in microkernels}

    def _load(self, microkernel: MicrokernelCode) -> LoadedObject:
        found = self._loaded.get(microkernel)
        if found is None:
            found = LoadedObject("microkernel", microkernel.code, (microkernel.symbol,))
            self._loaded[microkernel] = found
        return found


LIBRARY = Library()
"""That of this process."""
