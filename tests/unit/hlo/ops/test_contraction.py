"""dot, ragged-dot and scaled-dot."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.tools.rejections import assert_rejected, of, result_of
from tests.tools.single_op import run
from xladev.errors import EvaluationError


def dims(
    lhs: tuple[int, ...] = (),
    rhs: tuple[int, ...] = (),
    lhs_batch: tuple[int, ...] = (),
    rhs_batch: tuple[int, ...] = (),
) -> dict[str, Any]:
    """Contracting and batch dimensions of a dot."""
    return {
        "lhs_batch_dims": lhs_batch,
        "rhs_batch_dims": rhs_batch,
        "lhs_contracting_dims": lhs,
        "rhs_contracting_dims": rhs,
    }


MATMUL = dims((1,), (0,))
BATCHED = dims((2,), (1,), (0,), (0,))


@pytest.mark.parametrize(
    ("equation", "lhs", "rhs", "attrs"),
    [
        ("ik,kj->ij", (3, 4), (4, 5), MATMUL),
        ("ki,jk->ij", (4, 3), (5, 4), dims((0,), (1,))),
        ("bik,bkj->bij", (2, 3, 4), (2, 4, 5), BATCHED),
        ("i,j->ij", (3,), (4,), {}),
        ("i,i->", (7,), (7,), dims((0,), (0,))),
        ("acbk,kxba->bacx", (2, 3, 4, 5), (5, 6, 4, 2), dims((3,), (0,), (2, 0), (2, 3))),
        ("ikl,lkj->ij", (3, 4, 2), (2, 4, 5), dims((1, 2), (1, 0))),
        ("ik,kj->ij", (3, 0), (0, 5), MATMUL),
    ],
)  # fmt: skip
def test_dot_contracts_any_dimensions(
    equation: str, lhs: tuple[int, ...], rhs: tuple[int, ...], attrs: dict[str, Any], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    for dtype in (np.float32, np.int32, np.complex64):
        a, b = (rng.integers(-9, 9, dims).astype(dtype) for dims in (lhs, rhs))
        np.testing.assert_array_equal(run("dot", a, b, **attrs), np.einsum(equation, a, b))


def test_integers_wrap() -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(-(2**31), 2**31, (3, 50)).astype(np.int32)
    b = rng.integers(-(2**31), 2**31, (50, 4)).astype(np.int32)
    want = (a.astype(object) @ b.astype(object)) % 2**32
    np.testing.assert_array_equal(
        run("dot", a, b, **MATMUL).view(np.uint32), want.astype(np.uint32)
    )


def test_sums_beyond_f64_stay_exact() -> None:
    a = np.full((1, 3), 2**62, np.int64)
    b = np.array([[1], [1], [-1]], np.int64) * 3
    assert run("dot", a, b, **MATMUL)[0, 0] == (3 * 2**62 + 2**63) % 2**64 - 2**63


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4, np.int8, np.uint8])
def test_narrow_integers_into_s32(dtype: Any) -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.integers(0, 8, dims).astype(dtype) for dims in ((4, 30), (30, 5)))
    got = run("dot", a, b, shape=of("s32[4,5]"), **MATMUL)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, a.astype(np.int32) @ b.astype(np.int32))


def test_pred_is_or_of_ands() -> None:
    a, b = np.array([[True, False], [False, False]]), np.array([[True], [True]])
    assert run("dot", a, b, **MATMUL).tolist() == [[True], [False]]


def test_f32_is_rounded_once() -> None:
    a = np.array([[2.0**24, 1, 1, 1]], np.float32)
    assert run("dot", a, np.ones((4, 1), np.float32), **MATMUL)[0, 0] == np.float32(2**24 + 4)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e4m3fn])
def test_narrow_floats_accumulate_in_f32(dtype: Any) -> None:
    a = np.full((1, 512), 1, dtype)
    got = run("dot", a, np.full((512, 1), 0.25, dtype), shape=of("f32[1,1]"), **MATMUL)
    assert got.dtype == np.float32 and got[0, 0] == 128


def test_sparse_dots_are_refused() -> None:
    x = np.ones((2, 2), np.float32)
    with pytest.raises(EvaluationError, match="sparse"):
        run("dot", x, x, x, sparsity_config="lhs", **MATMUL)


@pytest.mark.parametrize(
    ("constraint", "operands", "attrs"),
    [
        ("dot_operand", ("token", "f32[2]"), {}),
        ("dot_c1", ("f32[2]", "f32[2]"), dims(lhs_batch=(0,))),
        ("dot_c2", ("f32[2]", "f32[2]"), dims((0,))),
        ("dot_c3", ("f32[2,2]", "f32[2,2]"), dims((0,), (1,), (0,), (0,))),
        ("dot_c4", ("f32[2,2]", "f32[2,2]"), dims((1,), (0,), (0,), (0,))),
        ("dot_c5", ("f32[2]", "f32[2]"), dims(lhs_batch=(1,), rhs_batch=(0,))),
        ("dot_c6", ("f32[2]", "f32[2]"), dims((-1,), (0,))),
        ("dot_c7", ("f32[2]", "f32[2]"), dims(lhs_batch=(0,), rhs_batch=(3,))),
        ("dot_c8", ("f32[2]", "f32[2]"), dims((0,), (1,))),
        ("dot_c9", ("f32[2]", "f32[3]"), dims(lhs_batch=(0,), rhs_batch=(0,))),
        ("dot_c10", ("f32[2,3]", "f32[2,3]"), MATMUL),
        ("dot_c11", ("f32[2,3]", "f32[3,3]"), {**MATMUL, "operand_precision": ("high",)}),
        ("dot_c14", ("f32[2,3]", "f32[3,3]", "f32[3,3]"), MATMUL),
    ],
)  # fmt: skip
def test_dot_rejects(constraint: str, operands: tuple[str, ...], attrs: dict[str, Any]) -> None:
    assert_rejected(constraint, "dot", *operands, **attrs)


def test_dot_rejects_a_result_that_loses_the_fraction() -> None:
    assert_rejected("dot_c13", "dot", "f32[2,3]", "f32[3,3]", to="s32[2,3]", **MATMUL)


def test_dot_shapes() -> None:
    assert result_of("dot", "bf16[2,3]", "f32[3,4]", **MATMUL) == "f32[2,4]"
    assert result_of("dot", "f32[2,3]", "s32[3,4]", **MATMUL) == "f32[2,4]"
    assert result_of("dot", "pred[2,3]", "s8[3,4]", **MATMUL) == "s8[2,4]"
    assert result_of("dot", "s32[2,3]", "u32[3,4]", **MATMUL) == "s32[2,4]"
    assert result_of("dot", "f32[<=2,3]", "f32[3,?]", **MATMUL) == "f32[<=2,?]"
    assert result_of("dot", "bf16[2,3]", "bf16[3,4]", to="f32[2,4]", **MATMUL) == "f32[2,4]"


# ragged-dot

FREE = {**MATMUL, "rhs_contracting_dims": (1,), "lhs_ragged_dims": (0,), "rhs_group_dims": (0,)}
INNER = {**MATMUL, "lhs_ragged_dims": (1,)}
BATCH = {**BATCHED, "lhs_ragged_dims": (0,)}


def test_ragged_rows_meet_the_matrix_of_their_group() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(11, 5)), rng.normal(size=(3, 5, 7))
    b[1] = np.nan  # the group without rows
    got = run("ragged-dot", a, b, np.array([3, 0, 6], np.int32), **FREE)
    want = np.concatenate([a[:3] @ b[0], a[3:9] @ b[2], np.zeros((2, 7))])
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_ragged_rows_with_batches_of_sizes() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(2, 4, 5)), rng.normal(size=(2, 3, 5, 7))
    sizes = np.array([[1, 2, 1], [0, 4, 0]], np.int64)
    attrs = {
        "lhs_batch_dims": (0,), "rhs_batch_dims": (0,), "lhs_contracting_dims": (2,),
        "rhs_contracting_dims": (2,), "lhs_ragged_dims": (1,), "rhs_group_dims": (1,),
    }  # fmt: skip
    got = run("ragged-dot", a, b, sizes, **attrs)
    first = np.concatenate([a[0, :1] @ b[0, 0], a[0, 1:3] @ b[0, 1], a[0, 3:] @ b[0, 2]])
    np.testing.assert_allclose(got, np.stack([first, a[1] @ b[1, 1]]), rtol=1e-12)


def test_ragged_contraction_gives_one_product_per_group() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(4, 9)), rng.normal(size=(9, 2))
    got = run("ragged-dot", a, b, np.array([3, 0, 4], np.int32), **INNER)
    want = np.stack([a[:, :3] @ b[:3], np.zeros((4, 2)), a[:, 3:7] @ b[3:7]])
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_ragged_contraction_of_no_groups() -> None:
    a, b = np.ones((4, 9)), np.ones((9, 2))
    assert run("ragged-dot", a, b, np.zeros(0, np.int32), **INNER).shape == (0, 4, 2)


def test_ragged_batch_is_a_batched_dot() -> None:
    rng = np.random.default_rng(6)
    a, b = rng.normal(size=(4, 3, 5)), rng.normal(size=(4, 5, 2))
    got = run("ragged-dot", a, b, np.array([1, 3], np.int32), **BATCH)
    np.testing.assert_allclose(got, a @ b, rtol=1e-12)


@pytest.mark.parametrize(
    ("constraint", "operands", "attrs"),
    [
        ("ragged_dot_c1", ("f32[4,5]", "f32[3,5,7]", "s32[3]"), {**FREE, "lhs_ragged_dims": ()}),
        ("ragged_dot_c1", ("f32[4,5]", "f32[3,5,7]", "s32[3]"), {**FREE, "lhs_ragged_dims": (9,)}),
        ("ragged_dot_c2", ("f32[4,5]", "f32[3,5,7]", "f32[3]"), FREE),
        ("ragged_dot_c3", ("f32[4,5]", "f32[3,5,7]", "s32[]"), FREE),
        ("ragged_dot_c3", ("f32[4,5]", "f32[3,5,7]", "s32[2,3]"), FREE),
        ("ragged_dot_c4", ("f32[4,5]", "f32[3,5,7]", "s32[3]"), {**FREE, "rhs_group_dims": ()}),
        ("ragged_dot_c4", ("f32[4,9]", "f32[9,2]", "s32[3]"), {**INNER, "rhs_group_dims": (1,)}),
        ("ragged_dot_c5", ("f32[4,5]", "f32[3,5,7]", "s32[3]"), {**FREE, "rhs_group_dims": (1,)}),
        ("ragged_dot_c6", ("f32[4,5]", "f32[3,5,7]", "s32[4]"), FREE),
    ],
)
def test_ragged_dot_rejects(
    constraint: str, operands: tuple[str, ...], attrs: dict[str, Any]
) -> None:
    assert_rejected(constraint, "ragged-dot", *operands, **attrs)


# scaled-dot


def test_scaled_dot_scales_blocks() -> None:
    rng = np.random.default_rng(7)
    a = rng.integers(-3, 4, (2, 8)).astype(ml_dtypes.float8_e4m3fn)
    b = rng.integers(-3, 4, (8, 3)).astype(ml_dtypes.float8_e4m3fn)
    sa = np.array([[1, 2], [0.5, 4]], ml_dtypes.float8_e8m0fnu)
    sb = np.array([[1], [8]], ml_dtypes.float8_e8m0fnu)
    got = run("scaled-dot", a, b, sa, np.repeat(sb, 3, 1), shape=of("f32[2,3]"), **MATMUL)
    left = a.astype(float) * np.repeat(sa.astype(float), 4, 1)
    right = b.astype(float) * np.repeat(sb.astype(float), 4, 0)
    np.testing.assert_array_equal(got, left @ right)


@pytest.mark.parametrize(
    ("constraint", "scale"),
    [
        ("scaled_dot_c14", "s8[]"),
        ("scaled_dot_c15", "f32[2]"),
        ("scaled_dot_c16", "f32[2,3]"),
        ("scaled_dot_c16", "f32[2,0]"),
    ],
)
def test_scaled_dot_rejects(constraint: str, scale: str) -> None:
    assert_rejected(constraint, "scaled-dot", "f32[2,8]", "f32[8,3]", scale, "f32[]", **MATMUL)


def test_a_scale_may_have_one_block_or_be_a_scalar() -> None:
    a, b = np.ones((2, 8), np.float32), np.ones((8, 3), np.float32)
    got = run("scaled-dot", a, b, np.full((1, 1), 2, np.float32), np.float32(3), **MATMUL)
    assert (got == 48).all()
