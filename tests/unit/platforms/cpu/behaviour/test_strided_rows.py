"""Rows of vectors whose lanes are a few elements apart in memory: strided slices and windows."""

from __future__ import annotations

import ctypes
import mmap

import ml_dtypes
import numpy as np
import pytest

import xladev
from tests.unit.platforms.cpu.one_kernel import run_kernel
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import ModuleBuilder
from xladev.compiler.options import CompileOptions
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.table import emit_kernel
from xladev.platforms.cpu.codegen.vectors import MOST_STRIDE
from xladev.platforms.cpu.engine import target_traits

DTYPES = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "s8": np.int8}
MAX = "m { a = TYPE[] parameter(0)  b = TYPE[] parameter(1)  ROOT r = TYPE[] maximum(a, b) }"


def strided(stride: int, first: int, extent: int = 301, dtype: str = "f32") -> str:
    end = first + (extent - first - 1) // stride * stride + 1
    size = (end - first - 1) // stride + 1
    return f"""HloModule m
    ENTRY e {{ x = {dtype}[5,{extent}] parameter(0)
      s = {dtype}[5,{size}] slice(x), slice={{[0:5],[{first}:{end}:{stride}]}}
      ROOT r = {dtype}[5,{size}] add(s, s) }}"""


def windows(stride: int, size: int, low: int, high: int, dtype: str = "f32") -> str:
    extent = (200 + low + high - size) // stride + 1
    return f"""HloModule m
    {MAX.replace("TYPE", dtype)}
    ENTRY e {{ x = {dtype}[7,200] parameter(0)  c = {dtype}[] constant(-9)
      ROOT w = {dtype}[7,{extent}] reduce-window(x, c), to_apply=m,
        window={{size=1x{size} stride=1x{stride} pad=0_0x{low}_{high}}} }}"""


def is_in_vectors(text: str) -> bool:
    """True if the kernel reads vectors."""
    module = ModuleBuilder("m", target_traits())
    emit_kernel(module, KernelSpec("kernel", parse_module(text).entry))
    return "shufflevector" in str(module)


def check(text: str, nbytes: int, seed: int, dtype: str = "f32") -> None:
    module, rng = parse_module(text), np.random.default_rng(seed)
    arguments = [
        rng.integers(-50, 50, p.shape.dims).astype(DTYPES[dtype]) for p in module.entry.parameters
    ]
    wanted = HloEvaluator().run(module, *arguments)
    (got,) = run_kernel(module, *arguments, nbytes=nbytes)
    np.testing.assert_array_equal(got, wanted)
    for threads in (1, 3):
        made = xladev.compile(module, "cpu", CompileOptions(threads=threads))(*arguments)
        np.testing.assert_array_equal(np.asarray(made), wanted)


@pytest.mark.parametrize("nbytes", [16, 32, 64])
@pytest.mark.parametrize("stride", range(2, MOST_STRIDE + 2))
def test_slices(stride: int, nbytes: int, seed: int) -> None:
    for first in (0, 1):
        check(strided(stride, first), nbytes, seed)
    assert is_in_vectors(strided(stride, 1)) == (stride <= MOST_STRIDE)


@pytest.mark.parametrize("dtype", DTYPES)
def test_other_types(dtype: str, seed: int) -> None:
    check(strided(2, 1, dtype=dtype), 64, seed, dtype)
    check(windows(3, 4, 2, 1, dtype), 64, seed, dtype)


@pytest.mark.parametrize("nbytes", [16, 64])
@pytest.mark.parametrize(
    ("stride", "size", "low", "high"), [(2, 2, 0, 0), (2, 3, 1, 1), (3, 5, 2, 2), (4, 4, 3, 0)]
)
def test_windows(stride: int, size: int, low: int, high: int, nbytes: int, seed: int) -> None:
    check(windows(stride, size, low, high), nbytes, seed)
    assert is_in_vectors(windows(stride, size, low, high))


def test_elements_beside_one_another_of_strided_ones(seed: int) -> None:
    text = """HloModule m
    ENTRY e { x = f32[6,64] parameter(0)
      a = f32[6,32] slice(x), slice={[0:6],[0:64:2]}  b = f32[6,32] slice(x), slice={[0:6],[1:64:2]}
      c = f32[6,32,1] reshape(a)  n = f32[6,32] negate(b)  d = f32[6,32,1] reshape(n)
      t = f32[6,32,2] concatenate(d, c), dimensions={2}  ROOT r = f32[6,64] reshape(t) }"""
    check(text, 64, seed)
    assert is_in_vectors(text)


def test_complex_numbers(seed: int) -> None:
    text = strided(3, 1, dtype="c64")
    module, rng = parse_module(text), np.random.default_rng(seed)
    x = rng.standard_normal((5, 301, 2)).astype(np.float32).view(np.complex64)[..., 0]
    (got,) = run_kernel(module, x)
    np.testing.assert_array_equal(got, HloEvaluator().run(module, x))


@pytest.mark.parametrize("stride", range(2, MOST_STRIDE + 1))
def test_nothing_behind_an_array_is_read(stride: int) -> None:
    extent = 64 * stride - stride + 1
    module = parse_module(f"""HloModule m
    ENTRY e {{ x = f32[1,{extent}] parameter(0)
      s = f32[1,64] slice(x), slice={{[0:1],[0:{extent}:{stride}]}}
      ROOT r = f32[1,64] negate(s) }}""")
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    x = np.frombuffer(memory, np.float32, extent, page - 4 * extent).reshape(1, extent)
    x[:] = np.arange(extent)
    assert libc.mprotect(start + page, page, 0) == 0
    try:
        (got,) = run_kernel(module, x)
    finally:
        libc.mprotect(start + page, page, mmap.PROT_READ | mmap.PROT_WRITE)
    np.testing.assert_array_equal(got, -x[:, ::stride])
