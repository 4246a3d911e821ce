"""Which loops a convolution goes on with, and which stay kernels of their own."""

from __future__ import annotations

import numpy as np
import pytest

import xladev
from xladev.compiler.options import CompileOptions
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.products.epilogue import core_of
from xladev.platforms.cpu.compiler import CpuCompiler
from xladev.platforms.cpu.convolution_epilogues import ConvolutionEpilogues
from xladev.platforms.cpu.engine import target_traits

HEAD = """HloModule m
ENTRY e { x = f32[2,9,8,16] parameter(0)  w = f32[3,3,16,24] parameter(1)
  y = f32[2,9,8,24] parameter(2)  s = f32[24] parameter(3)
  c = f32[2,9,8,24] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  t = f32[2,9,8,24] broadcast(s), dimensions={3}
"""
NORM = HEAD + "  m = f32[2,9,8,24] multiply(c, t)\n  ROOT a = f32[2,9,8,24] add(m, y) }"


def kernels(module: HloModule) -> list[HloInstruction]:
    """Kernels of a module as the platform forms them."""
    pipeline = CpuCompiler().fusion_pipeline(CompileOptions())
    formed = pipeline.run(module).entry.instructions
    return [i for i in formed if i.opcode not in ("parameter", "constant", "tuple")]


def goes_on(text: str) -> bool:
    """Whether some kernel goes on from the convolution."""
    module = parse_module(text)
    found = [i for i in kernels(module) if i.opcode == "fusion"]
    return any(core_of(i["calls"]) is not None for i in found)


def test_a_loop_that_alone_reads_the_result_is_joined() -> None:
    (kernel,) = kernels(parse_module(NORM))
    assert (kernel.opcode, kernel["kind"]) == ("fusion", "kOutput")
    core = core_of(kernel["calls"])
    assert core is not None
    assert core.opcode == "convolution"
    assert len(kernel.operands) == len(set(kernel.operands)) == 4


def test_a_single_instruction_is_a_loop_too() -> None:
    module = parse_module(HEAD + "  ROOT n = f32[2,9,8,24] negate(c) }")
    (kernel,) = kernels(module)
    assert core_of(kernel["calls"]) is not None


def test_a_convolution_of_panels_goes_on() -> None:
    filters = np.random.default_rng(0).standard_normal((3, 3, 16, 24)).astype(np.float32)
    rows = ",".join(map(str, filters.ravel()))
    literal = f"w.flat = f32[3456] constant({{{rows}}})  w = f32[3,3,16,24] reshape(w.flat)"
    text = NORM.replace("w = f32[3,3,16,24] parameter(1)", literal)
    text = text.replace("parameter(2)", "parameter(1)").replace("parameter(3)", "parameter(2)")
    (kernel,) = kernels(parse_module(text))
    core = core_of(kernel["calls"])
    assert core is not None
    assert core.operands[1].opcode != "parameter"
    rng = np.random.default_rng(1)
    dims = (2, 9, 8, 16), (2, 9, 8, 24), (24,)
    x, y, s = (rng.standard_normal(d).astype(np.float32) for d in dims)
    got = xladev.compile(parse_module(text), "cpu")(x, y, s).numpy()
    want = xladev.compile(parse_module(NORM), "cpu")(x, filters, y, s).numpy()
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize(
    "tail",
    [
        "ROOT r = (f32[2,9,8,24], f32[2,9,8,24]) tuple(n, c)",
        "p = f32[2,9,8,24] cosine(c)  ROOT r = (f32[2,9,8,24], f32[2,9,8,24]) tuple(n, p)",
        "ROOT r = s32[2,9,8,24] convert(n)",
        "q = f32[2,8,9,24] transpose(n), dimensions={0,2,1,3}  ROOT r = f32[2,8,9,24] negate(q)",
        "v = f32[2,9,8,24] reverse(c), dimensions={3}  ROOT r = f32[2,9,8,24] add(n, v)",
        "z = f32[] constant(0)  ROOT r = f32[2,9,8] reduce(n, z), dimensions={3}, to_apply=add",
    ],
    ids=["a result", "two readers", "another type", "transposed", "reversed", "summed"],
)
def test_other_readers_keep_it_apart(tail: str) -> None:
    adding = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n"
    text = f"{HEAD}  n = f32[2,9,8,24] negate(c)\n  {tail} }}"
    assert not goes_on(text.replace("HloModule m\n", f"HloModule m\n{adding}"))


@pytest.mark.parametrize("control", ["c", "a"])
def test_control_dependencies_keep_it_apart(control: str) -> None:
    text = NORM.replace("ROOT a", "b = f32[24] negate(s)\n  ROOT a")
    line = next(each for each in text.splitlines() if f" {control} = " in each)
    after = line.removesuffix(" }") + ", control-predecessors={b}"
    text = text.replace(line, after + (" }" if line.endswith(" }") else ""))
    if control == "c":  # what it waits for comes before it
        text = text.replace("  b = f32[24] negate(s)\n", "")
        text = text.replace("  c = ", "  b = f32[24] negate(s)\n  c = ")
    assert not goes_on(text)


def test_only_one_of_two_convolutions_goes_on() -> None:
    turned = """  d = f32[2,9,8,24] convolution(x, w), dim_labels=b01f_01io->b01f,
        window={size=3x3 pad=1_1x1_1 rhs_reversal=1x1}
  t = """
    second = HEAD.replace("  t = ", turned)
    made = kernels(parse_module(second + "  ROOT a = f32[2,9,8,24] add(c, d) }"))
    assert len(made) == 2
    assert [i.opcode for i in made].count("convolution") == 1


@pytest.mark.parametrize(("batch", "joined"), [(33, False), (8, True)])
def test_results_past_the_caches_stay_as_they_are(batch: int, joined: bool) -> None:
    text = NORM.replace("2,9,8", f"{batch},64,64").replace("24]", "32]")
    assert goes_on(text) == joined


def test_parts_of_rows_of_another_array_are_not_read() -> None:
    """They would come from a far cache line by line."""
    wide = NORM.replace("24", "144")
    assert not goes_on(wide)
    assert goes_on(wide.replace("add(m, y)", "add(m, t)"))


def test_planes_of_features_stay_as_they_are() -> None:
    text = """HloModule m
    ENTRY e { x = f32[2,16,9,8] parameter(0)  w = f32[24,16,3,3] parameter(1)
      c = f32[2,24,9,8] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01
      ROOT n = f32[2,24,9,8] negate(c) }"""
    assert not goes_on(text)


def test_the_pass_leaves_other_modules_alone() -> None:
    module = parse_module(HEAD + "  ROOT n = f32[2,9,8,24] reverse(c), dimensions={3} }")
    assert ConvolutionEpilogues(target_traits()).run(module) is module
