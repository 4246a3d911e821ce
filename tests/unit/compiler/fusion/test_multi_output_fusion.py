"""Which kernels are joined, that their order stays free of circles, and what they compute."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from xladev import client
from xladev.compiler.fusion.instruction_fusion import Fusion
from xladev.compiler.fusion.multi_output_fusion import MAX_RESULTS, MultiOutputFusion
from xladev.compiler.support import YES, Support, no
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.names import with_unique_names
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.platforms.cpu.compiler import CpuCompiler

ADD = """add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
"""


def always(first: HloInstruction, second: HloInstruction) -> Support:
    return YES


def module_of(body: str, more: str = ADD) -> HloModule:
    return parse_module(f"HloModule m\n{more}ENTRY e {{\n{body}\n}}")


def joined(module: HloModule) -> HloModule:
    found = with_unique_names(MultiOutputFusion(always).run(Fusion(always).run(module)))
    verify(found)
    return found


def results(module: HloModule) -> list[list[str]]:
    """Opcodes of the results of each kernel of several results."""
    return [
        [i.opcode for i in f["calls"].root.operands]
        for f in module.entry.instructions
        if f.opcode == "fusion" and f.shape.is_tuple
    ]


def check(module: HloModule, arguments: Sequence[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Joined, evaluated and on the CPU, the program gives what it gave."""
    wanted = HloEvaluator().run(module, *arguments)
    found = HloEvaluator().run(joined(module), *arguments)
    monkeypatch.setattr(CpuCompiler, "can_share_kernel", lambda _, a, b: YES)
    native = client.compile(module, "cpu")(*arguments)
    for w, f, n in zip(wanted, found, native, strict=True):
        np.testing.assert_array_equal(w, f)
        np.testing.assert_allclose(n.numpy(), w, rtol=1e-6)


X = np.linspace(-2, 3, 6 * 8, dtype=np.float32).reshape(6, 8)

MOMENTS = """x = f32[6,8] parameter(0)
  z = f32[] constant(0)
  q = f32[6,8] multiply(x, x)
  s = f32[KEPT] reduce(x, z), dimensions={REDUCED}, to_apply=add
  t = f32[KEPT] reduce(q, z), dimensions={REDUCED}, to_apply=add
  ROOT r = (f32[KEPT], f32[KEPT]) tuple(s, t)"""


@pytest.mark.parametrize(("kept", "reduced"), [("6", "1"), ("8", "0"), ("", "0,1")])
def test_reduces_of_one_array(kept: str, reduced: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = module_of(MOMENTS.replace("KEPT", kept).replace("REDUCED", reduced))
    assert results(joined(module)) == [["reduce", "reduce"]]
    check(module, [X], monkeypatch)


def test_reduces_over_different_dimensions_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    module = module_of("""x = f32[6,8] parameter(0)
  z = f32[] constant(0)
  s = f32[6] reduce(x, z), dimensions={1}, to_apply=add
  t = f32[8] reduce(x, z), dimensions={0}, to_apply=add
  ROOT r = (f32[6], f32[8]) tuple(s, t)""")
    assert results(joined(module)) == []


def test_loops_that_read_one_array(monkeypatch: pytest.MonkeyPatch) -> None:
    module = module_of("""x = f32[6,8] parameter(0)
  y = f32[6,8] parameter(1)
  a = f32[6,8] add(x, y)
  b = f32[6,8] negate(x)
  c = f32[8,6] transpose(y), dimensions={1,0}
  ROOT r = (f32[6,8], f32[6,8], f32[8,6]) tuple(a, b, c)""")
    assert results(joined(module)) == [["add", "negate"]]
    check(module, [X, X * X], monkeypatch)


def test_a_producer_joins_its_consumers(monkeypatch: pytest.MonkeyPatch) -> None:
    module = module_of("""x = f32[6,8] parameter(0)
  z = f32[] constant(0)
  p = f32[6,8] exponential(x)
  s = f32[6] reduce(p, z), dimensions={1}, to_apply=add
  d = f32[6,8] add(p, x)
  ROOT r = (f32[6,8], f32[6], f32[6,8]) tuple(p, s, d)""")
    assert sorted(results(joined(module))[0]) == ["add", "exponential", "reduce"]
    check(module, [X], monkeypatch)


def test_a_producer_read_elsewhere_than_at_its_index_stays_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = module_of("""x = f32[8,8] parameter(0)
  p = f32[8,8] exponential(x)
  t = f32[8,8] transpose(p), dimensions={1,0}
  d = f32[8,8] add(p, t)
  ROOT r = (f32[8,8], f32[8,8]) tuple(p, d)""")
    assert results(joined(module)) == []
    check(module, [np.outer(X[0], X[1])], monkeypatch)


def test_what_is_stored_goes_along_inner_reductions_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reducing the outer loop first would store down the columns."""
    module = module_of("""x = f32[6,8] parameter(0)
  z = f32[] constant(0)
  p = f32[6,8] exponential(x)
  s = f32[8] reduce(p, z), dimensions={0}, to_apply=add
  ROOT r = (f32[6,8], f32[8]) tuple(p, s)""")
    assert results(joined(module)) == []


def test_no_joining_across_what_needs_one_and_is_needed_by_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = module_of(
        """x = f32[8] parameter(0)
  a = f32[8] negate(x)
  m = f32[8] sort(a), dimensions={0}, to_apply=lt
  b = f32[8] add(x, m)
  ROOT r = (f32[8], f32[8]) tuple(a, b)""",
        LESS,
    )
    assert results(joined(module)) == []
    check(module, [X[0]], monkeypatch)


LESS = """lt { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT }
"""


def random_graph(seed: int) -> HloModule:
    """Loops and sorts of loops on arrays of two sizes, wildly connected."""
    source = random.Random(seed)
    lines = ["p0 = f32[8] parameter(0)", "p1 = f32[9] parameter(1)", "z = f32[] constant(0)"]
    values = {8: ["p0"], 9: ["p1"]}
    for n in range(30):
        size = source.choice((8, 9))
        a, b = source.choice(values[size]), source.choice(values[size])
        text = source.choice((f"add({a}, {b})", f"negate({a})", f"sort({b}), to_apply=lt"))
        if source.random() < 0.2:
            other = source.choice(values[17 - size])
            text = (
                f"pad({other}, z), padding=0_1" if size == 9 else f"slice({other}), slice={{[1:9]}}"
            )
        dimensions = ", dimensions={0}" if "sort" in text else ""
        lines.append(f"v{n} = f32[{size}] {text}{dimensions}")
        values[size].append(f"v{n}")
    kept = [f"v{n}" for n in range(30)]
    shapes = ", ".join("f32[8]" if v in values[8] else "f32[9]" for v in kept)
    return module_of("\n".join([*lines, f"ROOT r = ({shapes}) tuple({', '.join(kept)})"]), LESS)


def test_no_joins_make_a_circle() -> None:
    count = 0
    arguments = [np.arange(size, dtype=np.float32) - 3 for size in (8, 9)]
    for seed in range(30):
        module = random_graph(seed)
        found = joined(module)
        count += len(results(found))
        wanted = HloEvaluator().run(module, *arguments)
        for a, b in zip(wanted, HloEvaluator().run(found, *arguments), strict=True):
            np.testing.assert_array_equal(a, b)
    assert count > 30


def test_control_dependencies_and_effects_count(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """x = f32[8] parameter(0)
  z = f32[] constant(0)
  a = f32[8] negate(x)
  e = f32[8] custom-call(a), custom_call_target="first", custom_call_has_side_effect=true
  f = f32[8] custom-call(x), custom_call_target="then", custom_call_has_side_effect=true
  b = f32[8] add(x, f)
  ROOT r = (f32[8], f32[8], f32[8]) tuple(a, b, e)"""
    assert results(joined(module_of(text))) == []
    pure = text.replace(", custom_call_has_side_effect=true", "")
    assert results(joined(module_of(pure))) == [["negate", "add"]]
    controlled = pure.replace('"then"', '"then", control-predecessors={e}')
    assert results(joined(module_of(controlled))) == []


def test_joining_draws_no_effect_past_another() -> None:
    """The second effect is an operand of the joined kernel, which would be before the first."""
    effect = 'custom-call(y), custom_call_target="log", custom_call_has_side_effect=true'
    module = module_of(f"""x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  a = f32[8] negate(x)
  e = f32[8] {effect}
  f = f32[8] {effect}
  b = f32[8] add(x, f)
  ROOT r = (f32[8], f32[8], f32[8]) tuple(a, b, e)""")
    order = [i.name for i in joined(module).entry.instructions]
    assert order.index("e") < order.index("f")


def test_results_and_instructions_are_bounded() -> None:
    lines = ["x = f32[8] parameter(0)", "i = f32[8] iota(), iota_dimension=0"]
    for n in range(20):
        lines.append(f"c{n} = f32[] constant({n})")
        lines.append(f"b{n} = f32[8] broadcast(c{n}), dimensions={{}}")
        lines.append(f"a{n} = f32[8] add(x, b{n})")
    shapes = ", ".join(["f32[8]"] * 20)
    lines.append(f"ROOT r = ({shapes}) tuple({', '.join(f'a{n}' for n in range(20))})")
    assert [len(r) for r in results(joined(module_of("\n".join(lines))))] == [MAX_RESULTS] * 2 + [4]


def test_the_backend_has_a_say() -> None:
    module = module_of(MOMENTS.replace("KEPT", "6").replace("REDUCED", "1"))
    asked: list[tuple[str, str]] = []

    def refuse(first: HloInstruction, second: HloInstruction) -> Support:
        asked.append((first.name, second.name))
        return no("no")

    fused = Fusion(always).run(module)
    assert MultiOutputFusion(refuse).run(fused) is fused
    assert len(asked) == 1


def test_the_cpu_joins_reduces_and_large_loops() -> None:
    compiler = CpuCompiler()
    moments = Fusion(always).run(module_of(MOMENTS.replace("KEPT", "6").replace("REDUCED", "1")))
    first, second = (i for i in moments.entry.instructions if i.opcode in ("reduce", "fusion"))
    assert compiler.can_share_kernel(first, second)
    small = module_of("x = f32[8] parameter(0)\n ROOT a = f32[8] negate(x)").entry.root
    assert not compiler.can_share_kernel(small, small)
    assert compiler.can_share_kernel(small, first)
    last = "x = f32[8] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[] reduce(x, z), "
    last += "dimensions={0}, to_apply=add"
    in_order = module_of(last, ADD.replace("add(a, b)", "subtract(a, b)")).entry.root
    assert not compiler.can_share_kernel(small, in_order)
    size = compiler.describe().cache_nbytes
    large = module_of(f"x = f32[{size}] parameter(0)\n ROOT a = f32[{size}] negate(x)").entry.root
    assert compiler.can_share_kernel(large, large)


def test_a_product_with_an_epilogue_is_no_loop() -> None:
    module = module_of("""x = f32[4,4] parameter(0)
  y = f32[4,4] parameter(1)
  d = f32[4,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[4,4] add(d, x)
  b = f32[4,4] negate(x)
  ROOT r = (f32[4,4], f32[4,4]) tuple(a, b)""")
    fused = Fusion(always, epilogues=frozenset({"dot"})).run(module)
    assert [len(i["calls"].instructions) for i in fused.entry.instructions if i.called] == [4]
    assert MultiOutputFusion(always).run(fused) is fused


def test_long_sums_together_are_as_exact_as_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums go by parts, an extreme beside them does not; each gives what it gives alone."""
    size = 3000
    module = module_of(
        f"""x = f32[2,{size}] parameter(0)
  z = f32[] constant(0)
  n = f32[] constant(-inf)
  q = f32[2,{size}] multiply(x, x)
  s = f32[2] reduce(x, z), dimensions={{1}}, to_apply=add
  t = f32[2] reduce(q, z), dimensions={{1}}, to_apply=add
  m = f32[2] reduce(x, n), dimensions={{1}}, to_apply=most
  ROOT r = (f32[2], f32[2], f32[2]) tuple(s, t, m)""",
        ADD + ADD.replace("add", "most").replace("most(", "maximum("),
    )
    x = np.random.default_rng(0).standard_normal((2, size), np.float32)
    found = []
    for answer in (YES, no("apart")):
        monkeypatch.setattr(CpuCompiler, "can_share_kernel", lambda _, a, b, say=answer: say)
        found.append([r.numpy() for r in client.compile(module, "cpu")(x)])
    for together, alone in zip(*found, strict=True):
        np.testing.assert_array_equal(together, alone)
    np.testing.assert_allclose(found[0][0], x.sum(1, np.float64), rtol=1e-5)


SCALARS = """x = f32[] parameter(0)
  y = f32[] parameter(1)
  v = f32[40] parameter(2)
  a = f32[] sine(x)
  b = f32[] cosine(y)
  w = f32[40] broadcast(a), dimensions={}
  c = f32[40] multiply(v, w)
  s = f32[] constant(0)
  r = f32[] reduce(c, s), dimensions={0}, to_apply=add
  d = f32[] exponential(r)
  e.1 = f32[] multiply(d, b)
  ROOT t = (f32[], f32[], f32[], f32[40]) tuple(a, b, e.1, c)"""


def test_kernels_of_one_element_are_joined_whatever_they_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = module_of(SCALARS)
    assert ["sine", "cosine"] in results(joined(module))
    rng = np.random.default_rng(0)
    arguments = [rng.standard_normal(n).astype(np.float32) for n in ((), (), 40)]
    check(module, arguments, monkeypatch)
