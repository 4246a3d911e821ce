"""cuBLASLt by ctypes: descriptors, the algorithms that it proposes, and products.

Numbers are those of cublasLt.h and library_types.h, the same from CUDA 12 on. Descriptors are made
without a GPU; a handle, and so everything that computes, needs one.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from xladev.platforms.cuda.driver.found import loaded
from xladev.platforms.cuda.driver.interface import LibraryError
from xladev.platforms.cuda.libraries.calls import Matmul, MatrixOperand

_STATUS: Mapping[int, str] = MappingProxyType(
    {
        1: "NOT_INITIALIZED", 3: "ALLOC_FAILED", 7: "INVALID_VALUE", 8: "ARCH_MISMATCH",
        11: "MAPPING_ERROR", 13: "EXECUTION_FAILED", 14: "INTERNAL_ERROR", 15: "NOT_SUPPORTED",
        16: "LICENSE_ERROR",
    }
)  # fmt: skip
TYPES: Mapping[str, int] = MappingProxyType(
    {
        "f32": 0, "f64": 1, "f16": 2, "s8": 3, "c64": 4, "c128": 5, "s32": 10, "bf16": 14,
        "f8e4m3fn": 28, "f8e5m2": 29,
    }
)  # fmt: skip
"""cudaDataType by element type."""
_COMPUTE: Mapping[str, int] = MappingProxyType(
    {"32F": 68, "32F_FAST_TF32": 77, "64F": 70, "32I": 72}
)
_OPERATIONS: Mapping[str, int] = MappingProxyType({"N": 0, "T": 1, "C": 2})
_EPILOGUES: Mapping[str, int] = MappingProxyType(
    {"DEFAULT": 1, "RELU": 2, "BIAS": 4, "RELU_BIAS": 6, "GELU": 32, "GELU_BIAS": 36}
)
_TRANSPOSE_A, _TRANSPOSE_B, _EPILOGUE, _BIAS_POINTER, _BIAS_TYPE = 3, 4, 7, 8, 26
_LAYOUT_BATCH, _LAYOUT_STRIDE = 5, 6
_PREFERRED_WORKSPACE, _REDUCTION_SCHEMES = 1, 3
_IN_COMPUTE_TYPE = 2
"""Parts along the contracted dimension are added in the compute type, never in bf16."""
_PROPOSALS = 8

_Handle = ctypes.c_void_p


class _Proposal(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace_nbytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


@dataclass(frozen=True, slots=True)
class Algorithm:
    """How a product is computed.

    Attributes:
        code: opaque; means something to one version of the library on one kind of device.
        workspace_nbytes: that it needs.
    """

    code: bytes
    workspace_nbytes: int


class CublasLt:
    """The library.

    Raises:
        LibraryError: it is missing.
    """

    def __init__(self) -> None:
        self._library = loaded("cublasLt")
        self._library.cublasLtGetVersion.restype = ctypes.c_size_t

    def version(self) -> int:
        """Such as 130500."""
        return int(self._library.cublasLtGetVersion())

    def create_handle(self) -> _Handle:
        """A handle on CUDA's current device.

        Raises:
            LibraryError: there is no device.
        """
        handle = _Handle()
        self.call("cublasLtCreate", ctypes.byref(handle))
        return handle

    def call(self, function: str, *arguments: object) -> None:
        """Calls a function.

        Raises:
            LibraryError: its status, if that is not success.
        """
        status = getattr(self._library, function)(*arguments)
        if status:
            raise LibraryError(function, f"CUBLAS_STATUS_{_STATUS.get(status, status)}")


class MatmulDescriptors:
    """The descriptors of one matrix product; destroyed with the last reference.

    Args:
        library: the library.
        call: what is computed.

    Raises:
        LibraryError: the library refuses a descriptor.
    """

    def __init__(self, library: CublasLt, call: Matmul) -> None:
        self.library = library
        self.call = call
        scale = _scale_type(call)
        self._one, self._zero = _scalar(scale, 1), _scalar(scale, 0)
        self._description = self._made(
            "MatmulDesc", _COMPUTE[call.compute], ctypes.c_int(TYPES[scale])
        )
        for attribute, value in (
            (_TRANSPOSE_A, _OPERATIONS[call.transpose_a]),
            (_TRANSPOSE_B, _OPERATIONS[call.transpose_b]),
            (_EPILOGUE, _EPILOGUES[call.epilogue]),
        ):
            self._set("MatmulDesc", self._description, attribute, ctypes.c_int32(value))
        if call.has_bias:
            bias = ctypes.c_int32(TYPES[call.d.dtype])
            self._set("MatmulDesc", self._description, _BIAS_TYPE, bias)
        self._a, self._b, self._d = (self._layout(m) for m in (call.a, call.b, call.d))

    def _made(self, kind: str, *arguments: object) -> _Handle:
        made = _Handle()
        self.library.call(f"cublasLt{kind}Create", ctypes.byref(made), *arguments)
        # A destroyed handle is one that is not used any more: the status says nothing of interest.
        destroy = getattr(self.library._library, f"cublasLt{kind}Destroy")
        weakref.finalize(self, destroy, made).atexit = False
        return made

    def _set(self, kind: str, handle: _Handle, attribute: int, value: ctypes._CData) -> None:
        self.library.call(
            f"cublasLt{kind}SetAttribute",
            handle,
            ctypes.c_int(attribute),
            ctypes.byref(value),
            ctypes.c_size_t(ctypes.sizeof(value)),
        )

    def _layout(self, matrix: MatrixOperand) -> _Handle:
        made = self._made(
            "MatrixLayout",
            ctypes.c_int(TYPES[matrix.dtype]),
            ctypes.c_uint64(matrix.rows),
            ctypes.c_uint64(matrix.columns),
            ctypes.c_int64(matrix.leading),
        )
        if self.call.batch > 1:
            batch, stride = ctypes.c_int32(self.call.batch), ctypes.c_int64(matrix.stride)
            self._set("MatrixLayout", made, _LAYOUT_BATCH, batch)
            self._set("MatrixLayout", made, _LAYOUT_STRIDE, stride)
        return made

    def proposals(self, handle: _Handle) -> list[Algorithm]:
        """What the library's heuristics propose, best first, within the call's workspace.

        Raises:
            LibraryError: it proposes nothing.
        """
        preference = self._made("MatmulPreference")
        limit = ctypes.c_uint64(self.call.workspace_nbytes)
        self._set("MatmulPreference", preference, _PREFERRED_WORKSPACE, limit)
        schemes = ctypes.c_uint32(_IN_COMPUTE_TYPE)
        self._set("MatmulPreference", preference, _REDUCTION_SCHEMES, schemes)
        found, count = (_Proposal * _PROPOSALS)(), ctypes.c_int()
        self.library.call(
            "cublasLtMatmulAlgoGetHeuristic",
            handle, self._description, self._a, self._b, self._d, self._d, preference,
            ctypes.c_int(_PROPOSALS), found, ctypes.byref(count),
        )  # fmt: skip
        good = [p for p in found[: count.value] if not p.state]
        if not good:
            raise LibraryError("cublasLtMatmulAlgoGetHeuristic", "CUBLAS_STATUS_NOT_SUPPORTED")
        return [Algorithm(bytes(p.algorithm), p.workspace_nbytes) for p in good]

    def enqueue(
        self, handle: _Handle, algorithm: Algorithm, addresses: Sequence[int], stream: int
    ) -> None:
        """Enqueues the product on a CUDA stream; buffers as `Matmul` lists them.

        Raises:
            LibraryError: the library refuses it.
        """
        a, b, *bias, d, workspace = addresses
        if bias:
            pointer = ctypes.c_void_p(bias[0])
            self._set("MatmulDesc", self._description, _BIAS_POINTER, pointer)
        code = (ctypes.c_uint64 * 8).from_buffer_copy(algorithm.code)
        address = ctypes.c_void_p
        self.library.call(
            "cublasLtMatmul",
            handle, self._description, ctypes.byref(self._one),
            address(a), self._a, address(b), self._b, ctypes.byref(self._zero),
            address(d), self._d, address(d), self._d, ctypes.byref(code),
            address(workspace), ctypes.c_size_t(self.call.workspace_nbytes), address(stream),
        )  # fmt: skip


def _scale_type(call: Matmul) -> str:
    """The type of the factors of products and of what is added to them."""
    if call.compute == "32I":
        return "s32"
    return call.d.dtype if call.d.dtype in ("f64", "c64", "c128") else "f32"


def _scalar(dtype: str, value: int) -> ctypes._CData:
    """A number; a complex one as two."""
    if dtype == "s32":
        return (ctypes.c_int32 * 2)(value, 0)
    if dtype in ("f32", "c64"):
        return (ctypes.c_float * 2)(value, 0)
    return (ctypes.c_double * 2)(value, 0)
