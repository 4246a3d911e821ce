"""Where LAPACK comes from, and what is said where there is none."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from xladev.errors import CompileError
from xladev.platforms.cpu.lapack import found
from xladev.platforms.cpu.lapack.found import (
    Lapack,
    NoLapack,
    found_lapack,
    lapack_identity,
    require,
)
from xladev.platforms.cpu.lapack.routines import SIGNATURES

pytest.importorskip("scipy")


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """LAPACK is looked for anew, and again after the test."""
    found._found.cache_clear()
    lapack_identity.cache_clear()
    yield monkeypatch
    found._found.cache_clear()
    lapack_identity.cache_clear()


def reason() -> str:
    answer = found_lapack()
    assert isinstance(answer, NoLapack)
    return answer.reason


def test_all_routines_are_there() -> None:
    lapack = found_lapack()
    assert isinstance(lapack, Lapack)
    assert lapack.addresses.keys() == SIGNATURES.keys()
    assert lapack.name.startswith("SciPy ")


def test_an_address_is_that_of_the_routine() -> None:
    address = require(("dpotrf",), "a test")["dpotrf"]
    a = np.array([[4.0, 0], [2, 5]], order="F")
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)(address)
    n, info = ctypes.c_int(2), ctypes.c_int(7)
    places = (ctypes.create_string_buffer(b"L"), n, a.ctypes.data, n, info)
    function(*(p if isinstance(p, int) else ctypes.addressof(p) for p in places))
    assert info.value == 0 and a.tolist() == [[2, 0], [1, 2]]


def test_no_scipy(fresh: pytest.MonkeyPatch) -> None:
    fresh.setattr(found, "_scipy_folder", lambda: None)
    assert reason() == "SciPy is not installed"
    assert lapack_identity() == "none"
    with pytest.raises(CompileError) as raised:
        require(("dpotrf", "dgetrf"), "executable 'f'")
    error = raised.value
    assert "dpotrf, dgetrf" in error.what and error.where == "executable 'f'"
    assert error.why == "SciPy is not installed" and "cpu.lapack=off" in (error.hint or "")


def test_a_scipy_that_cannot_be_loaded(fresh: pytest.MonkeyPatch) -> None:
    def broken(folder: Path, name: str) -> ModuleType:
        raise ImportError("libgfortran is missing")

    fresh.setattr(found, "_extension", broken)
    assert reason() == "SciPy's LAPACK cannot be loaded: ImportError: libgfortran is missing"


def test_openmp_is_refused(fresh: pytest.MonkeyPatch) -> None:
    fresh.setattr(found, "_value", lambda library, name, result: found._OPENMP)
    assert "OpenMP" in reason()


def test_another_signature_is_not_called(fresh: pytest.MonkeyPatch) -> None:
    """As a LAPACK that counts in 64 bits would have."""
    words = tuple(("int64", "int") if word == "int" else (end, word) for end, word in found._WORDS)
    fresh.setattr(found, "_WORDS", words)
    assert reason() == "SciPy's functions have other signatures than are known here"


def test_one_routine_less(fresh: pytest.MonkeyPatch) -> None:
    whole = found._address
    fresh.setattr(found, "_address", lambda c, symbol: 0 if symbol == "dgeev" else whole(c, symbol))
    with pytest.raises(CompileError, match="dgeev, which this process lacks") as raised:
        require(("dgetrf", "dgeev"), "a test")
    assert "does not offer it" in (raised.value.why or "")


def test_the_identity_names_version_and_library_without_loading_it(
    fresh: pytest.MonkeyPatch,
) -> None:
    def never(*_: object) -> ModuleType:
        raise AssertionError("loaded")

    fresh.setattr(found, "_extension", never)
    import scipy

    assert lapack_identity().startswith(f"SciPy {scipy.__version__}")
