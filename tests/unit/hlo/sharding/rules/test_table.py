"""Factor rules: every opcode has one or a reason for none, and they are Shardy's."""

import json
import re

import pytest

from tests.tools.jax_child import run_jax
from xladev.hlo.ir import HloInstruction
from xladev.hlo.opset import OPSET
from xladev.hlo.sharding.factors import FactorRule
from xladev.hlo.sharding.rule_text import read_rule
from xladev.hlo.sharding.rules.table import REFUSED, RULES, STRUCTURE, WHOLE, factor_rule
from xladev.hlo.text import parse_module


def test_every_opcode_has_a_rule_or_a_reason() -> None:
    tables = (RULES, WHOLE, STRUCTURE, REFUSED)
    for name, op in OPSET.items():
        found = sum(name in table for table in tables) + op.elementwise
        assert found == 1, name
    for table in tables:
        assert set(table) <= set(OPSET)


def rule(text: str, more: str = "") -> FactorRule | None:
    """The rule of the last instruction of some lines."""
    module = parse_module(f"HloModule m\n{more}\nENTRY e {{\n{text}\n}}")
    root: HloInstruction = module.entry.root
    return factor_rule(root)


ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"
XY = "x = f32[8,4] parameter(0)  y = f32[4,6] parameter(1)"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ROOT r = f32[8,4] negate(x)", "([i, j])->([i, j]) {i=8, j=4}"),
        ("ROOT r = f32[4,8] transpose(x), dimensions={1,0}", "([j, i])->([i, j]) {i=4, j=8}"),
        ("ROOT r = f32[8,6] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
         "([i, k],[k, j])->([i, j]) {i=8, j=6, k=4} reduction={k}"),
        ("ROOT r = f32[2,4,4] reshape(x)", "([ij, k])->([i, j, k]) {i=2, j=4, k=4}"),
        ("ROOT r = f32[32] reshape(x)", "([i, j])->([ij]) {i=8, j=4}"),
        ("ROOT r = f32[8,1,4] reshape(x)", "([i, j])->([i, , j]) {i=8, j=4}"),
        ("ROOT r = f32[8,2] slice(x), slice={[0:8], [1:3]}",
         "([i, j])->([i, j]) {i=8, j=4} permutation={j}"),
        ("z = f32[] constant(0)  ROOT r = f32[8] reduce(x, z), dimensions={1}, to_apply=add",
         "([i, j],[])->([i]) {i=8, j=4} reduction={j}"),
    ],
)  # fmt: skip
def test_rules(text: str, wanted: str) -> None:
    assert str(rule(f"{XY}\n{text}", ADD)) == wanted


@pytest.mark.parametrize(
    ("operands", "call", "wanted"),
    [
        ("x = s32[8,4] parameter(0)",
         'ROOT r = s32[8,6] custom-call(x), custom_call_target="cu_lu_pivots_to_permutation"',
         "([i, j])->([i, k]) {i=8, j=4, k=6} need replication={j, k}"),
        ("x = f32[3,2,4,4] parameter(0)",
         'ROOT r = (f32[3,2,4,4], f32[3,2,4]) custom-call(x), custom_call_target="Qr"',
         "([i, j, k, l])->([i, j, m, n],[i, j, o]) {i=3, j=2, k=4, l=4, m=4, n=4, o=4} "
         "need replication={k, l, m, n, o}"),
        ("x = f32[4,4] parameter(0)",
         'ROOT r = (f32[4,4], s32[4], s32[]) custom-call(x), '
         'custom_call_target="lapack_sgetrf_ffi"',
         "([i, j])->([k, l],[m],[]) {i=4, j=4, k=4, l=4, m=4} need replication={i, j, k, l, m}"),
    ],
)  # fmt: skip
def test_batches_of_calls_are_cut(operands: str, call: str, wanted: str) -> None:
    assert str(rule(f"{operands}\n{call}")) == wanted


def test_what_is_never_cut() -> None:
    assert rule("x = f32[<=8] parameter(0)  ROOT r = f32[<=8] negate(x)") is None
    assert rule("t = (f32[8]) parameter(0)  ROOT r = (f32[8]) opt-barrier(t)") is None
    empty = rule("x = f32[0,4] parameter(0)  ROOT r = f32[4,0] reshape(x)")
    assert empty is not None and empty.sizes == ()


@pytest.mark.parametrize("seed", range(4))
def test_texts_are_read_as_they_are_written(seed: int) -> None:
    samples = (
        "([i, k],[k, j])->([i, j]) {i=8, j=6, k=4} reduction={k}",
        "([ij, k])->([i, j, k]) {i=2, j=4, k=4}",
        "([i, j])->([i, j]) {i=8, j=4} permutation={j}",
        "([])->([])",
    )
    text = samples[seed]
    made = read_rule(f"#sdy.op_sharding_rule<{text}>")
    assert str(made).strip() == (text if "{" in text else f"{text} {{}}")


# What jaxlib's own pass says, operation by operation; where Shardy needs more than the partitioner
# does, or cuts what it cannot, the propagation is the same.
KNOWN = {
    "concatenate": "a joined dimension is fetched here, and joined there",
    "dynamic-slice": "the sliced dimension is blocked there, and no factor of the result here",
    "gather of slices": "likewise",
    "convolution": "windows of one element pass here; sizes of kernels are counted otherwise",
    "convolution by groups": "likewise; output features of one group are not cut here",
    "random bits": "no rule here: the whole is computed, and then cut",
    "reshape (4, 6) to (6, 4)": "inner factors in common behind outer ones that are not",
}

CASES = r"""
import io, json, re, numpy as np
from jax import lax
from jaxlib.mlir import ir, passmanager
from xladev.frontends.jax import adapter
from xladev.hlo.proto import read_module
from xladev.hlo.sharding.rules.table import factor_rule
f4 = lambda *s: jax.ShapeDtypeStruct(s, np.float32)
i4 = lambda *s: jax.ShapeDtypeStruct(s, np.int32)
gather = lax.GatherDimensionNumbers
scatter = lax.ScatterDimensionNumbers
cases = {
    'add': ('add', lambda a, b: lax.add(a, b), f4(8, 4), f4(8, 4)),
    'select': ('select', lambda p, a: lax.select(p > 0, a, -a), i4(8, 4), f4(8, 4)),
    'clamp': ('clamp', lambda a: lax.clamp(0., a, 1.), f4(8, 4)),
    'transpose': ('transpose', lambda a: lax.transpose(a, (2, 0, 1)), f4(2, 3, 4)),
    'broadcast': ('broadcast', lambda a: lax.broadcast_in_dim(a, (3, 8, 4), (1, 2)), f4(8, 4)),
    'dot': ('dot', lambda a, b: lax.dot_general(a, b, (((2,), (1,)), ((0,), (0,)))),
            f4(5, 8, 4), f4(5, 4, 6)),
    'reduce': ('reduce', lambda a: lax.reduce(a, 0., lax.add, (1,)), f4(8, 4, 6)),
    'reduce_max': ('reduce', lambda a: lax.reduce_max(a, (0,)), f4(8, 4, 6)),
    'argmax': ('reduce', lambda a: lax.argmax(a, 1, np.int32), f4(8, 4)),
    'slice': ('slice', lambda a: lax.slice(a, (0, 1), (8, 3)), f4(8, 4)),
    'pad': ('pad', lambda a: lax.pad(a, 0., ((0, 0, 0), (1, 1, 0))), f4(8, 4)),
    'reverse': ('reverse', lambda a: lax.rev(a, (1,)), f4(8, 4)),
    'concatenate': ('concatenate', lambda a, b: lax.concatenate([a, b], 1), f4(8, 4), f4(8, 6)),
    'dynamic-slice': ('dynamic-slice', lambda a, i: lax.dynamic_slice(a, (i, i), (8, 2)),
                      f4(8, 4), i4()),
    'dynamic-update-slice': ('dynamic-update-slice',
        lambda a, u, i: lax.dynamic_update_slice(a, u, (i, i)), f4(8, 4), f4(8, 2), i4()),
    'sort': ('sort', lambda a: lax.sort(a, dimension=1), f4(8, 4)),
    'gather of rows': ('gather', lambda a, i: lax.gather(a, i, gather((1,), (0,), (0,)), (1, 4)),
                       f4(8, 4), i4(5, 1)),
    'gather of slices': ('gather', lambda a, i: lax.gather(a, i, gather((1, 2), (), (0,)), (2, 4)),
                         f4(8, 4), i4(5, 1)),
    'gather in batches': ('gather',
        lambda a, i: lax.gather(a, i, gather((), (1,), (1,), (0,), (0,)), (1, 1)),
        f4(5, 4), i4(5, 3, 1)),
    'scatter of rows': ('scatter',
        lambda a, i, u: lax.scatter_add(a, i, u, scatter((1,), (0,), (0,))),
        f4(8, 4), i4(5, 1), f4(5, 4)),
    'scatter in batches': ('scatter',
        lambda a, i, u: lax.scatter_add(a, i, u, scatter((), (1,), (1,), (0,), (0,))),
        f4(5, 4), i4(5, 3, 1), f4(5, 3)),
    'convolution': ('convolution', lambda a, k: lax.conv_general_dilated(a, k, (1, 1), 'SAME'),
                    f4(8, 4, 16, 16), f4(6, 4, 3, 3)),
    'convolution by groups': ('convolution',
        lambda a, k: lax.conv_general_dilated(a, k, (1, 1), 'SAME', feature_group_count=2),
        f4(8, 4, 16, 16), f4(6, 2, 3, 3)),
    'reduce-window': ('reduce-window',
        lambda a: lax.reduce_window(a, 0., lax.add, (1, 2), (1, 2), 'VALID'), f4(8, 4)),
    'cumulative sum': ('reduce-window', lambda a: lax.cumsum(a, 1), f4(8, 4)),
    'fft': ('fft', lambda a: lax.fft(a, 'FFT', (4,)),
            jax.ShapeDtypeStruct((3, 2, 4), np.complex64)),
    'random bits': ('rng-bit-generator', lambda k: lax.rng_bit_generator(k, (8, 4)),
                    jax.ShapeDtypeStruct((4,), np.uint32)),
    'convert': ('convert', lambda a: lax.convert_element_type(a, np.int32), f4(8, 4)),
    'bits': ('bitcast-convert', lambda a: lax.bitcast_convert_type(a, np.int32), f4(8, 4)),
    'bytes': ('bitcast-convert', lambda a: lax.bitcast_convert_type(a, np.uint8), f4(8, 4)),
}
for s, t in (((8, 16), (2, 4, 16)), ((8, 16), (128,)), ((8, 16), (4, 8, 4)), ((4, 6), (8, 3)),
             ((4, 6), (6, 4)), ((2, 3, 4), (6, 4)), ((6, 4), (2, 3, 2, 2)), ((8, 1, 4), (8, 4)),
             ((8, 4), (8, 1, 4)), ((12, 5), (3, 20)), ((30,), (2, 3, 5)), ((8, 16), (16, 8))):
    cases[f'reshape {s} to {t}'] = 'reshape', lambda a, t=t: lax.reshape(a, t), f4(*s)
pipeline = 'builtin.module(func.func(sdy-populate-op-sharding-rules))'
said = {}
for name, (opcode, f, *args) in cases.items():
    module = jax.jit(f).lower(*args).compiler_ir()
    code = io.BytesIO()
    module.operation.write_bytecode(code)
    hlo = read_module(adapter.hlo_proto(code.getvalue()))
    with module.context:
        copy = ir.Module.parse(str(module))
        passmanager.PassManager.parse(pipeline).run(copy.operation)
    every = [i for c in hlo.computations for i in c.instructions if i.opcode == opcode]
    rules = [factor_rule(i) for i in every]
    said[name] = opcode, str(copy), [r and str(r) for r in rules]
print(json.dumps(said))
"""


def meaning(made: FactorRule) -> set[tuple[object, ...]]:
    """A rule without the numbers of its factors."""
    found = set()
    for factor, size in enumerate(made.sizes):
        places = [
            (side, n, d, factors.index(factor))
            for side, tensors in enumerate((made.operands, made.results))
            for n, tensor in enumerate(tensors)
            for d, factors in enumerate(tensor)
            if factor in factors
        ]
        if size > 1:
            kind = made.kinds[factor].name
            found.add((tuple(places), size, kind if len(places) > 1 else ""))
    return found


def shardy_rules(text: str, opcode: str) -> list[FactorRule]:
    """The rules that jaxlib's pass gave operations of one kind."""
    names = {"broadcast": "broadcast_in_dim", "dot": "dot_general"}
    wanted = names.get(opcode, opcode.replace("-", "_"))
    found = []
    for line in text.splitlines():
        begin = line.find("#sdy.op_sharding_rule<")
        if begin >= 0 and re.search(rf"stablehlo\.{wanted}\b", line):
            end = re.search(r">(?=[,}])(?!\()", line[begin:])
            assert end is not None
            found.append(read_rule(line[begin : begin + end.end()]))
    return found


@pytest.mark.long
def test_jaxlib_says_the_same() -> None:
    said = json.loads(run_jax(CASES, "cpu").splitlines()[-1])
    differ = set()
    for name, (opcode, text, ours) in said.items():
        theirs = shardy_rules(text, opcode)
        texts = [r.replace("need replication", "need_replication") for r in ours if r]
        made = [read_rule(f"#sdy.op_sharding_rule<{text}>") for text in texts]
        if not theirs and opcode in ("sort", "reduce-window", "scatter"):
            continue  # their bodies stand between the operation and its rule
        assert theirs, name
        if not any(meaning(a) == meaning(b) for a in made for b in theirs):
            differ.add(name)
    assert differ == set(KNOWN), (differ - set(KNOWN), set(KNOWN) - differ)
