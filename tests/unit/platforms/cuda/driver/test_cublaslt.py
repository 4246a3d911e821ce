"""cuBLASLt's descriptors, which need the library and no GPU."""

import ctypes
from dataclasses import replace

import pytest

from xladev.platforms.cuda.driver import found
from xladev.platforms.cuda.driver.cublaslt import CublasLt, MatmulDescriptors
from xladev.platforms.cuda.driver.cupy_libraries import buffer_nbytes
from xladev.platforms.cuda.driver.interface import LibraryError
from xladev.platforms.cuda.libraries.calls import Matmul, MatrixOperand

PRODUCT = Matmul(
    MatrixOperand("f32", 10, 7, 11, 77),
    MatrixOperand("f32", 10, 6, 10, 60),
    MatrixOperand("f32", 7, 6, 7, 42),
    "T",
    "N",
    3,
    "32F_FAST_TF32",
    "GELU_BIAS",
)
needs_library = pytest.mark.skipif(
    bool(found.missing("cublasLt")), reason=f"cuBLASLt: {found.missing('cublasLt')}"
)


@needs_library
def test_descriptors_hold_what_was_asked():
    library = CublasLt()
    product = MatmulDescriptors(library, PRODUCT)

    def read(kind, handle, attribute, type_):
        value, written = type_(0), ctypes.c_size_t()
        library.call(
            f"cublasLt{kind}GetAttribute", handle, attribute, ctypes.byref(value),
            ctypes.c_size_t(ctypes.sizeof(value)), ctypes.byref(written),
        )  # fmt: skip
        assert written.value == ctypes.sizeof(value)
        return value.value

    numbers = {
        n: read("MatmulDesc", product._description, n, ctypes.c_int32) for n in (0, 1, 3, 4, 7, 26)
    }
    assert numbers == {0: 77, 1: 0, 3: 1, 4: 0, 7: 36, 26: 0}
    layout = [
        read("MatrixLayout", product._a, n, t)
        for n, t in (
            (0, ctypes.c_int32), (2, ctypes.c_uint64), (3, ctypes.c_uint64),
            (4, ctypes.c_int64), (5, ctypes.c_int32), (6, ctypes.c_int64),
        )
    ]  # fmt: skip
    assert layout == [0, 10, 7, 11, 3, 77]


@needs_library
@pytest.mark.parametrize(
    "call",
    [
        replace(PRODUCT, compute="64F", epilogue="DEFAULT", d=MatrixOperand("c128", 7, 6, 7, 42)),
        replace(PRODUCT, compute="32I", epilogue="DEFAULT", d=MatrixOperand("s32", 7, 6, 7, 42)),
    ],
)
def test_scales_of_other_types_are_accepted(call):
    MatmulDescriptors(CublasLt(), call)


def test_a_missing_library_is_said_with_its_package(monkeypatch):
    monkeypatch.setattr(found, "missing", lambda name: "not there: pip install nvidia-cublas")
    with pytest.raises(LibraryError, match="NOT_FOUND .*pip install nvidia-cublas"):
        CublasLt()


def test_buffers_of_a_product():
    a, b, bias, d, workspace = buffer_nbytes(PRODUCT)
    assert (a, bias) == (4 * (2 * 77 + 6 * 11 + 10), 4 * 7)
    assert (b, d) == (4 * 3 * 60, 4 * 3 * 42)
    assert workspace == PRODUCT.workspace_nbytes
