"""Products of bf16 on tensor cores: emulated, against the evaluator; and as PTX, by ptxas."""

from dataclasses import replace

import pytest

from tests.unit.codegen.simt.kernels.test_tiled_dots import PLAIN, dot
from tests.unit.platforms.cuda.conftest import ptx_of
from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.platforms.cuda.codegen import nvptx, tensor_cores, tensor_dots
from xladev.platforms.cuda.codegen.kinds import kind_of
from xladev.platforms.cuda.compiler import CudaCompiler
from xladev.testing.differential import compare_with_evaluator
from xladev.testing.random_inputs import random_arguments

B, F = "bf16", "f32"
DOTS = {
    "whole tiles": dot((B, B, F), ("64,32", "32,64", "64,64"), PLAIN),
    "tiles that end early": dot((B, B, B), ("70,41", "41,90", "70,90"), PLAIN),
    "stacks, both transposed": dot(
        (B, B, F), ("3,33,20", "3,50,33", "3,20,50"),
        "lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={1}, rhs_contracting_dims={2}",
    ),
}  # fmt: skip


def found(text, emulated, seed=0):
    module = parse_module(text)
    options = CompileOptions(strict=True, rng_seed=seed).with_option(
        "cuda_emu.library_products=false"
    )
    return compare_with_evaluator(module, random_arguments(module, 0), emulated, options)


@pytest.mark.parametrize("name", DOTS)
def test_products(name, emulated):
    assert kind_of(KernelSpec("k", parse_module(DOTS[name]).entry)).name == "tensor dot"
    assert found(DOTS[name], emulated) is None


def test_a_missing_barrier_is_found(emulated, monkeypatch):
    monkeypatch.setattr(tensor_dots, "barrier", lambda b: None)
    assert found(DOTS["whole tiles"], emulated, 78) is not None


def test_another_place_in_the_tile_is_found(emulated, monkeypatch):
    wrong = tensor_cores.HOST.replace("and i32 %lane, 3", "and i32 %lane, 1")
    device = nvptx.emulated_target()
    planted = replace(device, primitives={**device.primitives, tensor_cores.SYMBOL: wrong})
    monkeypatch.setattr(nvptx, "emulated_target", lambda: planted)
    assert found(DOTS["whole tiles"], emulated, 79) is not None


def test_older_targets_have_tiles_without_tensor_cores():
    spec = KernelSpec("k", parse_module(DOTS["whole tiles"]).entry)
    code = CudaCompiler().lower(spec, CompileOptions(target="sm_75"))
    assert b"mma" not in code.code
    code = CudaCompiler().lower(spec, CompileOptions(target="sm_80"))
    assert b"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32" in code.code


def test_its_code(assembled):
    found = assembled(DOTS["whole tiles"])
    assert (found.spill_nbytes, found.stack_nbytes) == (0, 0)
    assert found.registers <= 96
    assert found.shared_nbytes == 2 * 64 * 24 * 2
    products = ptx_of(DOTS["whole tiles"]).count("mma.sync")
    assert products
    assert products % tensor_dots.PARTS == 0
