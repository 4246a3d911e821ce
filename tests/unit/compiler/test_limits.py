"""Programs that are small as files and huge written out, or nested too deep: refused in no time."""

import numpy as np
import pytest

from xladev.client import compile
from xladev.compiler.limits import MOST_WRITTEN_OUT, refuse_depth, refuse_growth
from xladev.compiler.program.program_check import MAX_NESTING
from xladev.errors import CompileError
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module, print_module

CALLS = {
    "call": "f32[] call({x}), to_apply={f}",
    "fusion": "f32[] fusion({x}), kind=kLoop, calls={f}",
    "map": "f32[] map({x}), dimensions={{}}, to_apply={f}",
    "while": "f32[] while({x}), condition=never, body={f}",
}
NEVER = "never { n = f32[] parameter(0)\n ROOT no = pred[] constant(false) }"


def tower(opcode: str, levels: int, uses: int) -> HloModule:
    """Computations of which each uses the one below several times."""
    use = CALLS[opcode]
    texts = [
        "HloModule tower",
        NEVER,
        "f0 { x0 = f32[] parameter(0)\n ROOT y0 = f32[] negate(x0) }",
    ]
    for n in range(1, levels):
        lines = [f"v{n}.0 = f32[] parameter(0)"]
        for k in range(uses):
            lines.append(f"v{n}.{k + 1} = " + use.format(x=f"v{n}.{k}", f=f"f{n - 1}"))
        texts.append(f"f{n} {{\n" + "\n".join(lines) + "\n}")
    last = use.format(x="x", f=f"f{levels - 1}")
    texts.append(f"ENTRY main {{ x = f32[] parameter(0)\n ROOT r = {last} }}")
    return parse_module("\n".join(texts))


@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
@pytest.mark.parametrize("opcode", CALLS)
def test_a_program_that_doubles_at_each_level(opcode: str, platform: str) -> None:
    with pytest.raises(CompileError, match=r"written out, tower has about 10\^1[0-9]") as caught:
        compile(tower(opcode, 60, 2), platform)
    assert "module tower, of " in (caught.value.where or "")


def test_growth_within_bounds() -> None:
    refuse_growth(tower("call", 14, 2))
    with pytest.raises(CompileError, match=str(MOST_WRITTEN_OUT)):
        refuse_growth(tower("call", 18, 2))


@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
@pytest.mark.parametrize("opcode", ["fusion", "map", "while"])
def test_depth(opcode: str, platform: str) -> None:
    with pytest.raises(CompileError, match="nested 2001 deep") as caught:
        compile(tower(opcode, 2000, 1), platform)
    assert opcode in (caught.value.where or "")


@pytest.mark.parametrize("opcode", CALLS)
def test_the_deepest_that_is_compiled(opcode: str) -> None:
    module = tower(opcode, MAX_NESTING - 1, 1)
    refuse_depth(module, with_calls=True)
    for platform in ("cpu", "interpreter"):
        assert float(compile(module, platform)(np.float32(1))) == (1 if opcode == "while" else -1)


def test_calls_that_are_inlined_do_not_count() -> None:
    refuse_depth(tower("call", 2000, 1), with_calls=False)
    with pytest.raises(CompileError, match="inline calls"):
        refuse_depth(tower("call", 2000, 1), with_calls=True)


def test_loops_that_an_expansion_adds_count_too() -> None:
    """Too deep is told of the program, not of the file that xladev would write."""

    def factored(levels: int) -> HloModule:
        text = print_module(tower("while", levels, 1)).replace("f32[]", "f32[3,3]")
        return parse_module(text.replace("negate(x0)", "cholesky(x0), lower=true"))

    compile(factored(MAX_NESTING - 6), "template_npu")
    compile(factored(MAX_NESTING - 1), "interpreter")
    with pytest.raises(CompileError, match="deep"):
        compile(factored(MAX_NESTING - 1), "template_npu")
