"""DeviceArray and put: what the host reads, layouts, aliasing, deletion, DLPack."""

import gc
import weakref

import ml_dtypes
import numpy as np
import pytest

from tests.unit.runtime.null_device import Driver, add_executable, null_device, null_spec
from xladev.compiler.description import DeviceDescription, MemorySpace
from xladev.errors import ArgumentError, ExecutionError, PluginError, ShapeError
from xladev.hlo.dtype import F32, S4
from xladev.hlo.shape import Layout, Shape, Tile, array, interned
from xladev.runtime.array import from_dlpack, put, to_device
from xladev.runtime.device import Device
from xladev.runtime.host_executor import HostExecutor, host_address
from xladev.runtime.launch.launchable import Launchable
from xladev.runtime.registry import Registry

A = np.arange(12, dtype=np.float32).reshape(3, 4)


def host_device(**space):
    memory = MemorySpace(host_addressable=True, **space)
    return Device("host", "cpu", 0, HostExecutor(), DeviceDescription(memory_spaces=(memory,)))


@pytest.fixture
def driver():
    return Driver()


@pytest.fixture(params=["null", "host"])
def device(request, driver):
    return null_device(driver, tier=2) if request.param == "null" else host_device()


VALUES = [
    A,
    A[::2, ::-1],
    A.T,
    np.float64(3.5),
    np.zeros((0, 3), np.int8),
    np.array([True, False]),
    A.astype(ml_dtypes.bfloat16),
    np.arange(-8, 8).astype(ml_dtypes.int4),
    A.astype(ml_dtypes.float8_e4m3fn),
    A.astype(np.complex128),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda v: f"{v.dtype}{list(v.shape)}")
def test_round_trip(device, value):
    there = put(device, value)
    assert there.shape == value.shape
    assert there.dtype == value.dtype
    back = there.numpy()
    assert back.tobytes() == np.ascontiguousarray(value).tobytes()
    assert back.dtype == value.dtype


def test_python_values_and_dtypes_without_counterpart(device):
    assert put(device, [1.0, 2.0]).dtype == np.float64
    with pytest.raises(ShapeError, match="no HLO counterpart"):
        put(device, np.array(["text"]))


LAYOUTS = [
    Layout((0, 1)),
    Layout((1, 0), tiles=(Tile((2, 4)),)),
    Layout((0, 1), tiles=(Tile((8, 128)), Tile((2, 1)))),
    Layout((1, 0), element_bits=4),
]


MASKED = np.ma.masked_array(A, A > 3)


@pytest.mark.parametrize(
    "value",
    [MASKED, np.ma.masked_array(A), [MASKED, MASKED], (np.ma.masked, 1.0)],
    ids=["array", "nothing masked", "list", "scalar"],
)
def test_a_mask_is_not_dropped_silently(device, value):
    with pytest.raises(ArgumentError, match=r"x is masked(.|\n)*array.filled\(number\)"):
        put(device, value, label="x")


class Sparse:
    """What NumPy makes an array of one object of."""


OTHERS = {
    "objects": (A.astype(object), "arguments are arrays of numbers"),
    "something missing": ([1.0, None], "what is missing needs a number"),
    "sparse": (Sparse(), r"array.toarray\(\) of a sparse one"),
    "fields": (np.zeros((3, 4), [("a", "f4")]), r"the program takes f32\[3,4\]"),
    "times": (np.zeros((3, 4), "datetime64[s]"), r"the program takes f32\[3,4\]"),
    "text": (A.astype(str), r"the program takes f32\[3,4\]"),
    "other byte order": (A.astype(">f4"), r"is >f4\[3, 4\]"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_would_lose_its_meaning_is_refused(device, name):
    value, message = OTHERS[name]
    with pytest.raises(ArgumentError, match=message):
        put(device, value, array(F32, (3, 4)))


def test_a_matrix_and_mapped_memory_are_arrays(device):
    for value in (A.view(np.matrix), A.view(np.memmap), A.view(np.recarray)):
        assert put(device, value).numpy().tolist() == A.tolist()


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_layouts_are_converted_at_transfers(device, layout):
    value = np.arange(-6, 6).reshape(3, 4).astype(ml_dtypes.int4)
    there = put(device, value, Shape(S4, (3, 4), layout))
    assert there.numpy().tobytes() == value.tobytes()
    assert there.numpy().shape == (3, 4)


@pytest.mark.parametrize("value", [A.astype(np.int32), A[:2], A.reshape(12)])
def test_wrong_dtype_or_dims_are_refused(device, value):
    with pytest.raises(ArgumentError, match=r"the program takes f32\[3,4\]"):
        put(device, value, array(F32, (3, 4)))


def test_dynamic_arrays_keep_their_sizes_and_show_the_live_part(device):
    shape = array(F32, (5, 4), dynamic=(True, False))
    there = put(device, A, shape)
    assert there.shape == (3, 4)
    assert there.hlo_shape.dims == (5, 4)
    assert len(there.size_buffers) == 1
    np.testing.assert_array_equal(there.numpy(), A)
    with pytest.raises(ArgumentError):
        put(device, np.zeros((6, 4), np.float32), shape)


def test_array_protocol(device):
    there = put(device, A)
    np.testing.assert_array_equal(np.asarray(there), A)
    assert np.asarray(there, dtype=np.int64).dtype == np.int64
    copy = np.array(there, copy=True)
    copy[0, 0] = 99
    assert there.numpy()[0, 0] == 0
    with pytest.raises(ValueError, match="needs a copy"):
        np.asarray(there, dtype=np.int64, copy=False)
    assert len(there) == 3
    assert float(put(device, np.float32(2.5))) == 2.5
    assert int(put(device, 7)) == 7
    assert bool(put(device, True))
    with pytest.raises(TypeError):
        len(put(device, 1))


def test_numpy_is_read_only_where_it_is_a_view():
    there = put(host_device(), A)
    shown = there.numpy()
    assert not shown.flags.writeable
    assert np.shares_memory(shown, there.numpy())


def test_a_view_outlives_its_array():
    there = put(host_device(), A)
    buffer = weakref.ref(there.buffer)
    shown = there.numpy()[1:]
    del there
    gc.collect()
    assert buffer() is not None
    np.testing.assert_array_equal(shown, A[1:])
    del shown
    gc.collect()
    assert buffer() is None


def test_put_copies_unless_told_to_alias():
    device = host_device()
    value = A.copy()
    copied, aliased = put(device, value), put(device, value, alias=True)
    value[0, 0] = 42
    assert copied.numpy()[0, 0] == 0
    assert aliased.numpy()[0, 0] == 42
    assert host_address(aliased.buffer.memory) == value.ctypes.data
    assert device.memory_stats().allocations == 1


@pytest.mark.parametrize("value", [A.T, A[:, ::2], np.zeros((0, 3), np.float32)])
def test_what_cannot_be_aliased_is_copied(value):
    there = put(host_device(), value, alias=True)
    assert there.buffer.host_owner is None
    np.testing.assert_array_equal(there.numpy(), value)


def test_misaligned_arrays_are_copied():
    raw = np.zeros(17 * 4, np.uint8)[4 - 0 :]
    start = -raw.ctypes.data % 16 + 4
    value = raw[start : start + 16].view(np.float32)
    assert value.ctypes.data % 16 == 4
    assert put(host_device(), value, alias=True).buffer.host_owner is None
    assert put(host_device(wrap_alignment=4), value, alias=True).buffer.host_owner is value


def test_deleted_arrays_say_so(device):
    there = put(device, A)
    assert not there.is_deleted
    there.delete()
    assert there.is_deleted
    assert "deleted" in repr(there)
    for use in (there.numpy, there.block_until_ready, there.delete, lambda: there.buffer):
        with pytest.raises(ArgumentError, match="it was deleted"):
            use()
    assert device.memory_stats().allocations == 0


def test_dropping_an_array_gives_its_memory_back(driver):
    device = null_device(driver, tier=2)
    there = put(device, A)
    assert driver.used == A.nbytes
    del there
    device.sweep()
    assert driver.used == 0


def test_deleting_an_array_gives_its_memory_back_at_once(driver):
    there = put(null_device(driver, tier=2), A)
    there.delete()
    assert driver.used == 0


def test_plugins_faults_in_copies_are_named(driver):
    device = null_device(driver, tier=2)
    driver.fail("copy_to_device", ValueError("cable"))
    with pytest.raises(
        PluginError, match=r"'null:0' raised ValueError in Executor\.copy_to_device"
    ):
        put(device, A)
    device.sweep()
    assert driver.used == 0
    there = put(device, A)
    driver.fail("copy_to_host", ValueError("cable"))
    with pytest.raises(PluginError, match=r"Executor\.copy_to_host"):
        there.numpy()
    np.testing.assert_array_equal(there.numpy(), A)


def test_dlpack_of_host_memory_is_a_view():
    there = put(host_device(), A)
    assert there.__dlpack_device__() == (1, 0)
    taken = np.from_dlpack(there)
    np.testing.assert_array_equal(taken, A)
    assert np.shares_memory(taken, there.numpy())


def test_dlpack_for_old_consumers_is_a_copy():
    there = put(host_device(), A)

    class Old:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **kwargs):
            return there.__dlpack__()

    taken = np.from_dlpack(Old())
    assert not np.shares_memory(taken, there.numpy())


def test_dlpack_below_tier_five_goes_through_the_host(driver):
    there = put(null_device(driver, tier=2), A)
    np.testing.assert_array_equal(np.from_dlpack(there), A)
    with pytest.raises(BufferError, match="DLPack device"):
        there.__dlpack__(dl_device=(2, 0))


def integrated(driver):
    """A tier-5 device that has a DLPack device type."""
    opened = null_device(driver, tier=5)
    description = DeviceDescription(dlpack_device_type=12)
    return Device("null", "null", 0, opened.executor, description)


def test_dlpack_at_tier_five_exports_device_memory(driver):
    there = put(integrated(driver), A)
    assert there.__dlpack_device__() == (12, 0)
    kind, memory, shape, owner = there.__dlpack__()
    assert (kind, memory, owner) == ("capsule", there.buffer.memory, there.buffer)
    assert shape.dims == (3, 4)
    host = there.__dlpack__(dl_device=(1, 0))
    assert "to_dlpack" in driver.calls
    assert type(host).__name__ == "PyCapsule"


@pytest.mark.parametrize("tier", [2, 4])
def test_copies_within_a_platform_stay_there(tier):
    driver = Driver(device_count=2)
    registered = Registry(find=lambda: ()).register(null_spec(driver, tier=tier))
    there = put(registered.device(0), A)
    copied = to_device(there, registered.device(1))
    assert copied.device.name == "null:1"
    np.testing.assert_array_equal(copied.numpy(), A)
    assert to_device(there, registered.device(0)) is there
    assert ("stream.copy" in driver.calls) == (tier == 4)


def test_a_copy_waits_for_its_source_on_the_stream_and_fails_with_it():
    driver = Driver(device_count=2)
    registered = Registry(find=lambda: ()).register(null_spec(driver, tier=4))
    first, second = registered.devices()
    executable = add_executable()
    program = Launchable(first, executable.signature, first.executor.load(executable))
    driver.gate.clear()
    driver.fail("run", ExecutionError("bit flip"))
    (failing,) = program.execute([A[0], A[0]])
    (pending,) = program.execute([A[0], A[0]])
    poisoned, copied = to_device(failing, second), to_device(pending, second)
    assert driver.calls.count("stream.wait") == 2
    pending.delete()
    driver.gate.set()
    for failed in (poisoned, failing):
        with pytest.raises(ExecutionError, match="bit flip"):
            failed.numpy()
    np.testing.assert_array_equal(copied.numpy(), 2 * A[0])


def test_copies_between_platforms_go_through_the_host(driver):
    there = put(null_device(driver, tier=4), A, array(F32, (5, 4), dynamic=(True, False)))
    copied = to_device(there, host_device())
    np.testing.assert_array_equal(copied.numpy(), A)
    assert copied.hlo_shape == there.hlo_shape


def test_from_dlpack_takes_device_memory_or_copies(driver):
    device = integrated(driver)
    lent = device.executor.allocate(48, alignment=1, memory_space=0)
    device.executor.copy_to_device(lent, A.reshape(-1).view(np.uint8))

    class Producer:
        memory, shape = lent, put(device, A).hlo_shape

        def __dlpack_device__(self):
            return (12, 0)

    np.testing.assert_array_equal(from_dlpack(device, Producer()).numpy(), A)
    Producer.shape = Producer.shape.without_layout()
    taken = from_dlpack(device, Producer())  # of the very shape that a program takes as it is
    assert taken.hlo_shape is interned(array(F32, A.shape).with_default_layout())
    copied = from_dlpack(device, A)
    np.testing.assert_array_equal(copied.numpy(), A)
    assert driver.calls.count("from_dlpack") == 2


def test_failed_results_raise_wherever_they_are_read(driver):
    device = null_device(driver, tier=2)
    executable = add_executable()
    loaded = device.executor.load(executable)
    driver.fail("launch", ValueError("no"))
    (result,) = Launchable(device, executable.signature, loaded).execute([A[0], A[0]])
    assert result.is_ready()
    uses = (result.numpy, result.block_until_ready, result.item, lambda: np.asarray(result),
            result.__dlpack__)  # fmt: skip
    for use in uses:
        with pytest.raises(Exception, match="execution of add failed"):
            use()
    assert result.buffer is None
