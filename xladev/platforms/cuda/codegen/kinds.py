"""The kinds of kernels for NVIDIA's GPUs: those of any device, and products on tensor cores."""

from __future__ import annotations

from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.simt import kinds as general_kinds
from xladev.codegen.simt.kernel_kind import KernelKind, Recogniser
from xladev.codegen.simt.kinds import KINDS, PRODUCTS
from xladev.codegen.simt.machine import SimtMachine
from xladev.platforms.cuda.codegen.tensor_attention import tensor_attention_kind
from xladev.platforms.cuda.codegen.tensor_dots import tensor_dot_kind

MACHINE = SimtMachine(subgroup=32, shared_nbytes=48 << 10)
"""Warps, and the static shared memory of blocks that every device has."""
GENERAL: tuple[Recogniser, ...] = (*KINDS, *PRODUCTS)
ON_TENSOR_CORES: tuple[Recogniser, ...] = (
    tensor_attention_kind,
    *KINDS,
    tensor_dot_kind,
    *PRODUCTS,
)


def kind_of(spec: KernelSpec, *, tensor_cores: bool = True) -> KernelKind:
    """How a kernel is computed.

    Args:
        spec: the kernel.
        tensor_cores: whether the target has those that `codegen.tensor_cores` asks for.
    """
    return general_kinds.kind_of(spec, MACHINE, ON_TENSOR_CORES if tensor_cores else GENERAL)
