"""Which values join a kernel, and how often it computes them."""

from xladev.compiler.buffers.in_place import in_place_pairs
from xladev.compiler.fusion.instruction_fusion import MAX_COPIES, Fusion
from xladev.compiler.support import YES, Support, no
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.text import parse_module
from xladev.instrument import Decision, collect_decisions


def fused(body: str) -> HloModule:
    module = parse_module("HloModule m\nENTRY e {\n" + body + "\n}")
    return Fusion(lambda producer, consumer: YES).run(module)


def fusions(module: HloModule) -> list[int]:
    """Sizes of the kernels, without their parameters."""
    return [
        sum(i.opcode != "parameter" for i in i["calls"].instructions)
        for i in module.entry.instructions
        if i.opcode == "fusion"
    ]


def slices(count: int) -> str:
    """The sum of that many slices of one negation."""
    lines = [
        "x = f32[100] parameter(0)",
        "n = f32[100] negate(x)",
        "s0 = f32[9] slice(n), slice={[0:9]}",
    ]
    for k in range(1, count):
        lines.append(f"p{k} = f32[9] slice(n), slice={{[{k}:{k + 9}]}}")
        lines.append(f"s{k} = f32[9] add(s{k - 1}, p{k})")
    return "\n".join(lines)


def test_elementwise_readers_share_one_element() -> None:
    body = "x = f32[8] parameter(0)\n v0 = f32[8] cosine(x)"
    for k in range(1, 40):
        body += f"\n v{k} = f32[8] add(v{k - 1}, v{k - 1})"
    assert fusions(fused(body)) == [40]


def test_a_value_is_computed_at_a_few_indices() -> None:
    assert fusions(fused(slices(MAX_COPIES))) == [2 * MAX_COPIES]
    module = fused(slices(MAX_COPIES + 1))
    assert fusions(module) == [2 * MAX_COPIES + 1]
    assert "negate" in [i.opcode for i in module.entry.instructions]


def test_copies_of_copies_count() -> None:
    lines = ["x = f32[100] parameter(0)", "v0 = f32[100] negate(x)"]
    for n in range(1, 30):
        size = 100 - n
        lines.append(f"a{n} = f32[{size}] slice(v{n - 1}), slice={{[0:{size}]}}")
        lines.append(f"b{n} = f32[{size}] slice(v{n - 1}), slice={{[1:{size + 1}]}}")
        lines.append(f"v{n} = f32[{size}] add(a{n}, b{n})")
    assert max(fusions(fused("\n".join(lines)))) <= 3 * 4


UPDATE = """x = f32[8] parameter(0)  k = s32[] parameter(1)
p = f32[SIZE] dynamic-slice(x, k), dynamic_slice_sizes={SIZE}
n = f32[SIZE] negate(p)
ROOT u = f32[8] dynamic-update-slice(x, n, k)
"""


def test_a_part_of_what_is_updated_in_place_is_read_before() -> None:
    assert fusions(fused(UPDATE.replace("SIZE", "2"))) == [2]
    assert fusions(fused(UPDATE.replace("SIZE", "8"))) == [3]


def test_a_scatter_reads_a_part_of_what_it_updates_before() -> None:
    body = """x = f32[8,4] parameter(0)  k = s32[1] parameter(1)  j = s32[] parameter(2)
    z = s32[] constant(0)
    p = f32[1,4] dynamic-slice(x, j, z), dynamic_slice_sizes={1,4}
    r = f32[4] reshape(p)  n = f32[4] negate(r)
    ROOT u = f32[8,4] scatter(x, k, n), update_window_dims={0}, inserted_window_dims={0},
      scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=add"""
    add = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"
    module = parse_module(f"HloModule m\n{add}\nENTRY e {{\n{body}\n}}")
    update = Fusion().run(module).entry.root
    assert in_place_pairs(update["calls"]) == {(0, 0)}


DOT = """x = f32[4,5] parameter(0)  y = f32[5,6] parameter(1)  b = f32[4,6] parameter(2)
d = f32[4,6] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
"""


def with_epilogues(body: str) -> HloModule:
    module = parse_module("HloModule m\nENTRY e {\n" + DOT + body + "\n}")
    return Fusion(lambda producer, consumer: YES, epilogues=frozenset({"dot"})).run(module)


def test_elementwise_instructions_follow_a_product_in_its_kernel() -> None:
    body = "s = f32[4,6] add(d, b)  ROOT t = f32[4,6] tanh(s)"
    assert fusions(with_epilogues(body)) == [3]
    assert fusions(fused(DOT + body)) == [2]


def test_a_product_that_is_read_elsewhere_is_a_kernel_of_its_own() -> None:
    moved = "t = f32[6,4] transpose(d), dimensions={1,0}  ROOT n = f32[6,4] negate(t)"
    both = "s = f32[4,6] add(d, b)  ROOT t = (f32[4,6], f32[4,6]) tuple(s, d)"
    for body, sizes in ((moved, [2]), (both, [])):
        assert fusions(with_epilogues(body)) == sizes


def test_a_kernel_has_one_product() -> None:
    body = "e = f32[4,6] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    module = with_epilogues(body + "ROOT s = f32[4,6] add(d, e)")
    assert fusions(module) == [2]
    assert sum(i.opcode == "dot" for i in module.entry.instructions) == 1


def test_control_dependencies_outlive_fusion() -> None:
    module = fused("""x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  late = f32[8] negate(x), control-predecessors={first}
  first = f32[8] cosine(y)
  sum = f32[8] add(first, first)
  ROOT r = f32[8] multiply(late, sum)""")
    before = {i: i.note.control_predecessors for i in module.entry.instructions}
    (late,) = [i for i, found in before.items() if found]
    assert late.opcode == "negate"
    assert [p.opcode for p in before[late]] == ["cosine"]
    assert fusions(module) == [2]


CENTRED = """x = f32[4,500] parameter(0)  m = f32[4] parameter(1)  x2 = f32[4,500] parameter(2)
  b = f32[4,500] broadcast(m), dimensions={0}
  c = f32[4,500] OPCODE
  e = f32[4,500] exponential(c)
  s = f32[500,4] transpose(c), dimensions={1,0}
  ROOT t = (f32[4,500], f32[500,4]) tuple(e, s)"""


def copied(step: str, least: int = 8000) -> list[int]:
    module = parse_module("HloModule m\nENTRY e {\n" + CENTRED.replace("OPCODE", step) + "\n}")
    found = Fusion(lambda producer, consumer: YES, copied_from_nbytes=least).run(module)
    return sorted(fusions(found))


def test_a_cheap_step_from_one_large_array_is_computed_by_each_reader() -> None:
    assert copied("subtract(x, b)") == [3, 3]


def test_steps_that_cost_more_are_written_once() -> None:
    assert copied("subtract(x, b)", least=8001) == [2]
    assert copied("divide(x, b)") == [2]
    assert copied("subtract(x, x2)") == []


TURNED = """i = s32[10] iota(), iota_dimension=0
b = s32[100,10] broadcast(i), dimensions={1}
ROOT t = s32[10,100] transpose(b), dimensions={1,0}"""


def refused(body: str, *pairs: tuple[str, str]) -> HloModule:
    """Fused but for pairs of names."""

    def can_fuse(producer: HloInstruction, consumer: HloInstruction) -> Support:
        return no("not those") if (producer.name, consumer.name) in pairs else YES

    module = parse_module("HloModule m\nENTRY e {\n" + body + "\n}")
    return Fusion(can_fuse).run(module)


def test_what_costs_nothing_joins_only_where_the_backend_allows() -> None:
    assert fusions(refused(TURNED)) == [3]
    assert fusions(refused(TURNED, ("i", "b"))) == [2]
    assert fusions(refused(TURNED, ("b", "t"))) == []


def test_a_copy_that_one_reader_refuses_is_read_from_memory_by_all_of_the_kernel() -> None:
    body = """x = s32[9] parameter(0)  i = s32[9] iota(), iota_dimension=0
    r = s32[9] reverse(x), dimensions={0}
    a = s32[9] add(r, i)  n = s32[9] negate(a)  m = s32[9] multiply(n, i)
    o = s32[9] subtract(i, x)  ROOT t = (s32[9], s32[9]) tuple(m, o)"""
    assert fusions(refused(body)) == [5, 2]
    with collect_decisions() as decisions:
        assert fusions(refused(body, ("i", "m"))) == [4, 2]
    assert Decision("fusion", "i", "read from memory by m: not those") in decisions


def test_scalar_constants_are_in_any_kernel() -> None:
    body = """x = s32[] parameter(0)  c = s32[] constant(3)
    ROOT t = s32[] multiply(x, c)"""
    assert fusions(refused(body, ("c", "t"))) == [2]


def test_a_formed_kernel_stays_as_it_is() -> None:
    body = """i = s32[9] iota(), iota_dimension=0
    ROOT f = s32[9] fusion(i), kind=kLoop, calls=k"""
    head = "HloModule m\nk { p = s32[9] parameter(0)\n ROOT n = s32[9] negate(p) }\nENTRY e {\n"
    module = Fusion(lambda producer, consumer: YES).run(parse_module(head + body + "\n}"))
    assert [i.opcode for i in module.entry.instructions] == ["iota", "fusion"]
