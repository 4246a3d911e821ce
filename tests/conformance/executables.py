"""Tier 2, executables: compiled, saved, loaded, refused when damaged; arguments; threads."""

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from xladev.client import CompiledModule
from xladev.compiler.program.program_file import program_from_bytes, program_to_bytes
from xladev.errors import XladevError
from xladev.runtime.array import put
from xladev.runtime.device import Device
from xladev.runtime.launch.plan_executable import load_plan_or_program
from xladev.runtime.loaded_executable import LaunchContext
from xladev.testing.conformance.case import checks_of
from xladev.testing.conformance.probe import Probe, ended

LAYER = """HloModule layer
ENTRY e { x = f32[9,33]{1,0} parameter(0)
  w = f32[33,17]{1,0} parameter(1)
  d = f32[9,17]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[9,17]{1,0} tanh(d)
  n = f32[9,17]{1,0} negate(t)
  ROOT r = (f32[9,17]{1,0}, f32[9,17]{1,0}) tuple(t, n) }"""
COUNT = """HloModule count
ENTRY e { x = s32[4099]{0} parameter(0)
  i = s32[4099]{0} iota(), iota_dimension=0
  p = s32[4099]{0} multiply(x, i)
  ROOT r = s32[4099]{0} add(p, x) }"""
ELEMENTWISE = """HloModule elementwise
ENTRY e { x = f32[N]{0} parameter(0)
  y = s32[N]{0} parameter(1)
  n = f32[N]{0} negate(x)
  t = f32[N]{0} tanh(n)
  r = s32[N]{0} reverse(y), dimensions={0}
  ROOT all = (f32[N]{0}, f32[N]{0}, s32[N]{0}) tuple(n, t, r) }"""
SORTED = """HloModule sorted
least { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT m = pred[] compare(a, b), direction=LT }
ENTRY e { x = s32[N]{0} parameter(0)
  ROOT s = s32[N]{0} sort(x), dimensions={0}, to_apply=least }"""
X = np.linspace(-1, 1, 297, dtype=np.float32).reshape(9, 33)
W = np.linspace(1, -1, 561, dtype=np.float32).reshape(33, 17)


def values(results: object) -> list[np.ndarray]:
    return [np.asarray(r) for r in results]  # type: ignore[attr-defined]


def refused(probe: Probe, call: Callable[[], object], what: str) -> None:
    """The call must raise an error of xladev's own."""
    try:
        call()
    except XladevError:
        return
    except Exception as error:  # noqa: BLE001 - any other error is what is looked for
        probe.fail(f"{what}: {type(error).__name__} instead of an XladevError", str(error))
    probe.fail(f"{what} was accepted")


def check_results_are_the_same_every_time(probe: Probe) -> None:
    compiled = probe.compile(LAYER, deterministic=True)
    first = values(compiled(X, W))
    for _ in range(20):
        again = values(compiled(X, W))
        same = all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
        probe.require(same, "deterministic=True, and two runs differ")


def check_a_program_is_saved_and_loaded(probe: Probe) -> None:
    compiled = probe.compile(LAYER)
    data = program_to_bytes(compiled.program)
    loaded = CompiledModule(program_from_bytes(data), compiled.devices)
    for a, b in zip(values(compiled(X, W)), values(loaded(X, W)), strict=True):
        probe.require(np.array_equal(a, b), "a loaded program gives other results")
    probe.require(program_to_bytes(loaded.program) == data, "saving it again gives other bytes")


def check_a_truncated_program_is_refused(probe: Probe) -> None:
    data = program_to_bytes(probe.compile(LAYER).program)
    for length in (0, 1, 8, len(data) // 2, len(data) - 1):
        refused(probe, partial(program_from_bytes, data[:length]), f"{length} bytes of it")


def check_a_damaged_program_is_refused(probe: Probe) -> None:
    data = program_to_bytes(probe.compile(LAYER).program)
    for at in range(0, len(data), max(len(data) // 40, 1)):
        changed = bytearray(data)
        changed[at] ^= 0x55
        refused(probe, partial(program_from_bytes, bytes(changed)), f"byte {at} changed")


def check_another_platforms_executable_is_refused(probe: Probe) -> None:
    compiled = probe.compile(COUNT)
    device = compiled.devices[0]
    executable = compiled.program.executables[0]
    if executable.signature.platform != device.platform:
        return
    other = replace(executable, signature=replace(executable.signature, platform="another"))
    refused(probe, lambda: device.executor.load(other), "an executable of another platform")


def check_compiling_twice_gives_the_same_results(probe: Probe) -> None:
    first, second = probe.compile(LAYER), probe.compile(LAYER)
    for a, b in zip(values(first(X, W)), values(second(X, W)), strict=True):
        probe.require(np.array_equal(a, b), "two compilations of one program differ")


def check_wrong_arguments_are_refused(probe: Probe) -> None:
    compiled = probe.compile(LAYER)
    refused(probe, lambda: compiled(X), "too few arguments")
    refused(probe, lambda: compiled(X, W, W), "too many arguments")
    refused(probe, lambda: compiled(W, X), "arguments of wrong sizes")
    refused(probe, lambda: compiled(X.astype(np.float64), W), "an argument of a wrong type")
    probe.require(len(values(compiled(X, W))) == 2, "a launch after refused ones")


def check_host_arguments_are_never_written(probe: Probe) -> None:
    compiled = probe.compile(LAYER)
    x, w = X.copy(), W.copy()
    values(compiled(x, w))
    probe.require(np.array_equal(x, X) and np.array_equal(w, W), "an argument was written")


def check_one_array_may_be_several_arguments(probe: Probe) -> None:
    text = """HloModule twice
    ENTRY e { x = f32[100]{0} parameter(0)
      y = f32[100]{0} parameter(1)
      ROOT r = f32[100]{0} subtract(x, y) }"""
    x = put(probe.device, np.arange(100, dtype=np.float32))
    found = np.asarray(probe.compile(text)(x, x))
    probe.require(bool((found == 0).all()), "one array as two arguments")


def check_every_optimization_level_agrees(probe: Probe) -> None:
    want = values(probe.compile(LAYER, optimization_level=0)(X, W))
    for level in (1, 2, 3):
        found = values(probe.compile(LAYER, optimization_level=level)(X, W))
        close = all(
            np.allclose(a, b, rtol=1e-5, atol=1e-5) for a, b in zip(want, found, strict=True)
        )
        probe.require(close, f"optimization_level={level} gives other results")


def check_without_fusion_results_agree(probe: Probe) -> None:
    want, found = (values(probe.compile(LAYER, fusion=f)(X, W)) for f in (True, False))
    close = all(np.allclose(a, b, rtol=1e-5, atol=1e-5) for a, b in zip(want, found, strict=True))
    probe.require(close, "fusion=false gives other results")


GUARD = 256


class Guarded:
    """Memory of a device between two pieces that nobody may write.

    Attributes:
        memory: the piece in the middle.
    """

    def __init__(self, device: Device, nbytes: int) -> None:
        alignment = device.description.memory_space(0).alignment
        self._before = -(-GUARD // alignment) * alignment
        self._buffer = device.allocate_nbytes(self._before + nbytes + GUARD, "guarded")
        self._executor = device.executor
        self._sent = np.random.default_rng(nbytes).integers(0, 256, self._nbytes, np.uint8)
        self._executor.copy_to_device(self._buffer.memory.slice(0, self._nbytes), self._sent)
        self.memory = self._buffer.memory.slice(self._before, nbytes)

    @property
    def _nbytes(self) -> int:
        return self._buffer.memory.nbytes

    def is_intact(self) -> bool:
        """True if nothing around the piece has changed."""
        found = np.empty(self._nbytes, np.uint8)
        self._executor.copy_to_host(found, self._buffer.memory.slice(0, self._nbytes))
        end = self._before + self.memory.nbytes
        same = found == self._sent
        return bool(same[: self._before].all() and same[end:].all())


def launch_guarded(compiled: CompiledModule) -> bool:
    """Launches the first executable between guards; True if they are intact."""
    device, executable = compiled.devices[0], compiled.program.executables[0]
    signature = executable.signature
    if signature.platform != device.platform:
        return True  # it runs on the host
    loaded = load_plan_or_program(
        device.executor,
        executable,
        device.allocator,
        alignment=device.description.memory_space(0).alignment,
    )
    arguments = [Guarded(device, s.nbytes) for s in signature.argument_shapes]
    results = [Guarded(device, s.nbytes) for s in signature.result_shapes]
    scratch = [Guarded(device, n) for n in [signature.scratch_nbytes] if n]
    context = LaunchContext(
        tuple(a.memory for a in arguments),
        tuple(r.memory for r in results),
        scratch[0].memory if scratch else None,
    )
    with ended(device.stream):
        loaded.launch(device.stream, context)
    return all(piece.is_intact() for piece in (*arguments, *results, *scratch))


def check_a_launch_writes_its_results_and_nothing_beside_them(probe: Probe) -> None:
    for text in (ELEMENTWISE, SORTED):
        for count in (16, 100, 257, 1024, 4096):
            compiled = probe.compile(text.replace("[N]", f"[{count}]"))
            what = f"a launch on {count} elements wrote past a buffer"
            probe.require(launch_guarded(compiled), what)


def together(count: int, work: Callable[[int], None]) -> list[BaseException]:
    """What threads raised that ran at once."""
    raised: list[BaseException] = []
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            barrier.wait()
            work(number)
        except BaseException as error:  # noqa: BLE001 - told to the caller
            raised.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def check_threads_launch_one_program(probe: Probe) -> None:
    compiled = probe.compile(COUNT)
    at = np.arange(4099, dtype=np.int32)

    def work(number: int) -> None:
        x = np.full(4099, number + 1, np.int32)
        for _ in range(20):
            found = np.asarray(compiled(x))
            probe.require(np.array_equal(found, x * at + x), f"thread {number}")

    raised = together(8, work)
    probe.require(not raised, f"{len(raised)} of 8 threads failed", str(raised[:1]))


def check_threads_compile(probe: Probe) -> None:
    def work(number: int) -> None:
        text = COUNT.replace("4099", str(100 + number)).replace("count", f"count{number}")
        found = np.asarray(probe.compile(text)(np.ones(100 + number, np.int32)))
        want = np.arange(100 + number) + 1
        probe.require(np.array_equal(found, want), f"thread {number}")

    raised = together(6, work)
    probe.require(not raised, f"{len(raised)} of 6 threads failed", str(raised[:1]))


def check_threads_copy(probe: Probe) -> None:
    def work(number: int) -> None:
        for size in (1, 1000, 100_000):
            sent = np.full(size, number, np.int32)
            probe.require(np.array_equal(put(probe.device, sent).numpy(), sent), f"{number}")

    raised = together(8, work)
    probe.require(not raised, f"{len(raised)} of 8 threads failed", str(raised[:1]))


def check_each_device_runs_programs(probe: Probe) -> None:
    """Results on each device are the same, and are on that device."""
    devices = probe.some_devices(2)
    x = np.ones(4099, np.int32)
    compiled = probe.compile(COUNT)
    for device in devices:
        loaded = CompiledModule(compiled.program, (device,))
        result = loaded(put(device, x))
        probe.require(np.array_equal(np.asarray(result), np.arange(4099) + 1), device.name)


CASES = tuple(checks_of(__name__, 2, globals()))
