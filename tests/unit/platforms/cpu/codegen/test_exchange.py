"""Collectives in native code give what the evaluator's devices give, bit for bit."""

from dataclasses import replace

import numpy as np
import pytest

import xladev
from xladev.compiler.partition.assignment import CompileTarget
from xladev.compiler.program.thunks import RunExecutable
from xladev.hlo.devices import Topology
from xladev.hlo.multi_device import evaluate_replicated
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.combining import BLOCK_NBYTES
from xladev.platforms.cpu.compiler import CpuCompiler
from xladev.runtime.distributed import job

DEVICES = 4
ALL = "channel_id=1, use_global_device_ids=true, replica_groups="

LARGE = 2 * BLOCK_NBYTES // 4 + 5
"""Elements of f32: two blocks, and a rest."""

FORMS = {
    "all-reduce": "@[6,10] all-reduce(x), %{{0,1,2,3}}, to_apply=c",
    "all-reduce of groups": "@[6,10] all-reduce(x), %{{3,1},{0,2}}, to_apply=c",
    "all-reduce of some": "@[6,10] all-reduce(x), %{{3,1}}, to_apply=c",
    "all-gather": "@[24,10] all-gather(x), %{{0,2,1,3}}, dimensions={0}",
    "all-gather inside": "@[6,20] all-gather(x), %{{0,3},{2,1}}, dimensions={1}",
    "reduce-scatter": "@[3,10] reduce-scatter(x), %{{1,0},{2,3}}, dimensions={0}, to_apply=c",
    "reduce-scatter inside": "@[6,5] reduce-scatter(x), %{{1,0},{2,3}}, dimensions={1}, to_apply=c",
    "all-to-all": "@[6,10] all-to-all(x), channel_id=1, replica_groups={{0,1},{3,2}},"
    " dimensions={0}",
    "all-to-all inside": "@[6,10] all-to-all(x), channel_id=1, replica_groups={{0,1},{3,2}},"
    " dimensions={1}",
    "collective-permute": "@[6,10] collective-permute(x), channel_id=1,"
    " source_target_pairs={{0,1},{1,3},{3,0}}",
}

TYPES = {
    "f32": ("add", "maximum"),
    "bf16": ("add", "minimum"),
    "f16": ("multiply",),
    "f64": ("add",),
    "c64": ("add",),
    "s8": ("add", "xor"),
    "u32": ("maximum",),
    "pred": ("and", "or"),
}


def program(form, t="f32", opcode="add", more=""):
    return parse_module(f"""HloModule m, num_partitions={DEVICES}
c {{ a = {t}[] parameter(0)  b = {t}[] parameter(1)  ROOT r = {t}[] {opcode}(a, b) }}
{more}
ENTRY e {{ x = {t}[6,10] parameter(0)
  ROOT r = {form.replace("@", t).replace("%", ALL)} }}""")


def check(module, dims=(6, 10)):
    """Runs a module on all devices, and compares; gives the compiled program."""
    (parameter,) = module.entry.parameters
    rng = np.random.default_rng(3)
    numbers = [rng.integers(-9, 9, dims) / 4 for _ in range(DEVICES)]
    dtype = parameter.shape.element_type.numpy
    arrays = [np.asarray(n, dtype) if dtype != np.bool_ else n > 0 for n in numbers]
    compiled = xladev.compile(module, "cpu")
    found = compiled.run_on_devices([[a] for a in arrays])
    wanted = evaluate_replicated(module, [[a] for a in arrays], topology=Topology(1, DEVICES))
    for ours, theirs in zip(found, wanted, strict=True):
        pairs = zip(ours, theirs, strict=True) if isinstance(ours, tuple) else [(ours, theirs)]
        for a, b in pairs:
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    return compiled


def is_native(compiled):
    """Whether all of it is one region of the device."""
    thunks = [thunk for p in compiled.program.procedures for thunk in p.thunks]
    return [type(thunk) for thunk in thunks] == [RunExecutable]


CASES = [
    (form, t, opcode)
    for t, opcodes in TYPES.items()
    for opcode in opcodes
    for form in (FORMS if t == "f32" else ("all-reduce", "reduce-scatter inside"))
]


@pytest.mark.parametrize(("form", "t", "opcode"), CASES)
def test_collective(form, t, opcode):
    check(program(FORMS[form], t, opcode))


@pytest.mark.parametrize("form", FORMS)
def test_the_whole_program_is_native(form):
    assert is_native(xladev.compile(program(FORMS[form]), "cpu"))


def test_blocks_and_their_rest():
    module = parse_module(f"""HloModule m, num_partitions={DEVICES}
c {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
ENTRY e {{ x = f32[4,{LARGE}] parameter(0)
  a = f32[4,{LARGE}] all-reduce(x), channel_id=1, to_apply=c
  s = f32[1,{LARGE}] reduce-scatter(x), {ALL}{{{{0,1,2,3}}}}, dimensions={{0}}, to_apply=c
  ROOT r = (f32[4,{LARGE}], f32[1,{LARGE}]) tuple(a, s) }}""")
    check(module, (4, LARGE))


def test_several_operands_and_one_of_them_twice():
    check(program("(f32[6,10], f32[6,10]) all-reduce(x, x), %{{0,1},{2,3}}, to_apply=c"))


def test_in_a_loop_and_in_a_branch():
    body = f"""
count {{ s = (s32[], f32[6,10]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(20)  ROOT l = pred[] compare(i, n), direction=LT }}
step {{ s = (s32[], f32[6,10]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  v = f32[6,10] get-tuple-element(s), index=1  one = s32[] constant(1)
  h = f32[] constant(0.25)  hs = f32[6,10] broadcast(h), dimensions={{}}
  a = f32[6,10] all-reduce(v), {ALL}{{{{0,1}},{{2,3}}}}, to_apply=c
  p = f32[6,10] collective-permute(a), channel_id=1, source_target_pairs={{{{0,2}},{{2,0}},{{1,3}}}}
  k = f32[6,10] multiply(p, hs)  j = s32[] add(i, one)
  ROOT t = (s32[], f32[6,10]) tuple(j, k) }}"""
    module = parse_module(f"""HloModule m, num_partitions={DEVICES}
c {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
{body}
ENTRY e {{ x = f32[6,10] parameter(0)  z = s32[] constant(0)
  s = (s32[], f32[6,10]) tuple(z, x)
  w = (s32[], f32[6,10]) while(s), condition=count, body=step
  ROOT r = f32[6,10] get-tuple-element(w), index=1 }}""")
    assert is_native(check(module))


@pytest.mark.parametrize(
    "form",
    [
        "(f32[6,10], f32[6,10]) all-to-all(x, x), channel_id=1, replica_groups={{0,1},{2,3}}",
        "f32[6,10] all-reduce(x), %{{0,1,2},{3}}, to_apply=c",
    ],
)
def test_what_has_no_native_code_is_run_by_the_sdk(form):
    assert not is_native(check(program(form)))


def test_other_machines_have_no_peers():
    target = CompileTarget("cpu", CpuCompiler(), CpuCompiler().describe("x86_64-linux-gnu"))
    (collective,) = (i for i in program(FORMS["all-reduce"]).entry.instructions if i.called)
    assert not target.supports(collective)
    assert replace(target, description=CpuCompiler().describe()).supports(collective)


def test_a_job_of_several_processes_meets_elsewhere(monkeypatch):
    device = CompileTarget("cpu", CpuCompiler(), CpuCompiler().describe())
    (collective,) = (i for i in program(FORMS["all-reduce"]).entry.instructions if i.called)
    alone = device.compiler.version()
    monkeypatch.setattr(job._current, "job", object())
    assert not device.supports(collective)
    assert device.compiler.version() != alone
