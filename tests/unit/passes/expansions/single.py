"""What tests of expansions share: one instruction, expanded, against its direct definition."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tests.unit.passes.checks import arguments, leaves
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloComputation, HloModule
from xladev.hlo.names import with_unique_names
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes.expanders import EXPANDERS


def expanded(module: HloModule) -> HloComputation:
    """The expansion of the entry's root, verified."""
    root = module.entry.root
    for expander in EXPANDERS[root.opcode]:
        computation = expander(root)
        if computation is not None:
            verify(with_unique_names(HloModule("expansion", computation)))
            assert computation.root.shape.equal_ignoring_layout(root.shape)
            return computation
    raise AssertionError(f"nothing expands {root}")


def both_values(text: str, seed: int = 0, *given: Any) -> list[tuple[Any, Any]]:
    """(direct, expanded) values of each result of one instruction.

    Args:
        text: an instruction, its operands being the arguments.
        seed: of random arguments.
        given: the arguments, if they are not to be random.
    """
    module = parse_module(text)
    values = list(given) or arguments(module, seed)
    direct = leaves(HloEvaluator().run(module, *values))
    operands = [values[p["parameter_number"]] for p in module.entry.root.operands]
    made = leaves(HloEvaluator().call(expanded(module), operands))
    assert [a.dtype for a in direct] == [a.dtype for a in made]
    return list(zip(direct, made, strict=True))


def assert_exact(text: str, seed: int = 0, *given: Any) -> None:
    """Direct and expanded values agree bit for bit."""
    for direct, made in both_values(text, seed, *given):
        assert direct.shape == made.shape
        assert direct.tobytes() == np.ascontiguousarray(made).tobytes()


def assert_near(text: str, seed: int = 0, *given: Any, eps: float = 32) -> None:
    """Direct and expanded values differ by ``eps`` machine epsilons of the largest element."""
    for direct, made in both_values(text, seed, *given):
        assert direct.shape == made.shape
        if not direct.size or direct.dtype.kind in "biu":
            assert np.array_equal(direct, made)
            continue
        wide = np.complex128 if direct.dtype.kind == "c" else np.float64
        largest = np.nanmax(np.abs(direct.astype(wide)), initial=0)
        unit = float(np.asarray(machine_epsilon(direct.dtype)))
        np.testing.assert_allclose(
            made.astype(wide), direct.astype(wide), rtol=0, atol=eps * unit * max(largest, 1e-30)
        )


def machine_epsilon(dtype: Any) -> float:
    """Distance from one to the next number."""
    return float(ml_dtypes.finfo(np.empty(0, dtype).real.dtype).eps)
