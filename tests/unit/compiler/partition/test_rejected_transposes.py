"""A device without transposes gets products with exchanged operands instead."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.unit.compiler.subset_backend import Subset, SubsetCompiler
from xladev.compiler.description import DeviceDescription
from xladev.compiler.partition.assignment import CompileTarget
from xladev.compiler.partition.rejected_transposes import RejectedTransposes
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify

TEXT = """
HloModule m
ENTRY main {{
  x = f32[5,3] parameter(0)
  y = f32[4,5] parameter(1)
  z = f32[3,4] parameter(2)
  p = f32[3,4] dot(x, y), lhs_contracting_dims={{0}}, rhs_contracting_dims={{1}}
  c = f32[3,4] constant({{{{1,2,3,4}},{{5,6,7,8}},{{9,8,7,6}}}})
  q = f32[3,4] multiply(p, {0})
  n = f32[3,4] negate(q)
  t = f32[4,3] transpose(n), dimensions={{1,0}}
  ROOT r = {1}
}}
"""
PLAIN = "f32[4,3] sine(t)"


def rewritten(
    module: HloModule, takes: Callable[[HloInstruction], bool] = lambda i: i.opcode != "transpose"
) -> HloModule:
    target = CompileTarget("subset", SubsetCompiler(Subset(takes)), DeviceDescription())
    made = RejectedTransposes(target).run(module)
    verify(made)
    return made


def opcodes(module: HloModule) -> list[str]:
    return [i.opcode for i in module.entry.instructions]


def inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s).astype(np.float32) for s in ((5, 3), (4, 5), (3, 4))]


def test_through_elementwise_operations_and_constants() -> None:
    module = parse_module(TEXT.format("c", PLAIN))
    made = rewritten(module)
    assert "transpose" not in opcodes(made)
    x, y, z = inputs()
    want = np.asarray(HloEvaluator().run(module, x, y, z))
    np.testing.assert_allclose(
        np.asarray(HloEvaluator().run(made, x, y, z)), want, rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize(
    ("factor", "root"),
    [
        ("z", PLAIN),  # a parameter would have to be transposed
        ("c", "(f32[4,3], f32[3,4]) tuple(t, q)"),  # the product is wanted as it is, too
    ],
)
def test_what_stays(factor: str, root: str) -> None:
    module = parse_module(TEXT.format(factor, root))
    assert rewritten(module) is module or "transpose" in opcodes(rewritten(module))


def test_what_the_device_takes_stays() -> None:
    module = parse_module(TEXT.format("c", PLAIN))
    assert rewritten(module, lambda i: True) is module
    assert "transpose" in opcodes(rewritten(module, lambda i: i.opcode not in ("transpose", "dot")))
    assert RejectedTransposes().run(module) is module


def test_products_of_batches_stay() -> None:
    text = """HloModule m
ENTRY e { x = f32[3,2] parameter(0)  y = f32[3,2,4] parameter(1)
  p = f32[3,4] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1},
      rhs_contracting_dims={1}
  ROOT t = f32[4,3] transpose(p), dimensions={1,0} }"""
    module = parse_module(text)
    assert "transpose" in opcodes(rewritten(module))
