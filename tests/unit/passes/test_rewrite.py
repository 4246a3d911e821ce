"""Rules replace what they match and keep what belongs to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import pytest

from tests.unit.passes.checks import listing
from xladev.errors import PassError
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.rebuild import rebuild
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes import pattern as m
from xladev.passes.pass_ import HloModulePass
from xladev.passes.pipeline import HloPassPipeline
from xladev.passes.rewrite import LEAST_REMEMBERED, Rewriter, RewriteRule, RuleSet, rewrite


@rewrite(m.Add(m.Op("x"), m.All(0)))
def add_zero(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """x + 0 = x."""
    return x


@rewrite(m.Multiply(m.Op("x"), m.All(2)))
def double(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """x * 2 = x + x."""
    return r.add(x, x)


@rewrite(m.Negate(m.Negate(m.Op("x")).one_use()))
def negate_twice(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
    """-(-x) = x."""
    return x


def entry(body: str) -> HloModule:
    return parse_module(f"HloModule m\nENTRY e {{ x = f32[2] parameter(0)\n{body} }}")


def applied(body: str, *rules: RewriteRule) -> HloModule:
    after = RuleSet(rules).run(entry(body))
    verify(after)
    return after


def test_chains_are_rewritten_in_one_sweep() -> None:
    lines = ["z = f32[] constant(0)", "b = f32[2] broadcast(z)", "v0 = f32[2] add(x, b)"]
    lines += [f"v{n} = f32[2] add(v{n - 1}, b)" for n in range(1, 1000)]
    after = applied("\n".join([*lines, "ROOT r = f32[2] negate(v999)"]), add_zero)
    assert after.instruction_count == 2, listing(after)


def test_metadata_sharding_and_device_are_kept() -> None:
    after = applied(
        "two = f32[] constant(2)  b = f32[2] broadcast(two)\n"
        'ROOT r = f32[2]{0} multiply(x, b), metadata={op_name="mul"}, sharding={replicated}, '
        'frontend_attributes={a="1"}',
        double,
    )
    root = after.entry.root
    assert root.opcode == "add"
    assert root.note.metadata.op_name == "mul"
    assert root.note.sharding is not None
    assert root.note.frontend_attributes == (("a", "1"),)
    assert str(root.shape) == "f32[2]{0}"


def test_control_dependencies_are_kept_or_nothing_happens() -> None:
    body = (
        "s = f32[2] sine(x)  {}\n"
        "t = f32[2] cosine(x), control-predecessors={{k}}\n"
        "ROOT r = (f32[2], f32[2], f32[2]) tuple(s, k, t)"
    )
    two = "w = f32[] constant(2)  b = f32[2] broadcast(w)  k = f32[2] multiply(x, b)"
    after = applied(body.format(two + ", control-predecessors={s}"), double)
    by_opcode = {i.opcode: i for i in after.entry.instructions}
    assert by_opcode["add"].note.control_predecessors == (by_opcode["sine"],)
    assert by_opcode["cosine"].note.control_predecessors == (by_opcode["add"],)
    zero = "w = f32[] constant(0)  b = f32[2] broadcast(w)  k = f32[2] add(x, b)"
    assert "add" in {i.opcode for i in applied(body.format(zero), add_zero).entry.instructions}


def test_values_used_twice_are_left_to_rules_that_want_one_use() -> None:
    body = "n = f32[2] negate(x)  p = f32[2] negate(n)  ROOT r = (f32[2], f32[2]) tuple(p, {})"
    assert applied(body.format("x"), negate_twice).instruction_count == 2
    assert applied(body.format("n"), negate_twice).instruction_count == 4


def test_nothing_is_merged_across_devices() -> None:
    module = entry("n = f32[2] negate(x)  ROOT p = f32[2] negate(n)")
    inner = module.entry.instructions[1]
    there = replace(inner, note=replace(inner.note, device="npu"))
    module = replace(module, entry=rebuild(module.entry, {inner: there}))
    assert RuleSet([negate_twice]).run(module) is module


def test_a_rule_that_changes_the_shape_is_an_error() -> None:
    @rewrite(m.Negate(m.Op("x")))
    def wrong(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
        return r.reshape(x, (1, 2))

    with pytest.raises(PassError, match="rewrite wrong gives f32"):
        applied("ROOT r = f32[2] negate(x)", wrong)


def test_parameters_must_be_the_captures() -> None:
    with pytest.raises(PassError, match=r"takes \['y'\]"):

        @rewrite(m.Negate(m.Op("x")))
        def wrong(r: Rewriter, root: HloInstruction, y: HloInstruction) -> HloInstruction:
            return y


def test_nothing_to_do_gives_the_same_module() -> None:
    module = entry("ROOT r = f32[2] negate(x)")
    assert RuleSet([negate_twice, add_zero]).run(module) is module


@pytest.mark.parametrize("count", [LEAST_REMEMBERED, LEAST_REMEMBERED // 2])
@pytest.mark.parametrize("counts_uses", [False, True])
def test_what_no_rule_fits_is_not_tried_again(count: int, counts_uses: bool) -> None:
    seen: list[str] = []

    @rewrite(m.Negate(m.Op("x")), counts_uses=counts_uses)
    def never(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction | None:
        seen.append(root.name)
        return None

    names = ["x", *(f"v{n}" for n in range(1, count))]
    lines = [f"{b} = f32[2] negate({a})" for a, b in pairwise(names)]
    module = entry("\n".join([*lines[:-1], f"ROOT {lines[-1]}"]))
    rules = RuleSet([never])
    assert rules.run(rules.run(module)) is module
    again = counts_uses and count < LEAST_REMEMBERED
    assert seen == names[1:] * (2 if again else 1)


def test_an_instruction_that_stayed_is_tried_again_where_uses_count() -> None:
    module = entry("a = f32[2] negate(x)  b = f32[2] negate(a)  ROOT r = f32[2] add(a, b)")

    @rewrite(m.Negate(m.Negate(m.Op("x")).one_use()))
    def alone(r: Rewriter, root: HloInstruction, x: HloInstruction) -> HloInstruction:
        return x

    @rewrite(m.Add(m.Op("x"), m.Op("y")))
    def second(
        r: Rewriter, root: HloInstruction, x: HloInstruction, y: HloInstruction
    ) -> HloInstruction:
        return y

    rules = RuleSet([alone, second])
    once = rules.run(module)
    assert [i.opcode for i in once.entry.instructions] == ["parameter", "negate", "negate"]
    assert [i.opcode for i in rules.run(once).entry.instructions] == ["parameter"]


def test_what_a_rule_changed_is_changed_again() -> None:
    body = "\n".join(f"v{n} = f32[2] negate(x)" for n in range(LEAST_REMEMBERED))
    two = "two = f32[] constant(2)  b = f32[2] broadcast(two)"
    module = entry(f"{body}\n{two}\nROOT r = f32[2] multiply(v0, b)")
    rules = RuleSet([double])
    for _ in range(2):
        assert rules.run(module).entry.root.opcode == "add"


@dataclass(frozen=True)
class _Counted(HloModulePass):
    """Negates the root so often, and notes when it is run."""

    name: str  # type: ignore[misc]
    times: int
    runs: list[str]

    def run(self, module: HloModule) -> HloModule:
        """Negates, or leaves the module as it is."""
        self.runs.append(self.name)
        if self.runs.count(self.name) > self.times:
            return module
        old = module.entry
        root = Rewriter(old).elementwise("negate", old.root)
        return replace(module, entry=rebuild(old, {}, root=root))


def test_passes_do_not_see_again_what_they_left_as_it_is() -> None:
    runs: list[str] = []
    passes = tuple(_Counted(name, times, runs) for name, times in (("a", 0), ("b", 1), ("c", 0)))
    after = HloPassPipeline("p", passes, limit=5).run(entry("ROOT r = f32[2] negate(x)"))
    assert after.instruction_count == 3
    assert runs == ["a", "b", "c", "a", "b"]
