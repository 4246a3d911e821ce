"""The kinds of kernels, most particular first: the first that knows a kernel writes it."""

from __future__ import annotations

from xladev.codegen.kernel_spec import KernelSpec
from xladev.platforms.cuda.codegen.attention_kernel import attention_kind
from xladev.platforms.cuda.codegen.column_folds import column_fold_kind
from xladev.platforms.cuda.codegen.general_folds import general_fold_kind
from xladev.platforms.cuda.codegen.kernel_kind import KernelKind, Recogniser
from xladev.platforms.cuda.codegen.loops import loops_kind
from xladev.platforms.cuda.codegen.row_folds import row_fold_kind
from xladev.platforms.cuda.codegen.row_programs import row_program_kind
from xladev.platforms.cuda.codegen.scans import scan_kind
from xladev.platforms.cuda.codegen.scatters import scatter_kind
from xladev.platforms.cuda.codegen.selections import selection_kind
from xladev.platforms.cuda.codegen.slice_updates import slice_update_kind
from xladev.platforms.cuda.codegen.sorts import sort_kind
from xladev.platforms.cuda.codegen.tensor_attention import tensor_attention_kind
from xladev.platforms.cuda.codegen.tensor_dots import tensor_dot_kind
from xladev.platforms.cuda.codegen.tiled_dots import tiled_dot_kind
from xladev.platforms.cuda.codegen.transposes import transpose_kind

KINDS: tuple[Recogniser, ...] = (
    tensor_attention_kind,
    attention_kind,
    row_program_kind,
    scatter_kind,
    selection_kind,
    sort_kind,
    slice_update_kind,
    row_fold_kind,
    column_fold_kind,
    general_fold_kind,
    scan_kind,
    transpose_kind,
    tensor_dot_kind,
    tiled_dot_kind,
)
"""Kernels that none of them knows are loops: elements computed one by one."""
_ON_TENSOR_CORES = (tensor_attention_kind, tensor_dot_kind)


def kind_of(spec: KernelSpec, *, tensor_cores: bool = True) -> KernelKind:
    """How a kernel is computed.

    Args:
        spec: the kernel.
        tensor_cores: whether the target has those that `codegen.tensor_cores` asks for.
    """
    kinds = KINDS if tensor_cores else [k for k in KINDS if k not in _ON_TENSOR_CORES]
    found = (recognise(spec) for recognise in kinds)
    return next((kind for kind in found if kind is not None), None) or loops_kind(spec)
