"""Emulated libraries refuse what the real ones refuse, with their statuses."""

from dataclasses import replace

import numpy as np
import pytest

from xladev.compiler.kernel_code import LaunchDimensions
from xladev.errors import FormatError
from xladev.platforms.cuda.driver.emulated import EmulatedDriver
from xladev.platforms.cuda.driver.interface import DriverError, LibraryError
from xladev.platforms.cuda.libraries.calls import (
    Cholesky,
    Fourier,
    Matmul,
    MatrixOperand,
    TriangularSolve,
    read_call,
    write_call,
)
from xladev.platforms.cuda.libraries.solver_calls import (
    Eigenvectors,
    LuFactorsCall,
    QMatrix,
    QProduct,
    QrFactors,
    SingularValues,
)

PRODUCT = Matmul(
    MatrixOperand("f32", 7, 10, 7),
    MatrixOperand("f32", 10, 6, 10),
    MatrixOperand("f32", 7, 6, 7),
    "N",
    "N",
    1,
    "32F",
)
CALLS = (
    replace(PRODUCT, epilogue="GELU_BIAS"),
    Fourier("C2R", forward=False, lengths=(4, 6), batch=2),
    Cholesky("f32", 4, 2, upper=True),
    TriangularSolve("f64", 3, 4, left=True, upper=False, transpose="C", unit=True, batch=2),
    LuFactorsCall("f32", 4, 3, 2),
    QrFactors("c64", 4, 3, 2),
    QMatrix("c128", 4, 3, 2, 2),
    QProduct("f64", 4, 3, 4, 2, left=True, adjoint=True, batch=2),
    Eigenvectors("f64", 4, 2, upper=True, method="syevjBatched"),
    SingularValues("f32", 4, 3, 2, "gesvd", vectors=True, full=False),
)


@pytest.fixture
def device():
    return EmulatedDriver(0).open(0)


@pytest.mark.parametrize("call", CALLS, ids=lambda c: type(c).__name__)
def test_calls_travel_as_text(call):
    assert read_call(write_call(call)) == call


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"call": "Matmul"}', write_call(CALLS[2])[:-1] + ',"more": 1}']
)
def test_damaged_calls_are_refused(text):
    with pytest.raises(FormatError, match="cannot be read"):
        read_call(text)


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        (replace(PRODUCT, a=MatrixOperand("f32", 7, 10, 6)), "INVALID_VALUE"),
        (replace(PRODUCT, transpose_a="T"), "INVALID_VALUE"),
        (replace(PRODUCT, b=MatrixOperand("f32", 9, 6, 10)), "INVALID_VALUE"),
        (replace(PRODUCT, batch=2), "INVALID_VALUE"),
        (replace(PRODUCT, epilogue="SWISH"), "INVALID_VALUE"),
        (replace(PRODUCT, compute="64F"), "NOT_SUPPORTED"),
        (replace(PRODUCT, d=MatrixOperand("bf16", 7, 6, 7)), "NOT_SUPPORTED"),
        (replace(PRODUCT, b=MatrixOperand("f64", 10, 6, 10)), "NOT_SUPPORTED"),
    ],
)
def test_products_that_cublaslt_refuses(changed, status, device):
    with pytest.raises(LibraryError, match=status) as caught:
        device.libraries.prepare(changed, "k")
    assert caught.value.status == f"CUBLAS_STATUS_{status}"


def narrow(dtype, m, k, n):
    out = "s32" if dtype == "s8" else "f32"
    return Matmul(
        MatrixOperand(dtype, k, n, k), MatrixOperand(dtype, k, m, k),
        MatrixOperand(out, n, m, n), "T", "N", 1, "32I" if dtype == "s8" else "32F",
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["s8", "f8e4m3fn"])
def test_narrow_types_want_whole_groups_and_one_order(dtype, device):
    device.libraries.prepare(narrow(dtype, 16, 32, 16), "k")
    for wrong in (
        narrow(dtype, 16, 34, 16),
        replace(narrow(dtype, 16, 32, 16), a=MatrixOperand(dtype, 16, 32, 16), transpose_a="N"),
    ):
        with pytest.raises(LibraryError, match="NOT_SUPPORTED"):
            device.libraries.prepare(wrong, "k")


def launched(device, call, sizes, shift=0, at=0):
    """The failure of a call on buffers of these sizes, the address of one of them shifted."""
    stream = device.create_stream()
    found = [device.allocate(n + shift) for n in sizes]
    kernel = device.libraries.prepare(call, "k")
    addresses = [a.address + shift * (n == at) for n, a in enumerate(found)]
    stream.launch(kernel, LaunchDimensions(), addresses)
    event = stream.record()
    event.synchronize()
    return event.failure()


SIZES = [7 * 10 * 4, 10 * 6 * 4, 7 * 6 * 4, PRODUCT.workspace_nbytes]


def test_a_product_with_room_for_all_succeeds(device):
    assert launched(device, PRODUCT, SIZES) is None


@pytest.mark.parametrize("place", range(4))
def test_a_buffer_that_is_too_small_is_found(place, device):
    sizes = list(SIZES)
    sizes[place] -= 4
    assert "no live allocation" in str(launched(device, PRODUCT, sizes))


def test_a_wrong_leading_dimension_is_found(device):
    wrong = replace(PRODUCT, a=MatrixOperand("f32", 7, 10, 8))
    assert "no live allocation" in str(launched(device, wrong, SIZES))


@pytest.mark.parametrize(
    ("at", "shift", "what"), [(1, 2, "buffer 1 is not aligned"), (3, 4, "the workspace")]
)
def test_alignment_is_checked(at, shift, what, device):
    failure = launched(device, PRODUCT, SIZES, shift, at)
    assert isinstance(failure, LibraryError)
    assert failure.status == "CUBLAS_STATUS_INVALID_VALUE"
    assert what in str(failure)


def test_another_number_of_buffers_is_refused(device):
    kernel = device.libraries.prepare(PRODUCT, "k")
    with pytest.raises(DriverError, match="takes 4 buffers"):
        device.create_stream().launch(kernel, LaunchDimensions(), [0, 0])


def test_calls_wait_in_their_stream(device):
    """A product that another stream reads without waiting is wrong in some order."""

    def right(seed, waits):
        device = EmulatedDriver(seed).open(0)
        square = MatrixOperand("f32", 4, 4, 4)
        n, call = 64, replace(PRODUCT, a=square, b=square, d=square)
        x, y, z, w = (device.allocate(m) for m in (n, n, n, call.workspace_nbytes))
        eye = np.eye(4, dtype=np.float32).view(np.uint8).reshape(-1)
        device.copy_to_device(x.address, eye)
        kernel = device.libraries.prepare(call, "k")
        first, second = device.create_stream(), device.create_stream()
        first.launch(kernel, LaunchDimensions(), [x.address, x.address, y.address, w.address])
        done = first.record()
        if waits:
            second.wait(done)
        second.copy(z.address, y.address, n)
        second.record().synchronize()
        found = np.empty(n, np.uint8)
        device.copy_to_host(found, z.address)
        return np.array_equal(found, eye)

    assert all(right(seed, True) for seed in range(8))
    assert not all(right(seed, False) for seed in range(8))


def test_a_workspace_is_overwritten(device):
    """Whoever keeps something in a workspace loses it here, too."""
    sizes = [n + 64 for n in SIZES]
    stream = device.create_stream()
    x, y, z, w = (device.allocate(n) for n in sizes)
    device.copy_to_device(w.address, np.zeros(64, np.uint8))
    kernel = device.libraries.prepare(PRODUCT, "k")
    stream.launch(kernel, LaunchDimensions(), [a.address for a in (x, y, z, w)])
    stream.record().synchronize()
    found = np.empty(64, np.uint8)
    device.copy_to_host(found, w.address)
    assert found.all()


@pytest.mark.parametrize(
    ("call", "status"),
    [
        (Fourier("C2S", forward=True, lengths=(4,), batch=1), "CUFFT_INVALID_TYPE"),
        (Fourier("C2C", forward=True, lengths=(1, 2, 3, 4), batch=1), "CUFFT_INVALID_SIZE"),
        (Fourier("C2C", forward=True, lengths=(4,), batch=0), "CUFFT_INVALID_SIZE"),
        (Cholesky("bf16", 4, 1, upper=False), "CUSOLVER_STATUS_NOT_SUPPORTED"),
        (Cholesky("f32", 0, 1, upper=False), "CUSOLVER_STATUS_INVALID_VALUE"),
        (LuFactorsCall("bf16", 4, 4, 1), "CUSOLVER_STATUS_NOT_SUPPORTED"),
        (QrFactors("f32", 4, 0, 1), "CUSOLVER_STATUS_INVALID_VALUE"),
        (Eigenvectors("f32", 4, 0, upper=True, method="syevd"), "CUSOLVER_STATUS_INVALID_VALUE"),
    ],
)
def test_other_libraries_refuse_too(call, status, device):
    with pytest.raises(LibraryError, match=status):
        device.libraries.prepare(call, "k")


def test_complex_to_real_overwrites_its_copy_and_not_its_input(device):
    call = Fourier("C2R", forward=False, lengths=(8,), batch=1)
    x, y, w = (device.allocate(n) for n in (40, 32, call.workspace_nbytes))
    data = np.arange(40, dtype=np.uint8)
    device.copy_to_device(x.address, data)
    stream = device.create_stream()
    kernel = device.libraries.prepare(call, "k")
    stream.launch(kernel, LaunchDimensions(), [x.address, y.address, w.address])
    event = stream.record()
    event.synchronize()
    assert event.failure() is None
    found = np.empty(40, np.uint8)
    device.copy_to_host(found, x.address)
    assert np.array_equal(found, data)


FACTORS = LuFactorsCall("f64", 4, 3, 2)
FACTOR_SIZES = [192, 192, 24, 8, FACTORS.workspace_nbytes]


@pytest.mark.parametrize("place", range(5))
def test_buffers_of_factors_are_checked(place, device):
    assert launched(device, FACTORS, FACTOR_SIZES) is None
    sizes = list(FACTOR_SIZES)
    sizes[place] -= 4
    assert "no live allocation" in str(launched(device, FACTORS, sizes))


@pytest.mark.parametrize(("at", "shift"), [(1, 4), (2, 2), (3, 2), (4, 8)])
def test_buffers_of_factors_are_aligned(at, shift, device):
    assert "not aligned" in str(launched(device, FACTORS, FACTOR_SIZES, shift, at))


def test_a_workspace_that_is_too_small_for_the_library_is_refused(device, monkeypatch):
    small = property(lambda call: call.held_nbytes + 256)
    monkeypatch.setattr(QrFactors, "workspace_nbytes", small)
    call = QrFactors("f64", 40, 30, 1)
    failure = launched(device, call, [9600, 9600, 240, call.workspace_nbytes])
    assert isinstance(failure, LibraryError)
    assert failure.status == "CUSOLVER_STATUS_ALLOC_FAILED"


def test_singular_values_overwrite_a_copy_and_not_their_input(device):
    call = SingularValues("f32", 4, 3, 2, "gesvdj", vectors=False, full=False)
    x, *rest, work = (device.allocate(n) for n in (96, 24, 96, 72, 8, call.workspace_nbytes))
    data = np.arange(96, dtype=np.uint8)
    device.copy_to_device(x.address, data)
    stream = device.create_stream()
    kernel = device.libraries.prepare(call, "k")
    stream.launch(kernel, LaunchDimensions(), [a.address for a in (x, *rest, work)])
    event = stream.record()
    event.synchronize()
    assert event.failure() is None
    found = np.empty(96, np.uint8)
    device.copy_to_host(found, x.address)
    assert np.array_equal(found, data)


def test_what_waits_for_its_results_spoils_a_capture(device):
    stream = device.create_stream()
    kernel = device.libraries.prepare(CALLS[-1], "k")
    stream.begin_capture()
    with pytest.raises(DriverError, match="StreamCaptureUnsupported"):
        stream.launch(kernel, LaunchDimensions(), [0] * 6)
    with pytest.raises(DriverError, match="Invalidated"):
        stream.end_capture()
