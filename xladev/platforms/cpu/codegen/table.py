"""Which emitter writes the kernel of which root opcode, and the workspace it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import ModuleBuilder
from xladev.codegen.row_program import row_program
from xladev.platforms.cpu.codegen.attention import (
    attention_kernel_of,
    attention_workspace_nbytes,
    emit_attention,
)
from xladev.platforms.cpu.codegen.build import KernelEmitter, begin_kernel
from xladev.platforms.cpu.codegen.fourier.description import fourier_of
from xladev.platforms.cpu.codegen.fourier.kernel import (
    emit_fourier,
    emit_transform,
    fourier_workspace_nbytes,
)
from xladev.platforms.cpu.codegen.lapack.kernels import emit_lapack, lapack_workspace_nbytes
from xladev.platforms.cpu.codegen.loops import (
    emit_loops,
    emit_reduce,
    emit_reduce_window,
    emit_results,
)
from xladev.platforms.cpu.codegen.merged_dimensions import with_merged_dimensions
from xladev.platforms.cpu.codegen.products.contraction import emit_dot
from xladev.platforms.cpu.codegen.products.convolution_kernel import (
    convolution_workspace_nbytes,
    emit_convolution,
    emit_with_epilogue,
)
from xladev.platforms.cpu.codegen.products.epilogue import core_of, core_spec
from xladev.platforms.cpu.codegen.products.matmul import dot_workspace_nbytes
from xladev.platforms.cpu.codegen.rows import emit_rows
from xladev.platforms.cpu.codegen.sorting.sorting import emit_sort, sort_workspace_nbytes
from xladev.platforms.cpu.codegen.sorting.top_k import emit_top_k, top_k_workspace_nbytes
from xladev.platforms.cpu.codegen.tactics import DEFAULT, Tactic
from xladev.platforms.cpu.codegen.updates import (
    emit_dynamic_update_slice,
    emit_scatter,
    emit_select_and_scatter,
)

KERNEL_EMITTERS: Mapping[str, KernelEmitter] = MappingProxyType(
    {
        "cholesky": emit_lapack,
        "convolution": emit_convolution,
        "custom-call": emit_lapack,
        "dot": emit_dot,
        "dynamic-update-slice": emit_dynamic_update_slice,
        "fft": emit_fourier,
        "reduce": emit_reduce,
        "reduce-window": emit_reduce_window,
        "scatter": emit_scatter,
        "select-and-scatter": emit_select_and_scatter,
        "sort": emit_sort,
        "topk": emit_top_k,
        "triangular-solve": emit_lapack,
        "tuple": emit_results,
    }
)
"""By opcode of the root; all others are computed element by element."""

WORKSPACES: Mapping[str, Callable[[KernelSpec, Tactic], int]] = MappingProxyType(
    {
        "cholesky": lapack_workspace_nbytes,
        "convolution": convolution_workspace_nbytes,
        "custom-call": lapack_workspace_nbytes,
        "dot": dot_workspace_nbytes,
        "sort": sort_workspace_nbytes,
        "topk": top_k_workspace_nbytes,
        "triangular-solve": lapack_workspace_nbytes,
    }
)


def workspace_nbytes(spec: KernelSpec, tactic: Tactic = DEFAULT) -> int:
    """Bytes of workspace that the kernel is given after its results; 0 for none."""
    spec = core_spec(spec)
    needed = WORKSPACES.get(spec.computation.root.opcode)
    own = attention_workspace_nbytes(spec) or fourier_workspace_nbytes(spec)
    return own or (needed(spec, tactic) if needed else 0)


def emit_kernel(
    module: ModuleBuilder,
    spec: KernelSpec,
    threads: int | None = None,
    tactic: Tactic = DEFAULT,
) -> None:
    """Defines the kernel's function ``void name(ptr operands..., ptr results..., workspace)``.

    Args:
        module: where to define it.
        spec: what it computes.
        threads: most threads that work on it; 0 for as many as the process wants, None for code
            that asks for none.
        tactic: how to compute, where there are several ways.

    Raises:
        UnsupportedError: an opcode or element type without code.
    """
    attention, transform = attention_kernel_of(spec), fourier_of(spec)
    core = core_of(spec.computation)
    is_apart = attention is not None or transform is not None or core is not None
    if not is_apart and spec.computation.root.opcode not in WORKSPACES:
        spec = replace(spec, computation=with_merged_dimensions(spec.computation))
    k = begin_kernel(module, spec, workspace_nbytes(spec, tactic) > 0, threads, tactic)
    rows = row_program(spec.computation)
    if attention is not None:
        emit_attention(k, attention)
    elif transform is not None:
        emit_transform(k, transform)
    elif core is not None:
        emit_with_epilogue(k, core)
    elif rows is not None:
        emit_rows(k, rows)
    else:
        KERNEL_EMITTERS.get(k.root.opcode, emit_loops)(k)
    k.b.ret()
