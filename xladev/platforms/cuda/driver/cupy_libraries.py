"""The real libraries of one GPU: cuBLASLt and cuFFT by ctypes, cuDNN, cuSOLVER, and trsm by CuPy.

The best of cuBLASLt's algorithms and of cuDNN's plans is found by timing each once, and kept
(`choices.py`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from xladev.compiler.cache.store import entry_key
from xladev.platforms.cuda.driver import cudnn
from xladev.platforms.cuda.driver.choices import Choices
from xladev.platforms.cuda.driver.cublaslt import Algorithm, CublasLt, MatmulDescriptors
from xladev.platforms.cuda.driver.cufft import Transform
from xladev.platforms.cuda.driver.cupy_solvers import (
    LargerWorkspaces,
    enqueue_cholesky,
    enqueue_factorisation,
    enqueue_triangular_solve,
)
from xladev.platforms.cuda.driver.found import PACKAGES, missing
from xladev.platforms.cuda.driver.interface import LibraryError
from xladev.platforms.cuda.driver.measured import Stopwatch
from xladev.platforms.cuda.libraries.calls import (
    Cholesky,
    Convolution,
    Fourier,
    LibraryCall,
    Matmul,
    TriangularSolve,
    write_call,
)
from xladev.platforms.cuda.libraries.solver_calls import SOLVER_KINDS, SolverCall

Enqueue = Callable[[Sequence[int], int], None]
"""Enqueues a call on its buffers' addresses and a CUDA stream."""


@dataclass(frozen=True, slots=True)
class CupyCall:
    """A prepared library call.

    Attributes:
        name: of the kernel that it is.
        enqueue: see `Enqueue`.
    """

    name: str
    enqueue: Enqueue


class CupyLibraries:
    """The libraries of one GPU; each is loaded when it is first wanted.

    Args:
        cupy: the module.
        on_device: makes its device CUDA's current one, and errors the interface's.
        pool: of memory, for measurements.
        device: its name, for what is kept of them.
    """

    def __init__(
        self, cupy: Any, on_device: AbstractContextManager[None], pool: Any, device: str
    ) -> None:
        self._cupy = cupy
        self._on_device = on_device
        self._pool = pool
        self._stopwatch = Stopwatch(cupy, pool)
        self._choices = Choices()
        self._device = device
        self._lock = threading.Lock()

    def version(self) -> str:
        """Which libraries there are."""
        return ", ".join(f"{name}: {missing(name) or 'found'}" for name in PACKAGES)

    def convolution_version(self) -> str:
        """Of cuDNN and its front end, or why there is none."""
        try:
            with self._on_device:
                return self._cudnn.version()
        except LibraryError as e:
            return str(e)

    def refusal(self, call: LibraryCall) -> str:
        """What cuDNN, which alone can be asked, refuses a convolution with."""
        if not isinstance(call, Convolution):
            return ""
        try:
            with self._on_device:
                cudnn.PlannedConvolution(self._cudnn, call).plans(1)
        except LibraryError as e:
            return str(e)
        return ""

    def prepare(self, call: LibraryCall, name: str) -> CupyCall:
        """See `Libraries.prepare`."""
        makers: dict[type, Callable[[Any], Enqueue]] = {
            Matmul: self._matmul,
            Convolution: self._convolution,
            Fourier: self._fourier,
            Cholesky: self._cholesky,
            TriangularSolve: self._triangular_solve,
            **dict.fromkeys(SOLVER_KINDS, self._factorisation),
        }
        with self._on_device:
            return CupyCall(name, self._alone(makers[type(call)](call)))

    def _alone(self, enqueue: Enqueue) -> Enqueue:
        """One call at a time: handles and descriptors are changed from call to call."""

        def locked(addresses: Sequence[int], stream: int) -> None:
            with self._lock:
                enqueue(addresses, stream)

        return locked

    # Matrix products

    @cached_property
    def _lt(self) -> tuple[CublasLt, Any]:
        library = CublasLt()
        return library, library.create_handle()

    def _matmul(self, call: Matmul) -> Enqueue:
        library, handle = self._lt
        product = MatmulDescriptors(library, call)
        try:
            algorithm = self._algorithm(product)
        except LibraryError:
            if call.epilogue != "DEFAULT":
                raise
            return self._gemm(call)
        return lambda addresses, stream: product.enqueue(handle, algorithm, addresses, stream)

    def _algorithm(self, product: MatmulDescriptors) -> Algorithm:
        """The fastest proposal, by one measurement; the first if that may not decide."""
        library, handle = self._lt
        if product.call.deterministic:
            return product.proposals(handle)[0]
        return self._choices.choose(
            entry_key("cublaslt", str(library.version()), self._device, write_call(product.call)),
            _algorithm_of,
            lambda: self._stopwatch.fastest(
                product.proposals(handle),
                lambda way, addresses, stream: product.enqueue(handle, way, addresses, stream),
                buffer_nbytes(product.call),
            ),
            _bytes_of,
        )

    def _gemm(self, call: Matmul) -> Enqueue:
        """cuBLAS through CuPy, for what cuBLASLt proposes no algorithm for."""
        from xladev.platforms.cuda.driver.cupy_solvers import enqueue_gemm

        return lambda addresses, stream: enqueue_gemm(self._cupy, call, addresses, stream)

    # Convolutions

    @cached_property
    def _cudnn(self) -> cudnn.Cudnn:
        return cudnn.Cudnn()

    def _convolution(self, call: Convolution) -> Enqueue:
        planned = cudnn.PlannedConvolution(self._cudnn, call)
        plan = self._plan(planned)
        return lambda addresses, stream: planned.enqueue(plan, addresses, stream)

    def _plan(self, planned: cudnn.PlannedConvolution) -> int:
        """The fastest plan, by one measurement; the first if that may not decide."""
        if planned.call.deterministic:
            return planned.plans(1)[0]
        return self._choices.choose(
            entry_key("cudnn", self._cudnn.version(), self._device, write_call(planned.call)),
            lambda known: planned.plan(known.decode()),
            lambda: self._stopwatch.fastest(
                planned.plans(), planned.enqueue, cudnn.buffer_nbytes(planned.call)
            ),
            lambda plan: planned.name(plan).encode(),
        )

    # Others

    def _fourier(self, call: Fourier) -> Enqueue:
        transform = Transform(call)
        runtime = self._cupy.cuda.runtime

        def enqueue(addresses: Sequence[int], stream: int) -> None:
            source, target, *copy = addresses
            if copy:
                kind = runtime.memcpyDeviceToDevice
                runtime.memcpyAsync(copy[0], source, call.workspace_nbytes, kind, stream)
                source = copy[0]
            transform.enqueue(source, target, stream)

        return enqueue

    def _cholesky(self, call: Cholesky) -> Enqueue:
        _require("cusolver")
        larger = LargerWorkspaces(self._pool.malloc)
        return lambda addresses, stream: enqueue_cholesky(
            self._cupy, larger, call, addresses, stream
        )

    def _factorisation(self, call: SolverCall) -> Enqueue:
        _require("cusolver")
        larger = LargerWorkspaces(self._pool.malloc)
        return lambda addresses, stream: enqueue_factorisation(
            self._cupy, larger, call, addresses, stream
        )

    def _triangular_solve(self, call: TriangularSolve) -> Enqueue:
        _require("cublas")
        return lambda addresses, stream: enqueue_triangular_solve(
            self._cupy, call, addresses, stream
        )


def _algorithm_of(known: bytes) -> Algorithm:
    found = json.loads(known)
    return Algorithm(bytes.fromhex(found["code"]), found["workspace_nbytes"])


def _bytes_of(algorithm: Algorithm) -> bytes:
    kept = {"code": algorithm.code.hex(), "workspace_nbytes": algorithm.workspace_nbytes}
    return json.dumps(kept).encode()


def buffer_nbytes(call: Matmul) -> list[int]:
    """Bytes of each buffer of a product, in order."""
    sizes = []
    for matrix in (call.a, call.b):
        sizes.append(_nbytes(matrix.dtype) * _elements(matrix, call.batch))
    if call.has_bias:
        sizes.append(_nbytes(call.d.dtype) * call.d.rows)
    sizes.append(_nbytes(call.d.dtype) * _elements(call.d, call.batch))
    return [*sizes, call.workspace_nbytes]


def _elements(matrix: Any, batch: int) -> int:
    span = (matrix.columns - 1) * matrix.leading + matrix.rows
    return cast(int, (batch - 1) * matrix.stride + span)


def _nbytes(dtype: str) -> int:
    from xladev.hlo.dtype import by_name

    return by_name(dtype).np.itemsize


def _require(name: str) -> None:
    why = missing(name)
    if why:
        raise LibraryError(name, "NOT_FOUND", why)
