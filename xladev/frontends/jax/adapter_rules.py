"""The private names of jax that lowering rules take; see `adapter`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

# Primitives whose rules for JAX's CPU give plain HLO, or call by name what xladev knows: LAPACK
# (`xladev/hlo/custom_calls/lapack.py`) and Python (`callbacks.py`).
_CPU_RULES = (
    "check", "cholesky", "debug_callback", "debug_print", "eig", "eigh", "geqp3", "geqrf",
    "hessenberg", "householder_product", "lu", "ormqr", "schur", "spsolve", "svd",
    "symmetric_product", "triangular_solve", "tridiagonal", "tridiagonal_solve",
)  # fmt: skip


def add_rules(platform: str) -> None:
    """Gives a JAX platform lowering rules for what unknown platforms lack."""
    from jax._src.interpreters import mlir

    rules = mlir._platform_specific_lowerings
    if not isinstance(rules[platform], _Rules):
        rules[platform] = _Rules(platform, rules[platform])


class _Rules(dict[Any, Any]):
    """The rules of one platform by primitive, with those of modules that are imported later.

    A rule is made when JAX looks whether there is one.
    """

    def __init__(self, platform: str, rules: dict[Any, Any]) -> None:
        super().__init__(rules)
        self._platform = platform

    def __contains__(self, primitive: object) -> bool:
        return super().__contains__(primitive) or self._add(primitive)

    def _add(self, primitive: Any) -> bool:
        make = _MAKERS.get(primitive.name)
        rule = make(self._platform, primitive) if make else None
        if rule is not None:
            self[primitive] = rule
        return rule is not None


def _rule_of_cpu(_: str, primitive: Any) -> Any:
    from jax._src.interpreters import mlir

    return mlir._platform_specific_lowerings["cpu"].get(primitive)


def _rule_of_exported(platform: str, primitive: Any) -> Any:
    """Functions that were exported for JAX's CPU run: what they call by name is known here."""
    from jax._src.interpreters import mlir

    own = mlir._lowerings.get(primitive)
    if own is None:
        return None

    def rule(context: Any, *arguments: Any, exported: Any) -> Any:
        return own.rule(context, *arguments, exported=_exported_for(platform, exported))

    return dataclasses.replace(own, rule=rule)


def _exported_for(platform: str, exported: Any) -> Any:
    """An exported function whose variant for JAX's CPU passes for one of the platform."""
    if platform in exported.platforms:
        return exported
    platforms = tuple(platform if name == "cpu" else name for name in exported.platforms)
    return dataclasses.replace(exported, platforms=platforms)


_MAKERS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(_CPU_RULES, _rule_of_cpu),
    "call_exported": _rule_of_exported,
}
"""What makes a platform's rule for the primitive of a name; None where there is none."""
