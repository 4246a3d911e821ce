"""What the CPU answers when asked whether it can run an instruction."""

import pytest

from tests.tools.profiled_calls import calls
from tests.unit.compiler.test_limits import tower
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.support import cpu_supports


@pytest.mark.parametrize("opcode", ["call", "fusion", "map", "while"])
def test_each_computation_is_looked_at_once(opcode: str) -> None:
    root = tower(opcode, 60, 2).entry.root
    assert calls(lambda: cpu_supports(root)) < 100_000
    assert cpu_supports(root)


def test_the_reason_names_what_is_at_fault_however_deep() -> None:
    module = parse_module(
        """
    odd { a = f32[2] parameter(0)
      ROOT b = f32[2] infeed-like }
    """.replace("infeed-like", 'custom-call(a), custom_call_target="Strange"')
        + """
    middle { c = f32[2] parameter(0)
      ROOT d = f32[2] call(c), to_apply=odd }
    ENTRY e { x = f32[2] parameter(0)
      ROOT r = f32[2] call(x), to_apply=middle }"""
    )
    answer = cpu_supports(module.entry.root)
    assert not answer
    assert answer.reason == "d within it: b within it: no kernel for custom-call"


def test_an_array_within_scalar_code_is_named() -> None:
    module = parse_module("""
    wide { a = f32[] parameter(0)
      w = f32[3] broadcast(a), dimensions={}
      ROOT s = f32[] constant(0) }
    ENTRY e { x = f32[2] parameter(0)
      ROOT r = f32[2] map(x), dimensions={0}, to_apply=wide }""")
    answer = cpu_supports(module.entry.root)
    assert answer.reason == "w in wide is no scalar"
