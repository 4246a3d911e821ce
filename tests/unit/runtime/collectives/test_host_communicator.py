"""Collectives between threads, each against its definition in NumPy."""

import functools
import threading

import ml_dtypes
import numpy as np
import pytest

from tests.unit.runtime.null_device import Driver, Executor1, Executor4
from xladev.errors import ArgumentError, ExecutionError, OptionError, XladevError
from xladev.hlo import dtype as dt
from xladev.hlo.physical import pack, physical_nbytes, unpack
from xladev.hlo.shape import Layout, Shape, array
from xladev.runtime.collectives.host_communicator import HostCommunicator
from xladev.runtime.communicator import Participant, RaggedSlices
from xladev.runtime.launch.definition_event import PEER_FAILED

SIZE = 4
RNG = np.random.default_rng(7)


@pytest.fixture(params=[Executor1, Executor4], ids=["synchronous", "asynchronous"])
def executors(request):
    return [request.param(Driver()) for _ in range(SIZE)]


def together(work, size=SIZE):
    """Runs work(rank) in one thread per rank; returns results or exceptions in rank order."""
    results = [None] * size

    def run(rank):
        try:
            results[rank] = work(rank)
        except XladevError as e:
            results[rank] = e

    threads = [threading.Thread(target=run, args=(r,)) for r in range(size)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    assert not any(t.is_alive() for t in threads)
    return results


def collective(executors, name, inputs, result_shape, *args, before=None, **kwargs):
    """Runs one collective on all ranks; returns their results."""
    communicator = HostCommunicator(executors, timeout_s=10)
    shape = result_shape if not inputs else None

    def work(rank):
        executor = executors[rank]
        operand_shape = (
            shape
            or kwargs.get("shape")
            or array(dt.by_numpy(inputs[rank].dtype), inputs[rank].shape)
        )
        who = Participant(rank, executor.create_stream(), 1, name)
        operand = executor.allocate(physical_nbytes(operand_shape), alignment=4, memory_space=0)
        executor.copy_to_device(operand, pack(inputs[rank], operand_shape))
        result = executor.allocate(physical_nbytes(result_shape), alignment=4, memory_space=0)
        if before is not None:
            executor.copy_to_device(result, pack(before[rank], result_shape))
        rank_args = [a[rank] if isinstance(a, PerRank) else a for a in args]
        getattr(communicator, name)(who, operand, result, operand_shape, *rank_args)
        data = np.empty(physical_nbytes(result_shape), np.uint8)
        executor.copy_to_host(data, result)
        return unpack(data, result_shape)

    return together(work)


class PerRank(list):
    """An argument that differs between ranks."""


def floats(*dims):
    return [RNG.standard_normal(dims).astype(np.float32) for _ in range(SIZE)]


@pytest.mark.parametrize(
    ("reduction", "ufunc"),
    [("add", np.add), ("multiply", np.multiply), ("minimum", np.minimum), ("maximum", np.maximum)],
)
def test_all_reduce(executors, reduction, ufunc):
    inputs = floats(3, 5)
    results = collective(executors, "all_reduce", inputs, array(dt.F32, (3, 5)), reduction)
    for result in results:
        np.testing.assert_array_equal(result, ufunc.reduce(np.stack(inputs)))


@pytest.mark.parametrize(
    ("reduction", "dtype", "ufunc"),
    [
        ("and", np.bool_, np.logical_and),
        ("or", np.bool_, np.logical_or),
        ("xor", np.bool_, np.logical_xor),
        ("and", np.uint8, np.bitwise_and),
        ("or", np.int32, np.bitwise_or),
        ("xor", np.int32, np.bitwise_xor),
        ("add", np.bool_, np.logical_or),
    ],
)
def test_all_reduce_of_bits(executors, reduction, dtype, ufunc):
    inputs = [RNG.integers(0, 2 if dtype is np.bool_ else 100, 6).astype(dtype) for _ in range(4)]
    shape = array(dt.by_numpy(dtype), (6,))
    for result in collective(executors, "all_reduce", inputs, shape, reduction):
        np.testing.assert_array_equal(result, ufunc.reduce(np.stack(inputs)))


def test_all_reduce_with_any_function_keeps_the_dtype(executors):
    inputs = [a.astype(ml_dtypes.bfloat16) for a in floats(4)]

    def larger_magnitude(a, b):
        return np.where(abs(a) >= abs(b), a, b)

    results = collective(executors, "all_reduce", inputs, array(dt.BF16, (4,)), larger_magnitude)
    stacked = np.stack(inputs)
    expected = stacked[abs(stacked.astype(np.float32)).argmax(0), range(4)]
    for result in results:
        np.testing.assert_array_equal(result, expected)


def test_a_reduction_that_widens_is_narrowed(executors):
    inputs = floats(4)

    def mean(a, b):
        return (a.astype(np.float64) + b) / 2

    shape = array(dt.F32, (4,))
    expected = functools.reduce(lambda a, b: mean(a, b).astype(np.float32), inputs)
    for result in collective(executors, "all_reduce", inputs, shape, mean):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dimension", [0, 1])
def test_all_gather(executors, dimension):
    inputs = floats(2, 3)
    shape = array(dt.F32, (8, 3) if dimension == 0 else (2, 12))
    for result in collective(executors, "all_gather", inputs, shape, dimension):
        np.testing.assert_array_equal(result, np.concatenate(inputs, dimension))


@pytest.mark.parametrize("dimension", [0, 1])
def test_reduce_scatter(executors, dimension):
    inputs = floats(8, 12)
    shape = array(dt.F32, (2, 12) if dimension == 0 else (8, 3))
    results = collective(executors, "reduce_scatter", inputs, shape, dimension, "add")
    total = inputs[0] + inputs[1] + inputs[2] + inputs[3]
    for result, expected in zip(results, np.split(total, SIZE, dimension), strict=True):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(("split", "concat", "dims"), [(0, 0, (8, 3)), (0, 1, (2, 12))])
def test_all_to_all(executors, split, concat, dims):
    inputs = floats(8, 3)
    results = collective(executors, "all_to_all", inputs, array(dt.F32, dims), split, concat)
    for rank, result in enumerate(results):
        expected = np.concatenate([np.split(a, SIZE, split)[rank] for a in inputs], concat)
        np.testing.assert_array_equal(result, expected)


def test_collective_permute_fills_with_zeros(executors):
    inputs, pairs = floats(3), [(0, 1), (1, 2), (2, 0)]
    shape = array(dt.F32, (3,))
    results = collective(executors, "collective_permute", inputs, shape, pairs)
    expected = [inputs[2], inputs[0], inputs[1], np.zeros(3, np.float32)]
    for result, want in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, want)


def test_broadcast(executors):
    inputs = floats(3)
    for result in collective(executors, "broadcast", inputs, array(dt.F32, (3,)), 2):
        np.testing.assert_array_equal(result, inputs[2])


def test_reduce_leaves_the_others_alone(executors):
    inputs, before = floats(3), floats(3)
    shape = array(dt.F32, (3,))
    results = collective(executors, "reduce", inputs, shape, 1, "add", before=before)
    expected = [*before]
    expected[1] = inputs[0] + inputs[1] + inputs[2] + inputs[3]
    for result, want in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, want)


def test_ragged_all_to_all(executors):
    """Rank r sends r + s + 1 rows to rank s; receivers store senders in reverse order."""
    counts = np.array([[(r + s) % 3 for s in range(SIZE)] for r in range(SIZE)])
    inputs = [RNG.standard_normal((12, 2)).astype(np.float32) for _ in range(SIZE)]
    before = [np.full((12, 2), -r, np.float32) for r in range(SIZE)]
    starts = np.cumsum(counts, 1) - counts
    reversed_counts = counts[::-1]
    stores = (np.cumsum(reversed_counts, 0) - reversed_counts)[::-1]
    slices = PerRank(
        RaggedSlices(starts[r], counts[r], stores[r], counts[:, r]) for r in range(SIZE)
    )
    shape = array(dt.F32, (12, 2))
    results = collective(
        executors, "ragged_all_to_all", inputs, shape, shape, slices, before=before
    )
    for rank, result in enumerate(results):
        expected = before[rank].copy()
        for sender in range(SIZE):
            n, to, at = counts[sender, rank], stores[sender, rank], starts[sender, rank]
            expected[to : to + n] = inputs[sender][at : at + n]
        np.testing.assert_array_equal(result, expected)


def test_layouts_are_honoured(executors):
    shape = Shape(dt.F32, (2, 3), Layout((0, 1)))
    inputs = floats(2, 3)
    out = Shape(dt.F32, (8, 3), Layout((0, 1)))
    for result in collective(executors, "all_gather", inputs, out, 0, shape=shape):
        np.testing.assert_array_equal(result, np.concatenate(inputs))


# What goes wrong


def call(communicator, executor, rank, name="c", run_id=1, collective_name="all_reduce", *args):
    memory = executor.allocate(16, alignment=4, memory_space=0)
    executor.copy_to_device(memory, np.zeros(16, np.uint8))
    who = Participant(rank, executor.create_stream(), run_id, name)
    arguments = args or ("add",)
    getattr(communicator, collective_name)(who, memory, memory, array(dt.F32, (4,)), *arguments)


def test_a_missing_rank_is_named_after_the_timeout(executors):
    communicator = HostCommunicator(executors, timeout_s=0.05)
    errors = together(lambda r: None if r == 2 else call(communicator, executors[r], r))
    for rank in (0, 1, 3):
        assert "ranks [2]" in errors[rank].what
        assert "XLADEV_COLLECTIVE_TIMEOUT_S" in errors[rank].hint
    with pytest.raises(ExecutionError, match=r"ranks \[2\]"):
        call(communicator, executors[2], 2)
    assert all(e is None for e in together(lambda r: call(communicator, executors[r], r, "c", 2)))


def test_abort_ends_the_waiting_and_what_comes_later(executors):
    communicator = HostCommunicator(executors, timeout_s=30)
    arrived = threading.Event()

    def work(rank):
        if rank == 0:
            arrived.wait()
            communicator.abort(1, ExecutionError("replica 0 broke"))
            return None
        if rank == 1:
            arrived.set()
        return call(communicator, executors[rank], rank)

    errors = together(work)
    for error in errors[1:]:
        assert error.code == PEER_FAILED
        assert error.why == "replica 0 broke"
    assert all(e is None for e in together(lambda r: call(communicator, executors[r], r, "c", 2)))


def test_different_collectives_under_one_name_are_an_error(executors):
    communicator = HostCommunicator(executors, timeout_s=10)

    def work(rank):
        name, args = ("broadcast", (0,)) if rank == 3 else ("all_reduce", ("add",))
        return call(communicator, executors[rank], rank, "c", 1, name, *args)

    errors = together(work)
    assert all("ranks disagree" in e.what for e in errors)


def test_a_raising_reduction_reaches_every_rank(executors):
    communicator = HostCommunicator(executors, timeout_s=10)

    def broken(a, b):
        raise ZeroDivisionError("in the reducer")

    errors = together(lambda r: call(communicator, executors[r], r, "c", 1, "all_reduce", broken))
    assert all("in the reducer" in e.why for e in errors)


def test_coming_twice_is_an_error():
    executor = Executor1(Driver())
    communicator = HostCommunicator([executor] * 2, timeout_s=0.2)
    first = threading.Thread(
        target=lambda: pytest.raises(ExecutionError, call, communicator, executor, 0)
    )
    first.start()
    while not communicator._rendezvous._meetings:
        pass
    with pytest.raises(ExecutionError, match="rank 0 came twice"):
        call(communicator, executor, 0)
    first.join()


def test_calls_in_any_order_of_names_meet_by_name():
    executors = [Executor1(Driver()) for _ in range(2)]
    communicator = HostCommunicator(executors, timeout_s=10)

    def work(rank):
        workers = [
            threading.Thread(target=call, args=(communicator, executors[rank], rank, name))
            for name in (("a", "b") if rank else ("b", "a"))
        ]
        for w in workers:
            w.start()
        for w in workers:
            w.join(10)
        return not any(w.is_alive() for w in workers)

    assert together(work, 2) == [True, True]
    assert communicator._rendezvous._meetings == {}


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("all_reduce", ("median",), "unknown reduction"),
        ("reduce_scatter", (0, "add"), "cannot be split"),
        ("broadcast", (7,), "rank 7 in a group"),
        ("collective_permute", ([(0, 1), (1, 1)],), "twice"),
        ("collective_permute", ([(0, 9)],), "outside"),
    ],
)
def test_bad_arguments_are_refused_before_waiting(name, args, message):
    executors = [Executor1(Driver()) for _ in range(3)]
    communicator = HostCommunicator(executors, timeout_s=30)
    with pytest.raises(ArgumentError, match=message):
        call(communicator, executors[0], 0, "c", 1, name, *args)


def test_the_timeout_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("XLADEV_COLLECTIVE_TIMEOUT_S", "0.01")
    executor = Executor1(Driver())
    with pytest.raises(ExecutionError, match=r"waited 0\.01 s"):
        call(HostCommunicator([executor] * 2), executor, 0)
    monkeypatch.setenv("XLADEV_COLLECTIVE_TIMEOUT_S", "soon")
    with pytest.raises(OptionError, match="'soon'"):
        HostCommunicator([executor])
