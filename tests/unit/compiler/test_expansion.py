"""Expansions are made only of what is rejected, and only if all of them is supported."""

import numpy as np
import pytest

from tests.unit.compiler.subset_backend import Subset, subset_registry
from xladev import client
from xladev.compiler.assignment import CompileTarget
from xladev.compiler.description import DeviceDescription
from xladev.compiler.expansion import expand_rejected
from xladev.compiler.options import CompileOptions
from xladev.errors import ShapeError
from xladev.hlo.builder import HloBuilder
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify

TEXT = """
HloModule waves
body {
  x = f32[4] parameter(0)
  ROOT y = f32[4] tan(x)
}
ENTRY main {
  x = f32[4] parameter(0)
  a = f32[4] tan(x), metadata={op_name="the tangent"}
  b = f32[4] call(a), to_apply=body
  ROOT r = f32[4] logistic(b)
}
"""


def tan(instruction):
    b = HloBuilder("tan")
    x = b.parameter(instruction.operands[0].shape)
    return b.build(b.op("divide", b.op("sine", x), b.op("cosine", x)))


def logistic(instruction):
    b = HloBuilder("logistic")
    x = b.parameter(instruction.operands[0].shape)
    return b.build(b.op("negate", b.op("tan", x)))


def nothing(instruction):
    return None


EXPANDERS = {"tan": (nothing, tan), "logistic": (logistic,)}


def expanded(supported, expanders=EXPANDERS):
    from tests.unit.compiler.subset_backend import SubsetCompiler

    target = CompileTarget("subset", SubsetCompiler(Subset(supported)), DeviceDescription())
    module = expand_rejected(parse_module(TEXT), target, expanders)
    verify(module)
    return module


def opcodes(module):
    return [i.opcode for c in module.computations for i in c.instructions]


def test_supported_instructions_stay():
    module = parse_module(TEXT)
    assert opcodes(expanded(lambda i: True)) == opcodes(module)
    assert opcodes(expanded(lambda i: False, {})) == opcodes(module)


def test_rejected_instructions_are_expanded_in_every_computation_that_the_sdk_may_run():
    found = opcodes(expanded(lambda i: i.opcode not in ("tan", "call")))
    assert found.count("sine") == found.count("cosine") == 2 and "tan" not in found
    assert "logistic" in found


def test_expansions_are_expanded_too():
    found = opcodes(expanded(lambda i: i.opcode not in ("tan", "logistic")))
    assert found.count("divide") == 3 and found.count("negate") == 1 and "logistic" not in found


@pytest.mark.parametrize("missing", ["sine", "cosine", "divide"])
def test_an_expansion_with_an_unsupported_part_is_not_made(missing):
    found = opcodes(expanded(lambda i: i.opcode not in ("tan", missing)))
    assert found.count("tan") == 2 and missing not in found


def test_what_is_inlined_keeps_where_it_came_from():
    module = expanded(lambda i: i.opcode != "tan")
    sines = [i for c in module.computations for i in c.instructions if i.opcode == "sine"]
    assert "the tangent" in [i.note.metadata.op_name for i in sines]


def test_an_expansion_that_never_ends_is_given_up():
    def again(instruction):
        b = HloBuilder("again")
        x = b.parameter(instruction.operands[0].shape)
        return b.build(b.op("tan", b.op("negate", x)))

    found = opcodes(expanded(lambda i: i.opcode != "tan", {"tan": (again,)}))
    assert found.count("tan") == 2 and "negate" not in found


def test_what_an_expander_raises_says_where():
    def too_large(instruction):
        raise ShapeError("that many bytes are no array")

    with pytest.raises(ShapeError) as caught:
        expanded(lambda i: i.opcode != "tan", {"tan": (too_large,)})
    assert "tan(x)" in caught.value.where


def test_programs_with_expansions_give_the_same():
    text = """
HloModule factor
ENTRY main {
  a = f32[3,3] parameter(0)
  ROOT c = f32[3,3] cholesky(a), lower=true
}
"""
    a = np.array([[4, 2, 1], [2, 5, 3], [1, 3, 6]], np.float32)
    module = parse_module(text)
    with subset_registry(Subset(lambda i: i.opcode != "cholesky")):
        options = CompileOptions(strict=True)
        got = client.compile(module, "subset", options)(a).numpy()
    np.testing.assert_allclose(np.tril(got), np.tril(HloEvaluator().run(module, a)), rtol=1e-5)
