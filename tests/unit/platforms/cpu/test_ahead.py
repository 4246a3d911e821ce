"""Objects for other machines: one symbol to call, constants within, nothing left to link."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.tools.cross import MACHINES, Machine, cross_compile, run_all
from xladev.compiler.contract import ExportedObject
from xladev.compiler.options import CompileOptions
from xladev.errors import CompileError, UnsupportedError
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.cpu import ahead
from xladev.platforms.cpu.ahead import entry_symbol
from xladev.platforms.cpu.compiler import CpuCompiler
from xladev.platforms.cpu.object_symbols import undefined_symbols
from xladev.platforms.cpu.targets import target_names

MODULE = parse_module("""HloModule m
ENTRY e {
  x = f32[5,4] parameter(0)
  n = s64[7] parameter(1)
  c = f32[4,3] constant({{1,2,3},{4,5,6},{7,8,9},{10,11,12}})
  y = f32[5,3] dot(x, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[5,3] floor(y)
  s = f32[5,3] sine(z)
  d = s64[7] constant({3, -5, 7, 11, -13, 17, 1000000007})
  q = s64[7] divide(n, d)
  f = f32[7] convert(n)
  ROOT r = (f32[5,3], s64[7], f32[7]) tuple(s, q, f) }""")
X = (np.arange(20, dtype=np.float32).reshape(5, 4) - 9.5) / 7
N = np.array([10**17, -(10**17), 5, 2**62 + 1, -(2**53) - 1, 0, -(2**63)], np.int64)
C = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
NATIVE = MACHINES[0]


def exported(module: HloModule, target: str) -> ExportedObject:
    options = CompileOptions(target=target)
    compiler = CpuCompiler()
    return compiler.export(compiler.compile(module, options), "object")


@pytest.mark.parametrize("target", target_names())
def test_every_target_gets_an_object_that_needs_nothing(target: str) -> None:
    found = exported(MODULE, target)
    assert found.entry == "m_xladev_entry"
    assert undefined_symbols(found.data) in ((), ("memcpy",), ("memset",), ("memcpy", "memset"))


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.target)
def test_results_are_right_on_every_machine(machine: Machine, tmp_path: Path) -> None:
    if machine.missing:
        pytest.skip(machine.missing)
    if machine.needs and machine.needs not in Path("/proc/cpuinfo").read_text("utf-8"):
        pytest.skip(f"this processor has no {machine.needs}")
    sine, quotient, number = cross_compile(MODULE, machine)([X, N], tmp_path)
    divisors = [3, -5, 7, 11, -13, 17, 1000000007]
    want = [abs(int(n)) // abs(d) * (-1 if (n < 0) != (d < 0) else 1)
            for n, d in zip(N, divisors, strict=True)]  # fmt: skip
    np.testing.assert_array_equal(quotient, want)
    np.testing.assert_array_equal(number, N.astype(np.float32))
    np.testing.assert_allclose(sine, np.sin(np.floor(X @ C)), rtol=0, atol=1e-6)


@pytest.mark.parametrize("level", [0, 1, 3])
def test_levels_of_optimisation_agree(level: int, tmp_path: Path) -> None:
    if NATIVE.missing:
        pytest.skip(NATIVE.missing)
    (tmp_path / "a").mkdir()
    got = cross_compile(MODULE, NATIVE, level)([X, N], tmp_path)
    want = cross_compile(MODULE, NATIVE)([X, N], tmp_path / "a")
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-6)


def test_two_programs_share_a_binary(tmp_path: Path) -> None:
    if NATIVE.missing:
        pytest.skip(NATIVE.missing)
    programs = [cross_compile(replace(MODULE, name=name), NATIVE) for name in ("a", "b-2")]
    assert [p.exported.entry for p in programs] == ["a_xladev_entry", "b_2_xladev_entry"]
    first, second = run_all(NATIVE, [(p, [X, N]) for p in programs], tmp_path)
    for f, s in zip(first, second, strict=True):
        np.testing.assert_array_equal(f, s)


def test_only_the_entry_is_seen_and_constants_are_read_only(tmp_path: Path) -> None:
    if shutil.which("readelf") is None:
        pytest.skip("readelf is not installed")
    file = tmp_path / "m.o"
    file.write_bytes(exported(MODULE, "x86_64-linux-gnu").data)
    command = ["readelf", "-sSW", str(file)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    seen = re.findall(r"GLOBAL +(\w+) +(\w+) +(\S+)", text)
    assert [s for s in seen if s[1] != "UND"][0][0] == "HIDDEN"
    assert [s[2] for s in seen if s[1] != "UND"] == ["m_xladev_entry"]
    sections = dict(re.findall(r"\[ *(\d+)\] (\S+)", text))
    held = re.findall(r"OBJECT +LOCAL +DEFAULT +(\d+) xladev.constant", text)
    assert len(held) == 2
    assert {sections[n].split(".")[1] for n in held} == {"rodata"}
    written = re.findall(r"PROGBITS .* WA ", text) + re.findall(r"NOBITS .* WA ", text)
    assert all(" 000000 00" in line for line in written)


def test_symbols_are_c_identifiers() -> None:
    assert entry_symbol("jit_f.3") == "jit_f_3_xladev_entry"
    assert entry_symbol("2nd") == "_2nd_xladev_entry"
    assert entry_symbol("é") == "__xladev_entry"


def test_code_of_this_process_is_not_exported() -> None:
    compiler = CpuCompiler()
    executable = compiler.compile(MODULE, CompileOptions())
    with pytest.raises(UnsupportedError, match="for this process alone") as caught:
        compiler.export(executable, "object")
    assert "CompileOptions(target=" in (caught.value.hint or "")


def test_there_is_no_other_format() -> None:
    compiler = CpuCompiler()
    executable = compiler.compile(MODULE, CompileOptions(target="wasm32"))
    with pytest.raises(UnsupportedError, match="exports no 'library' files"):
        compiler.export(executable, "library")


def test_functions_that_nobody_has_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "builtin_text", lambda symbol, target: None)
    with pytest.raises(CompileError, match="calls __aeabi_") as caught:
        exported(MODULE, "armv7-linux-gnueabihf")
    assert "nobody provides" in (caught.value.why or "")


def test_the_description_is_the_targets() -> None:
    found = CpuCompiler().describe("aarch64-linux-gnu")
    assert (found.target, found.vector_nbytes) == ("aarch64-unknown-linux-gnu", 16)
    assert CpuCompiler().describe().target == CpuCompiler().describe("").target
