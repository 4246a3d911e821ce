"""What a vendor does next: functions that are not written, or coverage, and where it is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from xladev.runtime.plugins.tiers import TIERS, Tier
from xladev.testing.certificate.installation import Backend
from xladev.testing.certificate.levels import LEVELS, CertificateLevel
from xladev.testing.certificate.verdict import Coverage, floors
from xladev.testing.conformance.status import CaseResult

_REASONS = 3


def next_steps(
    backend: Backend,
    reached: CertificateLevel | None,
    ran: CertificateLevel,
    results: Mapping[str, CaseResult],
    found: Coverage,
) -> Iterator[str]:
    """What the level above the reached one asks for; nothing above the highest.

    Args:
        backend: what was certified; its tier says which functions exist.
        reached: the level that it has; None for none, where failing cases come first.
        ran: the level whose cases were run. Coverage of level 1 says nothing of those above.
        results: of the run, by case.
        found: coverage of the run; for a level above it, an estimate.
    """
    if reached is None or reached.number == len(LEVELS):
        return
    wanted = LEVELS[reached.number]
    head = f"level {wanted.number}, {wanted.name}"
    missing = [] if backend.tier >= wanted.number else [_functions(TIERS[wanted.number - 1])]
    short = list(floors(wanted, found)) if ran.number > 1 else []
    yield from (f"{head}: {what}" for what in (*missing, *short))
    if short:
        yield from _reasons(results)
    elif not missing and wanted.number > ran.number:
        yield (
            f"{head}: its functions are there, so see what its cases say: "
            f"xladev certify {backend.platform} --level {wanted.number}"
        )


def _functions(tier: Tier) -> str:
    """What a tier asks a vendor to write; what is optional is not asked for."""
    asked = "; or ".join(", ".join(way) for way in tier.ways)
    more = ", and set DeviceDescription.dlpack_device_type" if tier.wants_dlpack_type else ""
    return f"write {asked}{more}"


def _reasons(results: Mapping[str, CaseResult]) -> Iterator[str]:
    """Why most programs did not run on the device alone."""
    counts = Counter(
        reason
        for result in results.values()
        for reason in {text.partition(": ")[2] or text for text in result.fallbacks}
    )
    for reason, count in counts.most_common(_REASONS):
        cases = "1 program" if count == 1 else f"{count} programs"
        yield f"on the host in {cases}: {reason}"
