"""Mutants written by hand around right backends: what they are given and give, several devices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.differential.planted import function
from tests.mutants.wrong import Plant, WrongBackend, everywhere, method
from xladev.platforms.cpu import executor as cpu
from xladev.platforms.interpreter import executor as interpreter
from xladev.runtime import evaluation
from xladev.runtime.collectives import collective_table
from xladev.runtime.collectives.host_communicator import HostCommunicator
from xladev.runtime.host_executor import HostExecutor, host_bytes
from xladev.runtime.launch.random_counter import RandomCounter
from xladev.runtime.loaded_executable import LaunchContext
from xladev.runtime.memory import DeviceMemory

# Around the interpreter: results changed on their way out


def _results(change: Any) -> Plant:
    """Every array that the interpreter computes is changed."""
    right = evaluation.evaluate

    def wrong(evaluator: Any, module: Any, signature: Any, arrays: Any) -> Any:
        found = right(evaluator, module, signature, arrays)
        return [None if a is None else change(a) for a in found]

    return function(evaluation, "evaluate", wrong)


def _f64_as_f32(array: Any) -> Any:
    return array.astype(np.float32).astype(array.dtype) if array.dtype == np.float64 else array


def _integers_as_f32(array: Any) -> Any:
    return array.astype(np.float32).astype(array.dtype) if array.dtype == np.int32 else array


def _positive_zeros(array: Any) -> Any:
    return array + array.dtype.type(0) if array.dtype == np.float32 else array


def _without_nan(array: Any) -> Any:
    return np.nan_to_num(array, nan=0.0) if array.dtype == np.float32 else array


def _transposed(array: Any) -> Any:
    square = array.ndim == 2 and array.shape[0] == array.shape[1]
    return np.ascontiguousarray(array.T) if square else array


def _launch(change: Any) -> Plant:
    """Launches of the interpreter with another context."""
    right = interpreter.EvaluatedExecutable.launch

    def wrong(self: Any, stream: Any, context: LaunchContext) -> None:
        right(self, stream, change(context))

    return function(interpreter.EvaluatedExecutable, "launch", wrong)


def _remembered(patch: Any) -> None:
    """The results of a program's first launch are given again."""
    right = interpreter.EvaluatedExecutable.launch

    def wrong(self: Any, stream: Any, context: LaunchContext) -> None:
        known = vars(self).setdefault("known", [])
        if known:
            for memory, data in zip(context.results, known, strict=True):
                host_bytes(memory)[:] = data
            return
        right(self, stream, context)
        known.extend(host_bytes(memory).copy() for memory in context.results)

    patch.setattr(interpreter.EvaluatedExecutable, "launch", wrong)


# Around the CPU: buffers and executables


def _around_launch(patch: Any, after: Any) -> None:
    right = cpu.CpuLoadedExecutable.launch

    def wrong(self: Any, stream: Any, context: LaunchContext) -> None:
        before = [host_bytes(m).copy() for m in context.arguments]
        right(self, stream, context)
        after(context, before)

    patch.setattr(cpu.CpuLoadedExecutable, "launch", wrong)


def _restores_donated(patch: Any) -> None:
    """A result in the place of a donated argument is not written."""

    def after(context: LaunchContext, before: Any) -> None:
        for memory, data in zip(context.arguments, before, strict=True):
            if any(np.shares_memory(host_bytes(memory), host_bytes(r)) for r in context.results):
                host_bytes(memory)[:] = data

    _around_launch(patch, after)


def _scribbles(patch: Any) -> None:
    """The first argument is used as scratch."""

    def after(context: LaunchContext, before: Any) -> None:
        for memory in context.arguments[:1]:
            if host_bytes(memory).flags.writeable:
                host_bytes(memory)[:] = 0

    _around_launch(patch, after)


def _loads_another(patch: Any) -> None:
    """An executable is looked up by the shapes of its signature."""
    known: dict[Any, Any] = {}

    def wrong(self: Any, executable: Any) -> Any:
        key = (executable.signature.parameters, executable.signature.result)
        return cpu.CpuLoadedExecutable(known.setdefault(key, executable), self)

    patch.setattr(cpu.CpuExecutor, "load", wrong)


def _one_byte_more(self: Any, destination: DeviceMemory, source: Any) -> None:
    host_bytes(destination)[:] = source
    whole = destination.handle.data
    at = destination.offset + destination.nbytes
    whole[at : at + 1] = source[-1:]


def _misaligned(right: Any, self: Any, nbytes: int, *, alignment: int, memory_space: int) -> Any:
    found = right(self, nbytes + 4, alignment=alignment, memory_space=memory_space)
    return replace(found, offset=4, nbytes=nbytes)


def _shared_allocation(patch: Any) -> None:
    """Allocations of one size take turns in four places."""
    right, places, count = HostExecutor.allocate, {}, [0]

    def wrong(self: Any, nbytes: int, *, alignment: int, memory_space: int) -> DeviceMemory:
        count[0] += 1
        key = (nbytes, count[0] % 4)
        if key not in places:
            places[key] = right(self, nbytes, alignment=alignment, memory_space=memory_space)
        return places[key]

    patch.setattr(HostExecutor, "allocate", wrong)


# Between devices


def _without_last_device(reduction: Any) -> Any:
    right = _reducer(reduction)
    return lambda arrays: right(arrays[:-1] or arrays)


def _arrays_reversed(call: Any, arrays: Any) -> Any:
    return _results_of_ranks(call, list(reversed(arrays)))


def _pairs_reversed(right: Any, self: Any, who: Any, operand: Any, result: Any, shape: Any,
                    pairs: Any) -> None:  # fmt: skip
    right(self, who, operand, result, shape, [(t, s) for s, t in pairs])


def _stuck(self: RandomCounter, who: Any, delta: int) -> int:
    return self._counts[who]


_reducer, _results_of_ranks = collective_table.reducer, collective_table.rank_results


def _wrapper(
    name: str, backend: str, plant: Plant, *opcodes: str, cases: tuple[str, ...] = ()
) -> WrongBackend:
    return WrongBackend(name, backend, plant, opcodes, cases)


MUTANTS = (
    _wrapper("f64 is computed in f32", "interpreter", _results(_f64_as_f32), "add", "multiply"),
    _wrapper("s32 is computed in f32", "interpreter", _results(_integers_as_f32), "add", "xor"),
    _wrapper("zeros lose their sign on the way out", "interpreter", _results(_positive_zeros),
             "negate", "multiply"),
    _wrapper("NaN is 0 on the way out", "interpreter", _results(_without_nan), "add", "divide"),
    _wrapper("square results come out transposed", "interpreter", _results(_transposed),
             "dot", "transpose", "iota", "cholesky"),
    _wrapper("every replica is the first", "interpreter",
             _launch(lambda context: replace(context, replica=0, partition=0)),
             "replica-id", "partition-id"),
    _wrapper("a program's second launch gives the first one's results", "interpreter",
             _remembered, "add"),
    _wrapper("a result in a donated buffer is not written", "cpu", _restores_donated,
             cases=("memory::donated*",)),
    _wrapper("an argument is used as scratch", "cpu", _scribbles,
             cases=("executables::host-arguments*", "executables::one-array*", "memory::arg*")),
    _wrapper("executables are told apart by their shapes only", "cpu", _loads_another,
             "add", "subtract"),
    _wrapper("a copy to the device writes one byte more", "cpu",
             function(HostExecutor, "copy_to_device", _one_byte_more), cases=("memory::*",)),
    _wrapper("allocations are not aligned", "cpu", method(HostExecutor, "allocate", _misaligned),
             cases=("memory::*",)),
    _wrapper("live buffers share memory", "cpu", _shared_allocation, cases=("memory::*",)),
    _wrapper("collectives leave out the last device", "cpu",
             everywhere(_reducer, _without_last_device), "all-reduce", "reduce-scatter"),
    _wrapper("collectives take the devices in reverse", "cpu",
             everywhere(_results_of_ranks, _arrays_reversed), "all-gather", "all-to-all"),
    _wrapper("permutations go the other way", "cpu",
             method(HostCommunicator, "collective_permute", _pairs_reversed),
             "collective-permute"),
    _wrapper("the random counter is not advanced", "cpu",
             function(RandomCounter, "advanced", _stuck), "rng-get-and-update-state"),
)  # fmt: skip
