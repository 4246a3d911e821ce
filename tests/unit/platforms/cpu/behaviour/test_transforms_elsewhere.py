"""Transforms in objects for other machines, and in vectors of their widths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.tools.cross import MACHINES, Machine, cross_compile
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.compiler import CpuCompiler
from xladev.platforms.cpu.object_symbols import undefined_symbols
from xladev.platforms.cpu.targets import target_names

MODULE = parse_module("""HloModule m
ENTRY e {
  x = f32[6,60] parameter(0)
  y = f32[4,97] parameter(1)
  z = f64[32768] parameter(2)
  a = c64[6,31] fft(x), fft_type=RFFT, fft_length={6,60}
  b = f32[4,97] negate(y)
  c = c64[4,97] complex(y, b)
  d = c64[4,97] fft(c), fft_type=IFFT, fft_length={97}
  e = c128[16385] fft(z), fft_type=RFFT, fft_length={32768}
  f = f64[32768] fft(e), fft_type=IRFFT, fft_length={32768}
  r0 = f32[6,31] real(a)
  r1 = f32[6,31] imag(a)
  r2 = f32[4,97] real(d)
  r3 = f32[4,97] imag(d)
  ROOT r = (f32[6,31], f32[6,31], f32[4,97], f32[4,97], f64[32768]) tuple(r0, r1, r2, r3, f) }""")


@pytest.mark.long
@pytest.mark.parametrize("target", target_names())
def test_every_target_gets_an_object_that_needs_nothing(target: str) -> None:
    compiler = CpuCompiler()
    found = compiler.export(compiler.compile(MODULE, CompileOptions(target=target)), "object")
    assert set(undefined_symbols(found.data)) <= {"memcpy", "memset"}


@pytest.mark.long
@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.target)
def test_results_are_right_on_every_machine(machine: Machine, tmp_path: Path, seed: int) -> None:
    if machine.missing:
        pytest.skip(machine.missing)
    if machine.needs and machine.needs not in Path("/proc/cpuinfo").read_text("utf-8"):
        pytest.skip(f"this processor has no {machine.needs}")
    rng = np.random.default_rng(seed)
    x, y = (rng.standard_normal(dims).astype(np.float32) for dims in ((6, 60), (4, 97)))
    z = rng.standard_normal(32768)
    got = cross_compile(MODULE, machine)([x, y, z], tmp_path)
    a, d = np.fft.rfft2(x.astype(float)), np.fft.ifft(y - 1j * y.astype(float))
    for found, wanted in zip(got, (a.real, a.imag, d.real, d.imag, z), strict=True):
        step = 2.0**-52 if found.dtype == np.float64 else 2.0**-23
        assert np.linalg.norm(found - wanted) < 4 * step * np.linalg.norm(wanted)
