"""One interpreter device: host memory, and programs evaluated where they are launched."""

from __future__ import annotations

from xladev.compiler.executable import Executable
from xladev.compiler.signature import Signature
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.proto import read_module
from xladev.runtime.evaluation import evaluate_bytes
from xladev.runtime.host_executor import HostExecutor, host_bytes
from xladev.runtime.launch.random_counter import RandomCounter
from xladev.runtime.loaded_executable import LaunchContext, LoadedExecutable
from xladev.runtime.stream import Stream


class InterpreterExecutor(HostExecutor):
    """A device whose memory is the host's."""

    def load(self, executable: Executable) -> LoadedExecutable:
        """Reads the module back."""
        executable.check_target("interpreter", "numpy")
        return EvaluatedExecutable(executable.signature, read_module(executable.payload))


class EvaluatedExecutable(LoadedExecutable):
    """A module that is evaluated at each launch."""

    def __init__(self, signature: Signature, module: HloModule) -> None:
        self._signature = signature
        self._module = module
        self._runs = RandomCounter()

    def launch(self, stream: Stream, context: LaunchContext) -> None:
        """Evaluates now, in the calling thread; scalar computations draw anew in each run."""
        who = context.replica, context.partition
        evaluate_bytes(
            HloEvaluator(*who, seed=self._runs.advanced(who, 1)),
            self._module,
            self._signature,
            [host_bytes(memory) for memory in context.arguments],
            [host_bytes(memory) for memory in context.results],
        )
