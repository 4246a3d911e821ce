"""Whole programs that call LAPACK: threads, donation, saving, options, processes without it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import xladev
from tests.unit.platforms.cpu.stacks import Stacks, call_text, integers, shape, target, together
from xladev.client import CompiledModule
from xladev.compiler.compile import compile_recorded
from xladev.compiler.options import CompileOptions
from xladev.errors import CompileError
from xladev.platforms.cpu.compiler import CpuCompiler
from xladev.platforms.cpu.lapack import found
from xladev.runtime.registry import current_registry

pytest.importorskip("scipy")
OFF = CompileOptions(extras={"cpu.lapack": "off"})
SOLVE = "triangular-solve left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE"


def eigen_text(dtype: type, *dims: int) -> str:
    """Eigenvalues of a stack."""
    result = together(shape(dtype, *dims), shape(dtype, *dims[:-1]), integers(*dims[:-2]))
    letter = {np.float32: "s", np.float64: "d"}[dtype]
    name = target(f"lapack_{letter}syevd_ffi", "{mode = 86 : ui8, uplo = 76 : ui8}")
    return call_text(result, [shape(dtype, *dims)], name)


def compiled(text: str, options: CompileOptions | None = None) -> CompiledModule:
    return xladev.compile(xladev.parse(text), "cpu", options)


def run(text: str, *operands: np.ndarray, options: CompileOptions | None = None) -> list[bytes]:
    """The bytes of each result."""
    results = compiled(text, options)(*operands)
    each = results if isinstance(results, tuple) else (results,)
    return [r.numpy().tobytes() for r in each]


@pytest.mark.parametrize("dims", [(40, 30, 30), (300, 12, 12), (2, 60, 60)])
def test_any_number_of_threads_gives_the_same_bits(dims: tuple[int, ...], seed: int) -> None:
    a = Stacks("s", seed).hermitian(*dims)
    text = eigen_text(np.float32, *dims)
    found = [run(text, a, options=CompileOptions(threads=n)) for n in (1, 2, 3, 7)]
    assert all(each == found[0] for each in found)


def test_a_donated_argument_is_not_read_after_it_was_written(seed: int) -> None:
    """The result takes the place of the matrix, from which pivots are also found."""
    s = Stacks("d", seed)
    a, b = s.positive(8, 8), s.random(8, 8)
    text = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }
    ENTRY e { a = f64[8,8] parameter(0)  b = f64[8,8] parameter(1)
      c = f64[8,8] cholesky(a), lower=true
      x = f64[8,8] triangular-solve(c, b), left_side=true, lower=true, unit_diagonal=false,
        transpose_a=NO_TRANSPOSE
      ROOT r = (f64[8,8], f64[8,8]) tuple(x, c) }"""
    x, factor = compiled(text)(a, b)
    s.close(factor.numpy() @ factor.numpy().T, a)
    s.close(factor.numpy() @ x.numpy(), b)
    device = xladev.devices("cpu")[0]
    held = [device.put(a), device.put(b)] if hasattr(device, "put") else [a, b]
    again = compiled(text)(*held)
    assert [r.numpy().tobytes() for r in again] == [x.numpy().tobytes(), factor.numpy().tobytes()]


def test_a_loop_calls_it_each_time(seed: int) -> None:
    text = """HloModule m
    body { s = (s32[], f64[6,6]) parameter(0)  n = s32[] get-tuple-element(s), index=0
      a = f64[6,6] get-tuple-element(s), index=1  o = s32[] constant(1)  m = s32[] add(n, o)
      c = f64[6,6] cholesky(a), lower=true  t = f64[6,6] transpose(c), dimensions={1,0}
      d = f64[6,6] dot(c, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT r = (s32[], f64[6,6]) tuple(m, d) }
    less { s = (s32[], f64[6,6]) parameter(0)  n = s32[] get-tuple-element(s), index=0
      k = s32[] constant(5)  ROOT r = pred[] compare(n, k), direction=LT }
    ENTRY e { a = f64[6,6] parameter(0)  z = s32[] constant(0)
      s = (s32[], f64[6,6]) tuple(z, a)
      w = (s32[], f64[6,6]) while(s), condition=less, body=body
      ROOT r = f64[6,6] get-tuple-element(w), index=1 }"""
    s = Stacks("d", seed)
    a = s.positive(6, 6)
    s.close(compiled(text)(a).numpy(), a)


# Options, records, saved programs


def test_off_gives_the_same_without_it(seed: int) -> None:
    s = Stacks("d", seed)
    a, b = s.positive(9, 9), s.random(9, 2)
    text = call_text(s.shape(9, 2), [s.shape(9, 9), s.shape(9, 2)], SOLVE)
    program = compiled(text, OFF)
    assert b"xladev_lapack" not in program.program.executables[0].payload
    s.close(np.tril(a) @ program(a, b).numpy(), b)


@pytest.mark.parametrize(
    ("dims", "told"),
    [((30, 30), " computes it: dpotrf"), ((8, 4, 4), "vectors of 8 matrices compute it: dpotrf")],
)
def test_explain_says_what_computes_it(dims: tuple[int, ...], told: str) -> None:
    text = call_text(shape(np.float64, *dims), [shape(np.float64, *dims)], "cholesky lower=true")
    platform = current_registry().platform("cpu")
    record = compile_recorded(xladev.load(text.encode()), platform.compile_target(None),
                              CompileOptions())  # fmt: skip
    reasons = [d.why for region in record.regions for d in region.decisions]
    assert any(why.endswith(told) for why in reasons), reasons


def test_the_cache_tells_versions_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = CpuCompiler()
    states = {compiler.cache_state(CompileOptions()), compiler.cache_state(OFF)}
    monkeypatch.setattr("xladev.platforms.cpu.compiler.lapack_identity", lambda: "SciPy 0.1")
    states.add(compiler.cache_state(CompileOptions()))
    assert len(states) == 3


def test_a_saved_program_runs_again_and_says_what_it_lacks(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = Stacks("d", seed)
    a, path = s.hermitian(30, 30), tmp_path / "eigen.exe"
    program = compiled(eigen_text(np.float64, 30, 30))
    program.save(path)
    want = [r.numpy().tobytes() for r in program(a)]
    assert [r.numpy().tobytes() for r in xladev.load_executable(path)(a)] == want
    monkeypatch.setattr(found, "found_lapack", lambda: found.NoLapack("SciPy is not installed"))
    with pytest.raises(CompileError, match="calls LAPACK's dsyevd") as raised:
        xladev.load_executable(path)
    assert raised.value.why == "SciPy is not installed" and "cpu.lapack=off" in str(raised.value)


def test_other_machines_never_get_it(seed: int) -> None:
    text = call_text("f64[9,9]", ["f64[9,9]"], "cholesky lower=true")
    options = CompileOptions(target="x86_64-linux-gnu")
    compiler = CpuCompiler()
    here, there = (compiler.describe(target) for target in (None, options.target))
    root = xladev.load(text.encode()).entry.root
    assert compiler.supports(root, here) and not compiler.supports(root, there)


BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "scipy":
            raise ImportError("no scipy here")
sys.meta_path.insert(0, Blocker())
import numpy as np, xladev
texts, arrays = sys.argv[1:3]
given = np.load(arrays)
found = {}
for n, text in enumerate(open(texts).read().split("----")):
    results = xladev.compile(text.strip().encode(), "cpu")(given[f"a{n}"])
    for k, each in enumerate(results if isinstance(results, tuple) else (results,)):
        found[f"{n}.{k}"] = each.numpy()
np.savez(sys.argv[3], **found)
assert not any(name.startswith("scipy") for name in sys.modules)
"""


@pytest.mark.long
def test_a_process_without_scipy_computes_the_same(tmp_path: Path, seed: int) -> None:
    s = Stacks("d", seed)
    programs = {
        eigen_text(np.float64, 9, 9): s.hermitian(9, 9),
        call_text("f64[9,9]", ["f64[9,9]"], "cholesky lower=true"): s.positive(9, 9),
        call_text("f64[20,5,5]", ["f64[20,5,5]"], "cholesky lower=false"): s.positive(20, 5, 5),
    }
    texts, arrays, out = (tmp_path / name for name in ("texts", "arrays.npz", "out.npz"))
    texts.write_text("----".join(programs))
    np.savez(arrays, **{f"a{n}": a for n, a in enumerate(programs.values())})
    command = [sys.executable, "-c", BLOCKED, str(texts), str(arrays), str(out)]
    done = subprocess.run(command, env={**os.environ, "XLADEV_CACHE": "off"}, check=False,
                          capture_output=True, text=True, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    with np.load(out) as got:
        for n, (text, a) in enumerate(programs.items()):
            results = compiled(text)(a)
            each = results if isinstance(results, tuple) else (results,)
            for k, want in enumerate(each):
                s.close(np.abs(got[f"{n}.{k}"]), np.abs(want.numpy()))
