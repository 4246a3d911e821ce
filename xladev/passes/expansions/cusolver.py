"""Custom calls of cuSOLVER's routines, by the names JAX gives them on GPUs, in plain HLO."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType

from xladev.hlo import dtype as dt
from xladev.hlo.custom_calls.cusolver import LAPACK_NAMES, arranged, as_lapack, target_of
from xladev.hlo.ir import HloInstruction
from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.expansions.lapack import STACKED, Config, Results, Routine, Value, on_stacks
from xladev.passes.expansions.linalg import matrices as mx
from xladev.passes.expansions.linalg.exchanges import composed_exchanges


def _routine(name: str) -> Routine:
    """One of cuSOLVER's routines, by the one of LAPACK's that it is."""
    _, meaning, ranks = STACKED[LAPACK_NAMES[name]]

    def stacked(e: Emitter, config: Config, operands: list[Value]) -> Results:
        found = meaning(e, as_lapack(config), operands)
        return arranged(name, config, found, lambda x: mx.adjoint(e, x))

    return on_stacks(stacked, ranks)


def expand_permutation(e: Emitter, call: HloInstruction, operands: Values) -> Values:
    """Where rows come from after all exchanges."""
    (pivots,) = operands
    *batch, rows = call.shape.dims
    if not pivots.shape.size:
        return [e.iota(dt.S32, call.shape.dims, -1)]
    flat = e.reshape(pivots, (prod(batch), pivots.shape.dims[-1]))
    return [e.reshape(composed_exchanges(e, flat, rows), call.shape.dims)]


CUSOLVER: Mapping[str, Routine] = MappingProxyType(
    {target_of(name): _routine(name) for name in LAPACK_NAMES}
)
"""Custom-call target -> its expansion."""
