"""Kernels that read nothing become constants, if they are small and simple."""

import numpy as np
import pytest

from xladev.client import compile
from xladev.compiler.fusion.constant_kernels import ConstantKernels
from xladev.compiler.options import CompileOptions
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify

FREQUENCIES = """
frequencies {
  i = s32[COUNT] iota(), iota_dimension=0
  k = f32[COUNT] convert(i)
  step = f32[] constant(0.25)
  steps = f32[COUNT] broadcast(step), dimensions={}
  ROOT f = f32[COUNT] OPCODE(k, steps)
}
"""
ENTRY = """
ENTRY main {
  x = f32[COUNT] parameter(0)
  f = f32[COUNT] fusion(), kind=kLoop, calls=frequencies
  ROOT r = f32[COUNT] multiply(x, f)
}
"""


def folded(count: int = 8, opcode: str = "multiply", **limit: int) -> HloModule:
    text = "HloModule m\n" + FREQUENCIES + ENTRY
    module = parse_module(text.replace("COUNT", str(count)).replace("OPCODE", opcode))
    changed = ConstantKernels(**limit).run(module)
    verify(changed)
    return changed


def opcodes(module: HloModule) -> list[str]:
    return [i.opcode for i in module.entry.instructions]


def test_a_kernel_without_operands_becomes_a_constant() -> None:
    module = folded()
    assert opcodes(module) == ["parameter", "constant", "multiply"]
    made = next(i for i in module.entry.instructions if i.opcode == "constant")
    assert made["literal"].array.tolist() == [i / 4 for i in range(8)]


def test_functions_of_the_device_stay() -> None:
    assert "fusion" in opcodes(folded(opcode="power"))


@pytest.mark.parametrize("max_nbytes", [31, 32])
def test_large_kernels_stay(max_nbytes: int) -> None:
    assert ("fusion" in opcodes(folded(max_nbytes=max_nbytes))) == (max_nbytes < 32)


def test_a_kernel_that_reads_stays() -> None:
    text = "HloModule m\n" + FREQUENCIES.replace("iota(), iota_dimension=0", "parameter(0)")
    text += ENTRY.replace("fusion()", "fusion(n)").replace(
        "f = ", "n = s32[COUNT] parameter(1)\nf = "
    )
    module = parse_module(text.replace("COUNT", "8").replace("OPCODE", "multiply"))
    assert ConstantKernels().run(module) is module


@pytest.mark.parametrize("level", [0, 2])
def test_a_spectrum_is_scaled_alike(level: int) -> None:
    text = (
        "HloModule m\n"
        + """
ENTRY main {
  x = f32[8] parameter(0)
  i = s32[5] iota(), iota_dimension=0
  k = f32[5] convert(i)
  c = c64[5] convert(k)
  s = c64[5] fft(x), fft_type=RFFT, fft_length={8}
  p = c64[5] multiply(s, c)
  ROOT r = f32[8] fft(p), fft_type=IRFFT, fft_length={8}
}
"""
    )
    x = np.arange(8, dtype=np.float32) ** 2
    found = compile(parse_module(text), "cpu", CompileOptions(optimization_level=level))(x)
    expected = np.fft.irfft(np.fft.rfft(x) * np.arange(5), 8)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-4)
