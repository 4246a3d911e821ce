"""What runs in the worker: cases of the suite against one wrong backend, in a fork of its own.

The worker keeps what all mutants share: NumPy, LLVM, the evaluator, programs with their inputs and
results. A fork forgets every module that may hold or import code of a backend, plants the mutant,
imports them anew, and judges case after case until one fails. A fork that crashes or hangs costs
itself.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Any

import llvmlite.binding  # noqa: F401 - so that forks need not
import numpy as np

from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Array, Value

KEPT = ("xladev", "xladev.errors", "xladev.instrument", "xladev.hlo", "xladev.passes")
"""Modules that no backend is made of: a fork keeps them, and all below them."""

CASE_SECONDS = 30.0
MEMORY_NBYTES = 8 << 30
MOST_NBYTES = 1 << 31
"""Of arrays that are kept between requests."""


@dataclass(slots=True)
class Prepared:
    """A program of the suite, with what does not depend on the backend.

    Attributes:
        module: the program.
        rows: arguments of each run.
        wanted: results of each run.
    """

    module: HloModule
    rows: Sequence[Sequence[Value]]
    wanted: list[list[Array]]
    nbytes: int = 0


@dataclass(slots=True)
class _Store:
    prepared: dict[str, Prepared] = field(default_factory=dict[str, Prepared])
    nbytes: int = 0

    def add(self, name: str) -> None:
        """Evaluates a case; nothing if it is known, a check, or a fault of the suite itself."""
        if name in self.prepared or self.nbytes > MOST_NBYTES:
            return
        made = _prepare(name)
        if made is not None:
            self.prepared[name] = made
            self.nbytes += made.nbytes


_STORE = _Store()


def _prepare(name: str) -> Prepared | None:
    case = find_case(name)
    if not hasattr(case, "program"):
        return None
    from xladev.testing.noise import evaluated

    try:
        module = case.module()
        rows = case.runs(module, 0)
        wanted = [evaluated(module, row) for row in rows]
    except Exception:  # noqa: BLE001 - the judge meets it again, and reports it
        return None
    return Prepared(module, rows, wanted, sum(np.asarray(a).nbytes for w in wanted for a in w) * 2)


def find_case(name: str) -> Any:
    """The case of an id such as ``memory::nothing-leaks``."""
    from xladev.testing.conformance.case import load_cases
    from xladev.testing.conformance.location import suite_folder

    stem, _, short = name.partition("::")
    cases = load_cases(suite_folder() / f"{stem}.py")
    return next(case for case in cases if case.name == short)


def serve(request: bytes) -> bytes:
    """Answers one request: ``{"plant", "backend", "cases", "trace", "stop"}`` as JSON.

    ``plant`` is ``{"site": {...}}`` for a mechanical mutant, ``{"name": ...}`` for one by hand, or
    empty. The answer is ``{"results": [...], "end": ..., "seconds": ...}``; a result is what
    `Result.to_json` gives, with the seconds that judging took, and with lines if traced.
    """
    task = json.loads(request)
    for name in task["cases"]:
        _STORE.add(name)
    start = time.monotonic()
    results, end = _in_fork(lambda: _run(task), task.get("seconds", CASE_SECONDS))
    answer = {"results": results, "end": end, "seconds": time.monotonic() - start}
    return json.dumps(answer).encode()


# The fork and its parent


def _in_fork(work: Callable[[], Iterator[dict[str, Any]]], seconds: float) -> tuple[list[Any], str]:
    """What work yields, one line of JSON each, and how it ended: done, crash, hang, or raised."""
    read_end, write_end = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if not child:
        os.close(read_end)
        _child(work, write_end)
    os.close(write_end)
    with os.fdopen(read_end, "rb", buffering=0) as pipe:
        results, hung = _collect(pipe, seconds)
    if hung:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if hung:
        return results, "hung"
    code = os.waitstatus_to_exitcode(status)
    ends = {0: "done", 3: "raised"}
    return results, ends.get(code, f"crashed ({code})")


def _child(work: Callable[[], Iterator[dict[str, Any]]], write_end: int) -> None:
    code = 4
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_NBYTES, MEMORY_NBYTES))
        gc.freeze()
        with os.fdopen(write_end, "wb") as pipe:
            for item in work():
                pipe.write(json.dumps(item).encode() + b"\n")
                pipe.flush()
        code = 0
    except BaseException:  # noqa: BLE001 - the parent is told by the exit code
        import traceback

        traceback.print_exc()
        code = 3
    finally:
        os._exit(code)


def _collect(pipe: IO[bytes], seconds: float) -> tuple[list[Any], bool]:
    """Lines until the end, or until none came for so long."""
    data = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while selector.select(seconds):
            part = pipe.read(1 << 20)
            if not part:
                return [json.loads(line) for line in data.splitlines()], False
            data += part
    return [json.loads(line) for line in data.splitlines() if line.endswith(b"}")], True


# In the fork


def _run(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    forget_backends()
    _plant(task["plant"])
    judge, tracer = _judge(task["backend"]), None
    if task.get("trace"):
        from tests.mutants.lines import Tracer

        tracer = Tracer()
    for name in task["cases"]:
        yield {"start": name}
        result = judge(name) if tracer is None else tracer.during(partial(judge, name))
        yield result | ({} if tracer is None else {"lines": tracer.taken()})
        if task.get("stop", True) and result["status"] in ("fail", "error"):
            return


def forget_backends() -> None:
    """Drops all modules of xladev that may hold a backend's code or refer to one."""
    kept = tuple(f"{name}." for name in KEPT[1:])
    for name in [n for n in sys.modules if n.startswith("xladev")]:
        if name not in KEPT and not name.startswith(kept):
            del sys.modules[name]
    others = ("tests.mutants.handmade", "tests.async_npu")
    for name in [n for n in sys.modules if n.startswith(others)]:
        del sys.modules[name]


def _plant(spec: dict[str, Any]) -> None:
    if "site" in spec:
        from tests.mutants.sites import Site, plant

        plant(Site(**spec["site"]))
    elif "name" in spec:
        importlib.import_module("tests.mutants.handmade").by_name(spec["name"]).plant()


def _judge(backend: str) -> Callable[[str], dict[str, Any]]:
    """The suite's own judge, beside the backend; knows what was evaluated before."""
    from xladev.testing import noise
    from xladev.testing.conformance import judge as module
    from xladev.testing.conformance.child import serve as answer
    from xladev.testing.conformance.settings import Settings
    from xladev.testing.worker import Outcome, Status

    class Here:
        """Stands for the worker that a whole run of the suite has."""

        def call(self, request: bytes, timeout_s: float | None = None) -> Outcome:
            return Outcome(Status.OK, answer(request))

    known = {id(p.module): p for p in _STORE.prepared.values()}
    evaluate = noise.evaluated

    def evaluated(
        program: HloModule, row: Sequence[Value], evaluator: HloEvaluator | None = None
    ) -> list[Array]:
        prepared = known.get(id(program))
        if prepared is None or evaluator is not None:
            return evaluate(program, row)
        return prepared.wanted[next(n for n, r in enumerate(prepared.rows) if r is row)]

    vars(module)["evaluated"] = evaluated
    judge = module.Judge(Here(), Settings(backend))  # type: ignore[arg-type]

    def judged(name: str) -> dict[str, Any]:
        case = find_case(name)
        prepared = _STORE.prepared.get(name)
        if prepared is not None:
            case = _Ready.of(case, prepared)
        start = time.perf_counter()
        result = judge.judge(case, name).to_json()
        return result | {"seconds": time.perf_counter() - start}

    return judged


class _Ready:
    """A case whose program and inputs are known; otherwise as it was."""

    @staticmethod
    def of(case: Any, prepared: Prepared) -> Any:
        """The case."""
        base = type(case)
        made: Any = object.__new__(type("Ready", (base,), {
            "__slots__": (),
            "module": lambda self: prepared.module,
            "runs": lambda self, module, seed: prepared.rows,
        }))  # fmt: skip
        for name in base.__slots__:
            object.__setattr__(made, name, getattr(case, name))
        return made
