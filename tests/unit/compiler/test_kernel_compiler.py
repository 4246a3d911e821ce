"""What a compiler of kernels lets into a kernel, and what becomes of its faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.description import DeviceDescription
from xladev.compiler.kernel_code import KernelCode
from xladev.compiler.kernel_compiler import KernelCompiler
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import CompileTarget
from xladev.compiler.partition.region_compile import compile_region
from xladev.compiler.support import YES, Support, no
from xladev.errors import ArgumentError, PluginError
from xladev.hlo.ir import HloInstruction
from xladev.hlo.text import parse_module

HEAD = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
ENTRY e {
"""
PROGRAMS = {
    "spread": """i = f32[10] iota(), iota_dimension=0
        b = f32[100,10] broadcast(i), dimensions={1}
        ROOT t = f32[10,100] transpose(b), dimensions={1,0}""",
    "copied": """x = f32[64] parameter(0)  two = f32[] constant(2)
        twos = f32[64] broadcast(two), dimensions={}
        a = f32[64] add(x, twos)  r = f32[64] reverse(twos), dimensions={0}
        s = f32[32] slice(twos), slice={[0:32]}  n = f32[32] negate(s)
        ROOT t = (f32[64], f32[64], f32[32]) tuple(a, r, n)""",
    "cheap": """x = f32[64] parameter(0)  y = f32[8] parameter(1)
        a = f32[64] add(x, x)  b = f32[64,8] broadcast(a), dimensions={0}
        c = f32[64,8] broadcast(y), dimensions={1}  m = f32[64,8] multiply(b, c)
        e = f32[64] exponential(a)  d = f32[8,64] broadcast(a), dimensions={1}
        f = f32[8,64] broadcast(y), dimensions={0}  g = f32[8,64] divide(d, f)
        ROOT t = (f32[64,8], f32[64], f32[8,64]) tuple(m, e, g)""",
    "epilogue": """x = f32[4,5] parameter(0)  y = f32[5,6] parameter(1)
        i = f32[4,6] iota(), iota_dimension=1
        d = f32[4,6] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        s = f32[4,6] add(d, i)  ROOT t = f32[4,6] tanh(s)""",
    "rows": """x = f32[6,64] parameter(0)  low = f32[] constant(-inf)  zero = f32[] constant(0)
        two = f32[] constant(2)  twos = f32[6,64] broadcast(two), dimensions={}
        h = f32[6,64] multiply(x, twos)
        m = f32[6] reduce(h, low), dimensions={1}, to_apply=max
        mb = f32[6,64] broadcast(m), dimensions={0}  d = f32[6,64] subtract(h, mb)
        e = f32[6,64] exponential(d)
        s = f32[6] reduce(e, zero), dimensions={1}, to_apply=add
        sb = f32[6,64] broadcast(s), dimensions={0}  ROOT r = f32[6,64] divide(e, sb)""",
}
Pair = tuple[str, str]


class Refusing(KernelCompiler):
    """Fuses in all ways that there are, but for some pairs of opcodes; None: for all pairs."""

    epilogues = frozenset({"dot", "reduce"})
    copied_from_nbytes = 1
    has_row_kernels = True

    def __init__(self, refused: frozenset[Pair] | None = frozenset()) -> None:
        self.refused = refused

    def supports(self, instruction: HloInstruction, description: DeviceDescription) -> Support:
        return YES

    def can_fuse(self, producer: HloInstruction, consumer: HloInstruction) -> Support:
        refused = self.refused is None or (producer.opcode, consumer.opcode) in self.refused
        return no("not those two") if refused else YES


def fused_pairs(compiler: KernelCompiler, program: str) -> set[Pair]:
    """Opcodes of (value, reader) in one kernel; scalar constants may be in any."""
    module = compiler.form_kernels(parse_module(HEAD + PROGRAMS[program] + "\n}"))
    kernels = (i["calls"] for i in module.entry.instructions if i.opcode == "fusion")
    inside = (i for kernel in kernels for i in kernel.instructions)
    pairs = {(o.opcode, i.opcode) for i in inside for o in i.operands}
    return {pair for pair in pairs if pair[0] not in ("parameter", "constant")}


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_kernel_holds_a_pair_that_the_backend_refused(program: str) -> None:
    pairs = fused_pairs(Refusing(), program)
    assert pairs
    for pair in pairs:
        assert pair not in fused_pairs(Refusing(frozenset({pair})), program)
    assert not fused_pairs(Refusing(None), program)


DOT = """x = f32[4,5] parameter(0)  y = f32[5,6] parameter(1)
d = f32[4,6] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
ROOT t = f32[4,6] tanh(d)"""


class Faulty(Refusing):
    """A vendor's compiler with a fault in one function.

    Args:
        function: the one at fault.
        fault: what it does.
    """

    platform = "acme"

    def __init__(self, function: str, fault: Callable[[], Any]) -> None:
        super().__init__()
        setattr(self, function, lambda *_: fault())

    def lower_loop(self, spec: KernelSpec, options: CompileOptions) -> KernelCode:
        return KernelCode(spec.name, b"")

    lower_dot = lower_loop


def fails(function: str, fault: Callable[[], Any]) -> PluginError:
    """What the user is told of a fault in a function of the compiler."""
    target = CompileTarget("acme", Faulty(function, fault), DeviceDescription())
    with pytest.raises(PluginError) as caught:
        compile_region(target, parse_module(HEAD + DOT + "\n}"), CompileOptions())
    return caught.value


def raises_key_error() -> Any:
    raise KeyError("tile")


def test_what_lowering_raises_names_the_function_and_the_kernel() -> None:
    error = fails("lower_dot", raises_key_error)
    assert error.what == "plugin 'acme' raised KeyError in KernelCompiler.lower_dot"
    assert error.where == "kernel k0.t.fusion, <d = f32[4,6]{1,0} dot(param_0, param_1)>"
    assert "--traceback" in str(error)
    assert isinstance(error.__cause__, KeyError)


def test_what_lowering_returns_wrongly_names_the_function_and_the_kernel() -> None:
    error = fails("lower_dot", lambda: None)
    assert error.what == "plugin 'acme' returned NoneType from KernelCompiler.lower_dot"
    assert error.where == "kernel k0.t.fusion, <d = f32[4,6]{1,0} dot(param_0, param_1)>"


def test_code_that_is_no_bytes_is_refused_where_it_is_made() -> None:
    with pytest.raises(ArgumentError, match="the code of kernel 'k0' is a list") as caught:
        KernelCode("k0", [1, 2])  # type: ignore[arg-type]
    assert "type bytes" in str(caught.value)


def test_what_else_a_compiler_raises_says_how_to_see_the_traceback() -> None:
    error = fails("link", raises_key_error)
    assert error.what == "plugin 'acme' raised KeyError in Compiler.compile"
    assert error.where == "module m"
    assert "--traceback" in str(error)


@pytest.mark.parametrize("value", [None, True])
def test_an_answer_about_fusion_that_is_none_names_the_function_and_the_pair(value: object) -> None:
    error = fails("can_fuse", lambda: value)
    kind = type(value).__name__
    assert error.what == f"plugin 'acme' returned {kind} from Compiler.can_fuse"
    assert error.where == "<d = f32[4,6]{1,0} dot(x, y)>, <t = f32[4,6]{1,0} tanh(d)>"
    assert error.why == "the contract says Support"
    assert fails("can_fuse", raises_key_error).where == error.where


def test_an_answer_about_sharing_that_is_none_names_the_function() -> None:
    text = "HloModule m\nENTRY e { x = f32[64] parameter(0)  a = f32[64] exponential(x)\n"
    text += "c = f32[64] cosine(x)\nROOT t = (f32[64], f32[64]) tuple(c, a) }"
    with pytest.raises(PluginError, match="returned bool from Compiler.can_share_kernel"):
        Faulty("can_share_kernel", lambda: True).form_kernels(parse_module(text))


def test_passes_that_are_no_pipeline_name_the_function() -> None:
    error = fails("pipeline", lambda: 5)
    assert error.what == "plugin 'acme' returned int from Compiler.pipeline"
    assert error.why == "the contract says HloPassPipeline"
    assert fails("pipeline", raises_key_error).what == (
        "plugin 'acme' raised KeyError in Compiler.pipeline"
    )
