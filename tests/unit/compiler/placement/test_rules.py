"""Rules give instructions devices: by opcode, name or op name, the first that matches."""

import pytest

from xladev.compiler.options import CompileOptions
from xladev.compiler.placement.rules import ApplyPlacementRules, PlacementRule
from xladev.errors import OptionError
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module

TEXT = """
HloModule m
body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  y = f32[4] sine(x), metadata={op_name="jit(f)/decoder/sin"}
  ROOT t = (s32[], f32[4]) tuple(n, y)
}
condition {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)
  ROOT p = pred[] compare(i, three), direction=LT
}
ENTRY main {
  x = f32[4] parameter(0)
  zero = s32[] constant(0)
  a = f32[4] negate(x), metadata={op_name="jit(f)/encoder/neg"}
  b = f32[4] cosine(a), frontend_attributes={xladev_device="cpu"}
  t = (s32[], f32[4]) tuple(zero, b)
  w = (s32[], f32[4]) while(t), condition=condition, body=body
  ROOT r = f32[4] get-tuple-element(w), index=1
}
"""


def placed(*rules: tuple[str, str], names: tuple[tuple[str, str], ...] = ()) -> dict[str, str]:
    module = ApplyPlacementRules(rules, names).run(parse_module(TEXT))
    return devices(module)


def devices(module: HloModule) -> dict[str, str]:
    return {i.name: i.note.device for c in module.computations for i in c.instructions
            if i.note.device}  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("opcode:negate", {"a"}),
        ("name:a", {"a"}),
        ("op:*/decoder/*", {"y"}),
        ("*coder*", {"a", "y"}),
        ("opcode:[ns]*e", {"a", "y"}),
        ("opcode:cosine", set()),  # it has a device of its own
        ("opcode:parameter", set()),
        ("opcode:Negate", set()),
    ],
)
def test_what_a_pattern_matches(pattern: str, names: set[str]) -> None:
    made = placed((pattern, "npu:1"))
    assert made == {"b": "cpu"} | dict.fromkeys(names, "npu:1")


def test_the_first_rule_counts() -> None:
    made = placed(("opcode:sine", "npu:0"), ("*coder*", "npu:1"))
    assert made == {"a": "npu:1", "b": "cpu", "y": "npu:0"}


def test_a_rule_for_a_loop_is_for_all_within() -> None:
    made = placed(("opcode:sine", "npu:0"), ("opcode:while", "npu:1"))
    assert made == {"b": "cpu", "w": "npu:1", "n": "npu:1", "y": "npu:0", "p": "npu:1"}


def test_devices_are_spelled_in_one_way() -> None:
    made = placed(("name:a", "npu:0"), names=(("npu:0", "template_npu"), ("cpu", "cpu:0")))
    assert made == {"a": "template_npu", "b": "cpu:0"}


def test_without_rules_nothing_changes() -> None:
    module = parse_module(TEXT)
    assert ApplyPlacementRules().run(module) is module


def test_a_rule_from_text() -> None:
    text = "placement=opcode:dot=npu:0,op:f(a=b)/*=npu:1,*=cpu"
    options = CompileOptions().with_option(text)
    assert options.placement == (("opcode:dot", "npu:0"), ("op:f(a=b)/*", "npu:1"), ("*", "cpu"))
    assert CompileOptions.from_json(options.to_json()) == options
    assert PlacementRule.of("jit(f):x", "cpu") == PlacementRule("", "jit(f):x", "cpu")


def test_rules_may_be_a_mapping() -> None:
    assert CompileOptions(placement={"opcode:dot": "cpu"}).placement == (("opcode:dot", "cpu"),)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["dot", (("dot",),), ((1, "cpu"),), 3, (("", "cpu"),)])
def test_what_are_no_rules(wrong: object) -> None:
    with pytest.raises(OptionError, match="placement is"):
        CompileOptions(placement=wrong)  # type: ignore[arg-type]


def test_text_that_is_no_rule() -> None:
    with pytest.raises(OptionError, match="cannot be 'dot'"):
        CompileOptions().with_option("placement=dot")
