"""Processes that compile the same program write the same bytes, wherever their objects are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMPILE = """
import sys
from pathlib import Path
import xladev
from xladev.hlo.ir import HloComputation, HloInstruction
for each in (HloComputation, HloInstruction):
    each.__hash__ = lambda self: hash(self.name)
for file in sys.argv[2:]:
    xladev.compile(file, "cpu").save(Path(sys.argv[1]) / Path(file).name)
"""
"""Sets of instructions are in another order for each seed: by address, that happens rarely."""

VALUES, READERS = 8, ("cosine", "sine", "tanh")


def several_kernels() -> str:
    """Cheap values that each of several kernels computes for itself: many kernels, and copies."""
    lines, results = ["x = f32[256,200] parameter(0)"], []
    for n in range(VALUES):
        lines += [f"c{n} = f32[] constant({n})"]
        lines += [f"b{n} = f32[256,200] broadcast(c{n}), dimensions={{}}"]
        lines += [f"v{n} = f32[256,200] add(x, b{n})"]
        for reader in READERS:
            lines += [f"t{n}.{reader} = f32[200,256] transpose(v{n}), dimensions={{1,0}}"]
            lines += [f"k{n}.{reader} = f32[200,256] {reader}(t{n}.{reader})"]
            results.append(f"k{n}.{reader}")
    shapes = ", ".join(["f32[200,256]"] * len(results))
    lines.append(f"ROOT r = ({shapes}) tuple({', '.join(results)})")
    return _module("several_kernels", "\n".join(lines))


def products() -> str:
    """A product with an epilogue, reductions of rows and of columns, and a sort."""
    return _module(
        "products",
        """x = f32[96,64] parameter(0)  w = f32[64,80] parameter(1)  z = f32[] constant(0)
    d = f32[96,80] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    e = f32[96,80] tanh(d)
    rows = f32[96] reduce(e, z), dimensions={1}, to_apply=add
    columns = f32[80] reduce(e, z), dimensions={0}, to_apply=add
    b = f32[96,80] broadcast(rows), dimensions={0}
    q = f32[96,80] divide(e, b)
    s = f32[96,80] sort(q), dimensions={1}, to_apply=less
    ROOT r = (f32[96,80], f32[80]) tuple(s, columns)""",
    )


def loop() -> str:
    """A loop whose state is a counter and two arrays."""
    return _module(
        "loop",
        """x = f32[300] parameter(0)  i = s32[] constant(0)
    state = (s32[], f32[300], f32[300]) tuple(i, x, x)
    w = (s32[], f32[300], f32[300]) while(state), condition=more, body=step
    ROOT r = f32[300] get-tuple-element(w), index=2""",
    )


def _module(name: str, entry: str) -> str:
    return f"""HloModule {name}
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }}
less {{ a = f32[] parameter(0)  b = f32[] parameter(1)
    ROOT s = pred[] compare(a, b), direction=LT }}
more {{ p = (s32[], f32[300], f32[300]) parameter(0)  n = s32[] constant(7)
    i = s32[] get-tuple-element(p), index=0  ROOT c = pred[] compare(i, n), direction=LT }}
step {{ p = (s32[], f32[300], f32[300]) parameter(0)  one = s32[] constant(1)
    i = s32[] get-tuple-element(p), index=0  j = s32[] add(i, one)
    x = f32[300] get-tuple-element(p), index=1  y = f32[300] get-tuple-element(p), index=2
    c = f32[300] cosine(x)  d = f32[300] multiply(y, c)
    ROOT n = (s32[], f32[300], f32[300]) tuple(j, c, d) }}
ENTRY main {{
    {entry}
}}
"""


@pytest.mark.long
def test_programs_are_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    texts = {text.__name__: text() for text in (several_kernels, products, loop)}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    files = [str(tmp_path / name) for name in texts]
    for seed in ("1", "2"):
        (tmp_path / seed).mkdir()
        _compile_in_child(tmp_path / seed, files, seed)
    for name in texts:
        first, second = ((tmp_path / seed / name).read_bytes() for seed in ("1", "2"))
        assert first == second, f"{name} differs from process to process"


def _compile_in_child(folder: Path, files: list[str], seed: str) -> None:
    """Saves what becomes of each file, under its name, in a process with its own hashes."""
    environment = os.environ | {"PYTHONHASHSEED": seed, "XLADEV_CACHE": "off"}
    command = [sys.executable, "-c", COMPILE, str(folder), *files]
    subprocess.run(command, env=environment, check=True, timeout=300)
