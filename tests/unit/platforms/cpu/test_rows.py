"""Row programs as native code: the evaluator's results, in vectors and element by element."""

from __future__ import annotations

import numpy as np
import pytest

from xladev.client import compile
from xladev.codegen.llvm import FunctionBuilder, IrType, Value
from xladev.compiler.fusion.row_fusion import RowFusion
from xladev.compiler.options import CompileOptions
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen import rows as emitter

HEAD = """HloModule rows
add {{ a = {t}[] parameter(0)
  b = {t}[] parameter(1)
  ROOT c = {t}[] add(a, b) }}
max {{ a = {t}[] parameter(0)
  b = {t}[] parameter(1)
  ROOT c = {t}[] maximum(a, b) }}
"""
PROGRAMS = {
    "softmax": """ENTRY e {{ x = {t}[{full}] parameter(0)
  low = {t}[] constant(-inf)
  zero = {t}[] constant(0)
  m = {t}[{kept}] reduce(x, low), dimensions={{{reduced}}}, to_apply=max
  mb = {t}[{full}] broadcast(m), dimensions={{{outer}}}
  d = {t}[{full}] subtract(x, mb)
  e = {t}[{full}] exponential(d)
  s = {t}[{kept}] reduce(e, zero), dimensions={{{reduced}}}, to_apply=add
  sb = {t}[{full}] broadcast(s), dimensions={{{outer}}}
  ROOT r = {t}[{full}] divide(e, sb) }}""",
    "normalised": """ENTRY e {{ x = {t}[{full}] parameter(0)
  scale = {t}[{last}] parameter(1)
  zero = {t}[] constant(0)
  n = {t}[] constant({count})
  tiny = {t}[] constant(0.001)
  s = {t}[{kept}] reduce(x, zero), dimensions={{{reduced}}}, to_apply=add
  nb = {t}[{kept}] broadcast(n), dimensions={{}}
  mean = {t}[{kept}] divide(s, nb)
  mb = {t}[{full}] broadcast(mean), dimensions={{{outer}}}
  d = {t}[{full}] subtract(x, mb)
  q = {t}[{full}] multiply(d, d)
  qs = {t}[{kept}] reduce(q, zero), dimensions={{{reduced}}}, to_apply=add
  var = {t}[{kept}] divide(qs, nb)
  tb = {t}[{kept}] broadcast(tiny), dimensions={{}}
  safe = {t}[{kept}] add(var, tb)
  inverse = {t}[{kept}] rsqrt(safe)
  ib = {t}[{full}] broadcast(inverse), dimensions={{{outer}}}
  normal = {t}[{full}] multiply(d, ib)
  sb = {t}[{full}] broadcast(scale), dimensions={{{inner}}}
  ROOT r = {t}[{full}] multiply(normal, sb) }}""",
    "log of a sum": """ENTRY e {{ x = {t}[{full}] parameter(0)
  low = {t}[] constant(-inf)
  zero = {t}[] constant(0)
  m = {t}[{kept}] reduce(x, low), dimensions={{{reduced}}}, to_apply=max
  mb = {t}[{full}] broadcast(m), dimensions={{{outer}}}
  d = {t}[{full}] subtract(x, mb)
  e = {t}[{full}] exponential(d)
  s = {t}[{kept}] reduce(e, zero), dimensions={{{reduced}}}, to_apply=add
  l = {t}[{kept}] log(s)
  ROOT r = {t}[{kept}] add(l, m) }}""",
}
COMPLEX = """ENTRY e {{ x = {z}[7,{n}] parameter(0)
  zero = {t}[] constant(0)
  e = {z}[7,{n}] exponential(x)
  p = {t}[7,{n}] real(e)
  q = {t}[7,{n}] imag(e)
  pp = {t}[7,{n}] multiply(p, p)
  qq = {t}[7,{n}] multiply(q, q)
  s = {t}[7,{n}] add(pp, qq)
  total = {t}[7] reduce(s, zero), dimensions={{1}}, to_apply=add
  norm = {t}[7] sqrt(total)
  nb = {t}[7,{n}] broadcast(norm), dimensions={{0}}
  d = {z}[7,{n}] convert(nb)
  ROOT r = {z}[7,{n}] divide(e, d) }}"""
SHAPES = [((5, 64), 1), ((3, 67), 1), ((2, 3, 100), 2), ((4, 3, 40), 1), ((1, 9, 1, 700), 3)]


def text(name: str, dims: tuple[int, ...], kept: int, dtype: str) -> str:
    words = {
        "full": dims, "kept": dims[:kept], "last": dims[-1:], "outer": range(kept),
        "reduced": range(kept, len(dims)), "inner": (len(dims) - 1,),
    }  # fmt: skip
    joined = {key: ",".join(map(str, numbers)) for key, numbers in words.items()}
    count = int(np.prod(dims[kept:]))
    return (HEAD + PROGRAMS[name]).format(t=dtype, count=count, **joined)


def results(name: str, dims: tuple[int, ...], kept: int, dtype: str) -> tuple[np.ndarray, ...]:
    module = parse_module(text(name, dims, kept, dtype))
    assert any(i.opcode == "fusion" for i in RowFusion().run(module).entry.instructions)
    generator = np.random.default_rng(7)
    arguments = [
        (3 * generator.standard_normal(p.shape.dims)).astype(p.shape.element_type.np)
        for p in module.entry.parameters
    ]
    if name == "softmax":
        arguments[0].reshape(-1)[::37] = -np.inf
        arguments[0].reshape(-1)[1] = np.nan
    found = compile(module, "cpu", CompileOptions(strict=True))(*arguments)
    wanted = HloEvaluator().run(module, *arguments)
    return np.asarray(found), np.asarray(wanted)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(("dims", "kept"), SHAPES)
def test_rows_agree_with_the_evaluator(name: str, dims: tuple[int, ...], kept: int) -> None:
    found, wanted = results(name, dims, kept, "f32")
    np.testing.assert_allclose(found, wanted, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize(("dtype", "rtol"), [("f64", 1e-13), ("bf16", 2e-2), ("f16", 4e-3)])
def test_rows_of_other_types(dtype: str, rtol: float) -> None:
    found, wanted = results("softmax", (5, 72), 1, dtype)
    np.testing.assert_allclose(found.astype(float), wanted.astype(float), rtol=rtol, atol=rtol / 10)


@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_element_by_element(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emitter, "lanes_for", lambda k, extent: 1)
    found, wanted = results(name, (3, 2, 40), 1, "f32")
    np.testing.assert_allclose(found, wanted, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize(("dtype", "part"), [("c64", "f32"), ("c128", "f64")])
@pytest.mark.parametrize("columns", [40, 100])
def test_rows_of_complex_numbers_have_room_for_both_parts(
    dtype: str, part: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms: list[int] = []
    alloca = FunctionBuilder.alloca

    def noted(b: FunctionBuilder, type_: IrType, count: int = 1, align: int = 16) -> Value:
        rooms.append(count)
        return alloca(b, type_, count, align)

    monkeypatch.setattr(FunctionBuilder, "alloca", noted)
    module = parse_module((HEAD + COMPLEX).format(t=part, z=dtype, n=columns))
    program = compile(module, "cpu", CompileOptions(strict=True))
    assert 2 * columns in rooms
    parts = np.random.default_rng(3).standard_normal((2, 7, columns))
    argument = (parts[0] + 1j * parts[1]).astype(module.entry.parameters[0].shape.element_type.np)
    wanted = HloEvaluator().run(module, argument)
    np.testing.assert_allclose(np.asarray(program(argument)), np.asarray(wanted), rtol=1e-5)
