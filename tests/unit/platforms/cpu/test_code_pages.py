"""Pages of LLVM's code: which ones may be given back, when, and that it works after."""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path

import numpy as np
import pytest

import xladev
from xladev.platforms.cpu.code_pages import (
    COST_S,
    LLVM_PAGES,
    SHARE,
    CodePages,
    Range,
    unchanged_ranges,
)

linux = pytest.mark.skipif(sys.platform != "linux", reason="mappings are read from /proc")
_MADE_PAGES = 5
WORTH_S = COST_S / SHARE
PROGRAM = b"""HloModule pages
ENTRY e {
  x = f32[7,9] parameter(0)
  t = f32[7,9] tanh(x)
  ROOT r = f32[7,9] add(t, x)
}"""


def resident_nbytes(name: str) -> int:
    """Bytes of a file's mappings that are in memory and were never written to."""
    total, is_wanted, seen = 0, False, 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if line[0] in "0123456789abcdef":
            is_wanted = name in line
        elif is_wanted and line.startswith("Rss:"):
            seen = int(line.split()[1])
        elif is_wanted and line.startswith("Anonymous:") and line.split()[1] == "0":
            total += seen * 1024
    return total


def test_pages_go_as_often_as_work_is_worth_it() -> None:
    given: list[Range] = []
    pages = CodePages("libllvmlite", given.append)
    pages.let_go()
    pages.note_work(WORTH_S * 0.9)
    pages.let_go()
    assert not given
    pages.note_work(WORTH_S * 0.3)
    pages.let_go()
    once = len(given)
    assert once == len(list(unchanged_ranges("libllvmlite")))
    pages.note_work(WORTH_S * 0.9)
    pages.let_go()
    assert len(given) == 2 * once  # what was left over counts
    pages.note_work(WORTH_S * 0.5)
    pages.let_go()
    assert len(given) == 2 * once


def test_pages_do_not_go_twice_without_work_in_between() -> None:
    given: list[Range] = []
    pages = CodePages("libllvmlite", given.append)
    pages.note_work(WORTH_S * 10)
    pages.let_go()
    once = len(given)
    pages.let_go()
    assert len(given) == once


@linux
def test_mappings_that_were_written_to_stay(tmp_path: Path) -> None:
    file = tmp_path / "code_of_a_library"
    file.write_bytes(b"x" * mmap.PAGESIZE * _MADE_PAGES)
    with file.open("r+b") as opened:
        clean = mmap.mmap(opened.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
        changed = mmap.mmap(opened.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
        changed[0] = ord("y")
        address = ctypes.addressof(ctypes.c_char.from_buffer(changed))
        assert clean[:1] == b"x"
        libc = ctypes.CDLL(None)
        libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        assert not libc.mprotect(address, len(changed), mmap.PROT_READ)
        found = list(unchanged_ranges(file.name))
        assert [nbytes for _, nbytes in found] == [len(clean)]
        assert found[0][0] != address
        pages = CodePages(file.name)
        pages.note_work(WORTH_S * 2)
        before = resident_nbytes(file.name)
        pages.let_go()
        assert resident_nbytes(file.name) < before
        assert clean[:1] == b"x" and changed[:1] == b"y"


@linux
def test_a_compiled_program_leaves_no_pages_of_llvm() -> None:
    LLVM_PAGES.note_work(WORTH_S * 4)
    run = xladev.compile(PROGRAM, "cpu")
    assert resident_nbytes("libllvmlite") < 8 << 20  # compiling maps 70 MB
    x = np.linspace(-2, 2, 63, dtype=np.float32).reshape(7, 9)
    np.testing.assert_allclose(run(x).numpy(), np.tanh(x) + x, rtol=1e-6)
    again = xladev.compile(PROGRAM.replace(b"add(t", b"subtract(t"), "cpu")
    np.testing.assert_allclose(again(x).numpy(), np.tanh(x) - x, atol=1e-6)
