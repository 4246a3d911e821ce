"""The fast call: what it takes, what goes the long way, and that results are the same."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.unit.platforms.cpu.fast_call.samples import (
    ADD,
    FIVE_TO_THREE,
    IN_PLACE,
    LARGE,
    SCALAR,
    WITH_SCRATCH,
    X,
    Y,
    opened,
    went_through,
)
from xladev import client
from xladev.client import CALLS_BEFORE_FAST_CALL, CompiledModule, compile
from xladev.errors import ArgumentError, XladevError
from xladev.platforms.cpu import executor as cpu_executor
from xladev.platforms.cpu.fast_call import WRAP_ALIGNMENT
from xladev.platforms.cpu.native_fast_call import native_fast_call
from xladev.runtime.array import DeviceArray, put
from xladev.runtime.launch.definition_event import DEFINED, DefinitionEvent, ExecutionFailure


def test_a_fast_call_opens_after_some_calls():
    program = compile(ADD, "cpu")
    seen = [went_through(program(X, Y)) for _ in range(CALLS_BEFORE_FAST_CALL + 2)]
    assert seen == [False] * CALLS_BEFORE_FAST_CALL + [True, True]


@pytest.mark.parametrize("way", ["fast_call"], indirect=True)
def test_a_large_program_opens_at_once_and_keeps_to_one_place(way: str) -> None:
    """Memory of calls that go the long way is kept apart: it would be there twice."""
    program = compile(LARGE, "cpu")
    x = np.full((512, 513), 0.5, np.float32)
    places = set()
    for _ in range(CALLS_BEFORE_FAST_CALL + 3):
        result = program(x)
        assert went_through(result)
        places.add(result.numpy().__array_interface__["data"][0])
        del result
    assert len(places) == 1


@pytest.mark.parametrize("way", ["fast_call"], indirect=True)
def test_long_programs_have_one_too(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "LONG_WORK", 1)
    program = opened(ADD, X, Y)
    result = program(X, Y)
    assert went_through(result)
    np.testing.assert_array_equal(result.numpy(), X + Y)
    with pytest.raises(ArgumentError, match="takes 2 arguments, not 1"):
        program(X)


def test_no_fast_call_where_objects_are_laid_out_otherwise(monkeypatch):
    monkeypatch.setattr(cpu_executor, "native_fast_call", lambda: None)
    result = opened(ADD, X, Y)(X, Y)
    assert not went_through(result)
    np.testing.assert_array_equal(result.numpy(), X + Y)


def test_results_are_what_they_were(way):
    result = opened(ADD, X, Y)(X, Y)
    assert went_through(result) == (way == "fast_call")
    assert type(result) is DeviceArray
    assert repr(result) == "<DeviceArray f32[2,3] on cpu:0, ready>"
    assert (result.shape, result.dtype, result.nbytes) == ((2, 3), np.float32, 24)
    assert result.is_ready() and not result.is_deleted and result.is_writable
    assert result.block_until_ready() is result
    np.testing.assert_array_equal(result.numpy(), X + Y)
    np.testing.assert_array_equal(np.from_dlpack(result), X + Y)
    assert result.buffer is not None
    assert result.buffer.label == "result 0 of plus"
    assert result.buffer.host_owner is None
    assert result.buffer.memory.nbytes == 24


def test_one_result_comes_bare_and_several_in_a_tuple(way):
    vectors = [np.full(4, i, np.float32) for i in range(5)]
    results = opened(FIVE_TO_THREE, *vectors)(*vectors)
    assert type(results) is tuple
    assert [r.numpy().tolist() for r in results] == [[1] * 4, [6] * 4, [4] * 4]
    tuple_of_one = ADD.replace(b"ROOT r", b"r")[:-1] + b"  ROOT t = (f32[2,3]) tuple(r)\n}"
    (alone,) = opened(tuple_of_one, X, Y)(X, Y)
    np.testing.assert_array_equal(alone.numpy(), X + Y)


def test_scalars(way):
    program = opened(SCALAR, np.float32(1))
    result = program(np.array(41, np.float32))
    assert went_through(result) == (way == "fast_call")
    assert float(result) == 42
    assert result.numpy().shape == ()
    assert float(program(np.float32(41))) == 42


def test_programs_without_arguments(way):
    source = b"HloModule c\nENTRY main {\n  ROOT c = s32[3] iota(), iota_dimension=0\n}"
    result = opened(source)()
    assert went_through(result) == (way == "fast_call")
    assert result.numpy().tolist() == [0, 1, 2]


def test_programs_without_results(way):
    source = b"HloModule c\nENTRY main {\n  x = f32[2,3] parameter(0)\n  ROOT c = () tuple()\n}"
    assert opened(source, X)(X) == ()


def test_scratch_and_its_reuse(way):
    x = np.random.default_rng(5).random((64, 64), np.float32)
    program = opened(WITH_SCRATCH, x)
    assert program.program.executables[0].signature.scratch_nbytes
    for _ in range(3):
        np.testing.assert_allclose(program(x).numpy(), x @ x @ x, rtol=1e-4)


def test_an_aliased_argument_is_copied(way):
    x, y = np.full(4, 3, np.float32), np.full(4, 2, np.float32)
    program = opened(IN_PLACE, x, y)
    n, m = program(x, y)
    assert went_through((n, m)) == (way == "fast_call")
    again = program(n, m)
    assert [a.numpy()[0] for a in (n, m, *again)] == [5, 6, 11, 30]
    assert x[0] == 3


@pytest.mark.parametrize(
    "dtype",
    [np.bool_, np.int8, np.uint16, np.int32, np.int64, np.float16, np.float64, np.complex64,
     ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn],
)  # fmt: skip
def test_dtypes_go_through(dtype):
    names = {"bool": "pred", "int8": "s8", "uint16": "u16", "int32": "s32", "int64": "s64",
             "float16": "f16", "float64": "f64", "complex64": "c64", "bfloat16": "bf16",
             "float8_e4m3fn": "f8e4m3fn"}  # fmt: skip
    name = names[np.dtype(dtype).name]
    root = f"ROOT r = {name}[4] reverse(x), dimensions={{0}}"
    source = f"ENTRY e {{\n  x = {name}[4] parameter(0)\n  {root}\n}}"
    value = np.array([0, 1, 1, 1]).astype(dtype)
    program = opened(source.encode(), value)
    result = program(value)
    assert went_through(result) and went_through(program(result))
    shown = result.numpy()
    assert shown.dtype == value.dtype
    np.testing.assert_array_equal(shown, value[::-1])


def test_half_bytes_go_through_as_numpy_has_them():
    source = b"ENTRY e {\n  x = s4[5] parameter(0)\n  ROOT r = s4[5] negate(x)\n}"
    value = np.array([1, -2, 3, 4, -5]).astype(ml_dtypes.int4)
    program = opened(source, value)
    first = program(value)
    assert went_through(first) and went_through(program(first))
    np.testing.assert_array_equal(program(first).numpy(), value)


# Arguments that are not ordinary


class Named(np.ndarray):
    pass


def misaligned(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    raw = np.zeros(value.nbytes + 2 * WRAP_ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % WRAP_ALIGNMENT + 4
    made = raw[start : start + value.nbytes].view(value.dtype).reshape(value.shape)
    made[...] = value
    return made


def read_only(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    made = value.copy()
    made.flags.writeable = False
    return made


class Convertible:
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return X


ODD: dict[str, tuple[Callable[[], Any], bool]] = {
    "plain": (lambda: X.copy(), True),
    "unpickled, with a dtype of its own": (lambda: pickle.loads(pickle.dumps(X)), True),
    "of a dtype with metadata": (lambda: X.astype(np.dtype("f4", metadata={"a": 1})), True),
    "read-only": (lambda: read_only(X), True),
    "a slice of whole rows": (lambda: np.concatenate([Y, Y, X, Y])[4:6], False),
    "a subclass": (lambda: X.copy().view(Named), False),
    "column-major": (lambda: np.asfortranarray(X), False),
    "strided": (lambda: np.repeat(X, 2, axis=1)[:, ::2], False),
    "backwards": (lambda: X[::-1].copy()[::-1], False),
    "misaligned": (lambda: misaligned(X), False),
    "broadcast": (lambda: np.broadcast_to(X[:1], (2, 3)), False),
    "nested lists of NumPy scalars": (lambda: [list(row) for row in X], False),
    "anything with __array__": (Convertible, False),
}


@pytest.mark.parametrize("name", ODD)
def test_what_fits_gives_the_same_by_either_way(name, way):
    make, through = ODD[name]
    program = opened(ADD, X, Y)
    argument = make()
    result = program(argument, Y)
    if name != "a slice of whole rows":  # where it is is up to the allocator
        assert went_through(result) == (through and way == "fast_call")
    np.testing.assert_array_equal(result.numpy(), np.asarray(argument) + Y)
    np.testing.assert_array_equal(np.asarray(argument), np.asarray(make()))


WRONG: dict[str, Callable[[], Any]] = {
    "another dtype": lambda: X.astype(np.float64),
    "swapped bytes": lambda: X.astype(">f4"),
    "another shape": lambda: X.T.copy(),
    "another rank": lambda: X.reshape(6),
    "one dimension more": lambda: X.reshape(1, 2, 3),
    "no dimension": lambda: np.array(1, np.float32),
    "only the first dimension": lambda: np.zeros(2, np.float32),
    "a NumPy scalar": lambda: np.float32(1),
    "objects": lambda: X.astype(object),
    "a masked array": lambda: np.ma.masked_array(X),
    "a structure": lambda: np.zeros((2, 3), [("x", np.float32)]),
    "text": lambda: "x",
    "nothing": lambda: None,
    "a class": lambda: np.ndarray,
    "the fast call": lambda: native_fast_call,
    "a Python number": lambda: 1.5,
    "half an array": lambda: object.__new__(DeviceArray),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_raises_the_same_by_either_way(name, monkeypatch):
    program = opened(ADD, X, Y)
    assert program._fast_call is not None
    messages = []
    for fast_call in (program._fast_call, None):
        program._fast_call = fast_call
        with pytest.raises((XladevError, AttributeError)) as caught:
            program(WRONG[name](), Y)
        messages.append((type(caught.value), str(caught.value)))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("count", [0, 1, 3, 100])
def test_another_number_of_arguments(count, way):
    program = opened(ADD, X, Y)
    with pytest.raises(ArgumentError, match=f"takes 2 arguments, not {count}"):
        program(*[X] * count)


def test_empty_arrays(way):
    source = b"ENTRY e {\n  x = f32[0,3] parameter(0)\n  ROOT r = f32[0,3] negate(x)\n}"
    value = np.zeros((0, 3), np.float32)
    program = opened(source, value)
    result = program(program(value))
    assert result.numpy().shape == (0, 3)
    assert result.buffer is not None and result.buffer.memory.nbytes == 1


def test_an_empty_array_among_others(way):
    source = b"""ENTRY e {
  x = f32[2,3] parameter(0)
  y = f32[0,3] parameter(1)
  ROOT r = f32[2,3] negate(x)
}"""
    empty = np.zeros((0, 3), np.float32)
    program = opened(source, X, empty)
    for value in (empty, put(program.devices[0], empty)):
        np.testing.assert_array_equal(program(X, value).numpy(), -X)
        np.testing.assert_array_equal(program(X, value).numpy(), -X)


def test_an_empty_result_among_others(way):
    source = b"""ENTRY e {
  x = f32[2,3] parameter(0)
  n = f32[2,3] negate(x)
  y = f32[0,3] slice(x), slice={[0:0], [0:3]}
  ROOT r = (f32[2,3], f32[0,3]) tuple(n, y)
}"""
    negated, empty = opened(source, X)(X)
    np.testing.assert_array_equal(negated.numpy(), -X)
    shown = empty.numpy()
    assert (shown.shape, shown.dtype) == ((0, 3), np.float32)


LACKING = {
    "_buffer": (False, False),
    "device": (False, True),
    "event": (False, False),
    "hlo_shape": (False, False),
    "_sizes": (True, False),
    "_view": (True, False),
    "_why_gone": (False, False),
}
"""Whether an array goes by the fast call, and is shown, without that slot."""


@pytest.mark.parametrize("slot", LACKING)
def test_arrays_that_lack_a_part(slot):
    """Nobody makes them; they must not take the process with them."""
    program = opened(ADD, X, Y)
    whole: Any = program(X, Y)
    broken = whole.with_event(DEFINED)
    delattr(broken, slot)
    shown = whole._buffer.show(broken)
    assert (_by_fast_call(program, broken), shown is not None) == LACKING[slot]


def _by_fast_call(program: CompiledModule, *arguments: Any) -> bool:
    assert program._fast_call is not None
    return program._fast_call(*arguments, Y) is not None


@pytest.mark.parametrize("slot", ["memory", "_generation"])
def test_buffers_that_lack_a_part(slot):
    program = opened(ADD, X, Y)
    there = put(program.devices[0], X, program(X, Y).hlo_shape)
    assert _by_fast_call(program, there)
    buffer: Any = there._buffer
    kept = getattr(buffer, slot)
    delattr(buffer, slot)
    assert not _by_fast_call(program, there)
    setattr(buffer, slot, "text")
    assert not _by_fast_call(program, there)
    setattr(buffer, slot, kept)


# Arrays of the device


def test_arrays_of_the_device_go_through_however_they_were_made():
    program = opened(ADD, X, Y)
    device = program.devices[0]
    there = put(device, X)
    assert not went_through(program(there, Y))  # its shape is another object, once
    assert went_through(program(there, Y))
    aliased = put(device, X, there.hlo_shape, alias=True)
    assert went_through(program(aliased, there))
    shown = program(aliased, program(there, there)).numpy()
    np.testing.assert_array_equal(shown, 3 * X)


def test_results_of_one_program_go_into_another():
    first, second = opened(ADD, X, Y), opened(ADD, X, Y)
    assert went_through(second(first(X, Y), Y))


def test_deleted_and_donated_arrays_are_refused(way):
    program = opened(ADD, X, Y)
    deleted, donated = program(X, Y), program(X, Y)
    deleted.delete()
    with pytest.raises(ArgumentError, match="it was deleted"):
        program(deleted, Y)
    program(donated, Y, donate=[0])
    for use in (lambda: program(donated, Y), donated.numpy, lambda: donated.buffer):
        with pytest.raises(ArgumentError, match="it was donated to plus"):
            use()


def test_donation_reuses_what_came_by_the_fast_call(way):
    x, y = np.full(4, 3, np.float32), np.full(4, 2, np.float32)
    program = opened(IN_PLACE, x, y)
    n, m = program(x, y)
    memory = n.buffer.memory.handle.address
    n, m = program(n, m, donate=[0])
    assert n.buffer.memory.handle.address == memory
    n, _ = program(n, m)
    assert n.numpy().tolist() == [41] * 4


def test_what_is_shown_is_not_overwritten(way):
    x, y = np.full(4, 3, np.float32), np.full(4, 2, np.float32)
    program = opened(IN_PLACE, x, y)
    n, _ = program(x, y)
    shown = n.numpy()[1:]
    assert not n.is_writable and n.is_shown
    program(n, y, donate=[0])
    assert shown.tolist() == [5] * 3


def test_poison_is_passed_on(way):
    program = opened(ADD, X, Y)
    good = program(X, Y)
    failure = ExecutionFailure(ArgumentError("planted"), "cpu:0")
    bad = good.with_event(DefinitionEvent("cpu:0", failure=failure))
    result = program(bad, Y)
    assert not went_through(result)
    for use in (result.numpy, result.block_until_ready, bad.numpy):
        with pytest.raises(ArgumentError, match="planted"):
            use()


def test_arrays_of_another_device_are_refused(way, registry):
    program = opened(ADD, X, Y)
    registry.platform("cpu").provide_devices(2)
    other = put(registry.device("cpu:1"), X, program(X, Y).hlo_shape)
    with pytest.raises(ArgumentError, match="lives on cpu:1"):
        program(other, Y)


# Reading


def test_reading_shows_memory_once_and_read_only(way):
    result = opened(ADD, X, Y)(X, Y)
    first = result.numpy()
    assert not first.flags.writeable and not first.flags.owndata
    second = result.numpy()
    assert second is not first
    assert np.shares_memory(first, second)
    first.shape = (6,)
    assert second.shape == result.numpy().shape == (2, 3)
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        second.flags.writeable = True


def test_what_was_read_outlives_everything(way):
    program = opened(ADD, X, Y)
    result = program(X, Y)
    first, second = result.numpy(), result.numpy()[:1]
    device = program.devices[0]
    del result, program
    gc.collect()
    assert device.memory_stats().allocations == 1
    np.testing.assert_array_equal(first, X + Y)
    del first
    assert device.memory_stats().allocations == 1
    np.testing.assert_array_equal(second, (X + Y)[:1])
    del second
    assert device.memory_stats().allocations == 0


def test_show_answers_only_for_arrays_over_blocks():
    result = opened(ADD, X, Y)(X, Y)
    show = result._buffer.show
    for other in (None, 5, X, object.__new__(DeviceArray), put(result.device, X)):
        assert show(other) is None
    assert show(result) is not None
    kept = show(result)
    assert kept is not None and show(result) is None


def test_blocks_cannot_be_made_or_copied():
    block = opened(ADD, X, Y)(X, Y)._buffer
    with pytest.raises(TypeError):
        type(block)()
    with pytest.raises(TypeError):
        type("Sub", (type(block),), {})
    with pytest.raises(TypeError):
        copy.copy(block)
