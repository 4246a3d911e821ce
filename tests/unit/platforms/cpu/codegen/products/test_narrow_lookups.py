"""Weights of 4 and 2 bits that kernels of few rows look up, beside the evaluator."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from tests.unit.platforms.cpu.one_kernel import run_kernel
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import ModuleBuilder
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.products import narrow_tables
from xladev.platforms.cpu.codegen.products.narrow_tables import WeightTables, tables_of
from xladev.platforms.cpu.codegen.products.narrow_weights import narrow_weights_of
from xladev.platforms.cpu.codegen.table import emit_kernel
from xladev.platforms.cpu.engine import target_traits

FLOATS = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
LOOK_UP = "llvm.x86.avx512.permvar"


def scaled(wide: str, code: str, depth: int, group: int, dtype: str = "f32") -> str:
    """``w``, [70, depth], of numbers of a few bits in wider elements, a scale for each group."""
    wide_nbits, bits = int(wide[1:]), int(code[1])
    count, groups = wide_nbits // bits, depth // group
    cut = f"70,{groups},{group}"
    return f"""p = {wide}[70,{depth // count}] parameter(1)
      b = {code}[70,{depth // count},{count}] bitcast-convert(p)
      c = {dtype}[70,{depth // count},{count}] convert(b)  f = {dtype}[{cut}] reshape(c)
      s = {dtype}[70,{groups}] parameter(2)  t = {dtype}[{cut}] broadcast(s), dimensions={{0,1}}
      z = u8[70,{groups}] parameter(3)  y = {dtype}[70,{groups}] convert(z)
      o = {dtype}[{cut}] broadcast(y), dimensions={{0,1}}  u = {dtype}[{cut}] subtract(f, o)
      m = {dtype}[{cut}] multiply(u, t)  w = {dtype}[70,{depth}] reshape(m)"""


LOOKED_UP = {
    "groups of 128": (256, scaled("u8", "s4", 256, 128), 128),
    "groups of 64, u4": (320, scaled("u8", "u4", 320, 64), 64),
    "groups of 32": (96, scaled("u8", "s4", 96, 32), 32),
    "groups of 16, as of NVFP4": (96, scaled("u8", "f4e2m1fn", 96, 16), 16),
    "groups of 48": (96, scaled("u8", "s4", 96, 48), 16),
    "groups of 256": (512, scaled("u8", "u4", 512, 256), 128),
    "a scale for each column": (384, scaled("u8", "s4", 384, 384), 128),
    "and what is left of columns": (310, scaled("u8", "u4", 310, 310), 128),
    "less than a vector of weights": (70, scaled("u8", "u4", 70, 70), 64),
    "the high half first": (
        256,
        """p = u8[70,128] parameter(1)  b = s4[70,128,2] bitcast-convert(p)
      v = s4[70,128,2] reverse(b), dimensions={2}  r = s4[70,256] reshape(v)
      w = f32[70,256] convert(r)""",
        128,
    ),
    "the highest of a word first": (
        96,
        """p = u32[70,12] parameter(1)  b = u4[70,12,8] bitcast-convert(p)
      v = u4[70,12,8] reverse(b), dimensions={2}  r = u4[70,3,32] reshape(v)
      f = f32[70,3,32] convert(r)  s = f32[70,3] parameter(2)
      t = f32[70,3,32] broadcast(s), dimensions={0,1}  m = f32[70,3,32] multiply(f, t)
      w = f32[70,96] reshape(m)""",
        32,
    ),
    "words": (256, scaled("u32", "u4", 256, 128), 128),
    "halves of words": (256, scaled("s16", "s4", 256, 32), 32),
    "2 bits": (512, scaled("u8", "u2", 512, 256), 256),
    "2 bits in groups of 32": (96, scaled("u8", "s2", 96, 32), 32),
    "in bf16": (256, scaled("u8", "s4", 256, 128, "bf16"), 128),
    "in bf16, groups of 32": (96, scaled("u8", "u4", 96, 32, "bf16"), 32),
    "in bf16, groups of 16": (96, scaled("u8", "u4", 96, 16, "bf16"), 16),
    "in bf16, 2 bits and what is left": (300, scaled("u8", "u2", 300, 300, "bf16"), 256),
    "in bf16, halves of words": (256, scaled("s16", "s4", 256, 64, "bf16"), 64),
    "in bf16, the high half first": (
        256,
        """p = u8[70,128] parameter(1)  b = s4[70,128,2] bitcast-convert(p)
      v = s4[70,128,2] reverse(b), dimensions={2}  r = s4[70,256] reshape(v)
      w = bf16[70,256] convert(r)""",
        128,
    ),
    "in bf16, the highest of a word first": (
        128,
        """p = u32[70,16] parameter(1)  b = u4[70,16,8] bitcast-convert(p)
      v = u4[70,16,8] reverse(b), dimensions={2}  r = u4[70,128] reshape(v)
      w = bf16[70,128] convert(r)""",
        128,
    ),
    "in f16": (256, scaled("u8", "u4", 256, 64, "f16"), 64),
    "no scales": (
        192,
        """p = u8[70,96] parameter(1)  b = u4[70,96,2] bitcast-convert(p)
      r = u4[70,192] reshape(b)  w = f32[70,192] convert(r)""",
        128,
    ),
    "any function of bits and of a scale": (
        128,
        """p = u8[70,64] parameter(1)  b = s4[70,64,2] bitcast-convert(p)
      r = s4[70,2,64] reshape(b)  f = f32[70,2,64] convert(r)  a = f32[70,2,64] multiply(f, f)
      s = f32[70,2] parameter(2)  n = f32[70,2] negate(s)
      t = f32[70,2,64] broadcast(n), dimensions={0,1}  z = f32[] constant(0)
      e = f32[70,2,64] broadcast(z), dimensions={}  q = pred[70,2,64] compare(f, e), direction=LT
      c = f32[70,2,64] select(q, a, t)  w = f32[70,128] reshape(c)""",
        64,
    ),
}
"""Depth, weights, and how many neighbours along it are looked up at once."""
MADE = {
    "a scale for each weight": (
        128,
        """p = u8[70,64] parameter(1)  b = s4[70,64,2] bitcast-convert(p)
      r = s4[70,128] reshape(b)  f = f32[70,128] convert(r)  s = f32[128] parameter(2)
      t = f32[70,128] broadcast(s), dimensions={1}  w = f32[70,128] multiply(f, t)""",
    ),
    "bits of two places": (
        128,
        """p = u8[70,64] parameter(1)  b = u4[70,64,2] bitcast-convert(p)
      q = u8[70,64] parameter(2)  e = u4[70,64,2] bitcast-convert(q)
      a = u4[70,64,2] add(b, e)  r = u4[70,128] reshape(a)  w = f32[70,128] convert(r)""",
    ),
    "groups of 8": (96, scaled("u8", "s4", 96, 8)),
    "2 bits in groups of 16": (96, scaled("u8", "s2", 96, 16)),
    "bytes": (128, "p = s8[70,128] parameter(1)  w = f32[70,128] convert(p)"),
}


def product(weights: str, depth: int, rows: int) -> HloModule:
    dtype = weights.rsplit("w = ")[-1].split("[")[0]
    return parse_module(f"""HloModule m
    ENTRY e {{ x = {dtype}[{rows},{depth}] parameter(0)
      {weights}
      ROOT d = {dtype}[{rows},70] dot(x, w), lhs_contracting_dims={{1}},
        rhs_contracting_dims={{1}} }}""")


def tables(module: HloModule) -> WeightTables | None:
    plan = narrow_weights_of(module.entry.root)
    assert plan is not None
    return tables_of(plan)


def text(module: HloModule, nbytes: int = 64, **traits: bool) -> str:
    builder = ModuleBuilder("m", replace(target_traits(), vector_nbytes=nbytes, **traits))
    emit_kernel(builder, KernelSpec("kernel", module.entry))
    return str(builder)


def arguments(module: HloModule, seed: int) -> list[np.ndarray]:
    """Small whole numbers and powers of two, so that no sum is rounded."""
    rng = np.random.default_rng(seed)
    found: list[np.ndarray] = []
    for n, p in enumerate(module.entry.parameters):
        dtype, dims = p.shape.element_type, p.shape.dims
        if dtype.is_float:
            low, high = (-3, 4) if n == 0 else (0, 3)
            drawn = rng.integers(low, high, dims).astype(np.float32)
            found.append((drawn if n == 0 else 2.0**drawn).astype(FLOATS[dtype.name]))
        elif n == 3:
            found.append(rng.integers(0, 8, dims).astype(np.uint8))
        else:
            limits = np.iinfo(dtype.np)
            found.append(rng.integers(limits.min, limits.max, dims, dtype.np, endpoint=True))
    return found


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
@pytest.mark.parametrize("name", LOOKED_UP)
def test_each_weight_has_its_number(name: str, rows: int, seed: int) -> None:
    depth, weights, chunk = LOOKED_UP[name]
    module = product(weights, depth, rows)
    found = tables(module)
    assert found is not None
    assert found.chunk == chunk
    given = arguments(module, seed)
    (got,) = run_kernel(module, *given)
    np.testing.assert_array_equal(got, HloEvaluator().run(module, *given))


@pytest.mark.parametrize("name", LOOKED_UP)
def test_an_instruction_looks_them_up(name: str) -> None:
    depth, weights, _ = LOOKED_UP[name]
    assert LOOK_UP in text(product(weights, depth, 1), has_lookups=True)


@pytest.mark.parametrize(("nbytes", "has_lookups"), [(32, True), (64, False)])
def test_other_processors_do_not(nbytes: int, has_lookups: bool) -> None:
    module = product(LOOKED_UP["groups of 128"][1], 256, 1)
    assert LOOK_UP not in text(module, nbytes, has_lookups=has_lookups)


@pytest.mark.parametrize("name", MADE)
def test_others_are_made_one_by_one(name: str, seed: int) -> None:
    depth, weights = MADE[name]
    module = product(weights, depth, 2)
    assert tables(module) is None
    given = arguments(module, seed)
    (got,) = run_kernel(module, *given)
    np.testing.assert_array_equal(got, HloEvaluator().run(module, *given))


def test_batches_and_layers_have_their_own(seed: int) -> None:
    module = parse_module("""HloModule m
    ENTRY e { x = f32[3,2,128] parameter(0)  a = u8[2,3,70,64] parameter(1)
      n = s32[] parameter(2)  z = s32[] constant(0)
      d = u8[1,3,70,64] dynamic-slice(a, n, z, z, z), dynamic_slice_sizes={1,3,70,64}
      p = u8[3,70,64] reshape(d)  b = s4[3,70,64,2] bitcast-convert(p)
      c = f32[3,70,64,2] convert(b)  w = f32[3,70,128] reshape(c)
      ROOT r = f32[3,2,70] dot(x, w), lhs_batch_dims={0}, rhs_batch_dims={0},
        lhs_contracting_dims={2}, rhs_contracting_dims={2} }""")
    assert tables(module) is not None
    rng = np.random.default_rng(seed)
    x = rng.integers(-9, 9, (3, 2, 128)).astype(np.float32)
    a = rng.integers(0, 256, (2, 3, 70, 64)).astype(np.uint8)
    given = (x, a, np.array(1, np.int32))
    (got,) = run_kernel(module, *given)
    np.testing.assert_array_equal(got, HloEvaluator().run(module, *given))


def test_numbers_are_rounded_as_the_program_says(seed: int) -> None:
    """In bf16, each difference and each product; beside them, sums in f32 of whole numbers."""
    module = product(scaled("u8", "u4", 128, 128, "bf16"), 128, 1)
    rng = np.random.default_rng(seed)
    given = arguments(module, seed)
    given[0] = np.eye(1, 128, int(rng.integers(128))).astype(ml_dtypes.bfloat16)
    given[2] = rng.standard_normal(given[2].shape).astype(ml_dtypes.bfloat16)
    (got,) = run_kernel(module, *given)
    np.testing.assert_array_equal(got, HloEvaluator().run(module, *given))


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(
    ("left", "scale"), [(-70, -60), (0, -130), (-130, 0), (-127, -1), (90, -130), (0, 0)]
)
def test_denormals_are_kept_in_bf16(left: int, scale: int, rows: int, seed: int) -> None:
    """Of weights, of rows and of products, which the instruction of pairs takes for zeros."""
    module = product(scaled("u8", "s4", 256, 64, "bf16"), 256, rows)
    given = arguments(module, seed)
    given[0] = np.ldexp(given[0].astype(np.float32), left).astype(ml_dtypes.bfloat16)
    given[2] = np.full_like(given[2], np.ldexp(1.0, scale))
    (got,) = run_kernel(module, *given)
    wanted = np.asarray(HloEvaluator().run(module, *given))
    assert wanted.astype(np.float32).any()
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("special", [np.nan, np.inf, 0.0])
def test_what_is_no_number_stays_so_in_bf16(special: float, seed: int) -> None:
    module = product(scaled("u8", "s4", 128, 128, "bf16"), 128, 1)
    for place in (0, 2):
        given = arguments(module, seed)
        given[place].flat[5] = special
        (got,) = run_kernel(module, *given)
        wanted = np.asarray(HloEvaluator().run(module, *given)).astype(np.float32)
        np.testing.assert_array_equal(got.astype(np.float32), wanted)


def test_pairs_are_looked_up_where_the_processor_multiplies_them() -> None:
    module = product(LOOKED_UP["in bf16"][1], 256, 1)
    found = text(module, has_lookups=True, has_bfloat_products=True)
    assert "avx512bf16.dpbf16ps" in found
    assert "permvar.hi.512" in found
    small = product(LOOKED_UP["in bf16, groups of 32"][1], 96, 1)
    assert "permvar.hi.512" not in text(small, has_lookups=True, has_bfloat_products=True)
    without = text(module, has_lookups=True, has_bfloat_products=False)
    assert "permvar.hi.512" not in without
    assert LOOK_UP in without


def test_values_that_are_read_twice_are_looked_at_once(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of n sums of a value and itself there are 2**n ways down to the bits."""
    count = 10
    sums = "\n".join(f"w{n} = f32[70,128] add(w{n - 1}, w{n - 1})" for n in range(1, count))
    module = product(
        f"""p = u8[70,64] parameter(1)  b = s4[70,64,2] bitcast-convert(p)
      r = s4[70,128] reshape(b)  w0 = f32[70,128] convert(r)
      {sums}
      w = f32[70,128] add(w{count - 1}, w{count - 1})""",
        128,
        1,
    )
    looked_at: list[HloInstruction] = []
    is_code, is_of_code = narrow_tables._is_code, narrow_tables.TableEmitter._is_of_code

    def code(value: HloInstruction) -> bool:
        looked_at.append(value)
        return is_code(value)

    def of_code(emitter: narrow_tables.TableEmitter, value: HloInstruction) -> bool:
        looked_at.append(value)
        return is_of_code(emitter, value)

    monkeypatch.setattr(narrow_tables, "_is_code", code)
    assert tables(module) is not None
    assert len(looked_at) == len(set(looked_at))
    looked_at.clear()
    monkeypatch.setattr(narrow_tables.TableEmitter, "_is_of_code", of_code)
    given = arguments(module, seed)
    (got,) = run_kernel(module, *given)
    np.testing.assert_array_equal(got, HloEvaluator().run(module, *given))
    assert max(looked_at.count(value) for value in set(looked_at)) < count * count
