"""The driver by itself: memory, lists, queues, fences, status codes."""

import threading

import numpy as np
import pytest

from xladev.platforms.template_npu.device.assembler import assemble
from xladev.platforms.template_npu.device.faults import FaultCode
from xladev.platforms.template_npu.driver import library as npu

DOUBLE = assemble("""
    load.f32 (1, 1, 1, 4) sp=0:[0,0,0,4] dram=0:[0,0,0,4] signal=0
    binary.add.f32 (1,1,1,4) dst=64:[0,0,0,4] src0=0:[0,0,0,4] src1=0:[0,0,0,4] wait=0>=1 signal=2
    store.f32 (1, 1, 1, 4) sp=64:[0,0,0,4] dram=0:[0,0,0,4] binding=1 wait=2>=1
""")
BROKEN = assemble("fill.f32 (1,1,1,1)\nunary.neg.f32 (1,1,1,1) src0=64:[0,0,0,0]")


@pytest.fixture
def device():
    handle = npu.npu_open(0)
    yield handle
    npu.npu_close(handle)


def status(call, *arguments) -> FaultCode:
    with pytest.raises(npu.NpuError) as caught:
        call(*arguments)
    return caught.value.code


def test_a_list_runs_on_a_queue(device):
    a, b = npu.npu_alloc(device, 16, 64), npu.npu_alloc(device, 16, 64)
    source, result = np.arange(4, dtype=np.float32), np.empty(4, np.float32)
    queue, program = npu.npu_queue_create(device), npu.npu_load(device, DOUBLE)
    npu.npu_copy(device, queue, npu.DeviceRange(device, a, 16), source.view(np.uint8))
    npu.npu_submit(device, queue, program, [(a, 16), (b, 16)])
    npu.npu_copy(device, queue, result.view(np.uint8), npu.DeviceRange(device, b, 16))
    fence = npu.npu_fence(device, queue)
    assert npu.npu_wait(fence, 10)
    assert npu.npu_poll(fence)
    assert npu.npu_fault(fence) is None
    assert result.tolist() == [0, 2, 4, 6]
    assert npu.npu_counters(device) == npu.npu_program_counters(device, program)


def test_a_fault_is_held_by_the_next_fence_only(device):
    queue, program = npu.npu_queue_create(device), npu.npu_load(device, BROKEN)
    npu.npu_submit(device, queue, program, [])
    first, second = npu.npu_fence(device, queue), npu.npu_fence(device, queue)
    assert npu.npu_wait(second, 10)
    fault = npu.npu_fault(first)
    assert (fault.code, fault.index) == (FaultCode.UNINITIALIZED, 1)
    assert "unary.neg.f32" in str(fault)
    assert npu.npu_fault(second) is None


def test_memory_is_aligned_counted_and_reused(device):
    blocks = [npu.npu_alloc(device, 100, 256) for _ in range(3)]
    assert all(address % 256 == 0 for address in blocks)
    assert npu.npu_memory_info(device)[0] == 3 * 128
    for address in (blocks[1], blocks[0], blocks[2]):
        npu.npu_free(device, address)
    in_use, peak, count, total = npu.npu_memory_info(device)
    assert (in_use, peak, count) == (0, 3 * 128, 0)
    everything = npu.npu_alloc(device, total - 64, 64)
    assert status(npu.npu_alloc, device, 1, 64) is FaultCode.OUT_OF_MEMORY
    npu.npu_free(device, everything)


def test_bad_handles_and_sizes_have_their_codes(device):
    queue = npu.npu_queue_create(device)
    assert status(npu.npu_open, 99) is FaultCode.BAD_HANDLE
    assert status(npu.npu_alloc, 10**9, 1, 1) is FaultCode.BAD_HANDLE
    assert status(npu.npu_free, device, 12345) is FaultCode.BAD_HANDLE
    assert status(npu.npu_submit, device, queue, 10**9, []) is FaultCode.BAD_HANDLE
    assert status(npu.npu_unload, device, 10**9) is FaultCode.BAD_HANDLE
    assert status(npu.npu_wait, 10**9) is FaultCode.BAD_HANDLE
    assert status(npu.npu_read, device, 1 << 40, np.empty(4, np.uint8)) is FaultCode.DRAM_BOUNDS
    ends = np.empty(4, np.uint8), np.empty(5, np.uint8)
    assert status(npu.npu_copy, device, queue, *ends) is FaultCode.BAD_SIZE


def test_a_window_outside_of_memory_is_a_fault(device):
    queue, program = npu.npu_queue_create(device), npu.npu_load(device, DOUBLE)
    npu.npu_submit(device, queue, program, [(1 << 40, 16), (64, 16)])
    fence = npu.npu_fence(device, queue)
    assert npu.npu_wait(fence, 10)
    assert npu.npu_fault(fence).code is FaultCode.DRAM_BOUNDS


def test_queues_wait_for_fences_of_others(device):
    first, second = npu.npu_queue_create(device), npu.npu_queue_create(device)
    gate, order = threading.Event(), []
    npu._queue(device, first).put(lambda: (gate.wait(10), order.append("first"), None)[2])
    npu.npu_wait_fence(device, second, npu.npu_fence(device, first))
    npu._queue(device, second).put(lambda: order.append("second"))
    last = npu.npu_fence(device, second)
    assert not npu.npu_wait(last, 0.01)
    gate.set()
    assert npu.npu_wait(last, 10)
    assert order == ["first", "second"]


def test_devices_have_memories_of_their_own():
    assert npu.npu_device_count() >= 2
    handles = [npu.npu_open(n) for n in range(2)]
    addresses = [npu.npu_alloc(h, 4, 64) for h in handles]
    for value, (h, address) in enumerate(zip(handles, addresses, strict=True)):
        npu.npu_write(h, address, np.full(4, value, np.uint8))
    found = np.empty(4, np.uint8)
    npu.npu_read(handles[0], addresses[0], found)
    assert found.tolist() == [0] * 4
    for h in handles:
        npu.npu_close(h)
    assert status(npu.npu_alloc, handles[0], 1, 1) is FaultCode.BAD_HANDLE
