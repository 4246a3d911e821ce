"""Programs that invite wrong sharing of memory: by plans, on the CPU, and with donated arrays."""

import random
from typing import Any

import numpy as np
import pytest

from tests.unit.compiler.evaluating_backend import check, run
from xladev import client
from xladev.errors import XladevError
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.text import parse_module

X = np.arange(1, 5, dtype=np.float32)
Y = X * 10 + 1
STATE = "(s32[], f32[4], f32[4])"

LOOP = """
cond {{ s = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({iterations})
  ROOT lt = pred[] compare(i, n), direction=LT }}
body {{ s = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[4] get-tuple-element(s), index=1
  b = f32[4] get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  {body}
  ROOT t = (s32[], f32[4], f32[4]) tuple(next, {first}, {second}) }}
gt {{ p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT c = pred[] compare(p, q), direction=GT }}
"""


def verify(text: str, *arguments: Any) -> None:
    """The same by the evaluator, by plans in many variants, and on the CPU."""
    check(text, *arguments)
    value = HloEvaluator().run(parse_module(text), *arguments)
    wanted = value if isinstance(value, tuple) else (value,)
    kept = [np.array(a, copy=True) for a in arguments]
    found = client.compile(parse_module(text), "cpu")(*arguments)
    for a, b in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        np.testing.assert_array_equal(a.numpy(), b)
    for before, after in zip(kept, arguments, strict=True):
        np.testing.assert_array_equal(before, after)


# Loops

BODIES = {
    "passes both on": ("", "a", "b"),
    "swaps": ("", "b", "a"),
    "repeats one": ("", "b", "b"),
    "sums and keeps": ("s0 = f32[4] add(a, b)", "b", "s0"),
    "gives one value twice": ("s0 = f32[4] add(a, b)", "s0", "s0"),
    "overwrites what is read later": (
        "n = f32[4] negate(a)\n  r = f32[4] reverse(a), dimensions={0}\n  m = f32[4] add(b, r)",
        "n",
        "m",
    ),
    "swaps what it computes": ("n = f32[4] negate(a)\n  m = f32[4] add(b, b)", "m", "n"),
    "reads its old state at another index": (
        "r = f32[4] reverse(b), dimensions={0}\n  m = f32[4] add(b, r)",
        "m",
        "a",
    ),
    "sorts through temporaries": (
        "o = f32[4] sort(b), dimensions={0}, to_apply=gt\n"
        "  k = f32[4] reverse(o), dimensions={0}\n  m = f32[4] subtract(a, k)",
        "b",
        "m",
    ),
    "has a value on its way beside the old state": (
        "r = f32[4] reverse(b), dimensions={0}\n  o = f32[4] sort(r), dimensions={0}, "
        "to_apply=gt\n  m = f32[4] multiply(o, a)\n  k = f32[4] reverse(a), dimensions={0}",
        "m",
        "k",
    ),
}

ENTRIES = {
    "from two parameters": ("init = STATE tuple(zero, x, y)", "w1, w2, x"),
    "from one parameter twice": ("init = STATE tuple(zero, x, x)", "w1, w2, y"),
    "from one temporary twice": (
        "v = f32[4] sine(x)\n  init = STATE tuple(zero, v, v)",
        "w1, w2, v",
    ),
    "from a constant twice": (
        "v = f32[4] constant({4, 3, 2, 1})\n  init = STATE tuple(zero, v, v)",
        "w1, w2, v",
    ),
    "with results repeated": (
        "v = f32[4] cosine(y)\n  init = STATE tuple(zero, x, v)",
        "w2, w2, w1",
    ),
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("body", BODIES)
def test_loops(body: str, entry: str) -> None:
    lines, first, second = BODIES[body]
    before, after = ENTRIES[entry]
    loop = LOOP.format(iterations=4, body=lines, first=first, second=second)
    text = f"""HloModule m
{loop}
ENTRY e {{ x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  zero = s32[] constant(0)
  {before.replace("STATE", STATE)}
  w = {STATE} while(init), condition=cond, body=body
  w1 = f32[4] get-tuple-element(w), index=1
  w2 = f32[4] get-tuple-element(w), index=2
  ROOT r = (f32[4], f32[4], f32[4]) tuple({after}) }}"""
    check(text, X, Y)
    check(text.replace("constant(4)", "constant(0)"), X, Y)
    if entry == "from two parameters":
        verify(text, X, Y)


def test_loops_in_loops_with_swapped_state() -> None:
    outer = """
ocond { s = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT lt = pred[] compare(i, n), direction=LT }
obody { s = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[4] get-tuple-element(s), index=1
  b = f32[4] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  init = (s32[], f32[4], f32[4]) tuple(zero, b, a)
  w = (s32[], f32[4], f32[4]) while(init), condition=cond, body=body
  w1 = f32[4] get-tuple-element(w), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  d = f32[4] subtract(w1, a)
  ROOT t = (s32[], f32[4], f32[4]) tuple(next, d, a) }
"""
    loop = LOOP.format(iterations=2, body="s0 = f32[4] add(a, b)", first="b", second="s0")
    verify(
        f"""HloModule m
{loop}{outer}
ENTRY e {{ x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  zero = s32[] constant(0)
  init = {STATE} tuple(zero, x, y)
  w = {STATE} while(init), condition=ocond, body=obody
  w1 = f32[4] get-tuple-element(w), index=1
  w2 = f32[4] get-tuple-element(w), index=2
  ROOT r = (f32[4], f32[4]) tuple(w2, w1) }}""",
        X,
        Y,
    )


# Branches


@pytest.mark.parametrize("chosen", [True, False])
@pytest.mark.parametrize(
    ("yes", "no", "operands"),
    [
        ("p0, p1", "p0, p1", "x, y"),
        ("p1, p0", "p0, p0", "x, y"),
        ("p0, p0", "p1, n", "x, x"),
        ("n, p0", "p0, n", "v, v"),
        ("n, n", "p1, p1", "v, x"),
    ],
)
def test_branches_that_pass_on_what_they_are_given(
    yes: str, no: str, operands: str, chosen: bool
) -> None:
    branch = """NAME { p = (f32[4], f32[4]) parameter(0)
  p0 = f32[4] get-tuple-element(p), index=0
  p1 = f32[4] get-tuple-element(p), index=1
  n = f32[4] reverse(p1), dimensions={0}
  ROOT t = (f32[4], f32[4]) tuple(RESULTS) }
"""
    branches = branch.replace("NAME", "yes").replace("RESULTS", yes)
    branches += branch.replace("NAME", "no").replace("RESULTS", no)
    verify(
        f"""HloModule m
{branches}
ENTRY e {{ x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  q = pred[] parameter(2)
  v = f32[4] negate(y)
  t = (f32[4], f32[4]) tuple({operands})
  c = (f32[4], f32[4]) conditional(q, t, t), true_computation=yes, false_computation=no
  c0 = f32[4] get-tuple-element(c), index=0
  c1 = f32[4] get-tuple-element(c), index=1
  s = f32[4] add(c0, v)
  ROOT r = (f32[4], f32[4], f32[4], f32[4]) tuple(c0, c1, s, v) }}""",
        X,
        Y,
        np.bool_(chosen),
    )


# Results that repeat, aliases, donation


def test_results_may_be_one_value_many_times() -> None:
    verify(
        """HloModule m
ENTRY e { x = f32[4] parameter(0)
  c = f32[4] constant({1, 2, 3, 4})
  s = f32[4] add(x, c)
  ROOT r = (f32[4], f32[4], f32[4], f32[4], f32[4], f32[4]) tuple(s, x, s, c, x, c) }""",
        X,
    )


ALIASED = [
    "ROOT r = (f32[4], f32[4]) tuple(x, y)",
    "ROOT r = (f32[4], f32[4]) tuple(y, x)",
    "ROOT r = (f32[4], f32[4]) tuple(y, y)",
    "s = f32[4] add(x, y)\n  ROOT r = (f32[4], f32[4]) tuple(y, s)",
    "s = f32[4] add(x, y)\n  ROOT r = (f32[4], f32[4]) tuple(s, s)",
    "b = f32[4] reverse(x), dimensions={0}\n  s = f32[4] add(x, b)\n"
    "  ROOT r = (f32[4], f32[4]) tuple(s, x)",
    "b = f32[4] reverse(y), dimensions={0}\n  d = f32[4] reverse(x), dimensions={0}\n"
    "  ROOT r = (f32[4], f32[4]) tuple(b, d)",
    "b = f32[4] sort(y), dimensions={0}, to_apply=gt\n  d = f32[4] multiply(b, b)\n"
    "  k = f32[4] subtract(d, x)\n  ROOT r = (f32[4], f32[4]) tuple(d, k)",
    "b = f32[4] reverse(y), dimensions={0}\n  d = f32[4] sort(b), dimensions={0}, to_apply=gt\n"
    "  k = f32[4] multiply(d, b)\n  ROOT r = (f32[4], f32[4]) tuple(k, x)",
]
ALIASES = "input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }"


def aliased(body: str) -> str:
    gt = "gt { p = f32[] parameter(0)  q = f32[] parameter(1)\n"
    gt += "  ROOT c = pred[] compare(p, q), direction=GT }"
    entry = f"ENTRY e {{ x = f32[4] parameter(0)\n  y = f32[4] parameter(1)\n  {body} }}"
    return f"HloModule m, {ALIASES}\n{gt if 'gt' in body else ''}\n{entry}"


@pytest.mark.parametrize("body", ALIASED)
def test_aliased_parameters(body: str) -> None:
    text = aliased(body)
    wanted = HloEvaluator().run(parse_module(text), X, Y)
    assert isinstance(wanted, tuple)
    for options in ({}, {"schedule": False}, {"fusion": False}):
        for a, b in zip(run(text, (X, Y), **options), wanted, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("body", ALIASED)
@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
def test_parameters_that_were_not_donated_stay(body: str, platform: str) -> None:
    text = aliased(body)
    program = client.compile(parse_module(text), platform)
    wanted = HloEvaluator().run(parse_module(text), X, Y)
    assert isinstance(wanted, tuple)
    given = program(X, Y)
    x, y = X.copy(), Y.copy()
    for arguments, donate in (((X, Y), False), (given, False), (given, True), ((x, y), [0, 1])):
        values = [np.asarray(a).copy() for a in arguments]
        found = program(*arguments, donate=donate)
        expected = HloEvaluator().run(parse_module(text), *values)
        assert isinstance(expected, tuple)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a.numpy(), b)
        for a, b in zip(arguments, values, strict=True) if not donate else ():
            np.testing.assert_array_equal(np.asarray(a), b)


@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
@pytest.mark.parametrize("donate", [False, [0], [1]])
def test_one_array_for_two_parameters(platform: str, donate: Any) -> None:
    """It cannot be given away and read as the other parameter."""
    program = client.compile(parse_module(aliased(ALIASED[5])), platform)
    one = program(X, Y)[0]
    value = one.numpy().copy()
    try:
        found = program(one, one, donate=donate)
    except XladevError as error:
        assert donate
        assert "donat" in str(error)
        return
    np.testing.assert_array_equal(found[0].numpy(), value + value[::-1])
    np.testing.assert_array_equal(found[1].numpy(), value)


# Layouts


@pytest.mark.parametrize("alias", ["", ", input_output_alias={ {}: (0, {}, may-alias) }"])
@pytest.mark.parametrize("outside", ["{1,0}", "{0,1}"])
@pytest.mark.parametrize("inside", ["{1,0}", "{0,1}"])
def test_layouts_change_no_values(inside: str, outside: str, alias: str) -> None:
    layouts = (
        f"entry_computation_layout={{(f32[3,3]{outside}, f32[3,3]{inside})->f32[3,3]{inside}}}"
    )
    text = f"""HloModule m, {layouts}{alias}
ENTRY e {{ x = f32[3,3]{outside} parameter(0)
  y = f32[3,3]{inside} parameter(1)
  n = f32[3,3]{inside} copy(x)
  b = f32[9]{{0}} bitcast(n)
  i = f32[9]{{0}} iota(), iota_dimension=0
  s = f32[9]{{0}} add(b, i)
  m = f32[3,3]{outside} bitcast(s)
  t = f32[3,3]{inside} transpose(y), dimensions={{1,0}}
  ROOT r = f32[3,3]{inside} add(m, t) }}"""
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    for platform in ("cpu", "interpreter"):
        found = client.compile(parse_module(text), platform)(x, x * 10)
        flat = x.T.reshape(9) if inside == "{0,1}" else x.reshape(9)
        middle = (flat + np.arange(9)).reshape(3, 3)
        middle = middle.T if outside == "{0,1}" else middle
        np.testing.assert_array_equal(found.numpy(), middle + 10 * x.T)


# At random


def random_program(seed: int) -> str:
    """A loop around a branch, whose values go on, swap, repeat and are computed, at random."""
    source = random.Random(seed)

    def computed(names: list[str], stem: str) -> tuple[str, list[str]]:
        lines = []
        for n in range(source.randint(0, 4)):
            a, b = source.choice(names), source.choice(names)
            kind = source.choice(
                (f"add({a}, {b})", f"reverse({a}), dimensions={{0}}", f"subtract({a}, {b})")
            )
            lines.append(f"{stem}{n} = f32[4] {kind}")
            names = [*names, f"{stem}{n}"]
        return "\n  ".join(lines), [source.choice(names) for _ in range(2)]

    branches = []
    for name in ("yes", "no"):
        lines, results = computed([f"{name}0", f"{name}1"], f"{name}v")
        branches.append(f"""{name} {{ {name}p = (f32[4], f32[4]) parameter(0)
  {name}0 = f32[4] get-tuple-element({name}p), index=0
  {name}1 = f32[4] get-tuple-element({name}p), index=1
  {lines}
  ROOT {name}t = (f32[4], f32[4]) tuple({", ".join(results)}) }}""")
    before, given = computed(["a", "b"], "u")
    after, results = computed(["a", "b", "c0", "c1"], "v")
    body = f"""{before}
  q = pred[] compare(i, one), direction={source.choice(("LT", "EQ", "GE"))}
  g = (f32[4], f32[4]) tuple({", ".join(given)})
  h = (f32[4], f32[4]) tuple({source.choice(("a, b", "b, a", "b, b"))})
  c = (f32[4], f32[4]) conditional(q, g, h), true_computation=yes, false_computation=no
  c0 = f32[4] get-tuple-element(c), index=0
  c1 = f32[4] get-tuple-element(c), index=1
  {after}"""
    loop = LOOP.format(iterations=3, body=body, first=results[0], second=results[1])
    lines, start = computed(["x", "y"], "r")
    last, kept = computed(["x", "y", "w1", "w2"], "z")
    alias = source.choice(("", f", {ALIASES}"))
    return f"""HloModule m{alias}
{chr(10).join(branches)}
{loop}
ENTRY e {{ x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  zero = s32[] constant(0)
  {lines}
  init = {STATE} tuple(zero, {", ".join(start)})
  w = {STATE} while(init), condition=cond, body=body
  w1 = f32[4] get-tuple-element(w), index=1
  w2 = f32[4] get-tuple-element(w), index=2
  {last}
  ROOT result = (f32[4], f32[4]) tuple({", ".join(kept)}) }}"""


@pytest.mark.parametrize("seed", range(25))
def test_random_programs(seed: int) -> None:
    check(random_program(seed), X, Y)
    if seed < 4:
        verify(random_program(seed), X, Y)
