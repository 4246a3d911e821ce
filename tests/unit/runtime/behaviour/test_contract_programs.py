"""Whole programs on a backend of each tier: fallbacks to the host, and faults that are named."""

import numpy as np
import pytest

from tests.unit.loops import counted
from tests.unit.runtime.null_device import Driver, Platform1, null_spec
from xladev.client import CompiledModule, compile
from xladev.compiler.options import CompileOptions
from xladev.errors import ExecutionError, PluginError, UnsupportedError, XladevError
from xladev.runtime.registry import Registry, using_registry

LESS = """less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT lt = pred[] compare(a, b), direction=LT
}
"""
TURN = """reversed = f32[6] reverse(x), dimensions={0}
  y = f32[6] add(x, reversed)"""
ENTRY = """ENTRY main {
  x = f32[6] parameter(0)
  y = f32[6] parameter(1)
  added = f32[6] add(x, y)
  sorted = f32[6] sort(added), dimensions={0}, to_apply=less
  zero = s32[] constant(0)
  state = (s32[], f32[6]) tuple(zero, sorted)
  loop = (s32[], f32[6]) while(state), condition=cond, body=body
  looped = f32[6] get-tuple-element(loop), index=1
  negated = f32[6] negate(looped)
  ROOT result = (f32[6], f32[6]) tuple(negated, sorted)
}
"""
PROGRAM = "HloModule mixed\n" + LESS + counted("f32[6]", TURN, 3) + ENTRY

X, Y = np.arange(6, dtype=np.float32), np.array([5, 0, 3, 1, 9, 2], np.float32)


def expected(x, y):
    looped = ordered = np.sort(x + y)
    for _ in range(3):
        looped = looped + looped[::-1]
    return -looped, ordered


@pytest.fixture
def driver():
    found = Driver()
    yield found
    found.gate.set()


@pytest.fixture
def on_null(driver):
    """Compiles PROGRAM for a null platform of some tier."""
    registries = []

    def build(tier, **options) -> CompiledModule:
        registry = Registry(find=lambda: ())
        registry.register(null_spec(driver, tier=tier))
        registries.append(using_registry(registry))
        registries[-1].__enter__()
        return compile(PROGRAM.encode(), "null", CompileOptions(**options))

    yield build
    for entered in reversed(registries):
        entered.__exit__(None, None, None)


@pytest.mark.parametrize("tier", range(1, 7))
def test_every_tier_runs_every_program(driver, on_null, tier):
    compiled = on_null(tier)
    for x, y in ((X, Y), (Y, Y), (X, -Y)):
        for result, want in zip(compiled(x, y), expected(x, y), strict=True):
            np.testing.assert_array_equal(result.numpy(), want)
    assert ("launch" in driver.calls) == (tier > 1)
    counts = dict(compiled.program.instruction_counts)
    assert bool(counts.get("null")) == (tier > 1)


def test_fallbacks_are_named_with_the_backends_reason(on_null):
    fallbacks = {f.opcode: f.reason for f in on_null(4).program.fallbacks}
    assert fallbacks["sort"] == "the null device has no sort"
    assert "add" not in fallbacks


def test_dumps_go_where_the_options_say(on_null, tmp_path):
    on_null(4, dump_to=str(tmp_path), dump_filter=r"program\.txt$")
    path = tmp_path / "0001.mixed.program.txt"
    assert {p.name for p in tmp_path.iterdir() if p.suffix == ".txt"} == {path.name}
    assert "fallback: sorted (sort) runs on evaluator" in path.read_text()


def test_strict_refuses_fallbacks(on_null):
    with pytest.raises(UnsupportedError, match="sort"):
        on_null(4, strict=True)


@pytest.mark.parametrize("tier", [2, 4])
def test_nothing_leaks(driver, on_null, tier):
    compiled = on_null(tier)
    kept = [r.block_until_ready() for r in compiled(X, Y)]
    compiled.devices[0].synchronize()
    used = driver.used
    for _ in range(20):
        kept = [r.block_until_ready() for r in compiled(X, Y)]
    compiled.devices[0].synchronize()
    assert driver.used == used
    assert len(kept) == 2


@pytest.mark.parametrize("tier", [2, 4])
@pytest.mark.parametrize("function", ["launch", "run"])
def test_a_failing_region_fails_the_results_and_nothing_else(driver, on_null, tier, function):
    compiled = on_null(tier)
    driver.fail(function, ValueError("bit flip"))
    for result in compiled(X, Y):
        with pytest.raises(XladevError, match=r"[\s\S]*bit flip"):
            result.numpy()
    for result, want in zip(compiled(X, Y), expected(X, Y), strict=True):
        np.testing.assert_array_equal(result.numpy(), want)


FAULTS = {
    "supports": ValueError("driver bug"),
    "compile": ValueError("driver bug"),
    "describe": ValueError("driver bug"),
    "device_layout": ValueError("driver bug"),
}


@pytest.mark.parametrize("function", FAULTS)
def test_a_raising_compiler_is_named(driver, function):
    def fail(*args, **kwargs):
        raise FAULTS[function]

    spec = null_spec(driver, tier=2)
    broken = type("Broken", (spec.compiler,), {function: fail})
    object.__setattr__(spec, "compiler", broken)
    registry = Registry(find=lambda: ())
    registry.register(spec)
    with using_registry(registry), pytest.raises(XladevError, match="null") as info:
        compile(PROGRAM.encode(), "null")
    assert "driver bug" in str(info.value)
    assert function in str(info.value)


@pytest.mark.parametrize("function", ["supports", "compile", "describe"])
def test_a_compiler_that_returns_nonsense_is_named(driver, function):
    spec = null_spec(driver, tier=2)
    broken = type("Broken", (spec.compiler,), {function: lambda *args, **kwargs: "nonsense"})
    object.__setattr__(spec, "compiler", broken)
    registry = Registry(find=lambda: ())
    registry.register(spec)
    with using_registry(registry), pytest.raises(PluginError, match="returned str from Compiler"):
        compile(PROGRAM.encode(), "null")


@pytest.mark.parametrize("fault", [ValueError("driver bug"), "nonsense"], ids=["raise", "wrong"])
def test_a_misbehaving_load_is_named(driver, fault):
    spec = null_spec(driver, tier=2)
    platform = spec.factory()

    def load(self, executable):
        if isinstance(fault, Exception):
            raise fault
        return fault

    broken = type("Broken", (platform.executor_class,), {"load": load})
    factory = type("BrokenPlatform", (Platform1,), {"executor_class": broken})
    object.__setattr__(spec, "factory", lambda: factory(driver))
    registry = Registry(find=lambda: ())
    registry.register(spec)
    with using_registry(registry), pytest.raises(PluginError, match=r"Executor\.load"):
        compile(PROGRAM.encode(), "null")


def test_results_are_tuples_of_pending_arrays_on_an_asynchronous_device(driver, on_null):
    compiled = on_null(4)
    driver.fail("run", ExecutionError("bit flip"))
    results = compiled(X, Y)
    assert isinstance(results, tuple)
    with pytest.raises(ExecutionError, match="bit flip"):
        results[1].block_until_ready()
