"""Expansions are made only of what is rejected, and only if all of them is supported."""

import numpy as np
import pytest

from tests.unit.compiler.subset_backend import Subset, subset_registry
from xladev import client
from xladev.compiler.description import DeviceDescription
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import CompileTarget
from xladev.compiler.partition.expansion import expand_rejected
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


NARROW = {
    **{
        opcode: f"ROOT r = T[4] {opcode}(x)"
        for opcode in (
            "logistic", "tanh", "erf", "cbrt", "exponential", "exponential-minus-one", "log",
            "log-plus-one", "sqrt", "rsqrt", "sine", "cosine", "tan", "asinh", "negate",
        )
    },
    **{o: f"ROOT r = T[4] {o}(x, x)" for o in ("power", "atan2", "divide", "remainder")},
    "reduce": "z = T[] constant(0)  ROOT r = T[] reduce(x, z), dimensions={0}, to_apply=f",
    "reduce-window": "z = T[] constant(0)  "
    "ROOT r = T[3] reduce-window(x, z), window={size=2}, to_apply=f",
    "gather": "i = s32[2,1] constant({{1},{2}})  ROOT r = T[2] gather(x, i), offset_dims={}, "
    "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}",
    "dot": "ROOT r = T[] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    "convolution": "a = T[1,2,2] reshape(x)  b = T[1,1,2] constant({{{1,2}}})  "
    "ROOT r = T[1,2,2] convolution(a, b), window={size=1}, dim_labels=b0f_0io->b0f, "
    "feature_group_count=2",
}  # fmt: skip
"""Programs of an opcode on T."""


@pytest.mark.parametrize("t", ["bf16", "f16", "f8e4m3fn", "f8e5m2"])
@pytest.mark.parametrize("opcode", NARROW)
def test_a_narrow_float_runs_through_f32_where_the_device_has_the_opcode_there(opcode, t):
    from tests.unit.compiler.subset_backend import SubsetCompiler
    from xladev.passes.expanders import EXPANDERS as REAL

    def is_supported(instruction):
        return instruction.opcode != opcode or instruction.shape.element_type.name == "f32"

    text = """HloModule m
f { a = T[] parameter(0)  b = T[] parameter(1)  ROOT c = T[] add(a, b) }
g { a = T[] parameter(0)  b = T[] parameter(1)  ROOT c = pred[] compare(a, b), direction=GE }
ENTRY e { x = T[4] parameter(0)  """ + NARROW[opcode] + "}"  # fmt: skip
    module = parse_module(text.replace("T[", f"{t}["))
    target = CompileTarget("subset", SubsetCompiler(Subset(is_supported)), DeviceDescription())
    made = expand_rejected(module, target, REAL)
    verify(made)
    kept = [i for i in made.entry.instructions if i.opcode == opcode]
    assert [i.shape.element_type.name for i in kept] == ["f32"]
    assert made.entry.root.opcode == "convert"


def test_sums_of_a_scatter_are_rounded_after_each_addition():
    from tests.unit.compiler.subset_backend import SubsetCompiler
    from xladev.passes.expanders import EXPANDERS as REAL

    text = """HloModule m
f { a = bf16[] parameter(0)  b = bf16[] parameter(1)  ROOT c = bf16[] add(a, b) }
ENTRY e { x = bf16[1] parameter(0)  u = bf16[300] parameter(1)  i = s32[300,1] parameter(2)
  ROOT r = bf16[1] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f }"""
    subset = Subset(
        lambda i: i.opcode not in ("add", "scatter", "while") or i.shape.element_type.name != "bf16"
    )
    target = CompileTarget("subset", SubsetCompiler(subset), DeviceDescription())
    module = parse_module(text)
    made = expand_rejected(module, target, REAL)
    assert "scatter" not in opcodes(made)
    bf16 = module.entry.root.shape.element_type.np
    given = np.zeros(1, bf16), np.ones(300, bf16), np.zeros((300, 1), np.int32)
    assert HloEvaluator().run(made, *given) == HloEvaluator().run(module, *given) == 256


def test_a_custom_call_is_none_of_another_target():
    """Expanders of custom calls go in their order: they share the opcode, and nothing else."""

    def other(instruction):
        b = HloBuilder("other")
        x = b.parameter(instruction.operands[0].shape)
        return b.build(b.op("custom-call", x, shape=x.shape, custom_call_target="b"))

    def plain(instruction):
        b = HloBuilder("plain")
        return b.build(b.op("negate", b.parameter(instruction.operands[0].shape)))

    from tests.unit.compiler.subset_backend import SubsetCompiler

    text = 'x = f32[4] parameter(0)  ROOT r = f32[4] custom-call(x), custom_call_target="a"'
    subset = Subset(lambda i: i.opcode != "custom-call" or i["custom_call_target"] == "b")
    target = CompileTarget("subset", SubsetCompiler(subset), DeviceDescription())
    module = parse_module("HloModule m\nENTRY e {" + text + "}")
    made = expand_rejected(module, target, {"custom-call": (plain, other)})
    assert made.entry.root.opcode == "negate"


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
