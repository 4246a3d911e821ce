"""Runs a case in the worker, holds what comes back against the oracle, and gives the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from xladev.errors import XladevError
from xladev.hlo.ir import HloModule
from xladev.hlo.literal import Array
from xladev.hlo.multi_device import topology_of
from xladev.hlo.verifier import verify
from xladev.runtime.buffers.transfer import shape_of
from xladev.testing.conformance.case import AnyCase, Case, Check, Row
from xladev.testing.conformance.patterns import pattern_of
from xladev.testing.conformance.saving import save_failure
from xladev.testing.conformance.settings import Settings
from xladev.testing.conformance.sizes import fitted, types_of
from xladev.testing.conformance.status import CaseResult, CaseStatus, Difference
from xladev.testing.conformance.waivers import Entry
from xladev.testing.differential import equal_elements
from xladev.testing.limits import allowed_differences
from xladev.testing.noise import evaluated, leaves
from xladev.testing.wire import pack, unpack
from xladev.testing.worker import Outcome, Worker
from xladev.testing.worker import Status as Ending

_MORE_SEEDS = 5
_OPENING_S = 120.0
SERVE = "xladev.testing.conformance.child:serve"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the worker said about a case.

    Attributes:
        facts: plain data; has ``problem`` and ``kind`` if it went wrong.
        results: the arrays of each run.
    """

    facts: dict[str, Any]
    results: list[list[Array]]


@dataclass(frozen=True, slots=True)
class Judge:
    """Gives verdicts; one per pytest process.

    Attributes:
        worker: the child process that the backend runs in.
        settings: what the command line says.
        memory: bytes of the device's memory, once it was asked for.
    """

    worker: Worker
    settings: Settings
    memory: list[int | None] = field(default_factory=list[int | None])

    def judge(self, case: AnyCase, case_id: str) -> CaseResult:
        """The verdict on one case; never raises for what the backend does."""
        blank = CaseResult(case_id, CaseStatus.PASS, case.opcode, case.dtype, case.tier, case.tags)
        verdict = self._check(case, blank) if isinstance(case, Check) else self._run(case, blank)
        return self._declared(verdict)

    # Checks of the contract

    def _check(self, check: Check, blank: CaseResult) -> CaseResult:
        head = {"check": check.function, "backend": self.settings.backend}
        answer = _answer(self.worker.call(pack(head), self._seconds(check)), ())
        seconds, cut = answer.facts.get("seconds", 0.0), answer.facts.get("cut", "")
        blank = replace(blank, seconds=seconds, is_check=True, cut=cut)
        return _refused(blank, answer) if "problem" in answer.facts else _tidy(blank, answer)

    # Programs

    def _run(self, case: Case, blank: CaseResult) -> CaseResult:
        try:
            ready = fitted(case, self._memory() if case.cut else None)
            case, module, blank = ready.case, ready.module, replace(blank, cut=ready.cut)
            verify(module)
            rows = case.runs(module, self.settings.seed)
            wanted = [evaluated(module, row) for row in rows]
        except Exception as error:  # noqa: BLE001 - a fault of the suite is reported as one
            what = str(error) if isinstance(error, XladevError) else repr(error)
            return replace(blank, status=CaseStatus.ERROR, detail=f"the suite's own fault: {what}")
        answer = self._ask(case, module, rows)
        blank = replace(
            blank,
            seconds=answer.facts.get("seconds", 0.0),
            device_instructions=answer.facts.get("device_instructions", 0),
            host_instructions=answer.facts.get("host_instructions", 0),
            device_work=answer.facts.get("device_work", 0),
            host_work=answer.facts.get("host_work", 0),
            fallbacks=tuple(answer.facts.get("fallbacks", ())),
        )
        if "problem" in answer.facts:
            verdict = _refused(blank, answer)
        else:
            verdict = self._compared(case, blank, module, rows, wanted, answer.results)
            verdict = _tidy(verdict, answer)
        if verdict.status.is_good:
            return verdict
        verdict = replace(verdict, program=types_of(module))
        if self.settings.report is None:
            return verdict
        return self._saved(verdict, module, rows, wanted)

    def _ask(self, case: Case, module: HloModule, rows: Sequence[Row]) -> Answer:
        head = {
            "check": "",
            "backend": self.settings.backend,
            "options": [*case.options, *_device_options(module)],
            "devices": len(topology_of(module).devices),
            "runs": len(rows),
        }
        arrays = [np.asarray(leaf) for row in rows for value in row for leaf in leaves(value)]
        request = pack(head, arrays, module)
        return _answer(self.worker.call(request, self._seconds(case)), rows)

    def _memory(self) -> int | None:
        """Bytes of the device's memory; None if it does not say, or does not open."""
        if not self.memory:
            head = {"memory": True, "backend": self.settings.backend}
            seconds = min(_OPENING_S, self.settings.most_seconds)
            facts = _answer(self.worker.call(pack(head), seconds), ()).facts
            self.memory.append(facts.get("nbytes"))
        return self.memory[0]

    def _seconds(self, case: AnyCase) -> float:
        return min(case.timeout_s, self.settings.most_seconds)

    def _compared(
        self,
        case: Case,
        blank: CaseResult,
        module: HloModule,
        rows: Sequence[Row],
        wanted: Sequence[Sequence[Array]],
        found: Sequence[Sequence[Array]],
    ) -> CaseResult:
        for run, (row, want, got) in enumerate(zip(rows, wanted, found, strict=True)):
            known = want if case.expected is None else [np.asarray(x) for x in case.expected]
            problem = _type_problem(got, known, run)
            if problem:
                return replace(blank, status=CaseStatus.FAIL, detail=problem)
            limits = _limits(module, row, want, known, got)
            difference = _first_difference(got, known, limits, run, self.settings.tighten)
            if difference is not None:
                limits = _wider(module, row, want, limits)
                difference = _first_difference(got, known, limits, run, self.settings.tighten)
            if difference is None:
                continue
            if blank.difference is None:
                blank = replace(blank, difference=difference, detail=str(difference))
            waiver = self._waiver(blank.id)
            if waiver is None or _first_difference(got, known, limits, run, waiver.tolerance):
                return replace(blank, status=CaseStatus.FAIL)
            blank = replace(blank, detail=f"{waiver.reason} ({blank.detail})")
        if blank.difference is not None:
            return replace(blank, status=CaseStatus.WAIVED)
        return replace(blank, status=CaseStatus.FALLBACK if blank.fallbacks else CaseStatus.PASS)

    def _waiver(self, case_id: str) -> Entry | None:
        declared = self.settings.declarations
        return declared.find(declared.waivers, case_id)

    def _saved(
        self,
        verdict: CaseResult,
        module: HloModule,
        rows: Sequence[Row],
        wanted: Sequence[Sequence[Array]],
    ) -> CaseResult:
        run = 0 if verdict.difference is None else verdict.difference.run
        folder, backend = self.settings.report, self.settings.backend
        if folder is None:
            return verdict
        command = save_failure(
            folder, verdict.id, backend, module, rows[run], wanted[run], verdict.difference
        )
        return replace(verdict, reproduce=command)

    # What the backend says about itself

    def _declared(self, result: CaseResult) -> CaseResult:
        """The verdict in the light of what the backend declares."""
        declared = self.settings.declarations
        expected = declared.find(declared.expected_failures, result.id)
        if result.status is CaseStatus.UNSUPPORTED and not result.declared:
            entry = declared.find(declared.unsupported, result.id)
            if entry is None:
                return replace(
                    result,
                    status=CaseStatus.FAIL,
                    detail=f"unsupported, and nothing declares it: {result.detail}",
                )
            return replace(result, detail=f"{entry.reason} ({result.detail})")
        if expected is None:
            return result
        if result.status is CaseStatus.FAIL:
            detail = f"{expected.reason} ({result.detail})"
            return replace(result, status=CaseStatus.EXPECTED_FAILURE, detail=detail)
        if result.status is CaseStatus.ERROR:
            return result
        detail = f"expected to fail ({expected.reason}), and passed: remove the entry {expected.id}"
        return replace(result, status=CaseStatus.FAIL, detail=detail)


def _device_options(module: HloModule) -> list[str]:
    """The number of devices as options: a serialized module does not say it."""
    header = module.header
    return [f"num_replicas={header.replica_count}", f"num_partitions={header.num_partitions}"]


_ENDINGS = {Ending.CRASH: "the backend crashed", Ending.TIMEOUT: "the backend hung"}


def _answer(outcome: Outcome, rows: Sequence[Row]) -> Answer:
    """The worker's answer; a crash or a hang is one."""
    if outcome.status is Ending.ERROR:
        return Answer({"problem": outcome.detail, "kind": "suite"}, [])
    if outcome.status is not Ending.OK:
        what = f"{_ENDINGS[outcome.status]}: {outcome.detail}"
        return Answer({"problem": what, "kind": "error", "seconds": outcome.seconds}, [])
    facts, arrays, _ = unpack(outcome.value)
    remaining = iter(arrays)
    counts = facts.get("counts", [0] * len(rows))
    return Answer(facts, [[next(remaining) for _ in range(count)] for count in counts])


def _refused(blank: CaseResult, answer: Answer) -> CaseResult:
    kinds = {
        "unsupported": CaseStatus.UNSUPPORTED,
        "not-offered": CaseStatus.UNSUPPORTED,
        "suite": CaseStatus.ERROR,
    }
    kind, what = answer.facts["kind"], answer.facts["problem"]
    status = kinds.get(kind, CaseStatus.FAIL)
    return replace(blank, status=status, detail=what, declared=kind == "not-offered")


def _tidy(verdict: CaseResult, answer: Answer) -> CaseResult:
    """The verdict, if all memory was given back; a leak is a failure."""
    leaked = answer.facts.get("leaked_nbytes", 0)
    if not leaked or not verdict.status.is_good:
        return verdict
    what = f"leaked {leaked} bytes of device memory: they are still allocated after the case"
    return replace(verdict, status=CaseStatus.FAIL, detail=what)


def _type_of(value: Array) -> str:
    """`f32[2,3]`, as HLO spells it; NumPy's words for a type that HLO has not."""
    try:
        return shape_of(value).to_string(layout=False)
    except XladevError:
        return f"{value.dtype}{list(value.shape)}"


def _type_problem(got: Sequence[Array], want: Sequence[Array], run: int) -> str:
    """What is wrong with the number, types and sizes of results; empty if nothing is."""
    if len(got) != len(want):
        return f"{len(got)} results in run {run}, want {len(want)}"
    for number, (g, w) in enumerate(zip(got, want, strict=True)):
        if g.dtype != w.dtype or g.shape != w.shape:
            return f"result {number} of run {run} is {_type_of(g)}, want {_type_of(w)}"
    return ""


def _limits(
    module: HloModule,
    row: Row,
    evaluated_results: Sequence[Array],
    known: Sequence[Array],
    got: Sequence[Array],
) -> list[Array]:
    """How far each element may be off; not measured where everything is equal anyhow."""
    if all(equal_elements(g, w).all() for g, w in zip(got, known, strict=True)):
        return [np.zeros(w.shape) for w in known]
    return allowed_differences(module, row, evaluated_results)


def _wider(
    module: HloModule, row: Row, evaluated_results: Sequence[Array], limits: Sequence[Array]
) -> list[Array]:
    """The limits after more rounds of noise: a few rounds may miss what rounding can do."""
    found = list(limits)
    for seed in range(1, _MORE_SEEDS):
        again = allowed_differences(module, row, evaluated_results, seed)
        found = [np.maximum(a, b) for a, b in zip(found, again, strict=True)]
    return found


def _first_difference(
    got: Sequence[Array],
    want: Sequence[Array],
    limits: Sequence[Array],
    run: int,
    scale: float,
) -> Difference | None:
    for number, (g, w, limit) in enumerate(zip(got, want, limits, strict=True)):
        found = _difference(g, w, _scaled(limit, w, scale), number, run)
        if found is not None:
            return found
    return None


def _scaled(limit: Array, want: Array, scale: float) -> Array:
    """The limit, tightened or loosened; an unlimited waiver forgives any value."""
    if np.isinf(scale):
        return np.full(want.shape, np.inf)
    return np.asarray(limit * scale)


def _difference(got: Array, want: Array, limit: Array, result: int, run: int) -> Difference | None:
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        distance = np.abs(np.asarray(got, wide) - np.asarray(want, wide))
    good = equal_elements(got, want) | ((distance <= limit) & (limit > 0)) | np.isinf(limit)
    if good.all():
        return None
    bad = np.asarray(~good)
    at = tuple(int(i[0]) for i in np.nonzero(bad)) if bad.ndim else ()
    return Difference(
        result, run, int(bad.sum()), want.size, at, str(got[at]), str(want[at]),
        float(limit[at]), pattern_of(got, want, bad), _type_of(want),
    )  # fmt: skip
