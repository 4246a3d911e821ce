"""Which products and softmaxes become one kernel of attention."""

from __future__ import annotations

from dataclasses import replace

import pytest

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
    KEYS_TRANSPOSED,
    MASKED,
    RESULT,
    RESULT_INSIDE,
    RESULT_TURNED,
    SCALED,
    SEEN,
    SOFTMAX,
    attention,
)
from xladev.codegen.attention_search import attention_of
from xladev.compiler.fusion.attention_fusion import AttentionFusion
from xladev.compiler.support import no
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.verifier import verify
from xladev.instrument import collect_decisions

FUSION = AttentionFusion()


def kernels(module: HloModule) -> list[HloInstruction]:
    fused = FUSION.run(module)
    verify(fused)
    return [i for i in fused.entry.instructions if i.opcode == "fusion"]


@pytest.mark.parametrize("scores", [SCALED, DIVIDED, BIASED, MASKED, CAUSAL])
@pytest.mark.parametrize(
    ("operands", "result"),
    [
        (HEADS_APART, RESULT),
        (KEYS_TRANSPOSED, RESULT),
        (HEADS_INSIDE, RESULT_INSIDE),
        (HEADS_INSIDE, RESULT_TURNED),
    ],
)
def test_an_attention_is_one_kernel(operands: str, scores: str, result: str) -> None:
    module = attention(operands, scores, result=result)
    (kernel,) = kernels(module)
    found = attention_of(kernel["calls"].root)
    assert found is not None
    assert (found.rows, found.columns, found.depth, found.width) == (70, 90, 24, 40)
    assert found.batch == (2, 3)
    assert {o.opcode for o in kernel.operands} <= {"parameter"}


def test_a_factor_is_told_from_what_else_is_done_to_scores() -> None:
    def factor(scores: str) -> float | None:
        (kernel,) = kernels(attention(scores=scores))
        found = attention_of(kernel["calls"].root)
        assert found is not None
        return found.factor

    assert factor(SCALED) == pytest.approx(0.3)
    assert [factor(s) for s in (SCALED.replace("0.3", "-0.3"), DIVIDED, BIASED)] == [None] * 3


def test_dimensions_of_one_may_come_and_go() -> None:
    softmax = SOFTMAX.replace("B,H,Q", "1,B,H,Q").replace("={3}", "={4}")
    softmax = softmax.replace("={0,1,2}", "={0,1,2,3}").replace("w = ", "w1 = ")
    softmax = softmax.replace("(x", "(x1")
    between = "x1 = f32[1,B,H,Q,K] reshape(x)\n  " + softmax
    between += "\n  w = f32[B,H,Q,K] reshape(w1)"
    assert len(kernels(attention(softmax=between))) == 1


TWICE = RESULT.replace("ROOT ", "") + "\n  ROOT t = (f32[B,H,Q,W], f32[B,H,Q,K]) tuple(r, {})"


@pytest.mark.parametrize("also", ["w", "p", "x", "e"])
def test_what_others_need_is_not_hidden(also: str) -> None:
    """Weights are results of their own where a program is trained."""
    module = attention(result=TWICE.replace("{}", also))
    assert not kernels(module)
    assert reasons(module) == [
        f"{also} is used elsewhere too, or in a way that no kernel of scores has"
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("constant(-inf)", "constant(-1)"),
        ("constant(0)", "constant(1)"),
        ("to_apply=max", "to_apply=add"),
        ("exponential", "tanh"),
        ("subtract(x, mm)", "subtract(mm, x)"),
        ("divide(e, ss)", "divide(ss, e)"),
        ("reduce(x,", "reduce(p,"),
        ("subtract(x,", "subtract(p,"),
    ],
)
def test_no_softmax_is_left_alone(old: str, new: str) -> None:
    assert not kernels(attention(softmax=SOFTMAX.replace(old, new)))


def test_a_softmax_over_queries_is_left_alone() -> None:
    softmax = SOFTMAX.replace("={3}", "={2}").replace("={0,1,2}", "={0,1,3}")
    softmax = softmax.replace("[B,H,Q]", "[B,H,K]")
    assert not kernels(attention(softmax=softmax))
    square = softmax.replace("[B,H,K]", "[B,H,Q]")
    assert not kernels(attention(softmax=square, Q=64, K=64))


def reasons(module: HloModule, fusion: AttentionFusion = FUSION) -> list[str]:
    """Why attentions were left alone."""
    with collect_decisions() as told:
        fusion.run(module)
    begin = "no attention in one kernel: "
    return [d.why.removeprefix(begin) for d in told if d.why.startswith(begin)]


def test_scores_that_are_no_product_of_their_own_place_are_left_alone() -> None:
    added = "y = f32[B,H,Q,K] transpose(p), dimensions={0,1,3,2}\n  x = f32[B,H,Q,K] add(p, y)"
    assert not kernels(attention(scores=added, Q=64, K=64))


def test_the_backend_decides() -> None:
    fusion = replace(FUSION, takes=lambda found: no(f"{found.depth} is odd to it"))
    module = attention()
    assert fusion.run(module) is module
    assert reasons(module, fusion) == ["24 is odd to it"]


def test_a_pass_changes_nothing_the_second_time() -> None:
    once = FUSION.run(attention())
    assert FUSION.run(once) is once


def test_scores_may_be_the_product() -> None:
    assert len(kernels(attention(scores="", softmax=SOFTMAX.replace("(x", "(p")))) == 1


@pytest.mark.parametrize("softmax", [GUARDED, SEEN])
def test_rows_that_see_nothing_may_be_zeros(softmax: str) -> None:
    (kernel,) = kernels(attention(scores=CAUSAL, softmax=softmax))
    found = attention_of(kernel["calls"].root)
    assert found is not None
    assert found.softmax.is_guarded


@pytest.mark.parametrize("scores", [GROUPS_SCALED, GROUPS_CAUSAL])
def test_heads_in_groups_share_keys_and_values(scores: str) -> None:
    (kernel,) = kernels(attention(GROUPS, scores, GROUPS_SOFTMAX, GROUPS_RESULT))
    found = attention_of(kernel["calls"].root)
    assert found is not None
    assert (found.batch, found.rows, found.columns) == ((2, 3, 4), 70, 90)
    assert [side.batch[2] for side in (found.queries, found.keys, found.values.matrix)] == [
        24,
        0,
        0,
    ]


@pytest.mark.parametrize("heads", [32, 70])
def test_values_for_each_query_are_left_alone(heads: int) -> None:
    """The last product is batched over queries: heads are its rows, even if there are as many."""
    result = """ROOT r = f32[B,Q,H,W] dot(w, v), lhs_batch_dims={0,2}, rhs_batch_dims={0,1},
    lhs_contracting_dims={3}, rhs_contracting_dims={2}"""
    operands = HEADS_APART.replace("v = f32[B,H,K,W]", "v = f32[B,Q,K,W]")
    assert not kernels(attention(operands, result=result, H=heads))


def test_values_summed_over_heads_and_keys_are_left_alone() -> None:
    operands = """q = f32[Q,D] parameter(0)  k = f32[H,K,D] parameter(1)
  v = f32[H,K,W] parameter(2)
  x = f32[Q,H,K] dot(q, k), lhs_contracting_dims={1}, rhs_contracting_dims={2}"""
    softmax = SOFTMAX.replace("[B,H,Q", "[Q,H").replace("={3}", "={2}").replace("0,1,2", "0,1")
    result = "ROOT r = f32[Q,W] dot(w, v), lhs_contracting_dims={1,2}, rhs_contracting_dims={0,1}"
    assert not kernels(attention(operands, "", softmax, result))


def test_the_right_operand_may_be_the_queries() -> None:
    product = HEADS_APART.replace("dot(q, k)", "dot(k, q)").replace(
        "p = f32[B,H,Q,K]", "o = f32[B,H,K,Q]"
    )
    turned = "x = f32[B,H,Q,K] transpose(o), dimensions={0,1,3,2}"
    (kernel,) = kernels(attention(product, turned))
    found = attention_of(kernel["calls"].root)
    assert found is not None
    assert (found.number, found.rows, found.columns, found.factor) == (1, 70, 90, 1.0)


def test_scores_that_a_broadcast_turns_are_left_alone() -> None:
    turned = """y = f32[B,H,Q,K] broadcast(p), dimensions={0,1,3,2}
  x = f32[B,H,Q,K] add(p, y)"""
    assert not kernels(attention(scores=turned, Q=64, K=64))


def test_a_softmax_of_one_score_is_left_alone() -> None:
    assert not kernels(attention(B=1, H=1, Q=1, K=1))
