"""The tiers: counted, and each one usable with no function more."""

import inspect

import numpy as np
import pytest

from tests.unit.runtime.null_device import (
    TIER_CLASSES,
    Compiler2,
    Compiler3,
    Driver,
    Executor2,
    Executor4,
    Executor5,
    KernelExecutor2,
    NullStream,
    Platform1,
    Platform6,
    add_executable,
    null_device,
    null_spec,
)
from xladev.compiler.description import DeviceDescription
from xladev.compiler.kernel_code import KernelCode, LaunchDimensions
from xladev.errors import UnsupportedError
from xladev.runtime.array import put
from xladev.runtime.launch.launchable import Launchable
from xladev.runtime.plugins.tiers import (
    CONTRACT,
    HOOK,
    TIERS,
    cumulative_count,
    tier_of,
    written_functions,
)
from xladev.runtime.registry import Registry
from xladev.runtime.stream import SynchronousStream

COUNTS = (7, 11, 13, 21, 24, 25)
A = np.arange(4, dtype=np.float32)


def test_cumulative_counts_are_the_published_ones():
    assert tuple(cumulative_count(t) for t in TIERS) == COUNTS


@pytest.mark.parametrize("tier", TIERS, ids=lambda t: t.name)
def test_every_function_of_the_table_exists_and_has_a_docstring(tier):
    for name in (*tier.functions, *tier.instead, *tier.beside):
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


class Counting(Executor4):
    """Tier 4, and statistics: what tier 5 is about is missing."""

    def memory_stats(self):
        return None


class Exporting(Executor4):
    """Tier 4, and half of an exchange."""

    def to_dlpack(self, memory, shape, owner):
        return None


class Synchronous(Executor2):
    """Tier 2; its stream is the SDK's."""

    def create_stream(self):
        return SynchronousStream()


class PlatformWithRanks(Platform6):
    """Collectives, without what comes before."""


@pytest.mark.parametrize(
    ("classes", "name"),
    [
        ((Platform1, Counting, Compiler3, NullStream), "Asynchronous"),
        ((Platform1, Exporting, Compiler3, NullStream), "Asynchronous"),
        ((PlatformWithRanks, Executor4, Compiler3, NullStream), "Asynchronous"),
        ((Platform1, Synchronous, Compiler3, SynchronousStream), "Fused"),
        ((Platform1, Executor5, Compiler2, NullStream), "Integrated"),
        ((Platform1, Executor2, Compiler2, SynchronousStream), "Compiled"),
    ],
)
def test_a_tier_is_named_only_if_what_makes_it_is_there(classes, name):
    assert tier_of(classes).name == name


def test_memory_is_shared_only_by_devices_that_dlpack_has_a_number_for():
    classes = TIER_CLASSES[6]
    assert tier_of(classes, DeviceDescription()).name == "Asynchronous"
    assert tier_of(classes, DeviceDescription(dlpack_device_type=12)).name == "Collective"


def test_required_and_optional_functions_are_all_functions():
    for tier in TIERS:
        required = {f for way in tier.ways for f in way}
        assert required | set(tier.optional) == {*tier.functions, *tier.instead, *tier.beside}
        assert not required & set(tier.optional)
    assert TIERS[3].optional == ("Stream.branches", "Stream.mark", "Stream.stamp")


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
