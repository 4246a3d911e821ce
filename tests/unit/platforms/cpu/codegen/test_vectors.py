"""Loops and reductions in vectors: the evaluator's results, whatever the width of the vectors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.platforms.cpu.one_kernel import run_kernel as run
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import ModuleBuilder
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.scan import is_scan
from xladev.platforms.cpu.codegen.table import emit_kernel
from xladev.platforms.cpu.engine import target_traits

REDUCTION = """HloModule reduction
combine {{ a = {t}[] parameter(0)
  b = {t}[] parameter(1)
  ROOT c = {t}[] {op}(a, b) }}
ENTRY e {{ p = {t}[{dims}]{layout} parameter(0)
  first = {t}[] constant({first})
  ROOT r = {t}[{result}] reduce(p, first), dimensions={{{over}}}, to_apply=combine }}"""

SIZES = [
    ((40,), (0,)),
    ((1000,), (0,)),
    ((70000,), (0,)),
    ((3, 700), (1,)),
    ((700, 3), (0,)),
    ((700, 19), (0,)),
    ((33, 2100), (0,)),
    ((6, 50, 70), (1,)),
    ((6, 50, 70), (0, 2)),
    ((6, 50, 70), (0, 1)),
    ((9, 10, 11, 12), (0, 2)),
    ((9, 10, 11, 12), (1, 3)),
    ((1, 300, 1, 40), (1,)),
    ((3, 9001, 8), (1,)),
]
DTYPES = {"f32": ("add", "0.5"), "f64": ("multiply", "1"), "s32": ("maximum", "-7"),
          "bf16": ("add", "0"), "u8": ("add", "3"), "pred": ("or", "false"),
          "s16": ("minimum", "9")}  # fmt: skip


def reduction(
    dtype: str, sizes: tuple[int, ...], over: tuple[int, ...], layout: str = ""
) -> HloModule:
    op, first = DTYPES[dtype]
    kept = [n for d, n in enumerate(sizes) if d not in over]
    words = {"dims": sizes, "result": kept, "over": over}
    joined = {name: ",".join(map(str, numbers)) for name, numbers in words.items()}
    return parse_module(REDUCTION.format(t=dtype, op=op, first=first, layout=layout, **joined))


def numbers(module: HloModule, seed: int = 3) -> np.ndarray:
    shape = module.entry.parameters[0].shape
    generator = np.random.default_rng(seed)
    if shape.element_type.is_float:
        return generator.uniform(0.9, 1.1, shape.dims).astype(shape.element_type.np)
    return generator.integers(0, 2, shape.dims).astype(shape.element_type.np)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("sizes", "over"), SIZES)
def test_a_reduction_agrees_with_the_evaluator(
    dtype: str, sizes: tuple[int, ...], over: tuple[int, ...]
) -> None:
    module = reduction(dtype, sizes, over)
    x = numbers(module)
    (found,) = run(module, x)
    want = HloEvaluator().run(module, x)
    close = {"f32": 3e-6, "f64": 1e-12, "bf16": 8e-3}.get(dtype, 0)
    np.testing.assert_allclose(found.astype(np.float64), np.asarray(want, np.float64), rtol=close)


@pytest.mark.parametrize(("sizes", "over"), SIZES)
def test_bits_do_not_depend_on_the_width(sizes: tuple[int, ...], over: tuple[int, ...]) -> None:
    module = reduction("f32", sizes, over)
    x = numbers(module)
    bits = [run(module, x, nbytes=n)[0].tobytes() for n in (16, 32, 64)]
    assert bits[0] == bits[1] == bits[2]


@pytest.mark.parametrize(("rows", "asks"), [(8192, True), (64, False)])
def test_a_reduction_asks_memory_ahead_where_no_cache_holds_its_rows(rows: int, asks: bool) -> None:
    text = REDUCTION.format(t="f32", op="add", dims=f"{rows},1024", layout="", first="0",
                       result=rows, over=1)  # fmt: skip
    builder = ModuleBuilder("m", target_traits())
    emit_kernel(builder, KernelSpec("kernel", parse_module(text).entry))
    assert ("llvm.prefetch" in str(builder)) is asks


GATHER = """HloModule gather
ENTRY e {{ x = f32[{rows},64] parameter(0)
  i = s32[70,1] parameter(1)
  ROOT g = f32[70,64] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0}},
    start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,64}} }}"""


@pytest.mark.parametrize(("rows", "asks"), [(9000, True), (90, False)])
def test_gathered_rows_are_asked_for_ahead_where_they_lie_far(rows: int, asks: bool) -> None:
    module = parse_module(GATHER.format(rows=rows))
    builder = ModuleBuilder("m", target_traits())
    emit_kernel(builder, KernelSpec("kernel", module.entry))
    assert ("llvm.prefetch" in str(builder)) is asks
    x = np.arange(rows * 64, dtype=np.float32).reshape(rows, 64)
    numbers = np.random.default_rng(1).integers(-9, rows + 9, (70, 1)).astype(np.int32)
    (found,) = run(module, x, numbers)
    np.testing.assert_array_equal(found, x[numbers[:, 0].clip(0, rows - 1)])


def test_a_reduction_is_of_any_layout() -> None:
    module = reduction("f32", (64, 96), (1,), layout="{0,1}")
    x = numbers(module)
    (found,) = run(module, np.asfortranarray(x).T.copy())
    np.testing.assert_allclose(found, x.astype(np.float64).sum(1) + 0.5, rtol=1e-6)


LOOPS = {
    "row": "r = f32[30,70] add(p, broadcast)",
    "slice": "r = f32[20,50] slice(p), slice={[3:23], [11:61]}",
    "strided": "r = f32[30,35] slice(p), slice={[0:30], [1:70:2]}",
    "reverse": "r = f32[30,70] reverse(p), dimensions={1}",
    "upside_down": "r = f32[30,70] reverse(p), dimensions={0}",
    "pad": "r = f32[35,70] pad(p, one), padding=2_3x0_0",
    "pad_row": "r = f32[30,75] pad(p, one), padding=0_0x2_3",
    "holes": "r = f32[30,1105] pad(p, one), padding=0_0x0_0_15",
    "split": "r = f32[30,7,10] reshape(p)",
    "split_evenly": "r = f32[32,4,16] reshape(q)",
    "merge": "r = f32[2100] reshape(p)",
    "transpose": "r = f32[70,30] transpose(p), dimensions={1,0}",
    "concatenate": "r = f32[60,70] concatenate(p, broadcast), dimensions={0}",
    "side_by_side": "r = f32[30,140] concatenate(p, broadcast), dimensions={1}",
    "iota": "r = s32[30,70] iota(), iota_dimension=1",
    "iota_of_rows": "r = f32[30,70] iota(), iota_dimension=0",
    "long_iota": "r = s64[70] iota(), iota_dimension=0",
    "dynamic": "r = f32[20,50] dynamic-slice(p, n, n), dynamic_slice_sizes={20,50}",
    "update": "r = f32[30,70] dynamic-update-slice(p, part, n, n)",
    "gather": "r = f32[5,70] gather(p, rows), offset_dims={1}, collapsed_slice_dims={0}, "
    "start_index_map={0}, index_vector_dim=1, slice_sizes={1,70}",
    "gather_columns": "r = f32[30,5] gather(p, rows), offset_dims={0}, collapsed_slice_dims={1}, "
    "start_index_map={1}, index_vector_dim=1, slice_sizes={30,1}",
    "pool": "r = f32[15,3,35] reduce-window(image, one), window={size=3x4x1 stride=2x2x1 "
    "pad=1_1x0_1x0_0 lhs_dilate=1x1x1}, to_apply=most",
    "dilated_pool": "r = f32[61,7,35] reduce-window(image, one), window={size=3x1x1 "
    "pad=2_2x0_0x0_0 lhs_dilate=2x1x1}, to_apply=most",
    "pool_along_rows": "r = f32[30,7,17] reduce-window(image, one), window={size=1x1x3 "
    "stride=1x1x2}, to_apply=most",
    "pool_side_by_side": "r = f32[30,7,33] reduce-window(image, one), window={size=1x1x3}, "
    "to_apply=most",
    "select": "r = f32[30,7,35] select-and-scatter(image, source, one), window={size=3x2x1 "
    "stride=2x3x1 pad=1_1x0_1x0_0}, select=least, scatter=sum",
    "overlapping": "r = f32[30,7,35] select-and-scatter(image, beside, one), window={size=3x2x1 "
    "pad=1_1x0_1x0_0}, select=least, scatter=sum",
    "bits": "r = s32[30,70] bitcast-convert(p)",
    "compare": "r = pred[30,70] compare(p, broadcast), direction=LT",
}
SUMS = frozenset({"select", "overlapping"})
LOOP = """HloModule loop
most {{ x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] maximum(x, y) }}
least {{ x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = pred[] compare(x, y), direction=GE }}
sum {{ x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y) }}
ENTRY e {{ p = f32[30,70] parameter(0)
  v = f32[70] parameter(1)
  q = f32[32,64] parameter(2)
  rows = s32[5] parameter(3)
  part = f32[4,9] parameter(4)
  image = f32[30,7,35] parameter(5)
  source = f32[15,2,35] parameter(6)
  beside = f32[30,7,35] parameter(7)
  n = s32[] constant(7)
  one = f32[] constant(1.5)
  broadcast = f32[30,70] broadcast(v), dimensions={{1}}
  ROOT {root} }}"""


@pytest.mark.parametrize("nbytes", [16, 64])
@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_agrees_with_the_evaluator(name: str, nbytes: int) -> None:
    module = parse_module(LOOP.format(root=LOOPS[name]))
    draw = np.random.default_rng(11).uniform
    arguments = [
        draw(-9, 9, p.shape.dims).astype(p.shape.element_type.np) for p in module.entry.parameters
    ]
    (found,) = run(module, *arguments, nbytes=nbytes)
    want = HloEvaluator().run(module, *arguments)
    rounding = 1e-6 if name in SUMS else 0
    np.testing.assert_allclose(found, np.asarray(want), rtol=rounding, atol=10 * rounding)


SCAN = """HloModule scan
combine {{ a = {t}[] parameter(0)
  b = {t}[] parameter(1)
  ROOT c = {t}[] {op}(a, b) }}
ENTRY e {{ p = {t}[{dims}] parameter(0)
  first = {t}[] constant({first})
  ROOT r = {t}[{dims}] reduce-window(p, first), window={{{window}}}, to_apply=combine }}"""


def scan(
    dtype: str, op: str, first: str, dims: tuple[int, ...], axis: int = -1, backward: bool = False
) -> HloModule:
    extents, pads, n = ["1"] * len(dims), ["0_0"] * len(dims), dims[axis]
    extents[axis], pads[axis] = str(n), f"0_{n - 1}" if backward else f"{n - 1}_0"
    window = f"size={'x'.join(extents)} pad={'x'.join(pads)}"
    sizes = ",".join(map(str, dims))
    return parse_module(SCAN.format(t=dtype, op=op, first=first, dims=sizes, window=window))


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(
    ("dims", "axis"),
    [((64,), 0), ((3, 100), 1), ((2, 1024), 1), ((2, 2, 1500), 2), ((3000,), 0), ((20, 16), 0),
     ((1500, 19), 0), ((2, 40, 3, 85), 1), ((2048, 64), 0)],
)  # fmt: skip
@pytest.mark.parametrize(
    ("dtype", "op", "first"),
    [("f32", "add", "0"), ("f64", "multiply", "1"), ("bf16", "add", "0"),
     ("s32", "maximum", "-2147483648"), ("u8", "add", "0"), ("pred", "or", "false")],
)  # fmt: skip
def test_a_scan_agrees_with_the_evaluator(
    dtype: str, op: str, first: str, dims: tuple[int, ...], axis: int, backward: bool
) -> None:
    module = scan(dtype, op, first, dims, axis, backward)
    assert is_scan(module.entry.root)
    x = numbers(module)
    (found,) = run(module, x)
    close = {"f32": 3e-6, "f64": 1e-12, "bf16": 8e-3}.get(dtype, 0)
    want = np.asarray(HloEvaluator().run(module, x), np.float64)
    np.testing.assert_allclose(found.astype(np.float64), want, rtol=close)


def test_bits_of_a_scan_do_not_depend_on_the_width() -> None:
    module = scan("f32", "add", "0", (3, 1100))
    x = numbers(module)
    bits = [run(module, x, nbytes=n)[0].tobytes() for n in (16, 32, 64)]
    assert bits[0] == bits[1] == bits[2]


def test_a_start_that_counts_is_no_scan() -> None:
    module = scan("f32", "add", "0.5", (70,))
    assert not is_scan(module.entry.root)
    x = numbers(module)
    (found,) = run(module, x)
    np.testing.assert_allclose(found, HloEvaluator().run(module, x), rtol=1e-5)


def test_a_scan_is_of_any_layout() -> None:
    text = str(SCAN.format(t="f32", op="add", first="0", dims="64,96",
                           window="size=1x96 pad=0_0x95_0"))  # fmt: skip
    module = parse_module(text.replace("p = f32[64,96]", "p = f32[64,96]{0,1}"))
    x = numbers(module)
    (found,) = run(module, np.asfortranarray(x).T.copy())
    np.testing.assert_allclose(found, np.cumsum(x.astype(np.float64), 1), rtol=1e-6)


def test_powers_of_two_are_the_same_by_an_instruction_or_two_products() -> None:
    if not target_traits().has_scaling:
        pytest.skip("this processor has no such instruction")
    module = parse_module(
        "HloModule m\nENTRY e { x = f32[4096] parameter(0)\n ROOT y = f32[4096] exponential(x) }"
    )
    x = np.linspace(-105, 90, 4096).astype(np.float32)
    x[:4] = np.nan, np.inf, -np.inf, -0.0
    found = [run(module, x, nbytes=nbytes)[0] for nbytes in (64, 32)]
    assert found[0].tobytes() == found[1].tobytes()
