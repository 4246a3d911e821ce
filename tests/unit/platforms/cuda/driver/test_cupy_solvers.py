"""Factorisations through CuPy: names and arguments of its functions, streams and workspaces.

The emulated cuSOLVER stands in for CuPy's module, on host memory.
"""

import inspect
import re
import sys
from types import ModuleType

import numpy as np
import pytest

from tests.unit.platforms.cuda.driver import fake_cupy
from xladev.platforms.cuda.driver import cupy_libraries
from xladev.platforms.cuda.driver.cupy_driver import CupyDevice
from xladev.platforms.cuda.driver.emulated_cusolver import HANDLE, NAMES, EmulatedCusolver
from xladev.platforms.cuda.driver.interface import DriverError, LibraryError
from xladev.platforms.cuda.libraries.solver_calls import (
    Eigenvectors,
    LuFactorsCall,
    QrFactors,
    SingularValues,
    SolverCall,
)

CUPY = """
geqrf(handle, m, n, A, lda, tau, work, lwork, devInfo)
geqrf_bufferSize(handle, m, n, A, lda)
getrf(handle, m, n, A, lda, work, devIpiv, devInfo)
getrf_bufferSize(handle, m, n, A, lda)
orgqr(handle, m, n, k, A, lda, tau, work, lwork, devInfo)
orgqr_bufferSize(handle, m, n, k, A, lda, tau)
ormqr(handle, side, trans, m, n, k, A, lda, tau, C, ldc, work, lwork, devInfo)
ormqr_bufferSize(handle, side, trans, m, n, k, A, lda, tau, C, ldc)
syevd(handle, jobz, uplo, n, A, lda, W, work, lwork, info)
syevd_bufferSize(handle, jobz, uplo, n, A, lda, W)
syevjBatched(handle, jobz, uplo, n, A, lda, W, work, lwork, info, params, batchSize)
syevjBatched_bufferSize(handle, jobz, uplo, n, A, lda, W, params, batchSize)
gesvd(handle, jobu, jobvt, m, n, A, lda, S, U, ldu, VT, ldvt, Work, lwork, rwork, devInfo)
gesvd_bufferSize(handle, m, n)
gesvdj(handle, jobz, econ, m, n, A, lda, S, U, ldu, V, ldv, work, lwork, info, params)
gesvdj_bufferSize(handle, jobz, econ, m, n, A, lda, S, U, ldu, V, ldv, params)
gesvdjBatched(handle, jobz, m, n, A, lda, S, U, ldu, V, ldv, work, lwork, info, params, batchSize)
gesvdjBatched_bufferSize(handle, jobz, m, n, A, lda, S, U, ldu, V, ldv, params, batchSize)
"""
"""Arguments in CuPy 14.2, as the docstrings of `cupy_backends.cuda.libs.cusolver` give them."""
SPELLED = {"ungqr": "orgqr", "unmqr": "ormqr", "heevd": "syevd", "heevjBatched": "syevjBatched"}
OURS = {
    "lwork": "length", "devInfo": "info", "devIpiv": "pivots", "jobz": "job", "params": "options",
    "batchSize": "batch", "Work": "work",
}  # fmt: skip


def arguments(text):
    """Arguments by name of the function, without handle."""
    found = re.findall(r"(\w+)\(\w*\s?handle, ([^)]*)\)", text)
    return {name: [a.split()[-1] for a in rest.split(", ")] for name, rest in found}


def of_cupy(name):
    """Arguments of a function of one type, as ours are called."""
    stem, _, suffix = name[1:].partition("_")
    key = "_".join(filter(None, (SPELLED.get(stem, stem), suffix)))
    return [OURS.get(a, a).lower() for a in arguments(CUPY)[key]]


@pytest.mark.parametrize("name", NAMES)
def test_the_emulated_functions_take_what_cupys_take(name):
    parameters = list(inspect.signature(NAMES[name][1]).parameters.values())[1:]
    named = [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL]
    assert of_cupy(name)[: len(named)] == named
    assert len(named) == len(of_cupy(name)) or len(named) < len(parameters)


def test_cupy_has_these_functions():
    try:
        from cupy_backends.cuda.libs import cusolver
    except ImportError as e:
        pytest.skip(f"cuSOLVER through CuPy: {str(e).splitlines()[0]}")
    for name in NAMES:
        (found,) = arguments(getattr(cusolver, name).__doc__.replace("intptr_t ", "")).values()
        assert [OURS.get(a, a).lower() for a in found] == of_cupy(name)


class HostMemory:
    """Memory of this process by address."""

    def bytes_at(self, address, nbytes):
        import ctypes

        return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(address), np.uint8)


class CurrentStream:
    """CuPy's module: every function puts its work on the current stream."""

    def __init__(self):
        self.streams = set()
        self.refused = None
        self._functions = EmulatedCusolver(HostMemory())

    def __getattr__(self, name):
        function = getattr(self._functions, name)

        def called(*arguments):
            self.streams.add(fake_cupy.ExternalStream.current)
            if self.refused is not None:
                raise self.refused
            for stream in fake_cupy.streams.values():
                stream.run()
            return function(*arguments)

        return called


@pytest.fixture
def library(monkeypatch):
    made = CurrentStream()
    libs = ModuleType("cupy_backends.cuda.libs")
    libs.cusolver = made
    for name in ("cupy_backends", "cupy_backends.cuda"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.libs", libs)
    monkeypatch.setattr(cupy_libraries, "missing", lambda name: "")
    return made


def run(call: SolverCall, *sizes, given):
    """Bytes of the results of a call on a fake GPU, and its stream's number."""
    device = CupyDevice(fake_cupy.make(), 0)
    stream = device.create_stream()
    kernel = device.libraries.prepare(call, "k")
    found = [device.allocate(n) for n in (given.nbytes, *sizes, call.workspace_nbytes)]
    HostMemory().bytes_at(found[0].address, given.nbytes)[:] = given.reshape(-1).view(np.uint8)
    stream.launch(kernel, None, [a.address for a in found])
    stream.record().synchronize()
    results = [HostMemory().bytes_at(a.address, n) for a, n in zip(found[1:], sizes, strict=False)]
    return results, stream.pointer, device


@pytest.mark.parametrize("method", ["gesvd", "gesvdj", "gesvdjBatched"])
def test_singular_values(method, library):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(2, 3, 4)).astype(np.float32)
    call = SingularValues("f32", 4, 3, 2, method, vectors=True, full=True)
    (s, u, v, info), stream, _ = run(call, 24, 128, 72, 8, given=a)
    columns = a.swapaxes(1, 2)
    values = s.view(np.float32).reshape(2, 3)
    np.testing.assert_allclose(values, np.linalg.svd(columns, compute_uv=False), rtol=1e-5)
    left = u.view(np.float32).reshape(2, 4, 4).swapaxes(1, 2)
    right = v.view(np.float32).reshape(2, 3, 3)
    right = right.swapaxes(1, 2) if method == "gesvd" else right
    np.testing.assert_allclose(left[..., :3] * values[:, None] @ right, columns, atol=1e-5)
    assert info.view(np.int32).tolist() == [0, 0]
    assert library.streams == {stream}


def test_a_library_that_wants_more_gets_it(library, monkeypatch):
    """Memory of its own, kept for the next launch with the same workspace."""
    call = QrFactors("f64", 6, 5, 2)
    monkeypatch.setattr(QrFactors, "workspace_nbytes", property(lambda c: c.held_nbytes + 256))
    a = np.random.default_rng(0).normal(size=(2, 5, 6))
    (packed, _), _, device = run(call, a.nbytes, 80, given=a)
    found = packed.view(np.float64).reshape(2, 5, 6).swapaxes(1, 2)
    r = np.triu(np.linalg.qr(a.swapaxes(1, 2))[1])
    np.testing.assert_allclose(np.abs(np.triu(found[:, :5])), np.abs(r), atol=1e-12)
    assert device._pool.used > 32 * 5 * 8


def test_refusals_of_the_library_are_errors_of_the_interface(library):
    class CUSOLVERError(RuntimeError):
        pass

    call = LuFactorsCall("f32", 2, 2, 1)
    for refused in (CUSOLVERError("CUSOLVER_STATUS_INTERNAL_ERROR"), NotImplementedError("no")):
        library.refused = refused
        with pytest.raises(LibraryError, match=str(refused)):
            run(call, 16, 8, 4, given=np.eye(2, dtype=np.float32))


def test_what_waits_for_its_results_is_not_recorded(library):
    device = CupyDevice(fake_cupy.make(), 0)
    stream = device.create_stream()
    call = Eigenvectors("f32", 4, 1, upper=False, method="syevd")
    kernel = device.libraries.prepare(call, "k")
    stream.begin_capture()
    with pytest.raises(DriverError, match="waits for its own results"):
        stream.launch(kernel, None, [0] * 5)


def test_arguments_are_checked_by_the_emulated_functions():
    functions = EmulatedCusolver(HostMemory())
    a = np.zeros((4, 4), np.float32)
    at = a.ctypes.data
    good = {"m": 4, "n": 4, "A": at, "lda": 4, "work": at, "pivots": at, "info": at}

    def refused(**changed):
        with pytest.raises(LibraryError) as caught:
            functions.sgetrf(HANDLE, *{**good, **changed}.values())
        return str(caught.value)

    assert "leading dimension 3" in refused(lda=3)
    assert "not aligned" in refused(A=at + 2)
    assert "rows" in refused(m=-1)
    with pytest.raises(LibraryError, match="NOT_INITIALIZED"):
        functions.sgetrf(HANDLE + 1, *good.values())
    with pytest.raises(LibraryError, match="a workspace of 7 elements"):
        functions.sgeqrf(HANDLE, 4, 4, at, 4, at, at, 7, at)
    with pytest.raises(LibraryError, match="3 rows are less than 4"):
        functions.sgesvd(HANDLE, 65, 65, 3, 4, at, 4, at, at, 4, at, 4, at, 99, 0, at)
    with pytest.raises(LibraryError, match="33 x 4"):
        options = functions.createGesvdjInfo()
        functions.sgesvdjBatched(HANDLE, 1, 33, 4, *[at] * 8, 0, at, options, 1)
    with pytest.raises(LibraryError, match="3 rows, 4 columns"):
        functions.sorgqr(HANDLE, 3, 4, 2, at, 4, at, at, 256, at)
    with pytest.raises(LibraryError, match="operation 2"):
        functions.sormqr(HANDLE, 0, 2, 4, 4, 2, at, 4, at, at, 4, at, 256, at)
    with pytest.raises(AttributeError, match="cuSOLVER has no sungqr"):
        functions.sungqr(HANDLE)
