"""The opset as one table, composed from the families under `hlo/ops/`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.errors import VerifyError
from xladev.hlo.opdef import OpDef
from xladev.hlo.ops import (
    asynchronous,
    binary,
    choice,
    collective,
    contraction,
    control,
    conversion,
    convolution,
    dynamic,
    functions,
    indexing,
    linear_algebra,
    movement,
    normalization,
    random,
    reduction,
    sorting,
    structure,
    transfer,
    unary,
)

_FAMILIES: tuple[tuple[OpDef, ...], ...] = (
    unary.OPS, functions.OPS, binary.OPS, choice.OPS, conversion.OPS, structure.OPS, movement.OPS,
    indexing.OPS, contraction.OPS, convolution.OPS, reduction.OPS, sorting.OPS, normalization.OPS,
    random.OPS, control.OPS, transfer.OPS, linear_algebra.OPS, collective.OPS, asynchronous.OPS,
    dynamic.OPS,
)  # fmt: skip

OPSET: Mapping[str, OpDef] = MappingProxyType({op.name: op for ops in _FAMILIES for op in ops})
"""Every opcode by its text name."""


def opdef(name: str) -> OpDef:
    """The entry of an opcode; a VerifyError if there is none."""
    found = OPSET.get(name)
    if found is None:
        raise VerifyError(
            f"unknown opcode {name!r}",
            why="constraint opcode_c1: it is none of the opset's",
            hint="`docs/reference/opset.md` lists them",
        )
    return found
