"""What is no attention though it looks like one, and why."""

from __future__ import annotations

import pytest

from tests.unit.compiler.attention_programs import (
    GROUPS,
    GROUPS_RESULT,
    GROUPS_SCALED,
    GROUPS_SOFTMAX,
    HEADS_APART,
    RESULT,
    SCALED,
    SOFTMAX,
    attention,
)
from xladev.codegen.attention import Attention
from xladev.codegen.attention_search import NotTaken, attention_in_kernel, find_attention

TURNED = "y = f32[B,H,Q,K] transpose(p), dimensions={0,1,3,2}\n  x = f32[B,H,Q,K] add(p, y)"
MEAN = """zero1 = f32[] constant(0)
  y = f32[B,H,Q] reduce(p, zero1), dimensions={3}, to_apply=add
  yb = f32[B,H,Q,K] broadcast(y), dimensions={0,1,2}  x = f32[B,H,Q,K] subtract(p, yb)"""
TWO = "p2 = f32[B,H,Q,K] dot(k, q)" + HEADS_APART.partition("dot(q, k)")[2]
OVER_QUERIES = SOFTMAX.replace("={3}", "={2}").replace("={0,1,2}", "={0,1,3}")
PLAIN = SOFTMAX.replace("(x", "(p")


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ((HEADS_APART, TURNED), "x combines scores of other queries and keys"),
        ((HEADS_APART, MEAN), "uses products of other queries and keys than its own"),
        ((HEADS_APART, f"{TWO}\n  x = f32[B,H,Q,K] add(p, p2)"), "computed from 2 products"),
        ((HEADS_APART, "x = f32[B,H,Q,K] copy(v)"), "computed from no products"),
        ((HEADS_APART, SCALED, OVER_QUERIES), "does not sum over what the softmax is over"),
    ],
)
def test_reasons(parts: tuple[str, ...], reason: str) -> None:
    sizes = {"Q": 64, "K": 64, "D": 64, "W": 64}
    found = find_attention(attention(*parts, **sizes).entry.root)
    assert isinstance(found, NotTaken)
    assert reason in found.reason


def test_sums_over_more_than_keys() -> None:
    result = RESULT.replace("lhs_batch_dims={0,1}", "lhs_batch_dims={0}").replace(
        "rhs_batch_dims={0,1}", "rhs_batch_dims={0}"
    )
    result = (
        result.replace("={3}", "={1,3}").replace("={2}", "={1,2}").replace("[B,H,Q,W]", "[B,Q,W]")
    )
    found = find_attention(attention(result=result).entry.root)
    assert isinstance(found, NotTaken)
    assert found.reason == "the last product does not sum over what the softmax is over"


def test_other_things_are_no_attention_at_all() -> None:
    module = attention()
    roots = [i for i in module.entry.instructions if i is not module.entry.root]
    assert [find_attention(i) for i in roots] == [None] * len(roots)


def test_scores_may_lie_in_another_order() -> None:
    found = find_attention(
        attention(GROUPS, GROUPS_SCALED, GROUPS_SOFTMAX, GROUPS_RESULT).entry.root
    )
    assert isinstance(found, Attention)
    assert found.scores.name == "y"
    assert found.score_axes == ((0,), (1,), (3,), (2,), (4,))
    assert found.factor == pytest.approx(0.3)


def test_kernels_read_operands_from_memory() -> None:
    module = attention(scores="", softmax=PLAIN)
    assert attention_in_kernel(module.entry.root) is not None
    computed = HEADS_APART.replace("q = ", "q1 = ") + ""
    computed = computed.replace("  p =", "  q = f32[B,H,Q,D] negate(q1)\n  p =")
    root = attention(computed, "", PLAIN).entry.root
    assert find_attention(root) is not None
    assert attention_in_kernel(root) is None
