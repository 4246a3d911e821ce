"""Collectives of emulated GPUs, each against the one through host memory."""

import threading

import ml_dtypes
import numpy as np
import pytest

from xladev.errors import ExecutionError, XladevError
from xladev.hlo import dtype as dt
from xladev.hlo.physical import pack, physical_nbytes, unpack
from xladev.hlo.shape import array
from xladev.platforms.cuda.communicator import CudaCommunicator
from xladev.platforms.cuda.driver.emulated import EmulatedDriver, EmulatedStream
from xladev.platforms.cuda.driver.interface import LibraryError, Share
from xladev.platforms.cuda.executor import CudaExecutor
from xladev.platforms.cuda.libraries.collectives import LibraryCollective
from xladev.runtime.collectives.host_communicator import HostCommunicator
from xladev.runtime.communicator import Participant

SIZE = 3
F32, S32, BF16, PRED, S4 = np.float32, np.int32, ml_dtypes.bfloat16, np.bool_, ml_dtypes.int4

CASES = {
    "all_reduce f32": ("all_reduce", F32, (3, 4), (3, 4), ("add",)),
    "all_reduce bf16": ("all_reduce", BF16, (5,), (5,), ("multiply",)),
    "all_reduce s32": ("all_reduce", S32, (5,), (5,), ("minimum",)),
    "all_reduce pred": ("all_reduce", PRED, (7,), (7,), ("and",)),
    "all_reduce pred or": ("all_reduce", PRED, (7,), (7,), ("or",)),
    "reduce_scatter": ("reduce_scatter", F32, (6, 2), (2, 2), (0, "add")),
    "all_gather": ("all_gather", BF16, (2, 3), (6, 3), (0,)),
    "all_gather behind one": ("all_gather", F32, (1, 2), (1, 6), (1,)),
    "all_to_all": ("all_to_all", S32, (6, 2), (6, 2), (0, 0)),
    "permute": ("collective_permute", F32, (4,), (4,), ([(0, 1), (1, 0)],)),
    "broadcast": ("broadcast", PRED, (4,), (4,), (2,)),
}
THROUGH_THE_HOST = {
    "maximum of floats": ("all_reduce", F32, (4,), (4,), ("maximum",)),
    "xor": ("all_reduce", S32, (4,), (4,), ("xor",)),
    "a function": ("all_reduce", F32, (4,), (4,), (lambda a, b: a - b,)),
    "an inner dimension": ("all_gather", F32, (2, 2), (2, 6), (1,)),
    "elements of four bits": ("all_gather", S4, (3,), (9,), (0,)),
    "other dimensions": ("all_to_all", F32, (3, 2), (1, 6), (0, 1)),
}


class Group:
    """Emulated devices, and what was asked of them."""

    def __init__(self, seed=0):
        self.driver = EmulatedDriver(seed)
        self.executors = [CudaExecutor(self.driver.open(n), f"cuda:{n}") for n in range(SIZE)]
        self.group = self.driver.group([e.device for e in self.executors])
        self.asked = []

    def enqueue(self, collective, shares):
        self.asked.append(collective)
        self.group.enqueue(collective, shares)

    def run(self, communicator, case):
        """Results of all ranks, or their errors."""
        method, dtype, dims, out, arguments = case
        element_type = dt.by_numpy(np.dtype(dtype))
        found = [None] * SIZE

        def work(rank):
            executor = self.executors[rank]
            given = np.random.default_rng(rank).integers(0, 3, dims).astype(dtype)
            shapes = [array(element_type, d).with_default_layout() for d in (dims, out)]
            operand, result = (
                executor.allocate(physical_nbytes(s), alignment=4, memory_space=0) for s in shapes
            )
            stream = executor.create_stream()
            stream.copy(operand, pack(given, shapes[0]))
            who = Participant(rank, stream, 1, "collective")
            try:
                getattr(communicator, method)(who, operand, result, shapes[0], *arguments)
            except XladevError as e:
                found[rank] = e
                return
            data = np.zeros(physical_nbytes(shapes[1]), np.uint8)
            stream.copy(data, result)
            event = stream.record()
            event.wait()
            found[rank] = unpack(data, shapes[1])

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(SIZE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        return found


@pytest.mark.parametrize("name", [*CASES, *THROUGH_THE_HOST])
def test_collectives(name):
    g = Group()
    case = {**CASES, **THROUGH_THE_HOST}[name]
    found = g.run(CudaCommunicator(g.executors, g), case)
    wanted = g.run(HostCommunicator(g.executors, 10), case)
    for mine, host in zip(found, wanted, strict=True):
        assert np.array_equal(mine, host)
    assert len(g.asked) == (name in CASES)


def test_ranks_wait_for_each_others_operands(monkeypatch):
    def right(seed):
        g = Group(seed)
        found = g.run(CudaCommunicator(g.executors, g), CASES["all_gather"])
        wanted = np.concatenate(
            [np.random.default_rng(r).integers(0, 3, (2, 3)).astype(BF16) for r in range(SIZE)]
        )
        return all(np.array_equal(f, wanted) for f in found)

    assert all(right(seed) for seed in range(6))
    monkeypatch.setattr(EmulatedStream, "wait", lambda self, event: None)
    assert not all(right(seed) for seed in range(6))


def test_ranks_that_disagree_are_told():
    g = Group()
    communicator = CudaCommunicator(g.executors, g)
    roots = iter(range(SIZE))
    broadcast = communicator.broadcast
    communicator.broadcast = lambda *a: broadcast(*a[:-1], next(roots))
    found = g.run(communicator, CASES["broadcast"])
    assert all(isinstance(f, ExecutionError) and "disagree" in str(f) for f in found)


@pytest.mark.parametrize(
    "wrong",
    [
        LibraryCollective("all-reduce", "f8e4m3fn", 4),
        LibraryCollective("all-reduce", "f32", 4, "xor"),
        LibraryCollective("collective-broadcast", "u8", 4, root=SIZE),
    ],
)
def test_what_nccl_refuses(wrong):
    g = Group()
    shares = [Share(e.device.create_stream(), 0, 0) for e in g.executors]
    with pytest.raises(LibraryError, match="NCCL_INVALID_ARGUMENT"):
        g.group.enqueue(wrong, shares)


def test_memory_is_checked():
    g = Group()
    streams = [e.device.create_stream() for e in g.executors]
    memory = [e.device.allocate(8) for e in g.executors]
    shares = [Share(s, m.address, m.address) for s, m in zip(streams, memory, strict=True)]
    g.group.enqueue(LibraryCollective("all-gather", "u8", 8), shares)
    event = streams[0].record()
    event.synchronize()
    assert "no live allocation" in str(event.failure())
