"""Asynchronous pairs give what their synchronous opcodes give."""

from typing import Any

import numpy as np
import pytest

from tests.tools.rejections import assert_rejected, of
from tests.tools.single_op import scalar_computation
from xladev.hlo.attributes import ReplicaGroups
from xladev.hlo.builder import HloBuilder
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloComputation, HloModule, ModuleHeader
from xladev.hlo.multi_device import evaluate_replicated
from xladev.hlo.shape import Shape, tuple_of

PAIR = ReplicaGroups(((0, 1),))
TWO = ModuleHeader(replica_count=2)
X = of("f32[2]")


def negated(name: str = "negated") -> HloComputation:
    b = HloBuilder(name)
    return b.build(b.op("negate", b.parameter(X)))


def test_async_start_update_done() -> None:
    b = HloBuilder("wrapped")
    shape = tuple_of(tuple_of(X), X, of("s32[]"))
    start = b.op("async-start", b.parameter(X), shape=shape, calls=negated())
    b.op("async-done", b.op("async-update", start))
    got = HloEvaluator().run(b.module(), np.float32([1, 2]))
    assert got.tolist() == [-1, -2]


def test_copy() -> None:
    b = HloBuilder("copies")
    b.op("copy-done", b.op("copy-start", b.parameter(X)))
    assert HloEvaluator().run(b.module(), np.float32([1, 2])).tolist() == [1, 2]


def paired(opcode: str, shape: Shape | None, **attrs: Any) -> HloModule:
    b = HloBuilder("paired")
    start = b.op(f"{opcode}-start", b.parameter(X), shape=shape, **attrs)
    return b.module(b.op(f"{opcode}-done", start), TWO)


@pytest.mark.parametrize(
    ("opcode", "result", "attrs", "want"),
    [
        (
            "all-gather",
            tuple_of(X, of("f32[4]")),
            {"replica_groups": PAIR, "dimensions": (0,)},
            [[1, 2, 3, 4], [1, 2, 3, 4]],
        ),
        (
            "all-reduce",
            None,
            {"replica_groups": PAIR, "to_apply": scalar_computation("add")},
            [[4, 6], [4, 6]],
        ),
        (
            "collective-permute",
            tuple_of(X, X, of("u32[]"), of("u32[]")),
            {"source_target_pairs": ((0, 1), (1, 0))},
            [[3, 4], [1, 2]],
        ),
    ],
)
def test_collectives(
    opcode: str, result: Shape | None, attrs: dict[str, Any], want: list[list[float]]
) -> None:
    module = paired(opcode, result, **attrs)
    got = evaluate_replicated(module, [[np.float32([1, 2])], [np.float32([3, 4])]])
    assert [g.tolist() for g in got] == want


def test_rules() -> None:
    body, good = negated(), tuple_of(tuple_of(X), X)
    _rejected_start("c1", "f32[2]", calls=body)
    _rejected_start("c2", tuple_of(X, X), calls=body)
    _rejected_start("c3", good)
    _rejected_start("c4", good, calls=scalar_computation("add"))
    _rejected_start("c5", tuple_of(tuple_of(X), of("f32[3]")), calls=body)
    assert_rejected("async_done_c1", "async-done", "f32[2]")
    assert_rejected("all_gather_done_c1", "all-gather-done", "f32[2]")
    assert_rejected("collective_permute_done_c1", "collective-permute-done", "f32[2]")
    assert_rejected("copy_done_c1", "copy-done", "f32[2]")


def _rejected_start(rule: str, declared: str | Shape, **attrs: Any) -> None:
    assert_rejected(f"async_start_{rule}", "async-start", "f32[2]", to=declared, **attrs)
