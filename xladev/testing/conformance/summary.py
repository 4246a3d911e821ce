"""The terminal summary: verdicts by tier, device coverage, and what to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from xladev.runtime.plugins.tiers import TIERS
from xladev.testing.conformance.location import suite_folder
from xladev.testing.conformance.settings import Settings
from xladev.testing.conformance.single_op import read_single_op, share_of, share_text
from xladev.testing.conformance.status import CaseResult, CaseStatus

_COLUMNS = tuple(CaseStatus)


def succeeded(results: Sequence[CaseResult]) -> bool:
    """True if nothing failed and something was computed: skipping everything proves nothing."""
    computed = (CaseStatus.PASS, CaseStatus.FALLBACK, CaseStatus.WAIVED)
    good = all(r.status.is_good for r in results)
    return good and any(r.status in computed for r in results)


def summary_lines(results: Sequence[CaseResult], settings: Settings) -> Iterator[str]:
    """The lines of the summary."""
    yield _row("tier", [s.value for s in _COLUMNS])
    for tier in TIERS:
        counts = Counter(r.status for r in results if r.tier == tier.number)
        if counts:
            yield _row(f"{tier.number} {tier.name}", [str(counts[s] or "-") for s in _COLUMNS])
    total = Counter(r.status for r in results)
    yield _row("all", [str(total[s] or "-") for s in _COLUMNS])
    yield coverage_text(results)
    share = share_of(results, read_single_op(suite_folder()))
    if share.run:
        yield share_text(share.to_json())
    cut = [r.id for r in results if r.cut]
    if cut:
        cases = "1 case" if len(cut) == 1 else f"{len(cut)} cases"
        yield f"cut to the device's memory: {cases}, such as {cut[0]}"
    yield f"next: {next_step(results, settings)}"


def _row(name: str, cells: Sequence[str]) -> str:
    widths = [max(len(s.value), 6) for s in _COLUMNS]
    return f"{name:16}" + "  ".join(c.rjust(w) for c, w in zip(cells, widths, strict=True))


def coverage_text(results: Sequence[CaseResult]) -> str:
    """How many programs ran on the device alone."""
    programs = [r for r in results if r.opcode]
    whole = sum(r.status is CaseStatus.PASS for r in programs)
    share = f" ({100 * whole / len(programs):.1f}%)" if programs else ""
    return f"device coverage: {whole} of {len(programs)} single-opcode cases{share}"


def next_step(results: Sequence[CaseResult], settings: Settings) -> str:
    """The one thing to do next."""
    errors = [r for r in results if r.status is CaseStatus.ERROR]
    if errors:
        return f"{errors[0].id} is a fault of the suite itself; report it: {errors[0].headline}"
    failed = sorted(
        (r for r in results if r.status is CaseStatus.FAIL), key=lambda r: (r.tier, r.id)
    )
    if failed:
        return _mend(failed, settings)
    if not succeeded(results):
        return "nothing was computed: declare less as unsupported, and run again"
    refused = Counter(_reason(r) for r in results if r.status is CaseStatus.FALLBACK)
    if refused:
        reason, count = refused.most_common(1)[0]
        cases = "1 case" if count == 1 else f"{count} cases"
        return f"{cases} ran on the host for the commonest reason: {reason}"
    return "nothing is left; keep it so: run the suite on each change"


def _mend(failed: Sequence[CaseResult], settings: Settings) -> str:
    first = failed[0]
    alike = sum(r.opcode == first.opcode for r in failed) if first.opcode else 1
    about = f" and {alike - 1} more of opcode {first.opcode}" if alike > 1 else ""
    if first.reproduce:
        return f"mend {first.id}{about}: {first.reproduce}"
    hint = "" if settings.report else "; --report DIR saves it with a command that runs it alone"
    return f"mend {first.id}{about}: {first.headline}{hint}"


def _reason(result: CaseResult) -> str:
    """A fallback's reason without the instruction's name."""
    _, _, text = result.fallbacks[0].partition(": ")
    return text or result.fallbacks[0]
