"""What a run of the suite is worth: coverage, the level it reaches, what stands against it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xladev.errors import counted
from xladev.testing.certificate.levels import LEVELS, CertificateLevel
from xladev.testing.certificate.must_pass import MustPass
from xladev.testing.conformance.status import CaseResult, CaseStatus

_PASSED = frozenset((CaseStatus.PASS, CaseStatus.FALLBACK, CaseStatus.WAIVED))
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the suite's programs ran on the device.

    Attributes:
        programs_on_device: programs with a right result and nothing on the host.
        programs: programs with a right result.
        work_on_device: floating-point operations of these that ran on the device.
        work: floating-point operations of these.
        checks: checks of the contract itself that passed; they are no programs.
        idle: programs with a right result that the SDK simplifies to nothing that is computed: a
            constant, an argument or a copy of one; they count for no side.
    """

    programs_on_device: int
    programs: int
    work_on_device: int
    work: int
    checks: int = 0
    idle: int = 0

    @property
    def share_of_programs(self) -> float:
        """From 0 to 1."""
        return self.programs_on_device / self.programs if self.programs else 0.0

    @property
    def share_of_work(self) -> float:
        """From 0 to 1."""
        return self.work_on_device / self.work if self.work else 0.0

    def __str__(self) -> str:
        return (
            f"{100 * self.share_of_programs:.1f}% of programs "
            f"({self.programs_on_device} of {self.programs}) and "
            f"{100 * self.share_of_work:.1f}% of floating-point work ran on the device"
        )


def coverage(results: Sequence[CaseResult]) -> Coverage:
    """Coverage of a run; checks of the contract itself are no programs.

    A program that fell back in part is none on the device, and its work counts where it was done.
    """
    good = [r for r in results if r.status in _PASSED]
    busy = [r for r in good if r.device_instructions + r.host_instructions]
    checks = sum(r.is_check for r in good)
    return Coverage(
        sum(not r.fallbacks for r in busy),
        len(busy),
        sum(r.device_work for r in busy),
        sum(r.device_work + r.host_work for r in busy),
        checks,
        len(good) - len(busy) - checks,
    )


def cut_of(results: Mapping[str, CaseResult]) -> dict[str, str]:
    """What was run smaller for want of memory, by case."""
    return {case: result.cut for case, result in sorted(results.items()) if result.cut}


def objections(
    level: CertificateLevel, results: Mapping[str, CaseResult], must_pass: MustPass, found: Coverage
) -> Iterator[str]:
    """What stands against a level, worst first; nothing if it is reached."""
    if level.number not in must_pass.levels.values():
        yield f"the must-pass list has no case of level {level.number}: nothing shows it"
    wanted = must_pass.of_level(level.number)
    missing = [case for case in wanted if case not in results]
    if missing:
        yield f"{_cases(missing)} not run"
    failed = [results[c] for c in wanted if c in results and not _is_good(results[c])]
    for status, count in Counter(r.status for r in failed).most_common():
        yield f"{_cases([r.id for r in failed if r.status is status], count)} {status.value}"
    yield from floors(level, found)


def floors(level: CertificateLevel, found: Coverage) -> Iterator[str]:
    """What a level asks for more of on the device; nothing if the coverage is enough."""
    if found.share_of_programs < level.least_programs:
        yield _floor("programs", found.share_of_programs, level.least_programs)
    if found.share_of_work < level.least_work:
        yield _floor("floating-point work", found.share_of_work, level.least_work)


def _is_good(result: CaseResult) -> bool:
    """True if it passed, or wants more devices than there are, which only level 6 asks for."""
    few_devices = result.status is CaseStatus.UNSUPPORTED and result.declared
    return result.status in _PASSED or (few_devices and result.tier < LEVELS[-1].number)


def _floor(what: str, share: float, least: float) -> str:
    return f"{100 * share:.1f}% of {what} ran on the device; the level asks for {100 * least:g}%"


def _cases(ids: Sequence[str], count: int | None = None) -> str:
    """`12 cases (first ones, ...)`."""
    number = len(ids) if count is None else count
    more = ", ..." if number > _SHOWN else ""
    return f"{counted(number, 'case')} ({', '.join(ids[:_SHOWN])}{more})"


def level_reached(
    results: Mapping[str, CaseResult], must_pass: MustPass, found: Coverage
) -> CertificateLevel | None:
    """The highest level that nothing stands against, those below it included; None: not even 1."""
    reached = None
    for level in LEVELS:
        if any(objections(level, results, must_pass, found)):
            break
        reached = level
    return reached
