"""topk by a microkernel: values, places and their order as numbers in total order have them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from xladev.client import compile
from xladev.compiler.options import CompileOptions
from xladev.hlo.dtype import by_name
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Array
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.sorting.top_k import MOST_K, has_top_k
from xladev.platforms.cpu.codegen.sorting.top_k_microkernel import LEAST_CAPACITY
from xladev.platforms.cpu.compiler import CpuCompiler
from xladev.platforms.cpu.object_symbols import undefined_symbols
from xladev.platforms.cpu.targets import target_names

SPECIAL = (np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 1e-42, -1.5)
DTYPES = ("f32", "bf16", "f16", "s32", "u32", "s16", "u16", "s8", "u8")
SIZES = ((1, 1), (5, 2), (17, 17), (100, 5), (255, 255), (257, 8), (319, 64), (321, 64),
         (3000, 7), (5000, MOST_K))  # fmt: skip


def module(dtype: str, rows: int, n: int, k: int, largest: bool = True) -> HloModule:
    return parse_module(f"""HloModule t
ENTRY e {{ x = {dtype}[{rows},{n}] parameter(0)
  ROOT t = ({dtype}[{rows},{k}], s32[{rows},{k}]) topk(x), k={k}, largest={str(largest).lower()} }}
""")


def key(x: Array) -> Array:
    """Integers in the elements' total order."""
    if x.dtype.kind in "iu":
        return x.astype(np.int64)
    bits = x.view(f"i{x.itemsize}").astype(np.int64)
    return np.where(bits < 0, bits ^ ((1 << (8 * x.itemsize - 1)) - 1), bits)


def assert_first(
    x: Array, k: int, largest: bool = True, options: CompileOptions | None = None
) -> None:
    dtype = next(d for d in DTYPES if by_name(d).np == x.dtype)
    values, places = compile(module(dtype, len(x), x.shape[1], k, largest), "cpu", options)(x)
    wanted = np.argsort(-key(x) if largest else key(x), axis=-1, kind="stable")[:, :k]
    assert np.array_equal(places.numpy(), wanted)
    assert values.numpy().tobytes() == np.take_along_axis(x, wanted, -1).tobytes()


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_bits_in_any_order(dtype: str, largest: bool, seed: int) -> None:
    rng, of = np.random.default_rng(seed), by_name(dtype).np
    for n, k in SIZES:
        x = rng.integers(0, 256, (3, n * of.itemsize), np.uint8).view(of)
        order = np.argsort(key(x[1]), kind="stable")
        x[1], x[2] = x[1][order], x[2][np.argsort(-key(x[2]), kind="stable")]
        assert_first(x, k, largest)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("kept", [slice(None), slice(2, 4), slice(0, 2), slice(3, 4)])
def test_equal_and_special_numbers_keep_their_order(dtype: str, kept: slice, seed: int) -> None:
    special = np.array(SPECIAL, np.float32)[kept].astype(by_name(dtype).np)
    x = np.random.default_rng(seed).choice(special, (2, 3000))
    for k in (1, 30, 300):
        assert_first(x, k)
        assert_first(x, k, largest=False)


def test_more_and_more_of_them_fill_the_buffer_again_and_again() -> None:
    """Each size ends the row at another place of a group, and of the buffer."""
    for n in range(LEAST_CAPACITY - 2, 2 * LEAST_CAPACITY + 130, 13):
        rising = np.arange(n, dtype=np.int32)
        assert_first(np.stack([rising // 3, rising[::-1].copy(), rising % 7]), 64)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_change_nothing(threads: int, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((300, 4000)).astype(np.float32)
    assert_first(x, 20, options=CompileOptions(threads=threads))


def test_an_operand_that_is_no_array_is_written_first() -> None:
    text = """ENTRY e { i = s32[2,500] iota(), iota_dimension=1
  ROOT t = (s32[2,3], s32[2,3]) topk(i), k=3, largest=true }"""
    values, places = compile(parse_module(text), "cpu")()
    assert values.numpy().tolist() == places.numpy().tolist() == [[499, 498, 497]] * 2


@pytest.mark.parametrize(("dtype", "k"), [("f64", 3), ("s64", 3), ("f8e4m3fn", 3), ("f32", 513)])
def test_others_are_sorted(dtype: str, k: int, seed: int) -> None:
    made = module(dtype, 2, 600, k)
    (topk,) = (i for i in made.entry.instructions if i.opcode == "topk")
    assert not has_top_k(topk)
    x = np.random.default_rng(seed).integers(-9, 9, (2, 600)).astype(by_name(dtype).np)
    values, places = compile(made, "cpu")(x)
    wanted = np.argsort(-x.astype(np.float64), axis=-1, kind="stable")[:, :k]
    assert np.array_equal(places.numpy(), wanted)
    assert np.array_equal(values.numpy(), np.take_along_axis(x, wanted, -1))


def ask(target: str) -> None:
    """Compiles for a target; LLVM ends the process on what it cannot lower."""
    compiler = CpuCompiler()
    made = compiler.compile(module("bf16", 4, 3000, 20), CompileOptions(target=target))
    wanted = undefined_symbols(compiler.export(made, "object").data)
    if wanted not in ((), ("memcpy",), ("memset",)):
        raise SystemExit(f"it calls {wanted}")


@pytest.mark.long
@pytest.mark.parametrize("target", target_names())
def test_every_target_has_it(target: str) -> None:
    command = [sys.executable, "-c", f"from {__name__} import ask; ask({target!r})"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-500:]
