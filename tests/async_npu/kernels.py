"""Kernels: modules that the evaluator computes, in the thread of the queue that they run on."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.async_npu.driver import library
from xladev.compiler.signature import Signature
from xladev.errors import ExecutionError, XladevError
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.proto import read_module
from xladev.runtime.evaluation import evaluate_bytes
from xladev.runtime.memory import HostBytes


@dataclass(frozen=True, slots=True)
class AsyncKernel:
    """What one kernel computes; its buffers are operands, then results."""

    module: HloModule
    signature: Signature

    @classmethod
    def of(cls, code: bytes) -> AsyncKernel:
        """Reads what the compiler wrote."""
        module = read_module(code)
        entry = module.entry
        shapes = tuple(p.shape for p in entry.parameters)
        signature = Signature(
            module.name, parameters=shapes, result=entry.root.shape, platform="async_npu"
        )
        return cls(module, signature)

    @property
    def operand_count(self) -> int:
        """How many of the buffers are only read."""
        return len(self.module.entry.parameters)

    def run(self, buffers: Sequence[HostBytes]) -> None:
        """Fills the results."""
        count = self.operand_count
        arguments, results = buffers[:count], buffers[count:]
        evaluate_bytes(HloEvaluator(), self.module, self.signature, arguments, results)


class Launches:
    """Launches that are enqueued, and those that failed, by token."""

    def __init__(self) -> None:
        self._tokens = itertools.count(1)
        self._pending: dict[int, tuple[AsyncKernel, Sequence[int]]] = {}
        self._failed: dict[int, XladevError] = {}

    def add(self, kernel: AsyncKernel, sizes: Sequence[int]) -> int:
        """A token for one launch on buffers of these sizes."""
        token = next(self._tokens)
        self._pending[token] = kernel, sizes
        return token

    def forget(self, token: int) -> None:
        """The driver refused it."""
        del self._pending[token]

    def compute(self, token: int, buffers: Any) -> int:
        """Runs one launch on copies of its buffers; 1 if it failed. Called by the driver."""
        kernel, sizes = self._pending.pop(token)
        try:
            kernel.run([_bytes_at(buffers[n], size) for n, size in enumerate(sizes)])
        except XladevError as error:
            self._failed[token] = error
        except BaseException as error:  # noqa: BLE001 (the driver's thread must go on)
            failure = ExecutionError("a kernel of async_npu broke", why=repr(error))
            failure.__cause__ = error
            self._failed[token] = failure
        return int(token in self._failed)

    def take_failure(self, code: int) -> XladevError:
        """Why a launch failed, or a command was not run."""
        if code > 0:
            return self._failed.pop(code)
        return ExecutionError("a command was not run", why=library.WHY[-code])


def _bytes_at(address: int, nbytes: int) -> HostBytes:
    pointer = ctypes.cast(address, ctypes.POINTER(ctypes.c_uint8))
    return np.ctypeslib.as_array(pointer, (nbytes,))


LAUNCHES = Launches()
_compute = library.KERNEL(LAUNCHES.compute)


def configure() -> None:
    """Tells the driver how to behave and how to compute."""
    settings = library.SETTINGS
    library.load().an_configure(settings.seed, settings.delay_us, settings.checks, _compute)
