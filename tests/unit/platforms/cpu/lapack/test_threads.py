"""OpenBLAS on one thread while programs call it, and as it was before and after."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator

import pytest

from xladev.errors import CompileError
from xladev.platforms.cpu.lapack.found import Lapack, found_lapack
from xladev.platforms.cpu.lapack.routines import BEGIN, END, LIBRARY_PREFIX
from xladev.platforms.cpu.lapack.threads import library_symbols

pytest.importorskip("scipy")


class Setting:
    """OpenBLAS's number of threads, and the functions that change it for a while."""

    def __init__(self) -> None:
        found = found_lapack()
        if not isinstance(found, Lapack) or found.threads is None:
            pytest.skip("this LAPACK has no number of threads")
        self.get: Callable[[], int] = ctypes.CFUNCTYPE(ctypes.c_int)(found.threads.get)
        self.set: Callable[[int], None] = ctypes.CFUNCTYPE(None, ctypes.c_int)(found.threads.set)
        symbols = library_symbols((BEGIN, END), "a test")
        self.begin: Callable[[], None] = ctypes.CFUNCTYPE(None)(symbols[BEGIN])
        self.end: Callable[[], None] = ctypes.CFUNCTYPE(None)(symbols[END])


@pytest.fixture
def blas() -> Iterator[Setting]:
    setting = Setting()
    before = setting.get()
    yield setting
    setting.set(before)


def test_one_within_and_as_before_after(blas: Setting) -> None:
    blas.set(3)
    blas.begin()
    assert blas.get() == 1
    blas.begin()
    blas.end()
    assert blas.get() == 1
    blas.end()
    assert blas.get() == 3


def test_what_somebody_sets_meanwhile_stays(blas: Setting) -> None:
    blas.set(3)
    blas.begin()
    blas.set(2)
    blas.end()
    assert blas.get() == 2


def test_one_stays_one(blas: Setting) -> None:
    blas.set(1)
    blas.begin()
    blas.end()
    assert blas.get() == 1


def test_a_forked_process_knows_nothing_of_calls_that_go_on(blas: Setting) -> None:
    blas.set(3)
    blas.begin()
    child = os.fork()
    if not child:
        good = blas.get() == 3
        blas.begin()
        good = good and blas.get() == 1
        blas.end()
        os._exit(0 if good and blas.get() == 3 else 1)
    blas.end()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert blas.get() == 3


def test_symbols_come_in_the_order_of_their_names() -> None:
    names = (f"{LIBRARY_PREFIX}dpotrf", BEGIN, f"{LIBRARY_PREFIX}sgetrf", END)
    assert tuple(library_symbols(names, "a test")) == names


def test_an_unknown_routine() -> None:
    with pytest.raises(CompileError, match="LAPACK's dnothing"):
        library_symbols((f"{LIBRARY_PREFIX}dnothing",), "a test")
