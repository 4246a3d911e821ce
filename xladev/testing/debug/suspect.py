"""A platform under suspicion: runs programs in a child process and says what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType

from xladev.compiler.options import CompileOptions
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Value
from xladev.testing.verdict import DEFINITION, Verdict, pack_case
from xladev.testing.wire import unpack
from xladev.testing.worker import Status, Worker

_FUNCTION = "xladev.testing.verdict:judge"


@dataclass(slots=True)
class Suspect:
    """A platform, how it compiles, and what its results are held against.

    Attributes:
        platform: what is under suspicion: a platform, kind or device.
        against: the platform whose results are right.
        options: how programs are compiled on the suspect.
        timeout_s: seconds after which a program counts as hanging.
        function: what the child runs on each message; tests plant bugs there.
    """

    platform: str
    against: str = DEFINITION
    options: CompileOptions = field(default_factory=CompileOptions)
    timeout_s: float = 60.0
    function: str = _FUNCTION
    _worker: Worker | None = None

    def judge(
        self,
        module: HloModule,
        arguments: Sequence[Value],
        options: CompileOptions | None = None,
    ) -> Verdict:
        """What is wrong with a program there; with other options, if they are given."""
        if self._worker is None:
            self._worker = Worker(self.function, timeout_s=self.timeout_s)
        head = {
            "platform": self.platform,
            "against": self.against,
            "options": (options or self.options).to_json(),
        }
        outcome = self._worker.call(pack_case(head, module, arguments))
        if outcome.status is Status.OK:
            return Verdict.from_json(unpack(outcome.value)[0])
        kind = "error" if outcome.status is Status.ERROR else outcome.status.value
        return Verdict(kind, outcome.detail, _last_word(outcome.detail))

    def close(self) -> None:
        """Ends the child."""
        if self._worker is not None:
            self._worker.close()

    def __enter__(self) -> Suspect:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _last_word(detail: str) -> str:
    """The class of the exception that ended a call, or how the child ended."""
    first = detail.strip().splitlines()
    if not first:
        return ""
    return (first[-1] if first[0].startswith("Traceback") else first[0]).split(":")[0]
