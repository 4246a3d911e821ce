"""Propagation: what spreads where, in which order, and what stays."""

import pytest

from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.passes.call_inliner import CallInliner
from xladev.passes.sharding.asked import annotations_of
from xladev.passes.sharding.choose import Choice, choose

MESH = 'xla.sdy.meshes={mesh = #sdy.mesh<["x"=4, "y"=2]>}'
ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"


def cut(dims: str) -> str:
    """An annotation of Shardy."""
    quoted = dims.replace('"', '\\"')
    return f', frontend_attributes={{xla.sdy.sharding="#sdy.sharding<@mesh, [{quoted}]>"}}'


def program(lines: str, *, free: str = "true", count: int = 1, more: str = "") -> HloModule:
    flags = f"{{{','.join([free] * count)}}}"
    header = (
        f"HloModule m, num_partitions=8, frontend_attributes={{{MESH}}}, "
        f"allow_spmd_sharding_propagation_to_parameters={flags}, "
        "allow_spmd_sharding_propagation_to_output={true}"
    )
    return parse_module(f"{header}\n{ADD}\n{more}\nENTRY e {{\n{lines}\n}}")


def chosen(module: HloModule) -> Choice:
    return choose(module, annotations_of(module, 8))


def texts(module: HloModule) -> tuple[list[str], list[str]]:
    """Parameters and results, as Shardy spells dimensions."""
    made = chosen(module)
    parameters = [c.text for cuts in made.parameters for c in cuts if c]
    return parameters, [c.text for c in made.results if c]


def of(module: HloModule, name: str) -> str:
    (i,) = (i for i in module.entry.instructions if i.name == name)
    (found,) = chosen(module).chosen.of(i)
    assert found is not None
    return found.text


X = cut('{"x"}, {}')
Y = cut('{}, {"y"}')
XY = cut('{"x"}, {"y"}')


def test_forwards_and_backwards() -> None:
    forward = program(f"p = f32[8,8] parameter(0){X}\nROOT r = f32[8,8] negate(p)")
    assert texts(forward) == (['[{"x"}, {}]'], ['[{"x"}, {}]'])
    backward = program(
        "p = f32[8,8] parameter(0)\nn = f32[8,8] negate(p)\n"
        f'ROOT r = f32[8,8] custom-call(n), custom_call_target="Sharding"{X}'
    )
    assert texts(backward) == (['[{"x"}, {}]'], ['[{"x"}, {}]'])
    shut = program(
        "p = f32[8,8] parameter(0)\nn = f32[8,8] negate(p)\n"
        f'ROOT r = f32[8,8] custom-call(n), custom_call_target="Sharding"{X}',
        free="false",
    )
    assert texts(shut)[0] == ["[{}, {}]"]


def test_from_both_operands() -> None:
    module = program(
        f"p = f32[8,8] parameter(0){X}\nq = f32[8,8] parameter(1){Y}\n"
        "ROOT r = f32[8,8] add(p, q)", count=2,
    )  # fmt: skip
    assert texts(module)[1] == ['[{"x"}, {"y"}]']


def test_what_collides_is_resolved_by_who_is_cut_more() -> None:
    """Aggressive: both rows and columns would have the larger axis; rows are cut more."""
    small = cut('{}, {"x":(1)2}')
    module = program(
        f"p = f32[8,8] parameter(0){X}\nq = f32[8,8] parameter(1){small}\n"
        "ROOT r = f32[8,8] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}", count=2,
    )  # fmt: skip
    assert texts(module)[1] == ['[{"x"}, {}]']


def test_sums_spread_to_both_operands() -> None:
    module = program(
        f"p = f32[8,8] parameter(0){Y}\nq = f32[8,8] parameter(1)\n"
        "ROOT r = f32[8,8] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}", count=2,
    )  # fmt: skip
    assert texts(module) == (['[{}, {"y"}]', '[{"y"}, {}]'], ["[{}, {}]"])


def test_open_dimensions_grow_and_closed_ones_do_not() -> None:
    both = cut('{"x"}, {"y"}')
    for opening, wanted in (("{?}, {?}", '[{"x"}, {"y"}]'), ("{?}, {}", '[{"x"}, {}]')):
        module = program(
            f"p = f32[8,8] parameter(0){both}\n"
            f'ROOT r = f32[8,8] custom-call(p), custom_call_target="Sharding"{cut(opening)}'
        )
        assert of(module, "r") == wanted
    kept = program(
        f"p = f32[8,8] parameter(0){both}\nROOT r = f32[8,8] custom-call(p), "
        'custom_call_target="Sharding", frontend_attributes={xla.sdy.sharding='
        '"#sdy.sharding<@mesh, [{?}, {?}], replicated={\\"y\\"}>"}'
    )
    assert of(kept, "r") == '[{"x"}, {}]'


def test_constants_are_no_bridge() -> None:
    """Each use of a constant makes its own: what one is cut by is nothing to the other."""
    module = program(
        f"p = f32[8,8] parameter(0){X}\nq = f32[8,8] parameter(1)\nz = f32[] constant(1)\n"
        "b = f32[8,8] broadcast(z), dimensions={}\nr = f32[8,8] add(p, b)\n"
        "s = f32[8,8] add(q, b)\nROOT t = (f32[8,8], f32[8,8]) tuple(r, s)", count=2,
    )  # fmt: skip
    assert texts(module) == (['[{"x"}, {}]', "[{}, {}]"], ['[{"x"}, {}]', "[{}, {}]"])


def test_through_loops_and_branches() -> None:
    more = """
step { p = (s32[], f32[8,8]) parameter(0)  i = s32[] get-tuple-element(p), index=0
 v = f32[8,8] get-tuple-element(p), index=1  w = f32[8,8] negate(v)
 ROOT t = (s32[], f32[8,8]) tuple(i, w) }
test { p = (s32[], f32[8,8]) parameter(0)  i = s32[] get-tuple-element(p), index=0
 ROOT c = pred[] compare(i, i), direction=LT }
yes { p = f32[8,8] parameter(0)  ROOT n = f32[8,8] negate(p) }
no { p = f32[8,8] parameter(0)  ROOT n = f32[8,8] copy(p) }
"""
    loop = program(
        f"z = s32[] constant(0)\nv = f32[8,8] parameter(0){X}\n"
        "s = (s32[], f32[8,8]) tuple(z, v)\n"
        "w = (s32[], f32[8,8]) while(s), condition=test, body=step\n"
        "ROOT r = f32[8,8] get-tuple-element(w), index=1", more=more,
    )  # fmt: skip
    assert texts(loop)[1] == ['[{"x"}, {}]']
    branches = program(
        f"c = pred[] parameter(0)\nv = f32[8,8] parameter(1){X}\n"
        "ROOT r = f32[8,8] conditional(c, v, v), true_computation=yes, false_computation=no",
        count=2, more=more,
    )  # fmt: skip
    assert texts(branches)[1] == ['[{"x"}, {}]']


def test_interfaces_lie_in_even_parts_of_whole_axes() -> None:
    lines = (
        "p = f32[6,8] parameter(0)\nn = f32[6,8] negate(p)\n"
        'ROOT r = f32[6,8] custom-call(n), custom_call_target="Sharding"'
    )
    uneven = program(lines + cut('{"x"}, {"y"}'))
    assert texts(uneven) == (['[{}, {"y"}]'], ['[{}, {"y"}]'])
    named = lines.replace('"Sharding"', '"xla.sdy.FuncResultSharding"')
    asked = program(named + cut('{"x"}, {"y"}'))
    assert texts(asked) == (['[{}, {"y"}]'], ['[{"x"}, {"y"}]'])
    part = program(lines + cut('{"x":(1)2}, {}'))
    assert texts(part)[0] == ["[{}, {}]"]


@pytest.mark.parametrize("lines", ["r = f32[8,8] negate(p)", "r = f32[8] reshape(p)"])
def test_it_is_idempotent_and_the_same_each_time(lines: str) -> None:
    size = "8,8" if "8,8" in lines else "8,1"
    module = program(f"p = f32[{size}] parameter(0){X}\nROOT {lines}")
    assert texts(module) == texts(module)


def test_barriers_and_groups() -> None:
    barrier = program(
        f"p = f32[8,8] parameter(0){X}\n"
        'b = f32[8,8] custom-call(p), custom_call_target="xla.sdy.PropagationBarrier", '
        'frontend_attributes={xla.sdy.allowed_direction="0"}\nROOT r = f32[8,8] negate(b)'
    )
    assert texts(barrier)[1] == ["[{}, {}]"]
    through = program(
        f"p = f32[8,8] parameter(0){X}\n"
        'b = f32[8,8] custom-call(p), custom_call_target="xla.sdy.PropagationBarrier", '
        'frontend_attributes={xla.sdy.allowed_direction="1"}\nROOT r = f32[8,8] negate(b)'
    )
    assert texts(through)[1] == ['[{"x"}, {}]']
    group = 'custom_call_target="xla.sdy.ShardingGroup", custom_call_has_side_effect=true, '
    group += 'frontend_attributes={xla.sdy.sharding_group_id="0 : i64"}'
    alike = program(
        f"p = f32[8,8] parameter(0){X}\nq = f32[8,8] parameter(1)\n"
        f"g = () custom-call(p), {group}\nh = () custom-call(q), {group}\n"
        "ROOT r = f32[8,8] negate(q)", count=2,
    )  # fmt: skip
    assert texts(alike) == (['[{"x"}, {}]', '[{"x"}, {}]'], ['[{"x"}, {}]'])


def test_priorities() -> None:
    """What has priority 1 waits until what has none has spread."""
    first, later = cut('{"x"}, {}'), cut('{}, {"x"}p1')
    module = program(
        f"p = f32[8,8] parameter(0){first}\nq = f32[8,8] parameter(1){later}\n"
        "ROOT r = f32[8,8] add(q, p)", count=2,
    )  # fmt: skip
    assert texts(module)[1] == ['[{"x"}, {}]']
    columns, waits = cut('{}, {"x"}'), cut('{"x"}p1, {}')
    swapped = program(
        f"p = f32[8,8] parameter(0){columns}\nq = f32[8,8] parameter(1){waits}\n"
        "ROOT r = f32[8,8] add(q, p)", count=2,
    )  # fmt: skip
    assert texts(swapped)[1] == ['[{}, {"x"}]']


@pytest.mark.parametrize("mesh", ["[]", '["a"=1]'])
def test_one_device_closes_what_it_does_not_open(mesh: str) -> None:
    """JAX asks so for keys: the words of a key stay together, all else is free."""
    asked = f"#sdy.sharding<mesh<{mesh}>, [{{?}}, {{}}]>".replace('"', r"\"")
    lines = (
        f"p = f32[8,8] parameter(0){XY}\n"
        'ROOT r = f32[8,8] custom-call(p), custom_call_target="Sharding", '
        f'frontend_attributes={{xla.sdy.sharding="{asked}"}}'
    )
    assert of(program(lines), "r") == '[{"x"}, {}]'


@pytest.mark.parametrize(
    ("replicated", "result"), [("", '[{"y"}, {"x"}]'), (', replicated={"x"}', '[{"y"}, {}]')]
)
def test_axes_that_a_border_keeps_whole(replicated: str, result: str) -> None:
    """A result takes no axis from within a region that its border names as replicated."""
    side = f"""#sdy.sharding_per_value<[<@mesh, [{{"y", ?}}, {{?}}]{replicated}>]>"""
    side, axes = (t.replace('"', '\\"') for t in (side, '#sdy<manual_axes{"y"}>'))

    def border(name: str) -> str:
        return (
            f"custom_call_has_side_effect=true, frontend_attributes={{xla.sdy.{name}_shardings="
            f'"{side}",xla.sdy.manual_axes="{axes}"}}'
        )

    rows = cut('{"y"}, {}')
    columns = cut('{}, {"x"}')
    module = program(
        f"p = f32[8,8] parameter(0){rows}\n"
        f'in = f32[4,8] custom-call(p), custom_call_target="xla.sdy.GlobalToLocalShape", '
        f"{border('in')}\n"
        f'c = f32[4,8] custom-call(in), custom_call_target="Sharding"{columns}\n'
        f'ROOT out = f32[8,8] custom-call(c), custom_call_target="xla.sdy.LocalToGlobalShape", '
        f"{border('out')}"
    )
    assert texts(module)[1] == [result]


def test_results_that_a_function_leaves_open_are_not_kept_whole() -> None:
    """Its root says `replicated` of those, for a tuple's sharding has a part for each."""
    of_result = 'custom_call_target="xla.sdy.FuncResultSharding"'
    more = f"""f {{
  a = f32[8,8] parameter(0)  n = f32[8,8] negate(a)  s = f32[8,8] sine(a)
  c = f32[8,8] custom-call(s), {of_result}{X}
  ROOT t = (f32[8,8], f32[8,8]) tuple(n, c),
    sharding={{{{replicated}}, {{devices=[4,1,2]<=[8] last_tile_dim_replicate}}}} }}"""
    module = program(
        f"p = f32[8,8] parameter(0){X}\nk = (f32[8,8], f32[8,8]) call(p), to_apply=f\n"
        "a = f32[8,8] get-tuple-element(k), index=0  b = f32[8,8] get-tuple-element(k), index=1\n"
        "ROOT r = (f32[8,8], f32[8,8]) tuple(a, b)",
        more=more,
    )
    inlined = CallInliner().run(module)
    assert texts(inlined)[1] == ['[{"x"}, {}]', '[{"x"}, {}]']
