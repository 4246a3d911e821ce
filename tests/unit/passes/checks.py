"""What tests of passes share: text in and out, and equality of values before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.shape import Shape
from xladev.hlo.text import parse_module
from xladev.passes.pass_ import HloModulePass


def run(each: HloModulePass, text: str) -> HloModule:
    """The module that a pass makes of a text; the pass must change nothing when run again."""
    after = each.run(parse_module(text))
    assert each.run(after) is after, "not idempotent"
    return after


def assert_becomes(each: HloModulePass, text: str, wanted: str) -> None:
    """The pass makes of one text what the other says, names included."""
    after, parsed = run(each, text), parse_module(wanted)
    assert after == parsed, f"\n{listing(after)}\nwanted\n{listing(parsed)}"


def assert_unchanged(each: HloModulePass, text: str) -> None:
    """The pass leaves the text alone."""
    module = parse_module(text)
    assert each.run(module) is module


def listing(module: HloModule) -> str:
    """One line per instruction, for messages."""
    return "\n".join(
        f"{c.name}: {i.name} = {i.shape} {i.opcode}({', '.join(o.name for o in i.operands)}) "
        f"{dict(i.attrs)}"
        for c in module.computations
        for i in c.instructions
    )


def opcodes(module: HloModule) -> set[str]:
    """All opcodes of all computations."""
    return {i.opcode for c in module.computations for i in c.instructions}


def random_value(shape: Shape, rng: np.random.Generator) -> Any:
    """A value of a shape: normal floats, small integers."""
    if shape.is_tuple:
        return tuple(random_value(s, rng) for s in shape.tuple_shapes)
    if shape.is_token:
        return None
    kind = shape.element_type
    if kind.is_complex:
        parts = rng.standard_normal((2, *shape.dims))
        return (parts[0] + 1j * parts[1]).astype(kind.np)
    if kind.is_float:
        return rng.standard_normal(shape.dims).astype(kind.np)
    if kind.name == "pred":
        return rng.integers(0, 2, shape.dims).astype(np.bool_)
    return rng.integers(0, 7, shape.dims).astype(kind.np)


def arguments(module: HloModule, seed: int) -> list[Any]:
    """Random arguments of the entry."""
    rng = np.random.default_rng(seed)
    return [random_value(p.shape, rng) for p in module.entry.parameters]


def assert_same_values(
    before: HloModule,
    after: HloModule,
    seed: int,
    *,
    given: list[Any] | None = None,
    compare: Callable[[Any, Any], None] = np.testing.assert_array_equal,
) -> None:
    """Both modules give the same values on the same arguments."""
    values = arguments(before, seed) if given is None else given
    wanted = leaves(HloEvaluator().run(before, *values))
    found = leaves(HloEvaluator().run(after, *values))
    assert len(wanted) == len(found)
    for want, got in zip(wanted, found, strict=True):
        assert want.dtype == got.dtype
        compare(want, got)


def leaves(value: Any) -> list[Any]:
    """The arrays of a value."""
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in leaves(part)]
    return [] if value is None else [np.asarray(value)]
