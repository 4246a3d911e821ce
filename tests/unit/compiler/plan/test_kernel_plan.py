"""Buffer assignment, checked by running its plans on an executor that evaluates each kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.unit.compiler.evaluating_backend import EvaluatingCompiler, check, run
from tests.unit.loops import around, counted
from xladev.compiler.buffers.buffer_assignment import assign_buffers
from xladev.compiler.buffers.in_place import in_place_pairs
from xladev.compiler.executable import Executable
from xladev.compiler.fusion.instruction_fusion import MAX_GROUP, Fusion
from xladev.compiler.options import CompileOptions
from xladev.compiler.plan.kernel_plan import KernelPlan, Loop, RunKernel, Space
from xladev.compiler.plan.kernel_table import ProgramKernels
from xladev.compiler.plan.plan_file import plan_executable, read_plan
from xladev.errors import FormatError
from xladev.hlo.text import parse_module


def plan_of(text: str) -> KernelPlan:
    module = Fusion(EvaluatingCompiler().can_fuse).run(parse_module(text))
    return assign_buffers(module, ProgramKernels())


X = np.arange(4, dtype=np.float32)
Y = X * 10 + 1

ROTATING_LOOP = """
HloModule rotate
cond { s = (s32[], f32[4], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT lt = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[4], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[4] get-tuple-element(s), index=1
  b = f32[4] get-tuple-element(s), index=2
  c = f32[4] get-tuple-element(s), index=3
  one = s32[] constant(1)
  next = s32[] add(i, one)
  sum = f32[4] add(a, b)
  ROOT t = (s32[], f32[4], f32[4], f32[4]) tuple(next, b, c, sum) }
ENTRY e { x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  zero = s32[] constant(0)
  init = (s32[], f32[4], f32[4], f32[4]) tuple(zero, x, y, x)
  w = (s32[], f32[4], f32[4], f32[4]) while(init), condition=cond, body=body
  ROOT r = f32[4] get-tuple-element(w), index=3 }
"""


def test_loop_states_may_swap_places() -> None:
    check(ROTATING_LOOP, X, Y)


def test_a_loop_counter_is_updated_in_place() -> None:
    plan = plan_of(ROTATING_LOOP)
    (loop,) = [s for s in plan.steps if isinstance(s, Loop)]
    first = loop.body[0]
    assert isinstance(first, RunKernel)
    assert first.buffers[0] == first.buffers[-1]


def test_old_state_is_kept_while_it_is_read() -> None:
    iteration = """sorted = f32[4] sort(x), dimensions={0}, to_apply=gt
  reversed = f32[4] reverse(x), dimensions={0}
  y = f32[4] add(sorted, reversed)"""
    greater = """gt { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT c = pred[] compare(p, q), direction=GT }
"""
    check(greater + counted("f32[4]", iteration, 3) + around("f32[4]"), X)


def test_results_may_repeat_and_pass_parameters_on() -> None:
    text = """HloModule m
ENTRY e { x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  s = f32[4] add(x, y)
  c = f32[4] constant({1, 2, 3, 4})
  ROOT t = (f32[4], f32[4], f32[4], f32[4], f32[4]) tuple(y, s, s, c, x) }"""
    check(text, X, Y)


def test_constants_may_be_nested_tuples() -> None:
    text = """HloModule m
ENTRY e { x = f32[4] parameter(0)
  c = ((f32[], f32[4]), s32[]) constant(((1, {1, 2, 3, 4}), 5))
  p = (f32[], f32[4]) get-tuple-element(c), index=0
  v = f32[4] get-tuple-element(p), index=1
  n = s32[] get-tuple-element(c), index=1
  s = f32[4] add(x, v)
  ROOT t = (f32[4], s32[]) tuple(s, n) }"""
    check(text, X)


def test_donated_parameters_may_be_overwritten_only_after_their_last_use() -> None:
    text = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }
ENTRY e { x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  s = f32[4] add(x, y)
  d = f32[4] subtract(x, y)
  ROOT t = (f32[4], f32[4]) tuple(s, d) }"""
    found = run(text, (X, Y))
    np.testing.assert_array_equal(found[0], X + Y)
    np.testing.assert_array_equal(found[1], X - Y)


def test_swapping_donated_parameters() -> None:
    text = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }
ENTRY e { x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  ROOT t = (f32[4], f32[4]) tuple(y, x) }"""
    found = run(text, (X, Y))
    np.testing.assert_array_equal(found[0], Y)
    np.testing.assert_array_equal(found[1], X)


@pytest.mark.parametrize("index", [-1, 0, 1, 2, 7])
def test_branches_do_not_disturb_what_is_used_later(index: int) -> None:
    check(
        """HloModule m
a { p = f32[4] parameter(0)
  n = f32[4] negate(p)
  ROOT m = f32[4] multiply(n, n) }
b { p = f32[4] parameter(0)
  ROOT r = f32[4] reverse(p), dimensions={0} }
c { p = f32[4] parameter(0)
  ROOT r = f32[4] copy(p) }
ENTRY e { i = s32[] parameter(0)
  x = f32[4] parameter(1)
  t = f32[4] exponential(x)
  s = f32[4] conditional(i, t, t, t), branch_computations={a, b, c}
  ROOT u = (f32[4], f32[4]) tuple(s, t) }""",
        np.int32(index),
        X,
    )


def test_conditions_do_not_disturb_the_state() -> None:
    check(
        """HloModule m
cond { s = (f32[4]) parameter(0)
  a = f32[4] get-tuple-element(s), index=0
  n = f32[4] negate(a)
  z = f32[] constant(0)
  m = f32[] reduce(n, z), dimensions={0}, to_apply=add
  k = f32[] constant(-1000)
  ROOT g = pred[] compare(m, k), direction=GT }
add { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT c = f32[] add(p, q) }
body { s = (f32[4]) parameter(0)
  a = f32[4] get-tuple-element(s), index=0
  d = f32[4] add(a, a)
  ROOT t = (f32[4]) tuple(d) }
ENTRY e { x = f32[4] parameter(0)
  init = (f32[4]) tuple(x)
  w = (f32[4]) while(init), condition=cond, body=body
  r = f32[4] get-tuple-element(w), index=0
  ROOT q = f32[4] reverse(r), dimensions={0} }""",
        Y,
    )


def test_an_update_in_a_loop_copies_nothing() -> None:
    iteration = """f = f32[] convert(i)
  u = f32[1] reshape(f)
  y = f32[64] dynamic-update-slice(x, u, i)"""
    text = counted("f32[64]", iteration, 64) + around("f32[64]")
    check(text, np.zeros(64, np.float32))
    (loop,) = [s for s in plan_of(text).steps if isinstance(s, Loop)]
    assert all(isinstance(s, RunKernel) for s in loop.body)
    update = next(s for s in loop.body if isinstance(s, RunKernel) and s.buffers[-1].nbytes == 256)
    assert update.buffers[-1] in update.buffers[:-1]


def test_equal_kernels_are_one() -> None:
    plan = plan_of("""HloModule m
ENTRY e { x = f32[4] parameter(0)
  a = f32[4] sort(x), dimensions={0}, to_apply=lt
  b = f32[4] sort(a), dimensions={0}, to_apply=lt
  ROOT c = f32[4] sort(b), dimensions={0}, to_apply=lt }
lt { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT c = pred[] compare(p, q), direction=LT }""")
    assert len(plan.kernels) == 1
    assert len(plan.steps) == 3


def test_temporaries_share_memory() -> None:
    lines = "\n".join(f"  a{n} = f32[64] reverse(a{n - 1}), dimensions={{0}}" for n in range(1, 30))
    last = "ROOT s = f32[1] slice(a29), slice={[0:1]}"
    text = f"HloModule m\nENTRY e {{ a0 = f32[64] parameter(0)\n{lines}\n{last}\n}}"
    assert assign_buffers(parse_module(text), ProgramKernels()).scratch_nbytes == 2 * 256


def test_temporaries_lie_in_results_that_are_not_there_yet() -> None:
    text = """HloModule m
ENTRY e { x = f32[64] parameter(0)
  a = f32[64] reverse(x), dimensions={0}
  b = f32[64] cosine(a)
  c = f32[64] reverse(b), dimensions={0}
  d = f32[64] sine(c)
  ROOT t = (f32[64], f32[64]) tuple(c, d) }"""
    check(text, np.arange(64, dtype=np.float32))
    module = parse_module(text)
    plan = assign_buffers(module, ProgramKernels())
    assert plan.scratch_nbytes == 0
    spaces = [b.space for s in plan.steps if isinstance(s, RunKernel) for b in s.buffers]
    assert set(spaces) == {Space.ARGUMENT, Space.RESULT}


def test_several_temporaries_lie_in_one_result() -> None:
    text = """HloModule m
ENTRY e { x = f32[64] parameter(0)
  a = f32[64] reverse(x), dimensions={0}
  b = f32[64] cosine(x)
  s = f32[] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT r = f32[256] broadcast(s), dimensions={} }"""
    check(text, np.arange(64, dtype=np.float32))
    plan = assign_buffers(parse_module(text), ProgramKernels())
    assert plan.scratch_nbytes == 64, "the sum alone"


def test_temporaries_stay_out_of_donated_arguments() -> None:
    """The argument is still read when the temporary is made."""
    text = """HloModule m, input_output_alias={ {1}: (0, {}, may-alias) }
ENTRY e { x = f32[64] parameter(0)
  a = f32[64] reverse(x), dimensions={0}
  b = f32[64] reverse(a), dimensions={0}
  s = f32[64] add(b, x)
  r = f32[64] reverse(s), dimensions={0}
  c = f32[1] slice(r), slice={[0:1]}
  ROOT t = (f32[1], f32[64]) tuple(c, s) }"""
    x = np.arange(64, dtype=np.float32)
    found = run(text, (x,))
    np.testing.assert_array_equal(found[1], 2 * x)
    assert assign_buffers(parse_module(text), ProgramKernels(), [(1, 0)]).scratch_nbytes >= 256


def test_a_value_that_others_read_too_is_not_overwritten_on_its_way() -> None:
    text = """HloModule m
ENTRY e { x = f32[64] parameter(0)
  g = f32[64] sort(x), dimensions={0}, to_apply=lt
  d = f32[64] multiply(g, g)
  k = f32[64] reverse(g), dimensions={0}
  l = f32[64] sort(k), dimensions={0}, to_apply=lt
  ROOT t = (f32[64], f32[64]) tuple(d, l) }
lt { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT c = pred[] compare(p, q), direction=LT }"""
    check(text, np.arange(64, dtype=np.float32) * 7 % 11)


def test_a_value_on_its_way_to_a_result_lies_there() -> None:
    """The gradient is read by nobody but the update, element by element."""
    text = """HloModule m
ENTRY e { w = f32[64] parameter(0)
  x = f32[64] parameter(1)
  g = f32[64] reverse(x), dimensions={0}
  h = f32[64] sort(g), dimensions={0}, to_apply=lt
  n = f32[64] subtract(w, h)
  ROOT t = (f32[64]) tuple(n) }
lt { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT c = pred[] compare(p, q), direction=LT }"""
    x = np.arange(64, dtype=np.float32)
    check(text, x, x * 7 % 11)
    last = assign_buffers(parse_module(text), ProgramKernels()).steps[-1]
    assert isinstance(last, RunKernel)
    assert last.buffers[1] == last.buffers[2]
    assert last.buffers[2].space is Space.RESULT


def test_in_place_pairs_need_the_same_index() -> None:
    text = """HloModule m
ENTRY e { x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  r = f32[4] reverse(y), dimensions={0}
  s = f32[4] add(x, r)
  ROOT t = f32[4] multiply(s, x) }"""
    assert in_place_pairs(parse_module(text).entry) == {(0, 0)}
    both = text.replace("multiply(s, x)", "multiply(s, y)")
    assert in_place_pairs(parse_module(both).entry) == {(0, 0)}


def _executable() -> Executable:
    module = parse_module(ROTATING_LOOP)
    return EvaluatingCompiler().compile(module, CompileOptions())


def test_plans_survive_the_file() -> None:
    executable = _executable()
    plan = read_plan(Executable.from_bytes(executable.to_bytes()))
    assert plan == read_plan(executable)
    assert any(isinstance(s, Loop) for s in plan.steps)
    assert any(s.space is Space.CONSTANT for s in _slices(plan.steps))


def _slices(steps: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for step in steps:
        for name in ("buffers",):
            found.extend(getattr(step, name, ()))
        for name in ("source", "destination"):
            if hasattr(step, name):
                found.append(getattr(step, name))
        if isinstance(step, Loop):
            found.extend(_slices((*step.condition, *step.body)))
    return found


def test_damaged_plans_are_refused() -> None:
    executable = _executable()
    with pytest.raises(FormatError):
        read_plan(Executable(executable.signature, executable.payload[:40]))
    with pytest.raises(FormatError):
        read_plan(Executable(executable.signature, b"nothing"))
    assert plan_executable is not None


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("n = f32[4] negate(x)\n r = f32[4] reverse(n), dimensions={0}", "f32[4] add(n, r)"),
        ("", "f64[4] convert(x)"),
        (
            "z = s32[] constant(0)\n d = f32[2] dynamic-slice(x, z), dynamic_slice_sizes={2}",
            "f32[4] dynamic-update-slice(x, d, z)",
        ),
    ],
    ids=["read elsewhere too", "wider elements", "updated from itself"],
)
def test_kernels_that_must_not_work_in_place(body: str, result: str) -> None:
    module = parse_module(f"ENTRY e {{ x = f32[4] parameter(0)\n {body}\n ROOT o = {result} }}")
    assert in_place_pairs(module.entry) == frozenset()


def test_an_operand_given_twice_is_not_overwritten() -> None:
    plan = plan_of(
        """HloModule m
add { p = s32[] parameter(0)
  q = s32[] parameter(1)
  ROOT c = s32[] add(p, q) }
gt { p = s32[] parameter(0)
  q = s32[] parameter(1)
  ROOT c = pred[] compare(p, q), direction=GT }
ENTRY e { x = s32[4] parameter(0)
  i = s32[4,1] parameter(1)
  t = s32[4] sort(x), dimensions={0}, to_apply=gt
  s = s32[4] scatter(t, i, t), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  ROOT r = s32[4] sort(s), dimensions={0}, to_apply=gt }"""
    )
    scatter = plan.steps[1]
    assert isinstance(scatter, RunKernel)
    assert scatter.buffers[-1] not in scatter.buffers[:-1]


def test_states_that_begin_as_one_value_have_buffers_of_their_own() -> None:
    text = ROTATING_LOOP.replace("tuple(zero, x, y, x)", "tuple(zero, v, v, y)")
    text = text.replace("  zero = s32", "  v = f32[4] reverse(x), dimensions={0}\n  zero = s32")
    check(text.replace("f32[4] add(a, b)", "f32[4] subtract(a, b)"), X, Y)


def test_long_expressions_become_several_kernels() -> None:
    steps = "\n".join(f"a{n + 1} = f32[4] add(a{n}, y)" for n in range(200))
    plan = plan_of(
        f"ENTRY e {{ a0 = f32[4] parameter(0)\n y = f32[4] parameter(1)\n {steps}\n"
        " ROOT r = f32[4] negate(a200) }"
    )
    assert len(plan.steps) == -(-201 // MAX_GROUP)


def test_reshapes_between_kernels_are_no_steps() -> None:
    text = """HloModule m
gt { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT c = pred[] compare(p, q), direction=GT }
ENTRY e { x = f32[6] parameter(0)
  a = f32[6] sort(x), dimensions={0}, to_apply=gt
  m = f32[2,3] reshape(a)
  b = f32[2,3] sort(m), dimensions={1}, to_apply=gt
  n = f32[3,2] reshape(b)
  c = f32[3,2] sort(n), dimensions={0}, to_apply=gt
  ROOT r = (f32[3,2], f32[3,2], f32[2,3]) tuple(c, n, m) }"""
    assert [type(step) for step in plan_of(text).steps] == [RunKernel] * 3
    check(text, np.array([3, 1, 2, 6, 5, 4], np.float32))


TWO_UPDATES = """zero = s32[] constant(0)
  first = f32[1] dynamic-slice(x, zero), dynamic_slice_sizes={1}
  twice = f32[1] add(first, first)
  once = f32[4] dynamic-update-slice(x, twice, one)
  two = s32[] constant(2)
  second = f32[1] dynamic-slice(once, one), dynamic_slice_sizes={1}
  negated = f32[1] negate(second)
  y = f32[4] dynamic-update-slice(once, negated, two)"""


def test_updates_one_after_the_other_are_all_in_place_in_a_loop() -> None:
    """Between them parts are read, by kernels of their own: else each would copy the array."""
    text = counted("f32[4]", TWO_UPDATES, 3) + around("f32[4]")
    check(text, X)
    plan = plan_of(text)
    (loop,) = [s for s in plan.steps if isinstance(s, Loop)]
    updates = [s for s in loop.body if isinstance(s, RunKernel) and s.buffers[-1].nbytes == 16]
    assert len(updates) == 2
    assert all(s.buffers[0] == s.buffers[-1] for s in updates)
    assert updates[0].buffers[-1] == updates[1].buffers[-1]


def test_what_is_read_after_an_update_is_kept() -> None:
    iteration = (
        TWO_UPDATES.replace("  y = f32[4] dyn", "  new = f32[4] dyn")
        + """
  reversed = f32[4] reverse(once), dimensions={0}
  y = f32[4] subtract(new, reversed)"""
    )
    check(counted("f32[4]", iteration, 3) + around("f32[4]"), X)
