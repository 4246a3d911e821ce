"""Launchable: arguments, donation, aliasing, scratch, poisoning, lifetimes, overlap."""

import gc
import logging
import threading
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.runtime.null_device import (
    F32_4,
    Driver,
    NullStream,
    add_executable,
    double_executable,
    in_place_executable,
    null_device,
    two_result_executable,
)
from xladev.compiler.description import DeviceDescription, MemorySpace
from xladev.compiler.executable import Executable
from xladev.compiler.signature import Alias, Signature
from xladev.errors import (
    ArgumentError,
    DeviceLostError,
    ExecutionError,
    OutOfMemoryError,
    PluginError,
)
from xladev.hlo.dtype import F32
from xladev.hlo.shape import TOKEN_SHAPE, Layout, array, tuple_of
from xladev.runtime.array import put
from xladev.runtime.device import MAX_IN_FLIGHT, Device
from xladev.runtime.host_executor import HostExecutor, host_bytes
from xladev.runtime.launch.launchable import Launchable
from xladev.runtime.loaded_executable import LoadedExecutable

A = np.arange(4, dtype=np.float32)


@pytest.fixture
def driver():
    found = Driver()
    yield found
    found.gate.set()


@pytest.fixture(params=[2, 4], ids=["synchronous", "asynchronous"])
def device(request, driver):
    return null_device(driver, tier=request.param)


@pytest.fixture
def stream_device(driver):
    return null_device(driver, tier=4)


def load(device, executable) -> Launchable:
    return Launchable(device, executable.signature, device.executor.load(executable))


def test_results_in_order_with_one_event(device):
    negated, doubled = load(device, two_result_executable()).execute([A])
    np.testing.assert_array_equal(negated.numpy(), -A)
    np.testing.assert_array_equal(doubled.numpy(), 2 * A)
    assert negated.event is doubled.event


def test_results_feed_the_next_launch(device):
    double = load(device, double_executable())
    value = A
    for _ in range(5):
        (value,) = double.execute([value])
    np.testing.assert_array_equal(value.numpy(), 32 * A)


def test_execute_returns_before_the_device_is_done(stream_device, driver):
    driver.gate.clear()
    (result,) = load(stream_device, double_executable()).execute([A])
    assert not result.is_ready()
    assert "pending" in repr(result)
    driver.gate.set()
    np.testing.assert_array_equal(result.numpy(), 2 * A)
    assert result.is_ready()


# Arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([A], "takes 2 arrays, not 1"),
        ([A, A, A], "takes 2 arrays, not 3"),
        ([A, A.astype(np.float64)], "parameter 1 of add is float64"),
        ([A, A[:3]], r"parameter 1 of add is float32\[3\]"),
        ([A, [1, 2, 3, 4]], "parameter 1 of add is int64"),
    ],
)
def test_wrong_arguments_are_refused_before_launch(device, driver, arguments, message):
    with pytest.raises(ArgumentError, match=message):
        load(device, add_executable()).execute(arguments)
    assert "launch" not in driver.calls


def test_an_array_of_another_device_is_refused(device):
    other = null_device(Driver(), tier=2, name="other")
    with pytest.raises(ArgumentError, match="lives on other:0"):
        load(device, double_executable()).execute([put(other, A)])


def test_deleted_arguments_are_refused(device):
    a = put(device, A)
    a.delete()
    with pytest.raises(ArgumentError, match="it was deleted"):
        load(device, double_executable()).execute([a])


def test_arguments_in_another_layout_are_converted(device):
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    column_major = array(F32, (2, 3), layout=Layout((0, 1)))
    (result,) = load(device, double_executable(column_major)).execute([put(device, value)])
    np.testing.assert_array_equal(result.numpy(), 2 * value)
    assert result.hlo_shape == column_major


# Donation and aliasing


def test_an_aliased_argument_is_copied_when_not_donated(device):
    a = put(device, A)
    program = load(device, in_place_executable())
    (result,) = program.execute([a])
    np.testing.assert_array_equal(result.numpy(), 2 * A)
    np.testing.assert_array_equal(a.numpy(), A)
    context = program.loaded.contexts[0]
    assert context.arguments == context.results


def test_a_donated_argument_becomes_the_result(device, driver):
    a = put(device, A)
    handle = a.buffer.memory.handle
    (result,) = load(device, in_place_executable()).execute([a], donate=[0])
    assert result.buffer.memory.handle == handle
    np.testing.assert_array_equal(result.numpy(), 2 * A)
    with pytest.raises(ArgumentError, match="it was donated to double"):
        a.numpy()
    assert driver.calls.count("allocate") == 1


def test_a_donated_argument_without_alias_is_freed_after_the_launch(device, driver):
    a = put(device, A)
    (result,) = load(device, double_executable()).execute([a], donate=[0])
    result.block_until_ready()
    device.sweep()
    assert a.is_deleted
    assert driver.used == A.nbytes


def test_bad_donations_are_refused(device):
    a = put(device, A)
    add = load(device, add_executable())
    with pytest.raises(ArgumentError, match="donated and passed twice"):
        add.execute([a, a], donate=[0])
    with pytest.raises(ArgumentError, match="no argument 2 to donate"):
        add.execute([a, a], donate=[2])
    assert not a.is_deleted


def test_running_out_of_memory_does_not_eat_donated_arrays(device, driver):
    a = put(device, A)
    driver.capacity = driver.used
    with pytest.raises(OutOfMemoryError):
        load(device, double_executable()).execute([a], donate=[0])
    np.testing.assert_array_equal(a.numpy(), A)


# Host memory


class InPlaceDouble(LoadedExecutable):
    def launch(self, stream, context):
        view = host_bytes(context.results[0]).view(np.float32)
        argument = host_bytes(context.arguments[0]).view(np.float32)
        np.multiply(argument, 2, out=view)


@pytest.fixture
def host():
    space = MemorySpace(host_addressable=True, wrap_alignment=4)
    return Device("host", "cpu", 0, HostExecutor(), DeviceDescription(memory_spaces=(space,)))


@pytest.fixture
def in_place(host):
    return Launchable(host, in_place_executable().signature, InPlaceDouble())


def test_a_callers_array_is_not_written(in_place):
    value = A.copy()
    (result,) = in_place.execute([value])
    np.testing.assert_array_equal(value, A)
    np.testing.assert_array_equal(result.numpy(), 2 * A)


def test_a_donated_callers_array_is_written_in_place(in_place):
    value = A.copy()
    (result,) = in_place.execute([value], donate=[0])
    assert np.shares_memory(result.numpy(), value)
    np.testing.assert_array_equal(value, 2 * A)


def test_a_donated_read_only_array_is_not_written(in_place):
    value = A.copy()
    value.flags.writeable = False
    (result,) = in_place.execute([value], donate=[0])
    np.testing.assert_array_equal(value, A)
    np.testing.assert_array_equal(result.numpy(), 2 * A)


def test_a_shown_array_is_not_written_when_donated(host, in_place):
    a = put(host, A)
    shown = a.numpy()[:2]
    (result,) = in_place.execute([a], donate=[0])
    np.testing.assert_array_equal(shown, A[:2])
    np.testing.assert_array_equal(result.numpy(), 2 * A)
    assert a.is_deleted


class InPlaceMinusReversed(LoadedExecutable):
    def launch(self, stream, context):
        argument, other = (host_bytes(c).view(np.float32) for c in context.arguments)
        result = host_bytes(context.results[0]).view(np.float32)
        for i in range(len(result)):
            result[i] = argument[i] - other[-1 - i]


@pytest.mark.parametrize("distance", [0, 1, 4])
def test_a_donated_array_that_overlaps_another_argument_is_not_written(host, distance):
    signature = replace(add_executable().signature, aliases=(Alias(0, 0),))
    program = Launchable(host, signature, InPlaceMinusReversed())
    memory = np.arange(8, dtype=np.float32)
    given, other = memory[:4], memory[distance : distance + 4]
    want = given - other[::-1]
    (result,) = program.execute([given, other], donate=[0])
    np.testing.assert_array_equal(result.numpy(), want)
    assert np.shares_memory(result.numpy(), memory) == (distance == 4)


def test_a_donated_array_that_is_converted_is_deleted_too(host):
    columns = array(F32, (2, 3), layout=Layout((0, 1)))
    value = put(host, np.ones((2, 3), np.float32), columns)
    rows = array(F32, (2, 3)).with_default_layout()
    signature = Signature("rows", "host", (rows,), rows)
    Launchable(host, signature, InPlaceDouble()).execute([value], donate=[0])
    assert value.is_deleted


def test_an_array_read_while_it_is_donated_keeps_its_value(host, in_place):
    a = put(host, A)
    shown = []
    allocate = host.allocator.allocate

    def read_then_allocate(*args, **options):
        shown.append(a.numpy())
        host.allocator.allocate = allocate
        return allocate(*args, **options)

    scratchy = replace(in_place.signature, scratch_nbytes=8)
    program = Launchable(host, scratchy, InPlaceDouble())
    host.allocator.allocate = read_then_allocate
    (result,) = program.execute([a], donate=[0])
    np.testing.assert_array_equal(shown[0], A)
    np.testing.assert_array_equal(result.numpy(), 2 * A)


def test_host_arguments_are_not_copied(host):
    seen = []

    class Look(LoadedExecutable):
        def launch(self, stream, context):
            seen.append(context.arguments[0].handle.address)

    value = A.copy()
    Launchable(host, double_executable().signature, Look()).execute([value])
    assert seen == [value.ctypes.data]


class AsynchronousHostExecutor(HostExecutor):
    """Host memory, and a worker thread."""

    def __init__(self, driver):
        self.driver = driver

    def create_stream(self):
        return NullStream(self.driver)


@pytest.mark.parametrize("read_only", [False, True])
def test_an_asynchronous_device_does_not_alias_what_the_caller_may_change(driver, read_only):
    class Later(LoadedExecutable):
        def launch(self, stream, context):
            addresses.append(context.arguments[0].handle.address)
            stream.submit(lambda: InPlaceDouble().launch(stream, context))

    addresses = []
    space = MemorySpace(host_addressable=True, wrap_alignment=4)
    description = DeviceDescription(memory_spaces=(space,))
    device = Device("host", "cpu", 0, AsynchronousHostExecutor(driver), description)
    driver.gate.clear()
    value = A.copy()
    value.flags.writeable = not read_only
    (result,) = Launchable(device, double_executable().signature, Later()).execute([value])
    if not read_only:
        value[:] = -1
    driver.gate.set()
    np.testing.assert_array_equal(result.numpy(), 2 * A)
    assert (addresses == [value.ctypes.data]) == read_only


# Scratch and overlap


def test_scratch_is_allocated_per_launch_and_given_back(device, driver):
    program = load(device, double_executable(scratch_nbytes=100))
    kept = [program.execute([A])[0] for _ in range(3)]
    for result in kept:
        result.block_until_ready()
    contexts = program.loaded.contexts
    assert {c.scratch.nbytes for c in contexts} == {100}
    assert len({c.run_id for c in contexts}) == 3
    device.sweep()
    assert driver.used == 3 * A.nbytes


def test_overlapping_launches_share_no_buffers(stream_device, driver):
    driver.gate.clear()
    program = load(stream_device, double_executable(scratch_nbytes=8))
    results = [program.execute([A + i])[0] for i in range(4)]
    handles = [c.scratch.handle for c in program.loaded.contexts]
    handles += [c.results[0].handle for c in program.loaded.contexts]
    assert len(set(handles)) == 8
    driver.gate.set()
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result.numpy(), 2 * (A + i))


def test_buffers_dropped_while_a_launch_is_pending_live_until_it_is_over(stream_device, driver):
    driver.gate.clear()
    a = put(stream_device, A)
    (result,) = load(stream_device, add_executable(scratch_nbytes=64)).execute([a, A])
    del a
    gc.collect()
    assert "deallocate" not in driver.calls
    driver.gate.set()
    np.testing.assert_array_equal(result.numpy(), 2 * A)
    stream_device.sweep()
    assert driver.used == A.nbytes


def test_dropped_results_live_until_the_launch_is_over(stream_device, driver):
    driver.gate.clear()
    load(stream_device, double_executable()).execute([A])
    gc.collect()
    assert driver.used == 2 * A.nbytes
    driver.gate.set()
    stream_device.synchronize()
    assert driver.used == 0
    assert "run" in driver.calls


def test_launches_in_flight_are_limited(stream_device, driver):
    driver.gate.clear()
    program = load(stream_device, double_executable())
    done = threading.Event()

    def many():
        for _ in range(MAX_IN_FLIGHT + 5):
            program.execute([A])
        done.set()

    threading.Thread(target=many, daemon=True).start()
    assert not done.wait(0.2)
    assert driver.calls.count("launch") == MAX_IN_FLIGHT + 1
    driver.gate.set()
    assert done.wait(10)


def test_threads_share_a_program(device):
    program = load(device, add_executable())
    wrong = []

    def work(seed):
        a = put(device, A + seed)
        for i in range(30):
            (result,) = program.execute([a, A * i])
            if not np.array_equal(result.numpy(), A + seed + A * i):
                wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(s,)) for s in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
    device.synchronize()
    gc.collect()
    assert device.allocator.stats().allocations == 0


# Failures


@pytest.mark.parametrize("fault", [ValueError("driver bug"), SystemExit(3)], ids=repr)
def test_a_raising_launch_fails_its_results_only(device, driver, fault):
    program = load(device, double_executable())
    driver.fail("launch", fault)
    (bad,) = program.execute([A])
    (good,) = program.execute([A])
    with pytest.raises(ExecutionError, match="execution of double failed") as info:
        bad.numpy()
    assert info.value.__cause__ is fault
    np.testing.assert_array_equal(good.numpy(), 2 * A)


def test_a_failure_without_results_is_raised(device, driver):
    """Nobody could read it, and it would be lost but for the log."""
    program = load(device, Executable(Signature("quiet", "null", (F32_4,), tuple_of()), b"nothing"))
    assert program.execute([A]) == ()
    driver.fail("launch", ExecutionError("bit flip"))
    with pytest.raises(ExecutionError, match="bit flip"):
        program.execute([A])
    assert program.execute([A]) == ()
    device.synchronize()


def test_a_failure_on_the_device_fails_its_results_only(stream_device, driver):
    program = load(stream_device, double_executable())
    driver.fail("run", ExecutionError("bit flip"))
    (bad,) = program.execute([A])
    (good,) = program.execute([A])
    with pytest.raises(ExecutionError, match="bit flip"):
        bad.numpy()
    np.testing.assert_array_equal(good.numpy(), 2 * A)


def test_poison_spreads_to_everything_computed_from_it(device, driver):
    double, add = load(device, double_executable()), load(device, add_executable())
    driver.fail("run", ExecutionError("bit flip"))
    (bad,) = double.execute([A])
    (good,) = double.execute([A])
    (mixed,) = add.execute([bad, good])
    (worse,) = double.execute([mixed])
    for array_ in (worse, mixed, bad):
        with pytest.raises(ExecutionError, match="bit flip"):
            array_.block_until_ready()
    np.testing.assert_array_equal(good.numpy(), 2 * A)


def test_known_poison_is_not_launched(device, driver):
    double = load(device, double_executable())
    driver.fail("launch", ValueError("no"))
    (bad,) = double.execute([A])
    launches = driver.calls.count("launch")
    (worse,) = double.execute([bad], donate=[0])
    assert driver.calls.count("launch") == launches
    assert bad.is_deleted
    with pytest.raises(ExecutionError):
        worse.numpy()


def test_poison_that_comes_late_spreads_too(stream_device, driver):
    driver.gate.clear()
    double = load(stream_device, double_executable())
    driver.fail("run", ExecutionError("bit flip"))
    (bad,) = double.execute([A])
    (worse,) = double.execute([bad])
    driver.gate.set()
    with pytest.raises(ExecutionError, match="bit flip"):
        worse.numpy()
    assert bad.event.error() is worse.event.error()


def test_a_failure_nobody_reads_is_logged_once(device, driver, caplog):
    caplog.set_level(logging.ERROR, "xladev.runtime")
    double = load(device, double_executable())
    driver.fail("run", ExecutionError("bit flip"))
    (bad,) = double.execute([A])
    (worse,) = double.execute([bad])
    del bad, worse
    device.synchronize()
    gc.collect()
    assert len([r for r in caplog.records if "bit flip" in r.getMessage()]) == 1


def test_a_raising_record_does_not_free_buffers_in_use(stream_device, driver):
    program = load(stream_device, double_executable())
    driver.fail("record", ValueError("no events left"))
    (bad,) = program.execute([A])
    assert "synchronize" in driver.calls
    with pytest.raises(ExecutionError, match="failed"):
        bad.numpy()


@pytest.mark.parametrize("where", ["launch", "run"])
def test_a_lost_device_refuses_work_until_reset(device, driver, where):
    kept = put(device, A)
    program = load(device, double_executable())
    driver.fail(where, DeviceLostError("fell off the bus"))
    (bad,) = program.execute([kept])
    with pytest.raises(DeviceLostError, match="fell off the bus"):
        bad.numpy()
    device.sweep()
    with pytest.raises(DeviceLostError, match="null:0 was lost") as info:
        program.execute([A])
    assert "reset" in info.value.hint
    device.reset()
    with pytest.raises(DeviceLostError, match="went with its device"):
        kept.numpy()
    (good,) = program.execute([A])
    np.testing.assert_array_equal(good.numpy(), 2 * A)
    del kept
    assert device.memory_stats().allocations == 1


def test_out_of_memory_names_the_live_buffers_and_leaves_the_device_usable(device, driver):
    driver.capacity = 100
    big = put(device, np.zeros(16, np.float32), label="the big one")
    program = load(device, double_executable())
    kept = [program.execute([put(device, A)], donate=[0])[0]]
    kept[0].block_until_ready()
    device.sweep()
    with pytest.raises(OutOfMemoryError) as info:
        kept.append(program.execute([put(device, A)])[0])
    assert "64 bytes the big one" in info.value.why
    assert "result 0 of double" in info.value.why
    del big
    (good,) = program.execute([A])
    np.testing.assert_array_equal(good.numpy(), 2 * A)


def test_out_of_memory_waits_for_pending_launches_and_retries(stream_device, driver):
    driver.capacity = 3 * A.nbytes
    program = load(stream_device, double_executable())
    driver.gate.clear()
    (first,) = program.execute([A])
    threading.Timer(0.05, driver.gate.set).start()
    (second,) = program.execute([A])
    np.testing.assert_array_equal(second.numpy(), 2 * A)
    np.testing.assert_array_equal(first.numpy(), 2 * A)


def test_a_raising_allocate_is_named(device, driver):
    program = load(device, double_executable())
    driver.fail("allocate", ValueError("heap corrupt"))
    with pytest.raises(PluginError, match=r"raised ValueError in Executor\.allocate"):
        program.execute([A])
    np.testing.assert_array_equal(program.execute([A])[0].numpy(), 2 * A)


# Tokens


def test_tokens_are_buffers_of_no_bytes(device, driver):
    class Look(LoadedExecutable):
        def launch(self, stream, context):
            seen.append([m.nbytes for m in context.arguments + context.results])

    seen = []
    signature = Signature("t", "null", (TOKEN_SHAPE, F32_4), tuple_of(TOKEN_SHAPE))
    (token,) = Launchable(device, signature, Look()).execute([None, A])
    assert len(seen[0]) == 3
    assert token.hlo_shape == TOKEN_SHAPE
    token.block_until_ready()


# Dynamic dimensions


def test_sizes_of_dynamic_dimensions_are_hidden_arguments_and_results(device):
    shape = array(F32, (4,), dynamic=(True,))
    signature = Signature("half", "null", (shape,), shape)
    assert [s.dims for s in signature.argument_shapes] == [(4,), ()]
    program = load(device, Executable(signature, b"keep_first_half"))
    (result,) = program.execute([A])
    assert result.shape == (2,)
    np.testing.assert_array_equal(result.numpy(), A[:2])
    (again,) = program.execute([result])
    np.testing.assert_array_equal(again.numpy(), A[:1])


def test_an_error_keeps_no_buffers_alive(device, driver):
    program = load(device, double_executable(scratch_nbytes=64))
    driver.fail("launch", ValueError("no"))
    (bad,) = program.execute([put(device, A)])
    device.synchronize()
    assert driver.used == 0
    with pytest.raises(ExecutionError):
        bad.numpy()
