"""Kernels of targets with other sub-groups: their text is LLVM's, their results the evaluator's."""

import subprocess
import sys
from dataclasses import replace

import llvmlite.binding as llvm
import numpy as np
import pytest

from tests.unit.codegen.simt import targets
from tests.unit.codegen.simt.targets import TARGETS, WAVES, results_of
from tests.unit.compiler.attention_programs import attention
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.simt.emulation.host_code import emulated
from xladev.codegen.simt.entry import kernel_text
from xladev.codegen.simt.kernel import emit_stages
from xladev.codegen.simt.kernels.attention_shapes import attention_refusal
from xladev.codegen.simt.machine import SimtMachine
from xladev.compiler.fusion.attention_fusion import AttentionFusion
from xladev.compiler.support import YES, no
from xladev.errors import ArgumentError, CompileError
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.testing.differential import compare_results, evaluated
from xladev.testing.random_inputs import random_arguments


def reduction(dims: str, kept: str, reduced: str, opcode: str = "add", init: str = "0") -> str:
    return f"""
apply {{ x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] {opcode}(x, y) }}
ENTRY e {{
  x = f32[{dims}] parameter(0)
  z = f32[] constant({init})
  ROOT s = f32[{kept}] reduce(x, z), dimensions={{{reduced}}}, to_apply=apply
}}"""


def scan(dims: str, size: str, pad: str) -> str:
    return f"""
apply {{ x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y) }}
ENTRY e {{
  x = f32[{dims}] parameter(0)
  z = f32[] constant(0)
  ROOT s = f32[{dims}] reduce-window(x, z), window={{size={size} pad={pad}}}, to_apply=apply
}}"""


def sort(dims: str, axis: int) -> str:
    return f"""
less {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT }}
ENTRY e {{
  x = f32[{dims}] parameter(0)
  ROOT s = f32[{dims}] sort(x), dimensions={{{axis}}}, to_apply=less
}}"""


def softmax(dims: str, kept: str) -> str:
    return f"""
more {{ x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] maximum(x, y) }}
add {{ x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y) }}
ENTRY e {{
  x = f32[{dims}] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[{kept}] reduce(x, low), dimensions={{1}}, to_apply=more
  mb = f32[{dims}] broadcast(m), dimensions={{0}}
  d = f32[{dims}] subtract(x, mb)
  p = f32[{dims}] exponential(d)
  n = f32[{kept}] reduce(p, zero), dimensions={{1}}, to_apply=add
  nb = f32[{dims}] broadcast(n), dimensions={{0}}
  ROOT r = f32[{dims}] divide(p, nb)
}}"""


ARGMAX = """
best { v = f32[] parameter(0)
  i = s32[] parameter(1)
  w = f32[] parameter(2)
  j = s32[] parameter(3)
  ge = pred[] compare(v, w), direction=GE
  m = f32[] select(ge, v, w)
  k = s32[] select(ge, i, j)
  ROOT t = (f32[], s32[]) tuple(m, k) }
ENTRY e {
  x = f32[5,300] parameter(0)
  n = s32[5,300] iota(), iota_dimension=1
  low = f32[] constant(-inf)
  zero = s32[] constant(0)
  ROOT r = (f32[5], s32[5]) reduce(x, n, low, zero), dimensions={1}, to_apply=best
}"""
SCATTER = """
add {{ x = {t}[] parameter(0)
  y = {t}[] parameter(1)
  ROOT r = {t}[] add(x, y) }}
ENTRY e {{
  x = {t}[50] parameter(0)
  i = s32[200,1] parameter(1)
  u = {t}[200] parameter(2)
  ROOT s = {t}[50] scatter(x, i, u), update_window_dims={{}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add
}}"""
CASES = {
    "row reduction": {
        "parts of a sub-group": reduction("37,30", "37", "1"),
        "a sub-group": reduction("9,2048", "9", "1"),
        "a block": reduction("3,4100", "3", "1"),
        "blocks": reduction("270000", "", "0", "maximum", "-inf"),
    },
    "column reduction": {
        "few columns": reduction("90,10", "10", "0"),
        "columns in vectors": reduction("70,256", "256", "0"),
        "tall columns": reduction("40000,20", "20", "0"),
    },
    "general reduction": {"argmax": ARGMAX},
    "row program": {
        "part of a sub-group": softmax("9,33", "9"),
        "a row in registers": softmax("5,1000", "5"),
        "a block of each size": softmax("3,2048", "3"),
        "a long row": softmax("2,16000", "2"),
    },
    "tiled transpose": {
        "small tiles": "ENTRY e { x = f32[45,70] parameter(0)\n"
        "  ROOT t = f32[70,45] transpose(x), dimensions={1,0} }",
        "large tiles": "ENTRY e { x = bf16[128,192] parameter(0)\n"
        "  ROOT t = bf16[192,128] transpose(x), dimensions={1,0} }",
    },
    "scan": {
        "rows": scan("5,1000", "1x1000", "0_0x999_0"),
        "backwards": scan("700", "700", "0_699"),
    },
    "scan in parts": {"one long row": scan("40000", "40000", "39999_0")},
    "sort": {"short rows": sort("20,50", 1), "runs that are merged": sort("5000", 0)},
    "scatter by atomics": {"of s32": SCATTER.format(t="s32")},
    "loop": {
        "functions": "ENTRY e { x = f32[1000] parameter(0)\n  t = f32[1000] tanh(x)\n"
        "  r = f32[1000] rsqrt(x)\n  ROOT s = f32[1000] add(t, r) }"
    },
    "tiled dot": {
        "f32": "ENTRY e { x = f32[40,70] parameter(0)\n  y = f32[70,50] parameter(1)\n"
        "  ROOT r = f32[40,50] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"
    },
}
"""Programs by the kind of kernel that each is."""
PROGRAMS = {
    f"{kind}: {name}": text for kind, texts in CASES.items() for name, text in texts.items()
}


@pytest.mark.parametrize("width", TARGETS)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if "parts: " not in name])
def test_results(name, width):
    module, target = parse_module(PROGRAMS[name]), TARGETS[width]
    assert target.kind_of(KernelSpec("k", module.entry)).name.startswith(name.partition(":")[0])
    assert finding(module, target) is None


def finding(module: HloModule, target, seed: int = 0):
    arguments = random_arguments(module, seed)
    found = results_of(module, arguments, target, seed)
    return compare_results(module, arguments, found, evaluated(module, arguments))


@pytest.mark.parametrize("width", TARGETS)
def test_attention(width):
    target = TARGETS[width]

    def takes(found):
        reason = attention_refusal(found, target.machine)
        return no(reason) if reason else YES

    module = AttentionFusion(takes).run(attention(Q=50, K=70))
    (fusion,) = (i for i in module.entry.instructions if i.opcode == "fusion")
    alone = HloModule("alone", fusion["calls"])
    assert target.kind_of(KernelSpec("k", alone.entry)).name == "attention"
    assert finding(alone, target) is None


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("width", TARGETS)
def test_scans_in_parts_in_any_order_of_blocks_and_subgroups(width, seed):
    """Of whole numbers; the evaluator takes long over windows of that size."""
    module = parse_module(CASES["scan in parts"]["one long row"])
    assert TARGETS[width].kind_of(KernelSpec("k", module.entry)).name == "scan in parts"
    x = np.arange(40000, dtype=np.float32) % 7
    (found,) = results_of(module, [x], TARGETS[width], seed)
    np.testing.assert_array_equal(found, np.cumsum(x))


def test_a_shuffle_across_subgroups_is_found(monkeypatch):
    """Sub-groups of 16 that shuffle as if they were 64."""
    module = parse_module(CASES["row reduction"]["a block"])
    wrong = replace(TARGETS["16 wide"], machine=WAVES.machine)
    device = emulated(TARGETS["16 wide"])
    monkeypatch.setattr(targets, "emulated", lambda target: replace(device, machine=wrong.machine))
    with pytest.raises(AssertionError, match="another sub-group"):
        results_of(module, random_arguments(module, 0), wrong)


# The text of a target


def texts(target) -> dict[str, str]:
    """Of all programs, each launch."""
    found = {}
    for name, text in PROGRAMS.items():
        spec = KernelSpec("k", parse_module(text).entry)
        for stage in emit_stages(spec, target):
            found[f"{name}, {stage.name}"], _ = kernel_text(stage, target)
    return found


def test_llvm_takes_the_text_of_waves():
    for name, text in texts(WAVES).items():
        module = llvm.parse_assembly(text)
        module.verify()
        entry = next(f for f in module.functions if f.name.startswith("k_"))
        assert "amdgpu_kernel" in str(entry) and "ptr addrspace(1)" in str(entry), name


ASSEMBLE = """
import re, sys
import llvmlite.binding as llvm
from tests.unit.codegen.simt.test_target import WAVES, texts

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
try:
    target = llvm.Target.from_triple(WAVES.traits.triple)
except RuntimeError as e:
    sys.exit(f"no such target: {e}")
machine = target.create_target_machine(cpu="gfx90a", opt=3)
layout = f'target datalayout = "{machine.target_data}"\\ntarget triple'
for name, text in texts(WAVES).items():
    module = llvm.parse_assembly(text.replace("target triple", layout, 1))
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    code = machine.emit_assembly(module)
    stack = re.findall(r"(?:spill_count|private_segment_fixed_size): *(\\d+)", code)
    flat = code.count("flat_load") + code.count("flat_store")
    print(name, "|", len(stack), sum(map(int, stack)), flat)
"""
"""In a process of its own: LLVM ends it where a target cannot lower something."""


@pytest.mark.long
def test_llvm_makes_machine_code_of_waves():
    done = subprocess.run([sys.executable, "-c", ASSEMBLE], capture_output=True, text=True)
    if "no such target" in done.stderr:
        pytest.skip("llvmlite was built without AMD's GPUs")
    lines = done.stdout.splitlines()
    assert done.returncode == 0, (lines[-1:], done.stderr)
    assert len(lines) == len(texts(WAVES))
    for line in lines:
        # nothing on a stack, and no access whose address space the device has to find out
        found, on_stack, flat = map(int, line.rpartition("|")[2].split())
        assert found and not on_stack and not flat, line


# What a description says


def test_a_primitive_that_is_missing_is_named():
    some = {name: text for name, text in WAVES.primitives.items() if name != "xd.barrier"}
    with pytest.raises(CompileError, match="does not define xd.barrier"):
        replace(WAVES, primitives=some)


def test_a_kernel_that_asks_for_an_approximation_in_vain_is_refused():
    some = {name: text for name, text in WAVES.primitives.items() if name != "xd.ex2"}
    spec = KernelSpec("k", parse_module(CASES["loop"]["functions"]).entry)
    target = replace(WAVES, primitives=some)
    with pytest.raises(CompileError, match=r"has no primitive xd\.ex2"):
        kernel_text(emit_stages(spec, target)[0], target)


@pytest.mark.parametrize("width", [8, 48, 128])
def test_other_widths_are_refused(width):
    with pytest.raises(ArgumentError, match=f"sub-groups of {width} threads"):
        SimtMachine(subgroup=width)


def test_integers_that_memory_does_not_combine_have_another_kind():
    wide = parse_module(SCATTER.format(t="s64"))
    assert WAVES.kind_of(KernelSpec("k", wide.entry)).name == "scatter by location"
    both = replace(WAVES, machine=replace(WAVES.machine, atomic_bits=(32, 64)))
    assert both.kind_of(KernelSpec("k", wide.entry)).name == "scatter by atomics"


def test_blocks_keep_within_the_shared_memory_there_is():
    for target in TARGETS.values():
        for text in PROGRAMS.values():
            kind = target.kind_of(KernelSpec("k", parse_module(text).entry))
            assert max(s.shared_nbytes for s in kind.stages) <= target.machine.shared_nbytes
