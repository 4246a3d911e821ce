"""Parts of a loop's state that its body passes on: read where they are, without a copy."""

from tests.tools.fork_programs import loop, run_loop
from xladev.compiler.buffers.buffer_assignment import assign_buffers
from xladev.compiler.plan.kernel_plan import Copy, Loop, Space, all_buffers
from xladev.compiler.plan.kernel_table import ProgramKernels, no_code
from xladev.hlo.text import parse_module

HEAD = "ENTRY e {\n  a = f32[64] parameter(0)\n  b = f32[64] parameter(1)\n"
NBYTES = 256


def plan_of(body, loops=None):
    text = f"HloModule m\n{loops or loop(0)}{HEAD}{body}}}\n"
    return assign_buffers(parse_module(text), ProgramKernels(no_code))


def copied(plan):
    """Bytes that each copy before the loop moves."""
    return [step.source.nbytes for step in plan.steps if isinstance(step, Copy)]


def test_a_part_that_is_passed_on_is_not_copied():
    plan = plan_of(run_loop(0, "u", "a", "b") + "  ROOT r = f32[64] negate(u)\n")
    assert copied(plan).count(NBYTES) == 1
    (step,) = (s for s in plan.steps if isinstance(s, Loop))
    read = {b.index for b in all_buffers(step.body) if b.space is Space.ARGUMENT}
    assert read == {1}


def test_a_part_that_the_body_changes_has_memory_of_its_own():
    changed = loop(0).replace("tuple(j, y, k)", "tuple(j, y, m)")
    plan = plan_of(run_loop(0, "u", "a", "b") + "  ROOT r = f32[64] negate(u)\n", changed)
    assert copied(plan).count(NBYTES) == 2


def test_a_part_that_is_read_after_the_loop_has_memory_of_its_own():
    body = run_loop(0, "u", "a", "b") + "  k = f32[64] get-tuple-element(u.w), index=2\n"
    plan = plan_of(body + "  ROOT r = f32[64] add(u, k)\n")
    assert copied(plan).count(NBYTES) == 2


def test_parts_that_change_places_have_memory_of_their_own():
    swapped = loop(0).replace("tuple(j, y, k)", "tuple(j, k, x)")
    plan = plan_of(run_loop(0, "u", "a", "b") + "  ROOT r = f32[64] negate(u)\n", swapped)
    assert copied(plan).count(NBYTES) == 2


def test_one_value_twice_in_the_state_is_copied_for_the_part_that_changes():
    plan = plan_of(
        "  t = f32[64] tanh(a)\n" + run_loop(0, "u", "t", "t") + "  ROOT r = f32[64] negate(u)\n"
    )
    assert copied(plan).count(NBYTES) == 1
    (step,) = (s for s in plan.steps if isinstance(s, Loop))
    written = {
        b
        for inner in step.body
        for b in (inner.buffers[-1:] if not isinstance(inner, Copy) else (inner.destination,))
    }
    (copy,) = (s for s in plan.steps if isinstance(s, Copy) and s.source.nbytes == NBYTES)
    assert copy.source not in written
