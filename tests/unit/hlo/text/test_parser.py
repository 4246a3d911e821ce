"""The grammar: styles, what may be left out, order, names, and what is refused where."""

from dataclasses import replace

import pytest

from xladev.errors import ParseError
from xladev.hlo import dtype as dt
from xladev.hlo.shape import array
from xladev.hlo.text import parse_module, parse_shape, print_module

SHORT = """HloModule m, entry_computation_layout={(f32[2]{0}, f32[2]{0})->f32[2]{0}}

add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}

ENTRY e {
  p = f32[2]{0} parameter(0)
  q = f32[2]{0} parameter(1)
  ROOT r = f32[2]{0} map(p, q), dimensions={0}, to_apply=add
}
"""
LONG = """HloModule m

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1) // a comment
  ROOT %z = f32[] add(f32[] %x, /*index=1*/ f32[] %y)
}

ENTRY %e (p: f32[2], q: f32[2]) -> f32[2] {
  %p = f32[2]{0} parameter(0)
  %q = f32[2]{0} parameter(1)
  ROOT %r = f32[2]{0} map(f32[2]{0} %p, f32[2]{0} %q), dimensions={0}, to_apply=%add
}
"""


def entry(body: str) -> str:
    return "e {\n" + body + "\n}"


def failure(text: str) -> ParseError:
    with pytest.raises(ParseError) as caught:
        parse_module(text)
    return caught.value


def test_long_and_short_style_are_one_module() -> None:
    assert parse_module(LONG) == parse_module(SHORT)


def test_layouts_of_the_interface_may_be_left_out() -> None:
    assert parse_module(SHORT).header == parse_module("HloModule m\n" + entry(P)).header


P = "  p = f32[] parameter(0)"


def test_without_header_the_last_computation_is_the_entry() -> None:
    module = parse_module("a { x = f32[] parameter(0) } b { y = f32[] constant(1) }")
    assert module.entry.name == "b"
    assert module.name == "module_b"


def test_without_header_an_entry_may_come_first() -> None:
    text = "ENTRY a { x = f32[] call(), to_apply=b } b { y = f32[] constant(1) }"
    assert parse_module(text).entry.name == "a"


def test_the_last_instruction_is_the_root_unless_marked() -> None:
    unmarked = parse_module(entry(P + "\n  q = f32[] negate(p)"))
    marked = parse_module(entry("  ROOT p = f32[] parameter(0)\n  q = f32[] negate(p)"))
    assert (unmarked.entry.root.name, marked.entry.root.name) == ("q", "p")


@pytest.mark.parametrize(
    "text",
    [
        "f32[2]{0} add(f32[2]{0} %a, f32[2]{0} %b)",
        "%r = f32[2]{0} add(f32[2]{0} a, f32[2]{0} b)",
        "ROOT r = f32[2]{0} add(f32[2]{0} %a, f32[2]{0})",
        "add(f32[2]{0} a, f32[2]{0} b)",
    ],
)
def test_the_operands_of_a_lone_instruction_become_parameters(text: str) -> None:
    module = parse_module(text)
    assert [p.shape for p in module.entry.parameters] == [parse_shape("f32[2]{0}")] * 2
    assert module.entry.root.opcode == "add"


def test_a_lone_instruction_may_have_computations_in_place() -> None:
    module = parse_module(
        "f32[] reduce(f32[3]{0} %a, f32[] %b), dimensions={0}, "
        "to_apply={ x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }"
    )
    assert [c.root.opcode for c in module.computations] == ["add", "reduce"]


def test_operands_may_be_written_in_place() -> None:
    module = parse_module(entry(P + "\n  ROOT r = f32[] add(negate(p), f32[] exponential(p))"))
    assert [o.opcode for o in module.entry.root.operands] == ["negate", "exponential"]


def test_shapes_that_follow_from_the_operands_may_be_left_out() -> None:
    module = parse_module(entry("  p = f32[2,3] parameter(0)\n  ROOT r = tuple(add(p, p), p)"))
    assert module.entry.root.shape == parse_shape("(f32[2,3], f32[2,3])")


def test_instructions_and_computations_may_be_used_before_they_are_defined() -> None:
    module = parse_module(
        "ENTRY e { ROOT r = f32[] call(q), to_apply=later\n q = f32[] negate(p)\n"
        " p = f32[] parameter(0) }\n later { x = f32[] parameter(0) }"
    )
    assert [i.name for i in module.entry.instructions] == ["p", "q", "r"]
    assert [c.name for c in module.computations] == ["later", "e"]


def test_control_predecessors_come_first() -> None:
    module = parse_module(
        entry("  ROOT a = f32[] constant(1), control-predecessors={b}\n  b = f32[] constant(2)")
    )
    assert [i.name for i in module.entry.instructions] == ["b", "a"]
    (before,) = module.entry.root.note.control_predecessors
    assert before is module.entry.instructions[0]


def test_names_repeated_in_other_computations_are_made_unique() -> None:
    module = parse_module("a { x = f32[] constant(1) } e { ROOT x = f32[] call(), to_apply=a }")
    names = [i.name for c in module.computations for i in c.instructions]
    assert names == ["x", "x.1"]


def test_the_brace_behind_a_signature_opens_the_computation() -> None:
    assert parse_module("ENTRY %e (p: f32[3]) -> f32[3] {\n %p = f32[3] parameter(0)\n}")


def test_the_short_form_of_asynchronous_operations_is_unfolded() -> None:
    module = parse_module(
        entry(
            "  p = f32[4]{0} parameter(0)\n"
            '  s = ((f32[4]{0}), f32[4]{0}, u32[]) negate-start(p), metadata={op_name="n"}\n'
            "  ROOT d = f32[4]{0} negate-done(s)"
        )
    )
    start = module.entry.instructions[1]
    assert start.opcode == "async-start"
    assert start["calls"].root.opcode == "negate"
    assert start["calls"].root.note.metadata.op_name == "n"


def test_a_fusion_that_starts_calls_what_it_fuses() -> None:
    module = parse_module(
        "f { x = f32[] parameter(0) }\n"
        + entry(
            P + "\n  s = ((f32[]), f32[], u32[]) fusion-start(p), kind=kLoop, calls=f\n"
            "  ROOT d = f32[] fusion-done(s)"
        )
    )
    begun = module.entry.instructions[1]["calls"].root
    assert (begun.opcode, begun["calls"].name) == ("fusion", "f")


def test_a_hash_takes_a_part_of_a_tuple() -> None:
    shape = "((f32[], s32[]), f32[])"
    module = parse_module(entry(f"  p = {shape} parameter(0)\n  r = add(%p#0#0, f32[] p#1)"))
    left, right = module.entry.root.operands
    assert (left.name, left["index"], left.shape) == ("p_0_0", 0, parse_shape("f32[]"))
    assert (right["index"], right.operands) == (1, module.entry.parameters)
    twice = parse_module(entry(f"  p = {shape} parameter(0)\n  r = add(p#1, p#1)"))
    assert [i.opcode for i in twice.entry.instructions] == ["parameter", "get-tuple-element", "add"]


def test_a_value_without_braces_is_the_first_element() -> None:
    root = parse_module(entry("  c = f32[2,2] constant(3)")).entry.root
    assert root["literal"].array.tolist() == [[3, 0], [0, 0]]


def test_commas_between_rows_of_a_constant_may_be_left_out() -> None:
    root = parse_module(entry("  c = s32[2,1] constant({ {1} {2} })")).entry.root
    assert root["literal"].array.tolist() == [[1], [2]]


def test_negative_numbers_wrap_in_64_bits_alone() -> None:
    root = parse_module(entry("  c = u64[] constant(-1)")).entry.root
    assert root["literal"].array == 2**64 - 1
    assert "is not in the range of u32" in failure(entry("  c = u32[] constant(-1)")).what


@pytest.mark.parametrize(
    "text",
    [
        "HloModule m:\n" + entry("  p = f32[2] parameter(0)"),
        "ENTRY %e (p f32[2]) -> f32[2] {\n  %p = f32[2] parameter(0)\n}",
        entry("  p = f32 [2] parameter(0)"),
        entry("  p = f32[2] parameter(0), sharding={mesh['x'=2] [{'x'}]}"),
        entry("  p = f32[<=2] parameter(0)\n  r = f32[<=2] negate(f32[2] p)"),
        entry(
            "  p = f32[2] parameter(0)\n  r = f32[] dot(p, p), lhs_contracting_dims={0}, "
            "rhs_contracting_dims={0}, operand_precision={HIGH,default}"
        ),
    ],
)
def test_looser_spellings_are_read(text: str) -> None:
    printed = print_module(parse_module(text))
    assert print_module(parse_module(printed)) == printed


def test_comparison_orders_are_types() -> None:
    body = "  p = {t}[] parameter(0)\n  ROOT c = pred[] compare(p, p), direction=LT, {o}"
    floats = parse_module(entry(body.format(t="f32", o="order=TOTAL"))).entry.root
    integers = parse_module(entry(body.format(t="s32", o="order=TOTAL"))).entry.root
    assert floats["type"] == "TOTALORDER"
    assert integers["type"] is None


def test_plain_scalars_have_a_layout() -> None:
    assert parse_shape("f32[]") == array(dt.F32, ())


def test_unusual_names_are_quoted() -> None:
    module = parse_module(
        entry('  %"a b\\"c" = f32[] parameter(0)\n  %f32 = f32[] negate(%"a b\\"c")')
    )
    assert [i.name for i in module.entry.instructions] == ['a b"c', "f32"]
    assert parse_module(print_module(module)) == module


def test_a_module_without_a_name_keeps_it() -> None:
    module = replace(parse_module(entry("  p = f32[] parameter(0)")), name="")
    assert parse_module(print_module(module)) == module


REFUSED = {
    "unknown opcode": ("  ROOT r = f32[] negat(p)", "unknown opcode", "negate"),
    "missing operand": ("  ROOT r = f32[] negate(q)", "no instruction 'q'", None),
    "too few operands": ("  ROOT r = f32[] add(p)", "takes 2 operands, not 1", None),
    "unknown attribute": ("  r = f32[] negate(p), dimension={0}", "no attribute", None),
    "attribute misspelt": ("  r = f32[1] reshape(p), inferred_dim=0", "no attribute", "inferred_"),
    "attribute twice": ("  r = f32[2] broadcast(p), dimensions={}, dimensions={}", "twice", None),
    "attribute missing": ("  r = f32[] reduce-precision(p), exponent_bits=1", "mantissa_b", None),
    "unknown word": ("  r = pred[] compare(p, p), direction=XX", "cannot be 'XX'", "EQ"),
    "operand shape": ("  r = f32[] negate(f32[2] p)", "said to be f32[2]", None),
    "name twice": ("  p = f32[] constant(1)", "defined twice", None),
    "parameter twice": ("  q = f32[] parameter(0)", "numbered [0, 0]", None),
    "parameter gap": ("  q = f32[] parameter(2)", "numbered", None),
    "two roots": ("  ROOT q = f32[] negate(p)\n  ROOT r = f32[] negate(q)", "two ROOT", None),
    "cycle": ("  q = f32[] negate(r)\n  r = f32[] negate(q)", "depends on itself", None),
    "no computation": ("  r = f32[] call(p), to_apply=nothing", "no computation", None),
    "constant too long": ("  c = f32[2] constant({1, 2, 3})", "size 2, not 3", None),
    "constant too short": ("  c = f32[2,2] constant({{1, 2}})", "size 2, not 1", None),
    "constant nested wrong": ("  c = f32[2,2] constant({1, 2, 3, 4})", "dimension 1", None),
    "constant too large": ("  c = s32[9999999999] constant(4)", "of 9999999999 elements", None),
    "integer out of range": ("  c = s8[] constant(128)", "range of s8", None),
    "negative unsigned": ("  c = u8[] constant(-1)", "range of u8", None),
    "float out of range": ("  c = f16[] constant(1e5)", "range of f16", None),
    "fraction": ("  c = s32[] constant(1.5)", "not an integer", None),
    "no infinity": ("  c = f8e4m3fn[] constant(inf)", "range of f8e4m3fn", None),
    "NaN payload": ("  c = bf16[] constant(nan(0xff))", "not a NaN", None),
    "hexadecimal float": ("  c = f32[] constant(0x1p3)", "not a number", None),
    "complex": ("  c = c64[] constant(1)", "", None),
    "shape too large": ("  c = f32[4611686018427387904,2] parameter(1)", "bytes", None),
    "unbounded constant": ("  c = f32[0,?] constant({})", "constant of shape f32[0,?]", None),
    "unbounded elided": ("  c = f32[?] constant({...})", "constant of shape f32[?]", None),
    "layout": ("  c = f32[2,2]{0} parameter(1)", "does not fit rank 2", None),
    "unknown type": ("  c = f33[2] parameter(1)", "expected", None),
    "window": ("  c = f32[2] reduce-window(p, p), window={size=2 pad=1}, to_apply=e", "pair", None),
    "string": ('  c = f32[] negate(p), metadata={op_name="x}', "closing quote", None),
    "trailing": ("  c = f32[] negate(p) x", "expected '='", None),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors_say_what_and_where(name: str) -> None:
    body, what, hint = REFUSED[name]
    error = failure(entry(P + "\n" + body))
    assert what in error.what
    assert hint is None or hint in (error.hint or "")
    assert error.where is not None
    assert error.where.startswith("line ")


def test_errors_show_the_line_with_a_caret() -> None:
    error = failure(entry(P + "\n  ROOT r = f32[] negat(p)"))
    assert error.where == "line 3, column 18\n      ROOT r = f32[] negat(p)\n                     ^"


def test_errors_in_long_lines_show_a_part_of_them() -> None:
    error = failure(
        entry(P + '\n  r = f32[] negate(p), metadata={op_name="' + "x" * 9999 + '" y=1}')
    )
    _, line, caret = (error.where or "").split("\n")
    assert len(line) < 120
    assert line[caret.index("^")] == "y"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "expected"),
        ("HloModule", "name of the module"),
        ("HloModule m", "no computations"),
        ("HloModule m, is_schedule=true\n" + entry(P), "unknown header field"),
        (
            'HloModule m\nFileNames\n1 "a"\nFunctionNames\n1 "f"\nFileLocations\n1 '
            "{file_name_id=1 function_name_id=1 line=2147483648 end_line=1 column=1 end_column=1}",
            "does not fit 32 signed bits",
        ),
        ("HloModule m, replica_count=1, replica_count=2\n" + entry(P), "twice"),
        ("ENTRY a { x = f32[] constant(1) } ENTRY b { y = f32[] constant(1) }", "marked ENTRY"),
        ("a { x = f32[] constant(1) } a { y = f32[] constant(1) }", "defined twice"),
        ("a { x = f32[] call(), to_apply=a }", "calls itself"),
        ("a { }", "no instructions"),
        ("e { x = f32[] constant(1)", "expected"),
        ("%e () -> f32[2] { x = f32[] constant(1) }", "said to return"),
        ("f32[2] add(a, b)", "has no shape"),
    ],
)
def test_errors_of_modules(text: str, what: str) -> None:
    assert what in failure(text).what


@pytest.mark.parametrize(
    "text",
    [
        "e { a = " + "(" * 100_000 + "f32[]" + ")" * 100_000 + " parameter(0) }",
        "e { a = f32[] " + "negate(" * 100_000 + ")" * 100_000 + " }",
        "e { a = f32[] " + "call(), to_apply={ a = f32[] " * 100_000 + "}" * 100_000 + " }",
        "e { a = f32[] constant(" + "{" * 100_000 + "}" * 100_000 + ") }",
        "e { a = f32[] parameter(0), sharding=" + "{" * 100_000 + "}" * 100_000 + " }",
        "e { a = f32[] parameter(0), origin={" + "(" * 100_000 + ")" * 100_000 + "} }",
        "e { a = f32[] parameter(0), backend_config=" + "{" * 100_000 + " }",
    ],
    ids=["tuple", "operands", "computations", "constant", "sharding", "origin", "json"],
)
def test_deep_nesting_is_refused(text: str) -> None:
    assert len(str(failure(text))) < 1000


def test_long_chains_of_calls_and_of_operands_out_of_order_are_read() -> None:
    count = 5000
    calls = [f"c{i} {{ x = f32[] call(), to_apply=c{i + 1} }}" for i in range(count)]
    chain = "\n".join(
        [
            *calls,
            f"c{count} {{ x = f32[] constant(1) }}",
            "ENTRY e { x = f32[] call(), to_apply=c0 }",
        ]
    )
    assert len(parse_module(chain).computations) == count + 2
    backwards = "\n".join(f"x{i} = f32[] negate(x{i + 1})" for i in range(count))
    module = parse_module(f"e {{ ROOT {backwards}\nx{count} = f32[] constant(1) }}")
    assert module.entry.instructions[-1] is module.entry.root


@pytest.mark.parametrize(
    "literal", ["s4[2] {-2, -2}", "s4[2] {1, 0}", "f32[1] {0}", "f32[2]{0} {1, 2}", "(f32[1] {0})"]
)
def test_a_literal_behind_a_blank_is_no_layout(literal: str) -> None:
    text = f'ENTRY e {{ ROOT c = f32[] custom-call(), custom_call_target="t", literal={literal} }}'
    module = parse_module(text)
    assert parse_module(print_module(module)) == module
    assert module.entry.root["literal"].shape.leaves()
