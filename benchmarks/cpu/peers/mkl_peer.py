"""Intel's MKL by ctypes: matrix products of f32 alone."""

from __future__ import annotations

import ctypes
import importlib.metadata
from typing import Any

import numpy as np

from benchmarks.cpu.child import Job, Prepared, Refused, serve, touch
from benchmarks.cpu.wire import Array

_ROW_MAJOR, _NOT_TRANSPOSED = 101, 111


class Mkl:
    """``cblas_sgemm`` of the wheel ``mkl``."""

    def __init__(self) -> None:
        try:
            files = importlib.metadata.files("mkl") or ()
        except importlib.metadata.PackageNotFoundError as e:
            raise ImportError("no wheel mkl is installed") from e
        found = [f for f in files if f.name.startswith("libmkl_rt.so")]
        if not found:
            raise ImportError("the wheel mkl has no libmkl_rt")
        self._library = ctypes.CDLL(str(found[0].locate()))

    def versions(self) -> dict[str, str]:
        """Of the wheel."""
        return {"mkl": importlib.metadata.version("mkl")}

    def prepare(self, job: Job) -> Prepared:
        """Nothing is compiled."""
        if job.kind != "gemm" or job.inputs[0].dtype != np.float32:
            raise Refused("a matrix product of f32 is all that is called here")
        self._library.MKL_Set_Num_Threads(job.threads)
        a, b = job.inputs
        (m, k), n = a.shape, b.shape[1]
        one, zero, order = ctypes.c_float(1), ctypes.c_float(0), ctypes.c_int
        sizes = [order(s) for s in (m, n, k)]
        product = self._library.cblas_sgemm
        product.restype = None

        def call() -> list[Array]:
            c = np.empty((m, n), np.float32)
            product(
                order(_ROW_MAJOR), order(_NOT_TRANSPOSED), order(_NOT_TRANSPOSED), *sizes,
                one, _pointer(a), order(k), _pointer(b), order(n), zero, _pointer(c), order(n),
            )  # fmt: skip
            touch([c])
            return [c]

        return Prepared(call, lambda kept: list(kept))


def _pointer(array: Array) -> Any:
    return ctypes.c_void_p(array.ctypes.data)


if __name__ == "__main__":
    serve(Mkl)
