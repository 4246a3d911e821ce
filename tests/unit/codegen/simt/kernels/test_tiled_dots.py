"""Products that no library computes: through shared memory, against the evaluator and ptxas."""

import pytest

from tests.unit.platforms.cuda.conftest import ptx_of
from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.platforms.cuda.codegen.kinds import kind_of
from xladev.testing.differential import compare_with_evaluator
from xladev.testing.random_inputs import random_arguments


def dot(types, shapes, numbers):
    lhs, rhs, out = types
    return f"""ENTRY e {{
  x = {lhs}[{shapes[0]}] parameter(0)
  y = {rhs}[{shapes[1]}] parameter(1)
  ROOT r = {out}[{shapes[2]}] dot(x, y), {numbers}
}}"""


PLAIN = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
DOTS = {
    "whole tiles": dot(("s32",) * 3, ("64,32", "32,32", "64,32"), PLAIN),
    "tiles that end early": dot(("s16", "s16", "s32"), ("37,19", "19,45", "37,45"), PLAIN),
    "one row": dot(("u8", "u8", "u32"), ("9,33", "33,70", "9,70"), PLAIN),
    "f8, which cuBLASLt has not": dot(
        ("f8e5m2", "f8e5m2", "f32"), ("33,17", "17,34", "33,34"), PLAIN
    ),
    "f32, libraries switched off": dot(("f32",) * 3, ("40,50", "50,60", "40,60"), PLAIN),
    "f16 into f16": dot(("f16",) * 3, ("40,50", "50,60", "40,60"), PLAIN),
    "stacks of several dimensions": dot(
        ("s64",) * 3, ("2,5,3,7,9", "3,2,7,9,20", "2,3,5,7,20"),
        "lhs_batch_dims={0,2}, rhs_batch_dims={1,0}, "
        "lhs_contracting_dims={4}, rhs_contracting_dims={3}",
    ).replace("3,2,7,9,20", "3,2,4,9,5").replace("2,3,5,7,20", "2,3,5,7,4,5"),
}  # fmt: skip


@pytest.mark.parametrize("name", DOTS)
def test_products(name, emulated):
    module = parse_module(DOTS[name])
    assert kind_of(KernelSpec("k", module.entry)).name == "tiled dot"
    options = CompileOptions(strict=True).with_option("cuda_emu.library_products=false")
    assert compare_with_evaluator(module, random_arguments(module, 0), emulated, options) is None


def test_a_missing_barrier_is_found(emulated, monkeypatch):
    from xladev.codegen.simt.kernels import tiled_dots

    monkeypatch.setattr(tiled_dots, "barrier", lambda b: None)
    module = parse_module(DOTS["whole tiles"])
    options = CompileOptions(strict=True).with_option("rng_seed=77")
    found = compare_with_evaluator(module, random_arguments(module, 0), emulated, options)
    assert found is not None


@pytest.mark.parametrize(
    "text",
    [
        dot(("s32",) * 3, ("4,32", "32,4", "4,4"), PLAIN),
        dot(("c64",) * 3, ("64,32", "32,32", "64,32"), PLAIN),
        dot(("s32",) * 3, ("64,0", "0,32", "64,32"), PLAIN),
    ],
)
def test_others_are_summed_one_by_one(text):
    assert kind_of(KernelSpec("k", parse_module(text).entry)).name != "tiled dot"


def test_its_code(assembled):
    found = assembled(DOTS["f32, libraries switched off"])
    assert (found.spill_nbytes, found.stack_nbytes) == (0, 0)
    assert found.registers <= 96
    assert found.shared_nbytes == 2 * 16 * 33 * 4
    assert "bar.sync" in ptx_of(DOTS["whole tiles"]) or "barrier.sync" in ptx_of(
        DOTS["whole tiles"]
    )
