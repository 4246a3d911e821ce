"""Procedures that programs share: each compiled once and linked once, and then kept.

What they compute depends on their names alone, and sizes and strides are arguments, so that there
are few: a product of matrices of any size calls the same ones.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from xladev.codegen.llvm import ModuleBuilder, TargetTraits
from xladev.platforms.cpu.engine import LoadedObject
from xladev.platforms.cpu.object_cache import load_cached
from xladev.platforms.cpu.payload import Procedure
from xladev.platforms.cpu.shipped import shipped_procedures


class Library:
    """The procedures of one process. Thread-safe."""

    def __init__(self) -> None:
        self._compiled: dict[tuple[TargetTraits, int], dict[str, Procedure]] = {}
        self._loaded: dict[Procedure, LoadedObject] = {}
        self._lock = threading.Lock()

    def known(self, target: TargetTraits, optimization_level: int) -> Mapping[str, Procedure]:
        """The procedures that were compiled before, by symbol."""
        with self._lock:
            return self._table(target, optimization_level)

    def procedures_of(
        self, module: ModuleBuilder, optimization_level: int
    ) -> tuple[Procedure, ...]:
        """What a module imports; compiled if need be.

        Raises:
            CompileError: LLVM rejects one.
        """
        with self._lock:
            known = self._table(module.target, optimization_level)
            for symbol in module.procedures():
                if symbol not in known:
                    text = module.procedure(symbol)
                    loaded, code = load_cached(symbol, text, optimization_level, (symbol,))
                    known[symbol] = Procedure(symbol, code)
                    self._loaded[known[symbol]] = loaded
            return tuple(known[symbol] for symbol in module.procedures())

    def _table(self, target: TargetTraits, optimization_level: int) -> dict[str, Procedure]:
        """The procedures for a target by symbol: at first, those that came with xladev."""
        key = target, optimization_level
        if key not in self._compiled:
            self._compiled[key] = shipped_procedures(target, optimization_level)
        return self._compiled[key]

    def addresses(self, procedures: Iterable[Procedure]) -> dict[str, int]:
        """Where procedures are in this process, by symbol; linked if need be."""
        with self._lock:
            return {p.symbol: self._load(p).address(p.symbol) for p in procedures}

    def _load(self, procedure: Procedure) -> LoadedObject:
        found = self._loaded.get(procedure)
        if found is None:
            found = LoadedObject("procedure", procedure.code, (procedure.symbol,))
            self._loaded[procedure] = found
        return found


LIBRARY = Library()
"""That of this process."""
