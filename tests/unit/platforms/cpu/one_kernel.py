"""A module's entry as one kernel, for vectors of any width."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np

from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import ModuleBuilder
from xladev.hlo.ir import HloModule
from xladev.platforms.cpu.codegen.table import emit_kernel, workspace_nbytes
from xladev.platforms.cpu.engine import LoadedObject, compile_text, target_traits


def run_kernel(
    module: HloModule, *arguments: np.ndarray, nbytes: int = 64, calls: str = ""
) -> list[np.ndarray]:
    """Results of a module's entry as one kernel, for vectors of ``nbytes``.

    No pass runs before: a dot that is not written as `DotCanonicalizer` leaves it is computed by
    another emitter than in a program. ``calls`` is part of the name of a microkernel that must be
    called.
    """
    spec = KernelSpec("kernel", module.entry)
    builder = ModuleBuilder("m", replace(target_traits(), vector_nbytes=nbytes))
    emit_kernel(builder, spec)
    assert any(calls in name for name in builder.microkernels()) or not calls
    code = LoadedObject("m", compile_text("m", str(builder), 2), ("kernel",))
    results = [np.empty(s.dims, s.element_type.np) for s in spec.results]
    workspace = np.empty(-(-workspace_nbytes(spec) // 64), "V64")
    pointers = [
        a.ctypes.data for a in (*arguments, *results, *([workspace] if workspace.size else []))
    ]
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(pointers))
    kind(code.address("kernel"))(*pointers)
    return results
