"""Capsules over device memory: NumPy, as the other side, reads them as host memory."""

import ctypes
import gc
import weakref
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from xladev.hlo import dtype as dt
from xladev.hlo.shape import array
from xladev.platforms.cuda import dlpack
from xladev.platforms.cuda.driver.emulated import EmulatedDriver
from xladev.platforms.cuda.executor import CudaExecutor
from xladev.runtime.array import put
from xladev.runtime.registry import current_registry

HOST = (1, 0)


class Capsule:
    """An object that gives away one capsule."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return HOST


class Owner:
    """Something whose life can be watched."""


@pytest.mark.parametrize(
    ("element_type", "dtype"),
    [
        (dt.F32, "f4"),
        (dt.PRED, "?"),
        (dt.S8, "i1"),
        (dt.U64, "u8"),
        (dt.C128, "c16"),
        (dt.F16, "f2"),
    ],
)
def test_a_consumer_sees_the_memory_itself(element_type, dtype):
    data = np.arange(12).astype(dtype).reshape(3, 4)
    made = dlpack.capsule_of(data.ctypes.data, array(element_type, (3, 4)), HOST, data)
    found = np.from_dlpack(Capsule(made))
    assert found.dtype == data.dtype
    assert np.array_equal(found, data)
    assert np.shares_memory(found, data)


def test_the_owner_lives_as_long_as_the_consumer():
    data, owner = np.zeros(4, np.float32), Owner()
    made = dlpack.capsule_of(data.ctypes.data, array(dt.F32, (4,)), HOST, owner)
    found, alive = np.from_dlpack(Capsule(made)), weakref.ref(owner)
    del made, owner
    gc.collect()
    assert alive() is not None
    del found
    gc.collect()
    assert alive() is None


def test_a_capsule_that_nobody_takes_gives_its_owner_back():
    owner = Owner()
    made, alive = dlpack.capsule_of(64, array(dt.F32, ()), HOST, owner), weakref.ref(owner)
    del owner
    gc.collect()
    assert alive() is not None
    del made
    gc.collect()
    assert alive() is None


def test_a_capsule_may_go_while_an_exception_is_on_its_way():
    def fail():
        data = np.zeros(4, np.float32)
        kept = dlpack.capsule_of(data.ctypes.data, array(dt.F32, (4,)), HOST, data)
        raise ValueError(f"with {type(kept).__name__}")

    with pytest.raises(ValueError, match="PyCapsule"):
        fail()


def test_others_may_call_the_same_functions_otherwise(monkeypatch):
    shared = ctypes.pythonapi.PyCapsule_GetPointer
    monkeypatch.setattr(shared, "argtypes", (ctypes.py_object, ctypes.c_char_p))
    made = dlpack.capsule_of(64, array(dt.F32, (2,)), HOST, None)
    assert dlpack.taken_from(made) is not None


@pytest.mark.parametrize("dims", [(), (0, 3), (2, 5)])
def test_what_a_capsule_says(dims):
    made = dlpack.capsule_of(64, array(dt.BF16, dims), (dlpack.CUDA, 3), None)
    taken = dlpack.taken_from(made)
    assert taken is not None
    tensor = taken.managed.contents.tensor
    assert (taken.address, taken.shape) == (64, array(dt.BF16, dims))
    assert (tensor.device_type, tensor.device_id) == (dlpack.CUDA, 3)
    taken.give_back()


def test_dtypes_that_dlpack_has_not():
    assert dlpack.capsule_of(64, array(dt.F8E4M3FN, (2,)), HOST, None) is None


class Executor(CudaExecutor):
    """One whose memory other libraries know: the host's, for lack of a GPU."""

    def __init__(self):
        device = EmulatedDriver(0).open(0)
        self.waited = []
        super().__init__(device, "cuda:0")

        class Known(type(device)):
            dlpack_device = HOST

            def wait_for_others(inner):
                self.waited.append(inner)

        device.__class__ = Known


def test_memory_is_borrowed_and_given_back():
    executor, data = Executor(), np.arange(6, dtype=np.int32).reshape(2, 3)
    owner = Owner()
    alive = weakref.ref(owner)
    made = dlpack.capsule_of(data.ctypes.data, array(dt.S32, (2, 3)), HOST, owner)
    del owner
    memory, shape = executor.from_dlpack(Capsule(made))
    assert shape == array(dt.S32, (2, 3))
    assert (memory.nbytes, executor.device_pointer(memory)) == (24, data.ctypes.data)
    assert len(executor.waited) == 1
    del made
    gc.collect()
    assert alive() is not None
    executor.deallocate(memory)
    gc.collect()
    assert alive() is None


def test_what_is_not_dense_is_not_taken():
    data = np.zeros((4, 6), np.float32)
    for view in (data.T, data[:, :3], data[::-1]):
        assert dlpack.taken_from(view.__dlpack__()) is None
    assert dlpack.taken_from(data[1:2].T.__dlpack__()) is not None
    assert dlpack.taken_from(object()) is None


def test_a_capsule_is_taken_once():
    capsule = np.zeros(3, np.float32).__dlpack__()
    first = dlpack.taken_from(capsule)
    assert first is not None
    assert dlpack.taken_from(capsule) is None
    first.give_back()


def test_results_go_out_and_in_without_copies():
    executor = Executor()
    memory = executor.allocate(24, alignment=256, memory_space=0)
    shape = array(dt.BF16, (3, 4)).with_default_layout()
    capsule = executor.to_dlpack(memory, shape, memory)
    taken = dlpack.taken_from(capsule)
    assert taken.address == executor.device_pointer(memory)
    assert taken.shape.element_type is dt.BF16
    taken.give_back()


def test_emulated_arrays_are_the_hosts_to_other_libraries(emulated):
    device = current_registry().device(emulated)
    x = put(device, np.arange(4, dtype=np.float32))
    assert x.__dlpack_device__() == HOST
    assert np.array_equal(np.from_dlpack(x), np.arange(4))
    assert not hasattr(x, "__cuda_array_interface__")


def test_the_interface_of_cuda_arrays(emulated, monkeypatch):
    device = current_registry().device(emulated)
    x = put(device, np.ones((2, 3), np.float32))
    monkeypatch.setattr(device, "description", replace(device.description, dlpack_device_type=2))
    monkeypatch.setattr(device.executor, "device_pointer", lambda memory: 4096)
    found = x.__cuda_array_interface__
    assert (found["shape"], found["typestr"], found["data"]) == ((2, 3), "<f4", (4096, False))
    assert (found["version"], found["strides"]) == (3, None)
    y = put(device, np.ones(2, ml_dtypes.bfloat16))
    assert not hasattr(y, "__cuda_array_interface__")
