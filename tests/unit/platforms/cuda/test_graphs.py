"""Captured streams: recorded, replayed, and spoilt by what CUDA forbids meanwhile."""

import threading

import numpy as np
import pytest

from tests.unit.platforms.cuda.driver.test_emulated import Machine, N, image
from xladev import client
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.instrument import collect_counters
from xladev.platforms.cuda.driver.emulated import EmulatedDriver
from xladev.platforms.cuda.driver.interface import DriverError
from xladev.platforms.cuda.graphs import CudaGraphs
from xladev.platforms.cuda.stream import CudaStream


def test_captured_work_runs_when_the_graph_does():
    m = Machine()
    code, dimensions = image()
    kernel = m.device.load(code, "negate")
    stream = m.device.create_stream()
    stream.begin_capture()
    stream.launch(kernel, dimensions, [m.x.address, m.y.address])
    stream.copy(m.x.address, m.y.address, N)
    graph = stream.end_capture()
    assert graph.nodes == 2
    stream.record().synchronize()
    assert not np.array_equal(m.result(), -m.data)
    for sign in (-1, 1, -1):
        stream.launch_graph(graph)
        stream.record().synchronize()
        assert np.array_equal(m.result(), sign * m.data)


FORBIDDEN = {
    "an allocation": lambda m, s: m.device.allocate(8),
    "a deallocation": lambda m, s: m.device.free(m.y),
    "a copy from the host": lambda m, s: m.device.copy_to_device(
        m.x.address, np.zeros(4, np.uint8)
    ),
    "a copy to the host": lambda m, s: s.copy_to_host(np.zeros(4, np.uint8), m.x.address),
    "an event": lambda m, s: s.record().synchronize(),
    "a wait": lambda m, s: s.wait(m.event),
    "loading": lambda m, s: m.device.load(image()[0], "k"),
    "cudaStreamBeginCapture": lambda m, s: m.device.create_stream().begin_capture(),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_what_is_forbidden_spoils_the_capture(what):
    m = Machine()
    stream = m.device.create_stream()
    m.event = stream.record()
    stream.begin_capture()
    with pytest.raises(DriverError, match=f"cudaErrorStreamCaptureUnsupported: {what}"):
        FORBIDDEN[what](m, stream)
    with pytest.raises(DriverError, match=f"cudaErrorStreamCaptureInvalidated: {what}"):
        stream.end_capture()
    m.device.allocate(8)


def test_other_threads_go_on():
    m = Machine()
    stream = m.device.create_stream()
    stream.begin_capture()
    done = []
    other = threading.Thread(target=lambda: done.append(m.device.allocate(8)))
    other.start()
    other.join()
    assert len(done) == 1
    assert stream.end_capture().nodes == 0


def test_a_capture_ends_where_it_began():
    stream = Machine().device.create_stream()
    with pytest.raises(DriverError, match="not captured"):
        stream.end_capture()


def test_a_graph_uses_the_memory_it_was_recorded_with():
    m = Machine()
    stream = m.device.create_stream()
    stream.begin_capture()
    stream.copy(m.y.address, m.x.address, N)
    graph = stream.end_capture()
    m.device.free(m.x)
    stream.launch_graph(graph)
    event = stream.record()
    event.synchronize()
    assert "no live allocation" in str(event.failure())


def forked(m, *, waits=True, joins=True):
    """A graph of two branches: y is x negated once, by the second after the first."""
    code, dimensions = image()
    kernel = m.device.load(code, "negate")
    middle = m.device.allocate(N)
    stream = m.device.create_stream()
    branch = stream.branch()
    stream.begin_capture()
    start = stream.mark()
    stream.copy(middle.address, m.x.address, N)
    branch.wait(stream.mark() if waits else start)
    branch.launch(kernel, dimensions, [middle.address, m.y.address])
    if joins:
        stream.wait(branch.mark())
    return stream, stream.end_capture(), middle


def test_a_graph_has_branches_that_run_in_any_order_that_events_allow():
    def is_right(seed, waits):
        m = Machine(seed)
        stream, graph, _ = forked(m, waits=waits)
        assert graph.nodes == 2
        stream.launch_graph(graph)
        stream.record().synchronize()
        return np.array_equal(m.result(), -m.data)

    assert all(is_right(seed, True) for seed in range(12))
    assert not all(is_right(seed, False) for seed in range(12))


def test_a_branch_that_is_not_waited_for_spoils_the_capture():
    with pytest.raises(DriverError, match="cudaErrorStreamCaptureUnjoined"):
        forked(Machine(), joins=False)


def test_branches_leave_the_capture_with_its_end():
    m = Machine()
    stream = m.device.create_stream()
    branch = stream.branch()
    stream.begin_capture()
    mark = stream.mark()
    branch.wait(mark)
    stream.wait(branch.mark())
    stream.end_capture()
    branch.copy(m.y.address, m.x.address, N)
    branch.record().synchronize()
    assert np.array_equal(m.result(), m.data)
    with pytest.raises(DriverError, match="a wait for a capture that has ended"):
        branch.wait(mark)


def test_a_capture_ends_on_the_stream_that_began_it():
    stream = Machine().device.create_stream()
    branch = stream.branch()
    stream.begin_capture()
    branch.wait(stream.mark())
    with pytest.raises(DriverError, match="cudaErrorStreamCaptureUnmatched"):
        branch.end_capture()


def test_a_captured_mark_cannot_be_asked():
    stream = Machine().device.create_stream()
    stream.begin_capture()
    mark = stream.mark()
    assert mark.failure() is None
    for ask in (mark.query, mark.synchronize, lambda: mark.elapsed_ms(mark)):
        with pytest.raises(DriverError, match="cudaErrorCapturedEvent"):
            ask()
    with pytest.raises(DriverError, match="Invalidated"):
        stream.end_capture()


def test_no_stream_is_made_while_one_is_captured():
    stream = Machine().device.create_stream()
    stream.begin_capture()
    with pytest.raises(DriverError, match="cudaStreamCreate"):
        stream.branch()


def test_a_failure_of_a_branch_is_the_streams():
    m = Machine()
    stream = m.device.create_stream()
    branch = stream.branch()
    branch.copy(m.y.address, 8, N)
    stream.wait(branch.mark())
    first, second = stream.record(), stream.record()
    second.synchronize()
    assert "no live allocation" in str(first.failure())
    assert second.failure() is None


class Memory:
    """Device memory as far as its address goes."""

    def __init__(self, address):
        self.handle, self.offset, self.address = self, 0, address


def recorded(enqueue, keys):
    """How often work was enqueued for launches on these addresses, and what was counted."""
    device = EmulatedDriver(0).open(0)
    count = []

    def counted(stream):
        count.append(stream)
        enqueue(device, stream)

    graphs = CudaGraphs(lambda: CudaStream(device.create_stream()))
    stream = CudaStream(device.create_stream())
    with collect_counters() as counters:
        for key in keys:
            graphs.launch(stream, [Memory(key)], counted)
    return len(count), counters


def test_the_second_launch_on_the_same_addresses_is_recorded():
    count, counters = recorded(lambda d, s: None, [8, 8, 8, 8, 16])
    assert count == 3
    assert counters["cuda.graphs"] == 1
    assert counters["cuda.graph_launches"] == 3


def test_addresses_that_are_not_used_are_forgotten():
    count, _ = recorded(lambda d, s: None, [*range(9), 0, 0])
    assert count == 11


def test_a_program_that_cannot_be_recorded_runs_as_it_is():
    count, counters = recorded(lambda d, s: d.allocate(8) and None, [8, 8, 8])
    assert count == 4
    assert "cuda.graph_launches" not in counters


def test_programs_are_replayed(emulated):
    """With memory that comes back at the same address, as that of a GPU's pool does."""
    module = parse_module("""
ENTRY e {
  x = f32[64,64] parameter(0)
  y = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = f32[64,64] tanh(y)
}""")
    compiled = client.compile(module, emulated, CompileOptions(strict=True))
    with collect_counters() as counters:
        for seed in range(6):
            x = np.random.default_rng(seed).standard_normal((64, 64)).astype(np.float32)
            result = compiled(x)
            assert np.allclose(np.asarray(result), np.tanh(x @ x), atol=1e-4)
    assert counters.get("cuda.graph_launches", 0) > 0
