"""Trials: one kernel as a program of its own, timed on random data beside others."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.executable import Executable
from xladev.compiler.plan.kernel_plan import KernelPlan, RunKernel, Slice, Space
from xladev.compiler.signature import Signature
from xladev.hlo.shape import Shape
from xladev.platforms.cpu.executor import CpuExecutor, CpuLoadedExecutable
from xladev.platforms.cpu.payload import ALIGNMENT

Clock = Callable[[], int]
"""Nanoseconds from some moment on."""
SAMPLE_NS = 1_500_000
"""How long one sample should take, of as many runs as that needs."""
ROUNDS = 9
SLOW = 1.5
"""What takes so many times as long as the fastest, in a first round, is timed no more."""
_SEED = 20
_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
_Array = np.ndarray[Any, np.dtype[Any]]


class Trial:
    """A loaded program of one kernel, and the memory that it works on.

    Args:
        executable: of `trial_plan`.
        operands: addresses of its arguments.
        spec: the kernel.
    """

    def __init__(self, executable: Executable, operands: Sequence[int], spec: KernelSpec) -> None:
        self._loaded = CpuLoadedExecutable(executable, CpuExecutor(0))
        entry = self._loaded.native_entry
        assert entry is not None, "a trial exchanges no data"
        self._entry = _ENTRY(entry.address)
        self.results = [aligned(shape.nbytes) for shape in spec.results]
        self._scratch = aligned(executable.signature.scratch_nbytes)
        self._tables = _table(operands), _table(addresses(self.results))
        self.runs = 1

    def run(self) -> None:
        """Runs it ``runs`` times."""
        scratch = _address(self._scratch)
        for _ in range(self.runs):
            self._entry(None, *self._tables, scratch)

    def sample(self, clock: Clock) -> float:
        """Nanoseconds of one run."""
        start = clock()
        self.run()
        return (clock() - start) / self.runs

    def warm(self, clock: Clock) -> float:
        """Runs it until samples can be taken; nanoseconds of one run, about."""
        self.runs = 1
        self.run()
        taken = max(self.sample(clock), 1.0)
        self.runs = max(1, round(SAMPLE_NS / taken))
        return self.sample(clock)


def samples_of(trials: Mapping[str, Trial], clock: Clock) -> dict[str, list[float]]:
    """Samples of trials that take turns, by name, in nanoseconds of one run.

    The first one's are among them always; far slower ones have none.
    """
    warm = {name: trial.warm(clock) for name, trial in trials.items()}
    first, least = next(iter(trials)), min(warm.values())
    kept = [name for name in trials if name == first or warm[name] <= SLOW * least]
    samples: dict[str, list[float]] = {name: [] for name in kept}
    for iteration in range(ROUNDS):
        for name in kept if iteration % 2 == 0 else reversed(kept):
            samples[name].append(trials[name].sample(clock))
    return samples


def winner(samples: Mapping[str, Sequence[float]], margin: float) -> str:
    """The name of the fastest; that of the first unless another one is faster beyond doubt.

    Args:
        samples: taken in turns; the first one's first.
        margin: by which part of the first one's median the other one's must be shorter. Besides,
            all but one in four of its samples must be shorter than the one taken beside it.
    """
    first = next(iter(samples))
    held = samples[first]
    best = min(samples, key=lambda name: median(samples[name]))
    shorter = sum(x < y for x, y in zip(samples[best], held, strict=True))
    is_surely = shorter >= len(held) - len(held) // 4
    is_faster = median(samples[best]) < (1 - margin) * median(held)
    return best if is_faster and is_surely else first


def random_operands(spec: KernelSpec) -> list[_Array]:
    """Bytes of arrays for the operands: floats around zero without denormals, small integers.

    What is sorted is drawn from all numbers: how alike they are decides how long it takes.
    """
    random = np.random.default_rng(_SEED)
    fill = _varied if spec.computation.root.opcode == "sort" else _plain
    return [_filled(shape, fill(shape, random)) for shape in spec.operands]


def _plain(shape: Shape, random: np.random.Generator) -> _Array:
    bits: _Array = random.integers(0, 2, shape.size)
    dtype = shape.element_type
    if dtype.is_float or dtype.is_complex:
        return random.uniform(0.5, 1.0, shape.size) * (2 * bits - 1)
    return bits


def _varied(shape: Shape, random: np.random.Generator) -> _Array:
    if shape.element_type.is_float or shape.element_type.is_complex:
        return random.standard_normal(shape.size)
    return random.integers(0, 1 << min(shape.element_type.bits - 1, 62), shape.size)


def _filled(shape: Shape, values: _Array) -> _Array:
    """Values in an array of a shape; those of less than a byte are zeros."""
    held, dtype = aligned(shape.nbytes), shape.element_type
    if dtype.bits >= 8:
        data = values.astype(dtype.numpy).view(np.uint8)
        held[: data.size] = data
    return held


def addresses(arrays: Sequence[_Array]) -> list[int]:
    """Where arrays begin."""
    return [_address(array) for array in arrays]


def thread_clock() -> int:
    """What this thread computed."""
    return time.thread_time_ns()


def wall_clock() -> int:
    """The time that passed."""
    return time.perf_counter_ns()


def trial_plan(spec: KernelSpec, workspace_nbytes: int) -> KernelPlan:
    """The program that runs one kernel once."""
    arguments = tuple(shape.nbytes for shape in spec.operands)
    results = tuple(shape.nbytes for shape in spec.results)
    buffers = [Slice(Space.ARGUMENT, n, 0, nbytes) for n, nbytes in enumerate(arguments)]
    buffers += [Slice(Space.RESULT, n, 0, nbytes) for n, nbytes in enumerate(results)]
    if workspace_nbytes:
        buffers.append(Slice(Space.SCRATCH, 0, 0, workspace_nbytes))
    return KernelPlan(
        name="trial",
        kernels=(spec,),
        steps=(RunKernel(0, tuple(buffers), 0),),
        constants=(),
        argument_nbytes=arguments,
        result_nbytes=results,
        aliases=(),
        scratch_nbytes=workspace_nbytes,
        operations=(spec.computation.root,),
    )


def trial_signature(spec: KernelSpec, workspace_nbytes: int, target: str) -> Signature:
    """The outside of that program."""
    return Signature(
        name="trial",
        platform="cpu",
        parameters=spec.operands,
        result=spec.computation.root.shape,
        target=target,
        scratch_nbytes=workspace_nbytes,
    )


def aligned(nbytes: int) -> _Array:
    """Zeroed bytes at an aligned address."""
    raw = np.zeros(nbytes + ALIGNMENT, np.uint8)
    skip = -_address(raw) % ALIGNMENT
    return raw[skip : skip + nbytes]


def _table(places: Sequence[int]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(places))(*places)


def _address(array: _Array) -> int:
    return int(array.__array_interface__["data"][0])
