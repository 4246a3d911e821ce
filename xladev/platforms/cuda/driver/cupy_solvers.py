"""cuSOLVER and cuBLAS through CuPy's bindings: factors, triangular systems, plain products.

CuPy's functions set the library's handle to CuPy's current stream, whatever it was set to, so that
the stream of a call is made the current one. They refuse to be recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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


@contextmanager
def _on_stream(cupy: Any, library: str, stream: int) -> Iterator[None]:
    """CuPy puts its libraries' work on a stream.

    Raises:
        LibraryError: what CuPy raises for a status that is no success, or for a captured stream.
    """
    cuda = cupy.cuda
    try:
        with cuda.ExternalStream(stream):
            yield
    except (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError):
        raise
    except RuntimeError as e:
        raise LibraryError(library, str(e), type(e).__name__) from e


def _copy(cupy: Any, target: int, source: int, nbytes: int, stream: int) -> None:
    runtime = cupy.cuda.runtime
    runtime.memcpyAsync(target, source, nbytes, runtime.memcpyDeviceToDevice, stream)


def enqueue_cholesky(
    cupy: Any,
    larger: LargerWorkspaces,
    call: Cholesky,
    addresses: Sequence[int],
    stream: int,
) -> None:
    """potrf on a copy of each matrix.

    Raises:
        LibraryError: the library refuses.
    """
    from cupy_backends.cuda.libs import cusolver

    source, target, info, workspace = addresses
    handle = cupy.cuda.device.get_cusolver_handle()
    letter, size, n = _LETTERS[call.dtype], by_name(call.dtype).np.itemsize, call.order
    each = n * n * size
    _copy(cupy, target, source, call.batch * each, stream)
    upper = int(call.upper)
    with _on_stream(cupy, "cusolverDnpotrf", stream):
        length = getattr(cusolver, f"{letter}potrf_bufferSize")(handle, upper, n, target, n)
        work = larger.at(workspace, call.workspace_nbytes, length * size)
        for k in range(call.batch):
            factor = getattr(cusolver, f"{letter}potrf")
            factor(handle, upper, n, target + k * each, n, work, length, info + 4 * k)


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
        LibraryError: the library refuses; or the stream is captured, and the call waits for its
            own results.
    """
    from cupy_backends.cuda.libs import cusolver

    if isinstance(call, WAITING) and cupy.cuda.runtime.streamIsCapturing(stream):
        why = "it waits for its own results, and the stream is captured"
        raise LibraryError(
            f"cusolverDn {type(call).__name__}", "CUSOLVER_STATUS_NOT_SUPPORTED", why
        )
    handle = cupy.cuda.device.get_cusolver_handle()

    def copy(target: int, source: int, nbytes: int) -> None:
        _copy(cupy, target, source, nbytes, stream)

    with _on_stream(cupy, f"cusolverDn {type(call).__name__}", stream):
        enqueue_steps(Solver(cusolver, handle, copy, larger.at), call, addresses)


def enqueue_triangular_solve(
    cupy: Any, call: TriangularSolve, addresses: Sequence[int], stream: int
) -> None:
    """trsm on a copy of each right side."""
    from cupy_backends.cuda.libs import cublas

    a, b, x = addresses
    handle = cupy.cuda.device.get_cublas_handle()
    dtype = by_name(call.dtype).np
    size, m, n = dtype.itemsize, call.rows, call.columns
    _copy(cupy, x, b, call.batch * m * n * size, stream)
    one = np.ones(1, dtype)
    solve = getattr(cublas, f"{_LETTERS[call.dtype]}trsm")
    with _on_stream(cupy, "cublastrsm", stream):
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
    scale = {"f64": "f64", "c64": "c64", "c128": "c128", "s32": "s32"}.get(call.d.dtype, "f32")
    one, zero = (np.full(1, n, by_name(scale).np) for n in (1, 0))
    a, b, d = call.a, call.b, call.d
    with _on_stream(cupy, "cublasGemmStridedBatchedEx", stream):
        cublas.gemmStridedBatchedEx(
            handle, _OPERATIONS[call.transpose_a], _OPERATIONS[call.transpose_b],
            d.rows, d.columns, call.inner, one.ctypes.data,
            addresses[0], TYPES[a.dtype], a.leading, a.stride,
            addresses[1], TYPES[b.dtype], b.leading, b.stride, zero.ctypes.data,
            addresses[2], TYPES[d.dtype], d.leading, d.stride,
            call.batch, _COMPUTE[call.compute], _DEFAULT_ALGORITHM,
        )  # fmt: skip
