"""Which way a kernel goes whose right operand it computes itself, from weights of fewer bits."""

from __future__ import annotations

from functools import partial

from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.products.few_rows import few_rows_of
from xladev.platforms.cpu.codegen.products.kinds import WIDEST_NBYTES
from xladev.platforms.cpu.codegen.products.narrow_blocks import (
    blocks_workspace_nbytes,
    emit_in_blocks,
)
from xladev.platforms.cpu.codegen.products.narrow_lookups import emit_lookups
from xladev.platforms.cpu.codegen.products.narrow_pair_lookups import (
    emit_pair_lookups,
    pair_lookup_workspace_nbytes,
    takes_pairs,
)
from xladev.platforms.cpu.codegen.products.narrow_streams import (
    MOST_ROWS,
    emit_along_columns,
    emit_along_depth,
    stream_workspace_nbytes,
)
from xladev.platforms.cpu.codegen.products.narrow_tables import WeightTables, tables_of
from xladev.platforms.cpu.codegen.products.narrow_weights import NarrowWeights, pieces_of

MOST_SUMS = 16
"""Vectors of sums at once, of as many pieces for each row, on machines with 32 registers."""


def narrow_workspace_nbytes(plan: NarrowWeights) -> int:
    """Bytes of workspace, whichever way it goes."""
    found = max(stream_workspace_nbytes(plan), blocks_workspace_nbytes(plan))
    return found if _tables(plan) is None else max(found, pair_lookup_workspace_nbytes(plan))


def emit_narrow_weights(k: KernelBuild, plan: NarrowWeights) -> None:
    """Writes the kernel: few rows in registers, others in blocks; element by element at worst."""
    if plan.kind(k).lanes > 1:
        has_lookups = k.b.module.target.has_lookups and plan.kind(k).nbytes == WIDEST_NBYTES
        tables = _tables(plan) if has_lookups else None
        if tables is not None and k.attempt(partial(_look_up, k, plan, tables)):
            return
        if _is_for_registers(plan):
            most = MOST_SUMS if plan.kind(k).nbytes == WIDEST_NBYTES else MOST_SUMS // 2
            rows = 1 if plan.is_along_depth else plan.matrices.left.extent
            for pieces in (n for n in pieces_of(plan) if n == 1 or n * rows <= most):
                if k.attempt(partial(_in_registers, k, plan, pieces)):
                    return
        if k.attempt(lambda: emit_in_blocks(k, plan, in_vectors=True)):
            return
    emit_in_blocks(k, plan, in_vectors=False)


def _look_up(k: KernelBuild, plan: NarrowWeights, tables: WeightTables) -> None:
    emit = emit_pair_lookups if takes_pairs(k, plan, tables) else emit_lookups
    emit(k, plan, tables)


def _tables(plan: NarrowWeights) -> WeightTables | None:
    return tables_of(plan) if _is_for_registers(plan) else None


def _is_for_registers(plan: NarrowWeights) -> bool:
    if plan.matrices.left.extent > MOST_ROWS:
        return False
    return not plan.is_along_depth or few_rows_of(plan.dot, plan.matrices, 1) is not None


def _in_registers(k: KernelBuild, plan: NarrowWeights, pieces: int) -> None:
    (emit_along_depth if plan.is_along_depth else emit_along_columns)(k, plan, pieces)
