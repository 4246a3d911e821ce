"""Names of native code, and samples counted by them."""

import xladev
from benchmarks.cpu.profile import CLASSES, Profile, counted, functions, page
from xladev.platforms.cpu.linker import ENTRY
from xladev.platforms.cpu.payload import CpuPayload

SCRIPT = """
    7f0a12 k3.dot.4 (/tmp/perf-12.map)
    7f0a13 k3.dot.4 (/tmp/perf-12.map)
    7f0a14 k0.add.1.fusion ([JIT] tid 12)
    55d1e0 _PyEval_EvalFrameDefault (/usr/lib/libpython3.11.so.1.0)
    55d1e1 [unknown] ([kernel.kallsyms])
    55d1e2 memcpy (/usr/lib/libc.so.6)

"""


def test_functions_of_object_code() -> None:
    text = "HloModule m\nENTRY e { x = f32[8] parameter(0) ROOT r = f32[8] add(x, x) }"
    compiled = xladev.compile(xladev.parse(text), "cpu")
    code = CpuPayload.from_bytes(compiled.program.executables[0].payload).code
    found = {symbol.name: symbol for symbol in functions(code)}
    assert ENTRY in found
    assert any(name.startswith("k0.") for name in found)
    assert all(symbol.nbytes > 0 for symbol in found.values())
    assert len({symbol.offset for symbol in found.values()}) == len(found)


def test_samples_are_counted_by_kernel_and_library() -> None:
    assert counted(SCRIPT.splitlines()) == {
        "k3.dot.4": 2, "k0.add.1.fusion": 1, "Python": 1, "kernel": 1, "libc": 1,
    }  # fmt: skip


def test_kernels_are_classed_by_name() -> None:
    shares = (("k3.dot.4", 40.0), ("k1.add.fusion", 25.0), ("Python", 20.0), ("libc", 15.0))
    profile = Profile("p", 12.0, shares)
    classes = profile.by_class()
    assert sum(classes.values()) == 100
    assert {k: v for k, v in classes.items() if v} == {
        "Python": 20.0, "libc and kernel": 15.0, "dot": 40.0, "other loops": 25.0,
    }  # fmt: skip
    assert list(classes) == [title for title, _ in CLASSES]
    assert "| p | 12 us | 20 | 15 |  | 40 |" in page([profile])
    assert "`k3.dot.4` |" in page([profile])
