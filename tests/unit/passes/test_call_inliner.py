"""Calls become the instructions that they call."""

import numpy as np
import pytest

from tests.unit.passes.checks import (
    assert_becomes,
    assert_same_values,
    assert_unchanged,
    opcodes,
    run,
)
from xladev.hlo.text import parse_module
from xladev.passes.call_inliner import CallInliner

NESTED = """
HloModule m

inner { a = f32[2] parameter(0)  ROOT n = f32[2] negate(a) }

outer { b = f32[2] parameter(0)
        c = f32[2] call(b), to_apply=inner
        d = f32[2] call(c), to_apply=inner
        ROOT s = f32[2] add(c, d) }

ENTRY main { x = f32[2] parameter(0)  ROOT r = f32[2] call(x), to_apply=outer }
"""


def test_nested_calls_are_inlined() -> None:
    assert_becomes(
        CallInliner(),
        NESTED,
        """
        HloModule m
        ENTRY main { x = f32[2] parameter(0)
          n = f32[2] negate(x)
          n.1 = f32[2] negate(n)
          ROOT s = f32[2] add(n, n.1) }
        """,
    )


def test_values_stay(seed: int) -> None:
    module = parse_module(NESTED)
    assert_same_values(module, CallInliner().run(module), seed)


BITCAST_WITHIN = """
HloModule m
callee { p = f32[3,7] parameter(0)  ROOT b = f32[21] bitcast(p) }
ENTRY e { x = f32[3,7]{0,1} parameter(0)  ROOT c = f32[21] call(x), to_apply=callee }
"""
BITCAST_OF_A_RESULT = """
HloModule m
callee { p = f32[3,7]{0,1} parameter(0)  ROOT n = f32[3,7]{0,1} negate(p) }
ENTRY e { x = f32[3,7]{0,1} parameter(0)  c = f32[3,7] call(x), to_apply=callee
          ROOT b = f32[21] bitcast(c) }
"""


@pytest.mark.parametrize("text", [BITCAST_WITHIN, BITCAST_OF_A_RESULT])
def test_a_bitcast_is_of_the_layout_that_it_had(text: str, seed: int) -> None:
    module = run(CallInliner(), text)
    assert set(opcodes(module)) - {"parameter", "negate"} == {"copy", "bitcast"}
    assert_same_values(parse_module(text), module, seed)
    same = text.replace("{0,1}", "")
    assert "copy" not in opcodes(run(CallInliner(), same))


def test_a_call_within_a_loop_body_is_inlined() -> None:
    text = """
    HloModule m
    inc { a = s32[] parameter(0)  one = s32[] constant(1)  ROOT n = s32[] add(a, one) }
    body { b = s32[] parameter(0)  ROOT c = s32[] call(b), to_apply=inc }
    cond { d = s32[] parameter(0)  ten = s32[] constant(10)
           ROOT l = pred[] compare(d, ten), direction=LT }
    ENTRY main { x = s32[] parameter(0)
                 ROOT w = s32[] while(x), condition=cond, body=body }
    """
    module = run(CallInliner(), text)
    assert "call" not in opcodes(module)
    assert_same_values(parse_module(text), module, 0, given=[np.int32(3)])


def test_a_parameter_may_be_the_result() -> None:
    assert_becomes(
        CallInliner(),
        """
        HloModule m
        second { a = f32[] parameter(0)  ROOT b = f32[] parameter(1) }
        ENTRY main { x = f32[] parameter(0)  y = f32[] parameter(1)
          c = f32[] call(x, y), to_apply=second
          ROOT r = f32[] add(c, x) }
        """,
        """
        HloModule m
        ENTRY main { x = f32[] parameter(0)  y = f32[] parameter(1)
          ROOT r = f32[] add(y, x) }
        """,
    )


def test_metadata_and_attributes_pass_on() -> None:
    module = run(
        CallInliner(),
        """
        HloModule m
        f { a = f32[] parameter(0)
            b = f32[] negate(a), metadata={op_name="own"}
            ROOT c = f32[] negate(b) }
        ENTRY main { x = f32[] parameter(0)
          ROOT r = f32[] call(x), to_apply=f, is_composite=true,
            frontend_attributes={composite.name="n",kept="1"}, metadata={op_name="calls"} }
        """,
    )
    _, b, c = module.entry.instructions
    assert (b.note.metadata.op_name, c.note.metadata.op_name) == ("own", "calls")
    assert b.note.frontend_attributes == (("kept", "1"),)


def test_control_dependencies_pass_on() -> None:
    module = run(
        CallInliner(),
        """
        HloModule m
        f { a = f32[] parameter(0)  b = f32[] negate(a)  ROOT c = f32[] exponential(b) }
        ENTRY main { x = f32[] parameter(0)
          first = f32[] sine(x)
          k = f32[] call(x), to_apply=f, control-predecessors={first}
          then = f32[] cosine(x), control-predecessors={k}
          ROOT r = (f32[], f32[], f32[]) tuple(first, k, then) }
        """,
    )
    by_opcode = {i.opcode: i for i in module.entry.instructions}
    assert by_opcode["negate"].note.control_predecessors == (by_opcode["sine"],)
    assert by_opcode["cosine"].note.control_predecessors == (by_opcode["exponential"],)


def test_what_must_not_be_inlined_stays() -> None:
    assert_unchanged(
        CallInliner(),
        """
        HloModule m
        f { a = f32[] parameter(0)  ROOT b = f32[] negate(a) }
        ENTRY main { x = f32[] parameter(0)
          ROOT r = f32[] call(x), to_apply=f, frontend_attributes={inlineable="false"} }
        """,
    )


def test_growth_is_bounded() -> None:
    levels = ["f0 { a = f32[] parameter(0)  ROOT b = f32[] negate(a) }"]
    for n in range(1, 40):
        levels.append(
            f"f{n} {{ a = f32[] parameter(0)  b = f32[] call(a), to_apply=f{n - 1}  "
            f"ROOT c = f32[] call(b), to_apply=f{n - 1} }}"
        )
    text = "\n".join(
        ["HloModule m", *levels, "ENTRY e { x = f32[] parameter(0)"]
        + ["ROOT r = f32[] call(x), to_apply=f39 }"]
    )
    module = CallInliner(max_instructions=1000).run(parse_module(text))
    assert all(len(c.instructions) <= 1000 for c in module.computations)
