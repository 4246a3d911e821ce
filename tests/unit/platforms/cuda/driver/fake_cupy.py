"""As much of CuPy as the driver calls, on host memory and at once: the calls are tried, no GPU is.

Names are those of CuPy 14.2; a test holds them against the real module where it is installed.
"""

import ctypes
from types import SimpleNamespace

import numpy as np

from xladev.platforms.cuda.driver.emulated_cusolver import HANDLE

TO_DEVICE, LEGACY = 1, 1
on_default_stream = []


class CUDARuntimeError(RuntimeError):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class CUDADriverError(RuntimeError):
    pass


class OutOfMemoryError(MemoryError):
    pass


class Pointer:
    def __init__(self, nbytes):
        self.memory = np.zeros(nbytes + 512, np.uint8)
        self.ptr = -(-self.memory.ctypes.data // 512) * 512


class MemoryPool:
    limit = 1 << 20

    def __init__(self):
        self.used = 0

    def malloc(self, nbytes):
        if nbytes > self.limit:
            raise OutOfMemoryError(f"out of memory allocating {nbytes} bytes")
        self.used += nbytes
        return Pointer(nbytes)

    def used_bytes(self):
        return self.used

    total_bytes = used_bytes

    def free_all_blocks(self):
        pass


class Device:
    def __init__(self, ordinal):
        self.id = ordinal

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Stream:
    """Keeps copies until somebody waits, so that what is read too soon is wrong."""

    def __init__(self, non_blocking=False):
        self.ptr = id(self)
        self.pending, self.captured = [], None
        self.ms = 0.0
        streams[self.ptr] = self

    def put(self, work):
        (self.captured.works if self.is_captured else self.pending).append(work)

    @property
    def is_captured(self):
        return self.captured is not None and self.captured.is_open

    def run(self):
        while self.pending:
            self.pending.pop(0)()

    synchronize = run

    def begin_capture(self, mode=None):
        self.captured = Capture()

    def end_capture(self):
        self.captured.is_open = False
        return Graph(self.captured.works)

    def wait_event(self, event):
        if event.captured is None:
            self.put(event.stream.run)
        else:
            self.captured = event.captured


class Capture:
    """Of a stream, and of those that wait for its events."""

    def __init__(self):
        self.works, self.is_open = [], True


class Graph:
    def __init__(self, works):
        self.works = works

    def launch(self, stream=None):
        for work in self.works:
            stream.put(work)


class Event:
    def __init__(self, disable_timing=False):
        self.disable_timing = disable_timing

    def record(self, stream):
        self.stream = stream
        self.captured = stream.captured if stream.is_captured else None

    @property
    def done(self):
        return not self.stream.pending

    def synchronize(self):
        self.stream.run()


class Module:
    loaded = []

    def load(self, image):
        if image.startswith(b"\x7fELF too new"):
            raise CUDADriverError("CUDA_ERROR_UNSUPPORTED_PTX_VERSION")
        Module.loaded.append(bytes(image))

    def get_function(self, symbol):
        return lambda grid, block, args, shared_mem, stream: stream.put(lambda: calls.append(args))


class ExternalStream:
    """Somebody's stream as CuPy's current one."""

    current = 0

    def __init__(self, ptr):
        self.ptr = ptr

    def __enter__(self):
        self.before, ExternalStream.current = ExternalStream.current, self.ptr

    def __exit__(self, *_):
        ExternalStream.current = self.before


streams, calls = {}, []


def memcpy(target, source, nbytes, kind):
    """What goes to the device arrives when the default stream is waited for."""
    if kind != TO_DEVICE:
        ctypes.memmove(target, source, nbytes)
        return
    staged = ctypes.string_at(source, nbytes)
    on_default_stream.append(lambda: ctypes.memmove(target, staged, nbytes))


def stream_synchronize(stream):
    while stream == LEGACY and on_default_stream:
        on_default_stream.pop(0)()


def memcpy_async(target, source, nbytes, kind, stream):
    streams[stream].put(lambda: ctypes.memmove(target, source, nbytes))


def properties(ordinal):
    return {
        "name": b"fake GPU", "major": 9, "minor": 0, "multiProcessorCount": 2,
        "totalGlobalMem": 1 << 30, "memoryClockRate": 1000, "memoryBusWidth": 64,
    }  # fmt: skip


def make():
    """A module with one GPU."""
    runtime = SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError, getDeviceCount=lambda: 1, memcpy=memcpy,
        memcpyAsync=memcpy_async, memcpyHostToDevice=TO_DEVICE, memcpyDeviceToHost=2,
        memcpyDefault=4, memcpyDeviceToDevice=3, streamCaptureModeThreadLocal=1,
        streamLegacy=LEGACY, streamSynchronize=stream_synchronize,
        memGetInfo=lambda: (1 << 20, 1 << 21),
        getDeviceProperties=properties, driverGetVersion=lambda: 13000,
        runtimeGetVersion=lambda: 13020,
        streamIsCapturing=lambda stream: streams[stream].captured is not None,
    )  # fmt: skip
    cuda = SimpleNamespace(
        runtime=runtime, driver=SimpleNamespace(CUDADriverError=CUDADriverError),
        memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError), Device=Device, Event=Event,
        MemoryPool=MemoryPool, Stream=Stream, ExternalStream=ExternalStream,
        device=SimpleNamespace(get_cusolver_handle=lambda: HANDLE),
        function=SimpleNamespace(Module=Module),
        alloc_pinned_memory=lambda nbytes: np.zeros(max(nbytes, 1) + 512, np.uint8),
        get_elapsed_time=lambda first, last: 1.5,
    )  # fmt: skip
    return SimpleNamespace(__version__="14.2.0", cuda=cuda)
