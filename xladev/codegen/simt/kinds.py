"""Kinds of kernels for any device, most particular first: the first that knows one writes it."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.simt.kernel_kind import KernelKind, Recogniser
from xladev.codegen.simt.kernels.attention_kernel import attention_kind
from xladev.codegen.simt.kernels.loops import loops_kind
from xladev.codegen.simt.kernels.scatters import scatter_kind
from xladev.codegen.simt.kernels.selections import selection_kind
from xladev.codegen.simt.kernels.slice_updates import slice_update_kind
from xladev.codegen.simt.kernels.sorts import sort_kind
from xladev.codegen.simt.kernels.tiled_dots import tiled_dot_kind
from xladev.codegen.simt.kernels.transposes import transpose_kind
from xladev.codegen.simt.machine import SimtMachine
from xladev.codegen.simt.reductions.column_reductions import column_reduction_kind
from xladev.codegen.simt.reductions.general_reductions import general_reduction_kind
from xladev.codegen.simt.reductions.row_programs import row_program_kind
from xladev.codegen.simt.reductions.row_reductions import row_reduction_kind
from xladev.codegen.simt.reductions.scans import scan_kind

KINDS: tuple[Recogniser, ...] = (
    attention_kind,
    row_program_kind,
    scatter_kind,
    selection_kind,
    sort_kind,
    slice_update_kind,
    row_reduction_kind,
    column_reduction_kind,
    general_reduction_kind,
    scan_kind,
    transpose_kind,
)
"""All but products, which a target may have kinds of its own for."""
PRODUCTS: tuple[Recogniser, ...] = (tiled_dot_kind,)


def kind_of(
    spec: KernelSpec, machine: SimtMachine, kinds: Sequence[Recogniser] = (*KINDS, *PRODUCTS)
) -> KernelKind:
    """How a kernel is computed; one that no kind knows is a loop: elements computed one by one."""
    found = (recognise(spec, machine) for recognise in kinds)
    return next((kind for kind in found if kind is not None), None) or loops_kind(spec)
