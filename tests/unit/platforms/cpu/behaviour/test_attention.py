"""Attention in one kernel: against NumPy in f64 and the evaluator, in parts, with masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.compiler.attention_programs import (
    BIASED,
    CAUSAL,
    DIVIDED,
    GROUPS,
    GROUPS_CAUSAL,
    GROUPS_RESULT,
    GROUPS_SCALED,
    GROUPS_SOFTMAX,
    GUARDED,
    HEADS_APART,
    HEADS_INSIDE,
    KEYS_FIRST,
    KEYS_FIRST_SCORES,
    KEYS_TRANSPOSED,
    MASKED,
    RESULT,
    RESULT_INSIDE,
    RESULT_TURNED,
    SCALED,
    SEEN,
    attention,
)
from xladev.client import compile
from xladev.compiler.options import CompileOptions
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.instrument import collect_decisions
from xladev.platforms.cpu.codegen import attention as emitter
from xladev.platforms.cpu.compiler import CpuCompiler
from xladev.platforms.cpu.pool import THREADS_VARIABLE

Array = NDArray[Any]
ALONE = CompileOptions(threads=1)
INSIDE = {HEADS_INSIDE}


def operands(module: HloModule, scale: float = 0.5) -> list[Array]:
    """Values of a normal distribution, and masks that hide a third."""
    rng = np.random.default_rng(5)
    shapes = [p.shape for p in module.entry.parameters]
    return [
        rng.random(s.dims) < 2 / 3
        if s.element_type.name == "pred"
        else (scale * rng.standard_normal(s.dims)).astype(np.float32)
        for s in shapes
    ]


def attended(program: tuple[str, str], arrays: list[Array]) -> Array:
    """What an attention is, in f64, heads apart."""
    layout, scores = program
    q, k, v = (a.astype(np.float64) for a in arrays[:3])
    if layout in INSIDE:
        q, k, v = (np.moveaxis(a, 2, 1) for a in (q, k, v))
    if layout != KEYS_TRANSPOSED:
        k = np.swapaxes(k, -1, -2)
    x = q @ k
    causal = np.tri(x.shape[-2], x.shape[-1], dtype=bool)
    made = {
        SCALED: lambda: x * np.float32(0.3),
        DIVIDED: lambda: x / 3,
        BIASED: lambda: x + arrays[3][:, None, None],
        MASKED: lambda: np.where(arrays[3], x, -1e9),
        CAUSAL: lambda: np.where(causal, x, -np.inf),
    }[scores]()
    e = np.exp(made - made.max(-1, keepdims=True))
    found: Array = (e / e.sum(-1, keepdims=True)) @ v
    return np.moveaxis(found, 1, 2) if layout in INSIDE else found


def run(module: HloModule, arrays: list[Array], options: CompileOptions = ALONE) -> Array:
    return np.asarray(compile(module, platform="cpu", options=options)(*arrays))


def is_one_kernel(module: HloModule) -> bool:
    formed = CpuCompiler().form_kernels(module).entry.instructions
    return all(i.opcode in ("fusion", "parameter", "constant") for i in formed)


@pytest.mark.parametrize("scores", [SCALED, DIVIDED, BIASED, MASKED, CAUSAL])
@pytest.mark.parametrize(
    ("layout", "result"),
    [
        (HEADS_APART, RESULT),
        (KEYS_TRANSPOSED, RESULT),
        (HEADS_INSIDE, RESULT_INSIDE),
        (HEADS_INSIDE, RESULT_TURNED),
    ],
)
def test_layouts_and_masks(layout: str, scores: str, result: str) -> None:
    module = attention(layout, scores, result=result)
    assert is_one_kernel(module)
    arrays = operands(module)
    np.testing.assert_allclose(
        run(module, arrays), attended((layout, scores), arrays), rtol=3e-5, atol=3e-6
    )


ODD = [
    {"B": 1, "H": 1, "Q": 16, "K": 32, "D": 1, "W": 8},
    {"B": 1, "H": 2, "Q": 33, "K": 47, "D": 7, "W": 9},
    {"B": 3, "H": 1, "Q": 121, "K": 129, "D": 65, "W": 33},
    {"B": 1, "H": 1, "Q": 300, "K": 600, "D": 64, "W": 64},
    {"B": 1, "H": 1, "Q": 25, "K": 2500, "D": 16, "W": 16},
    {"B": 1, "H": 1, "Q": 49, "K": 1300, "D": 64, "W": 64},
    {"B": 1, "H": 1, "Q": 25, "K": 9000, "D": 8, "W": 16},
]


@pytest.mark.parametrize("sizes", ODD, ids=lambda s: "x".join(map(str, s.values())))
@pytest.mark.parametrize("scores", [SCALED, BIASED])
def test_odd_sizes(sizes: dict[str, int], scores: str) -> None:
    module = attention(scores=scores, **sizes)
    assert is_one_kernel(module)
    arrays = operands(module)
    want = attended((HEADS_APART, scores), arrays)
    np.testing.assert_allclose(run(module, arrays), want, rtol=3e-5, atol=3e-6)


@pytest.mark.parametrize("scores", [SCALED, CAUSAL])
def test_any_number_of_threads_gives_the_same_bits(
    scores: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = attention(HEADS_INSIDE, scores, result=RESULT_INSIDE, Q=250, K=260)
    arrays = operands(module)
    alone = run(module, arrays)
    for threads in (2, 3, 5):
        monkeypatch.setenv(THREADS_VARIABLE, str(threads))
        again = run(module, arrays, CompileOptions(threads=threads))
        assert np.array_equal(alone.view(np.uint32), again.view(np.uint32))


@pytest.mark.parametrize("rows", [24, 120])
def test_blocks_of_any_size_give_the_same_bits(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    module = attention(Q=130)
    arrays = operands(module)
    whole = run(module, arrays)
    monkeypatch.setattr(emitter, "MOST_ROWS", rows)
    assert np.array_equal(whole, run(module, arrays))


@pytest.mark.parametrize(
    ("layout", "result"),
    [(HEADS_APART, RESULT), (KEYS_TRANSPOSED, RESULT), (HEADS_INSIDE, RESULT_INSIDE)],
)
def test_panels_of_each_block_give_the_bits_of_those_packed_once(
    layout: str, result: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = attention(layout, result=result, B=1, H=2, Q=100, K=150, D=24, W=40)
    arrays = operands(module)
    once = run(module, arrays)
    monkeypatch.setattr(emitter, "MOST_PACKED_NBYTES", 1000)
    assert np.array_equal(once, run(module, arrays))


def test_rows_too_long_for_the_cache_are_left_to_other_kernels() -> None:
    module = attention(B=1, H=1, Q=16, K=22_000, D=8, W=8)
    assert not is_one_kernel(module)
    arrays = operands(module)
    want = attended((HEADS_APART, SCALED), arrays)
    np.testing.assert_allclose(run(module, arrays), want, rtol=3e-5, atol=3e-6)


@pytest.mark.parametrize("scale", [1e-20, 5.0, 1e10, 1e30])
def test_small_and_large_scores(scale: float) -> None:
    """Weights of 0 and of 1, and infinite scores, as the evaluator has them."""
    module = attention()
    arrays = operands(module, scale)
    got, want = run(module, arrays), np.asarray(HloEvaluator().run(module, *arrays))
    assert np.array_equal(np.isnan(got), np.isnan(want))
    known = ~np.isnan(want)
    np.testing.assert_allclose(got[known], want[known], rtol=2e-3, atol=1e-5 * scale)


@pytest.mark.parametrize("place", [(0, 0, 3, 5), (1, 2, 69, 23)])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_spoils_its_own_row_alone(place: tuple[int, ...], value: float) -> None:
    module = attention()
    arrays = operands(module)
    arrays[0][place] = value
    got, want = run(module, arrays), np.asarray(HloEvaluator().run(module, *arrays))
    assert np.isnan(want).any()
    assert np.array_equal(np.isnan(got), np.isnan(want))


def test_rows_that_a_mask_hides_wholly() -> None:
    hidden = MASKED.replace("-1e9", "-inf")
    module = attention(scores=hidden)
    arrays = operands(module)
    arrays[3][7] = False
    got = run(module, arrays)
    assert np.isnan(got[:, :, 7]).all()
    assert not np.isnan(np.delete(got, 7, axis=2)).any()


@pytest.mark.parametrize("softmax", [GUARDED, SEEN])
def test_rows_that_a_mask_hides_are_zeros_where_they_are_to_be(softmax: str) -> None:
    hidden = MASKED.replace("-1e9", "-inf")
    module = attention(scores=hidden, softmax=softmax)
    assert is_one_kernel(module)
    arrays = operands(module)
    arrays[3][7] = False
    got = run(module, arrays)
    assert not got[:, :, 7].any()
    seen = attended((HEADS_APART, MASKED), arrays)
    kept = np.arange(70) != 7
    np.testing.assert_allclose(got[:, :, kept], seen[:, :, kept], rtol=3e-5, atol=3e-6)
    arrays[0][0, 0, 3, 5] = np.nan
    assert np.isnan(run(module, arrays)[0, 0, 3]).all()


@pytest.mark.parametrize("scores", [GROUPS_SCALED, GROUPS_CAUSAL])
def test_heads_in_groups(scores: str) -> None:
    module = attention(GROUPS, scores, GROUPS_SOFTMAX, GROUPS_RESULT)
    assert is_one_kernel(module)
    arrays = operands(module)
    want = np.asarray(HloEvaluator().run(module, *arrays))
    np.testing.assert_allclose(run(module, arrays), want, rtol=3e-5, atol=3e-6)


def test_the_right_operand_may_be_the_queries() -> None:
    module = attention(KEYS_FIRST, KEYS_FIRST_SCORES)
    assert is_one_kernel(module)
    arrays = operands(module)
    want = np.asarray(HloEvaluator().run(module, *arrays))
    np.testing.assert_allclose(run(module, arrays), want, rtol=3e-5, atol=3e-6)


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        ({"Q": 1}, "there is one query"),
        ({"Q": 4}, "4 queries, 90 keys and values of 40 are too few"),
        ({"K": 16}, "too few to be faster"),
        ({"W": 4}, "too few to be faster"),
        ({"K": 30_000}, "a row of 30000 scores is too long"),
    ],
)
def test_what_has_no_kernel_says_why(sizes: dict[str, int], reason: str) -> None:
    with collect_decisions() as told:
        assert not is_one_kernel(attention(**sizes))
    assert any(reason in d.why for d in told if d.step == "attention-fusion")


def test_no_memory_for_all_scores() -> None:
    module = attention(B=1, H=8, Q=512, K=512, D=32, W=32)
    program = compile(module, platform="cpu", options=ALONE).program
    (executable,) = program.executables
    assert executable.signature.scratch_nbytes < 8 * 512 * 512 * 4 / 10
