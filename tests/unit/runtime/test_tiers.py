"""The tiers: counted, and each one usable with no function more."""

import inspect

import numpy as np
import pytest

from tests.unit.runtime.null_device import (
    TIER_CLASSES,
    Compiler2,
    Driver,
    KernelExecutor2,
    Platform1,
    add_executable,
    null_device,
    null_spec,
)
from xladev.compiler.kernel_code import KernelCode, LaunchDimensions
from xladev.errors import UnsupportedError
from xladev.runtime.array import put
from xladev.runtime.launchable import Launchable
from xladev.runtime.registry import Registry
from xladev.runtime.tiers import (
    CONTRACT,
    HOOK,
    TIERS,
    cumulative_count,
    tier_of,
    written_functions,
)

COUNTS = (7, 11, 13, 21, 24, 25)
A = np.arange(4, dtype=np.float32)


def test_cumulative_counts_are_the_published_ones():
    assert tuple(cumulative_count(t) for t in TIERS) == COUNTS


@pytest.mark.parametrize("tier", TIERS, ids=lambda t: t.name)
def test_every_function_of_the_table_exists_and_has_a_docstring(tier):
    for name in (*tier.functions, *tier.instead):
        cls, _, function = name.partition(".")
        if cls in CONTRACT:
            assert inspect.getdoc(getattr(CONTRACT[cls], function)), name
        else:
            assert name == HOOK or cls == "KernelCompiler"


def test_abstract_functions_are_those_of_the_tier_that_needs_them():
    abstract = {f"{n}.{f}" for n, cls in CONTRACT.items() for f in cls.__abstractmethods__}
    in_table = {f for tier in TIERS for f in tier.functions}
    assert abstract <= in_table
    assert {f for f in TIERS[0].functions if f != HOOK} <= abstract


@pytest.mark.parametrize("number", TIER_CLASSES)
def test_a_backend_writes_exactly_its_tiers_functions(number):
    expected = {f for t in TIERS if t.number <= number for f in t.functions} - {HOOK}
    assert written_functions(TIER_CLASSES[number]) == expected
    assert tier_of(TIER_CLASSES[number]).number == number


def test_the_kernel_route_is_tier_two():
    assert tier_of((Platform1, KernelExecutor2, Compiler2)).name == "Compiled"


def test_tier_one_holds_arrays_and_runs_nothing():
    driver = Driver()
    registered = Registry(find=lambda: ()).register(null_spec(driver, tier=1))
    device = registered.device(0)
    np.testing.assert_array_equal(put(device, A).numpy(), A)
    assert device.stream.is_synchronous
    assert device.memory_stats().allocations == 0
    assert not registered.compiler.supports(None, device.description)
    with pytest.raises(UnsupportedError, match="does not implement load"):
        device.executor.load(add_executable())


@pytest.mark.parametrize("number", [2, 3, 4, 5, 6])
def test_compiled_tiers_run_a_program(number):
    device = null_device(Driver(), tier=number)
    executable = add_executable()
    program = Launchable(device, executable.signature, device.executor.load(executable))
    (result,) = program.execute([A, put(device, A)])
    np.testing.assert_array_equal(result.numpy(), 2 * A)
    assert device.stream.is_synchronous == (number < 4)


def test_kernel_route_launches_on_the_synchronous_stream():
    executor = KernelExecutor2(Driver())
    memory = [executor.allocate(16, alignment=4, memory_space=0) for _ in range(3)]
    for m in memory[:2]:
        executor.copy_to_device(m, A.view(np.uint8))
    kernel = executor.load_kernel(KernelCode("add", b"add"))
    executor.launch_kernel(executor.create_stream(), kernel, memory, LaunchDimensions())
    out = np.empty(4, np.float32)
    executor.copy_to_host(out.view(np.uint8), memory[2])
    np.testing.assert_array_equal(out, 2 * A)


def test_defaults_refuse_by_name():
    device = null_device(Driver(), tier=1)
    executor, stream = device.executor, device.stream
    with pytest.raises(UnsupportedError, match="load_kernel"):
        executor.load_kernel(KernelCode("k", b""))
    with pytest.raises(UnsupportedError, match="launch_kernel"):
        executor.launch_kernel(stream, None, [], LaunchDimensions())
