"""HloPassPipeline: runs passes in order, checks and dumps between them, and times each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from xladev import instrument
from xladev.errors import PassError, XladevError
from xladev.hlo.ir import HloModule
from xladev.passes.pass_ import HloModulePass

Check = Callable[[HloModule], None]
"""Raises an XladevError where the module breaks an invariant."""
Print = Callable[[HloModule], str]
Watch = Callable[[str, HloModule, HloModule], None]
"""Told of each run of a pass: its name as in `PassRecord`, the module before it and after it."""
_log = instrument.logger("compile")


@dataclass(frozen=True, slots=True)
class PassRecord:
    """One run of one pass.

    Attributes:
        name: of the pass, after those of the pipelines that it is in: ``simplify/cse``.
        seconds: how long it took, without check and dump.
        changed: False if it returned the module it was given.
        before, after: number of instructions.
    """

    name: str
    seconds: float
    changed: bool
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Instrumentation:
    """What happens around each pass of a pipeline.

    Attributes:
        check: the invariant checked before the first pass and after each that changed the module;
            None for no check.
        text: how dumps are written; None for none.
        records: receives one record per pass run.
        wanted: whether a pass of this name is to run; pipelines always are.
        watch: told of each pass run; None for nobody.
    """

    check: Check | None = None
    text: Print | None = None
    records: list[PassRecord] = field(default_factory=list[PassRecord])
    wanted: Callable[[str], bool] = lambda _: True
    watch: Watch | None = None


_around: ContextVar[Instrumentation | None] = ContextVar("instrumentation", default=None)


@contextmanager
def instrumented(around: Instrumentation) -> Iterator[Instrumentation]:
    """Pipelines and passes that run within the block, in this thread, run with ``around``.

    A compilation opens one, so that a backend's passes are checked, dumped and timed as the SDK's.
    """
    token = _around.set(around)
    try:
        yield around
    finally:
        _around.reset(token)


def surrounding() -> Instrumentation | None:
    """What the innermost `instrumented` gave; None outside of any."""
    return _around.get()


@dataclass(frozen=True, slots=True)
class HloPassPipeline(HloModulePass):
    """Passes that run one after the other; itself a pass.

    Attributes:
        name: of the pipeline, for dumps and timings.
        passes: in order.
        limit: how often the sequence is run at most; it stops as soon as a round changes nothing.
        tidied_by: passes that run at the end if the first of ``passes`` changed the module.
    """

    name: str  # type: ignore[misc]
    passes: tuple[HloModulePass, ...]
    limit: int = 1
    tidied_by: tuple[HloModulePass, ...] = ()

    def run(self, module: HloModule) -> HloModule:
        """Runs with the checks, dumps and records of the compilation that it is part of."""
        return self.run_instrumented(module, surrounding() or Instrumentation())

    def run_instrumented(
        self, module: HloModule, around: Instrumentation, prefix: str = ""
    ) -> HloModule:
        """Runs with checks, dumps, records and a filter.

        A pass that left a module as it is does not see the same one again in the next round; one
        that is for opcodes which a module has none of does not see it at all.

        Args:
            module: what to change.
            around: what happens between passes.
            prefix: names of the pipelines around this one, each with a slash.

        Raises:
            PassError: a pass raised something else than an XladevError.
            VerifyError: the check failed; says after which pass.
        """
        path = f"{prefix}{self.name}"
        if not prefix and around.check is not None:
            around.check(module)
        settled: dict[int, HloModule] = {}
        opcodes: frozenset[str] | None = None
        is_untidy = False
        for _ in range(self.limit):
            before = module
            for number, each in enumerate(self.passes):
                if each.only_for is not None:
                    opcodes = _opcodes(module) if opcodes is None else opcodes
                    if opcodes.isdisjoint(each.only_for):
                        continue
                if settled.get(number) is module:
                    continue
                after = _run_one(each, module, around, f"{path}/")
                if after is module:
                    settled[number] = module
                else:
                    opcodes = None
                    is_untidy = is_untidy or number == 0
                module = after
            if module is before:
                break
        for each in self.tidied_by if is_untidy else ():
            module = _run_one(each, module, around, f"{path}/")
        return module

    def flat(self) -> Iterable[HloModulePass]:
        """All passes that are no pipelines, in order."""
        for each in (*self.passes, *self.tidied_by):
            if isinstance(each, HloPassPipeline):
                yield from each.flat()
            else:
                yield each

    def without(self, kind: type[HloModulePass]) -> HloPassPipeline:
        """The pipeline without the passes of a class, and of those derived from it."""
        kept = [e for e in self.passes if not isinstance(e, kind)]
        passes = [e.without(kind) if isinstance(e, HloPassPipeline) else e for e in kept]
        return replace(self, passes=tuple(passes))


def run_pass(each: HloModulePass, module: HloModule, pipeline: str) -> HloModule:
    """Runs one pass as a pipeline of that name would; itself a pipeline or not.

    For passes whose options are only known while a module is compiled.
    """
    return _run_one(each, module, surrounding() or Instrumentation(), f"{pipeline}/")


def _opcodes(module: HloModule) -> frozenset[str]:
    return frozenset([i.op.name for c in module.computations for i in c.instructions])


def _run_one(
    each: HloModulePass, module: HloModule, around: Instrumentation, prefix: str
) -> HloModule:
    if isinstance(each, HloPassPipeline):
        return each.run_instrumented(module, around, prefix)
    if not around.wanted(each.name):
        return module
    start = time.perf_counter()
    with instrument.trace_scope(each.name, "pass", module=module.name):
        after = _guarded(each, module)
    seconds = time.perf_counter() - start
    changed = after is not module
    counts = module.instruction_count, after.instruction_count
    around.records.append(PassRecord(prefix + each.name, seconds, changed, *counts))
    if around.watch is not None:
        around.watch(prefix + each.name, module, after)
    if changed:
        _dump_change(each.name, module, after, around.text)
        _check_change(each.name, after, around.check)
    return after


def _guarded(each: HloModulePass, module: HloModule) -> HloModule:
    try:
        return each.run(module)
    except XladevError as e:
        raise e.at(f"pass {each.name}, module {module.name}") from e.__cause__
    except MemoryError:
        raise  # the compilation says what it takes, and of which program
    except Exception as e:
        if instrument.is_interruption(e):
            raise
        raise PassError(
            f"pass {each.name} raised {type(e).__name__}",
            where=f"module {module.name}",
            why=str(e) or type(e).__name__,
            hint="set XLADEV_DUMP_TO to keep the module before it",
        ) from e


def _dump_change(name: str, before: HloModule, after: HloModule, text: Print | None) -> None:
    if text is None or not instrument.dumping():
        return
    instrument.dump(f"{before.name}.before_{name}", "hlo", lambda: text(before))
    instrument.dump(f"{after.name}.after_{name}", "hlo", lambda: text(after))


def _check_change(name: str, module: HloModule, check: Check | None) -> None:
    if check is None:
        return
    try:
        check(module)
    except XladevError as e:
        e.where = f"after pass {name}: {e.where or module.name}"
        raise


def timing_table(records: Iterable[PassRecord]) -> str:
    """Time per pass, summed over rounds, longest first; for logs and `xladev opt --time`."""
    seconds: dict[str, float] = {}
    runs: dict[str, int] = {}
    for record in records:
        seconds[record.name] = seconds.get(record.name, 0.0) + record.seconds
        runs[record.name] = runs.get(record.name, 0) + 1
    longest = sorted(seconds, key=lambda name: -seconds[name])
    return "\n".join(f"{seconds[n] * 1e3:9.2f} ms {runs[n]:4} runs  {n}" for n in longest)
