"""Estimated times of kernels: what an opcode's expense comes to, in one thread."""

import pytest

from xladev.codegen.kernel_spec import KernelSpec
from xladev.hlo.opdef import Tolerance
from xladev.hlo.opset import OPSET
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.cost import NBYTES_PER_NS, PRODUCTS_PER_NS, estimated_ns

N = 1 << 16
FUNCTIONS = [n for n, op in OPSET.items() if op.elementwise and op.tolerance is Tolerance.FUNCTION]
BODIES = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
larger {
  a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = pred[] compare(a, b), direction=GE
}
"""


def ns(text: str) -> float:
    module = parse_module(f"{BODIES}ENTRY e {{ {text} }}")
    return estimated_ns(KernelSpec("k", module.entry))


@pytest.mark.parametrize("opcode", FUNCTIONS)
def test_functions_are_half_a_nanosecond_each(opcode: str) -> None:
    operands = ", ".join(["p"] * OPSET[opcode].arity_range[0])
    free = f"p = f32[{N}] iota(), iota_dimension=0"
    assert ns(f"{free}  ROOT r = f32[{N}] {opcode}({operands})") == N * 0.5


@pytest.mark.parametrize(
    ("instruction", "each"),
    [
        (f"f32[{N}] divide(p, p)", 0.5),
        (f"f32[{N}] remainder(p, p)", 0.5),
        (f"f32[{N}] pad(p, z), padding=0_0", 0.5),
        (f"f32[{N // 256},256] transpose(q), dimensions={{1,0}}", 0.5),
        ("f32[] reduce(p, z), dimensions={0}, to_apply=add", 0.1),
        (f"f32[{N}] map(p, p), dimensions={{0}}, to_apply=add", 1.0),
        (f"f32[{N}] sort(p), dimensions={{0}}, to_apply=larger", 50.0),
        (f"f32[{N}] scatter(p, i, u), update_window_dims={{0}}, inserted_window_dims={{}}, "
         "scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=add", 0.5),
        (f"f32[{N}] select-and-scatter(p, p, z), window={{size=1}}, select=larger, scatter=add",
         1.0),
    ],
)  # fmt: skip
def test_others_take_as_long_for_each_element(instruction: str, each: float) -> None:
    free = f"""p = f32[{N}] iota(), iota_dimension=0
      q = f32[256,{N // 256}] iota(), iota_dimension=0
      z = f32[] constant(0)  i = s32[1] constant({{0}})  u = f32[8] iota(), iota_dimension=0"""
    assert ns(f"{free}  ROOT r = {instruction}") == N * each


def test_simple_elements_are_less_than_the_memory_that_they_are_read_from() -> None:
    adds = "  ".join(f"a{n + 1} = f32[{N}] add(a{n}, a{n})" for n in range(100))
    memory = 8 * N / NBYTES_PER_NS
    assert ns(f"a0 = f32[{N}] parameter(0)  ROOT r = f32[{N}] add(a0, a0)") == memory
    assert ns(f"a0 = f32[{N}] parameter(0)  {adds}  ROOT r = f32[{N}] abs(a100)") == pytest.approx(
        101 * N * 0.05
    )


def test_what_is_not_computed_takes_no_time_but_that_of_memory() -> None:
    free = f"z = f32[] constant(1)  b = f32[{N}] broadcast(z), dimensions={{}}"
    assert ns(f"{free}  ROOT r = f32[{N}] bitcast(b)") == 4 * N / NBYTES_PER_NS


def test_products_are_counted() -> None:
    text = "p = f32[64,64] parameter(0)  ROOT r = f32[64,64] dot(p, p), "
    dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    assert ns(text + dims) == pytest.approx(64**3 / PRODUCTS_PER_NS)
