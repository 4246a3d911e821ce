"""cuSOLVER and cuBLAS through CuPy's bindings: factors, triangular systems, plain products.

A batch is one call for each matrix. Every call is enqueued on the stream it is given, which the
library's handle is set to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from xladev.hlo.dtype import by_name
from xladev.platforms.cuda.driver.cublaslt import TYPES
from xladev.platforms.cuda.driver.interface import LibraryError
from xladev.platforms.cuda.driver.solver_steps import Solver, enqueue_steps
from xladev.platforms.cuda.libraries.calls import Cholesky, Matmul, TriangularSolve
from xladev.platforms.cuda.libraries.solver_calls import WAITING, SolverCall

_LETTERS: Mapping[str, str] = MappingProxyType({"f32": "s", "f64": "d", "c64": "c", "c128": "z"})
_OPERATIONS: Mapping[str, int] = MappingProxyType({"N": 0, "T": 1, "C": 2})
_COMPUTE: Mapping[str, int] = MappingProxyType(
    {"32F": 68, "32F_FAST_TF32": 77, "64F": 70, "32I": 72}
)
_DEFAULT_ALGORITHM = -1


def _copy(cupy: Any, target: int, source: int, nbytes: int, stream: int) -> None:
    runtime = cupy.cuda.runtime
    runtime.memcpyAsync(target, source, nbytes, runtime.memcpyDeviceToDevice, stream)


def enqueue_cholesky(cupy: Any, call: Cholesky, addresses: Sequence[int], stream: int) -> None:
    """potrf on a copy of each matrix.

    Raises:
        LibraryError: the workspace is too small for the library.
    """
    from cupy_backends.cuda.libs import cusolver

    source, target, info, workspace = addresses
    handle = cupy.cuda.device.get_cusolver_handle()
    cusolver.setStream(handle, stream)
    letter, size, n = _LETTERS[call.dtype], by_name(call.dtype).np.itemsize, call.order
    each = n * n * size
    _copy(cupy, target, source, call.batch * each, stream)
    upper = int(call.upper)
    length = getattr(cusolver, f"{letter}potrf_bufferSize")(handle, upper, n, target, n)
    if length * size > call.workspace_nbytes:
        why = f"it wants {length * size} bytes, and has {call.workspace_nbytes}"
        raise LibraryError("cusolverDnpotrf", "CUSOLVER_STATUS_ALLOC_FAILED", why)
    for k in range(call.batch):
        factor = getattr(cusolver, f"{letter}potrf")
        factor(handle, upper, n, target + k * each, n, workspace, length, info + 4 * k)


class LargerWorkspaces:
    """Memory for a call whose library wants more than the program holds for it.

    What is got once is kept beside the program's own workspace: who owns one owns both.

    Args:
        allocate: gives memory that lives as long as what is returned, which has a ``ptr``.
    """

    def __init__(self, allocate: Callable[[int], Any]) -> None:
        self._allocate = allocate
        self._held: dict[tuple[int, int], Any] = {}

    def at(self, address: int, there: int, wanted: int) -> int:
        """See `Solver.room`."""
        if wanted <= there:
            return address
        key = address, wanted
        if key not in self._held:
            self._held[key] = self._allocate(wanted)
        return int(self._held[key].ptr)


def enqueue_factorisation(
    cupy: Any,
    larger: LargerWorkspaces,
    call: SolverCall,
    addresses: Sequence[int],
    stream: int,
) -> None:
    """Factors, eigenvalues or singular values of a batch.

    Raises:
        LibraryError: the stream is captured, and the call waits for its own results.
    """
    from cupy_backends.cuda.libs import cusolver

    if isinstance(call, WAITING) and cupy.cuda.runtime.streamIsCapturing(stream):
        why = "it waits for its own results, and the stream is captured"
        raise LibraryError(
            f"cusolverDn {type(call).__name__}", "CUSOLVER_STATUS_NOT_SUPPORTED", why
        )
    handle = cupy.cuda.device.get_cusolver_handle()
    cusolver.setStream(handle, stream)

    def copy(target: int, source: int, nbytes: int) -> None:
        _copy(cupy, target, source, nbytes, stream)

    enqueue_steps(Solver(cusolver, handle, copy, larger.at), call, addresses)


def enqueue_triangular_solve(
    cupy: Any, call: TriangularSolve, addresses: Sequence[int], stream: int
) -> None:
    """trsm on a copy of each right side."""
    from cupy_backends.cuda.libs import cublas

    a, b, x = addresses
    handle = cupy.cuda.device.get_cublas_handle()
    cublas.setStream(handle, stream)
    dtype = by_name(call.dtype).np
    size, m, n = dtype.itemsize, call.rows, call.columns
    _copy(cupy, x, b, call.batch * m * n * size, stream)
    one = np.ones(1, dtype)
    solve = getattr(cublas, f"{_LETTERS[call.dtype]}trsm")
    for k in range(call.batch):
        solve(
            handle, int(not call.left), int(call.upper), _OPERATIONS[call.transpose],
            int(call.unit), m, n, one.ctypes.data,
            a + k * call.order * call.order * size, call.order, x + k * m * n * size, m,
        )  # fmt: skip


def enqueue_gemm(cupy: Any, call: Matmul, addresses: Sequence[int], stream: int) -> None:
    """A product without epilogue by cuBLAS's own choice of algorithm."""
    from cupy_backends.cuda.libs import cublas

    handle = cupy.cuda.device.get_cublas_handle()
    cublas.setStream(handle, stream)
    scale = {"f64": "f64", "c64": "c64", "c128": "c128", "s32": "s32"}.get(call.d.dtype, "f32")
    one, zero = (np.full(1, n, by_name(scale).np) for n in (1, 0))
    a, b, d = call.a, call.b, call.d
    cublas.gemmStridedBatchedEx(
        handle, _OPERATIONS[call.transpose_a], _OPERATIONS[call.transpose_b],
        d.rows, d.columns, call.inner, one.ctypes.data,
        addresses[0], TYPES[a.dtype], a.leading, a.stride,
        addresses[1], TYPES[b.dtype], b.leading, b.stride, zero.ctypes.data,
        addresses[2], TYPES[d.dtype], d.leading, d.stride,
        call.batch, _COMPUTE[call.compute], _DEFAULT_ALGORITHM,
    )  # fmt: skip
