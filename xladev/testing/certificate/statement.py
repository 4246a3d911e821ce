"""STATEMENT.md: the certificate for people."""

from __future__ import annotations

from collections.abc import Iterator

from xladev.errors import printable
from xladev.runtime.plugins.tiers import TIERS
from xladev.testing.certificate.certificate import Certificate
from xladev.testing.certificate.levels import level_of
from xladev.testing.certificate.verdict import Coverage
from xladev.testing.conformance.status import CaseStatus

STATEMENT = "STATEMENT.md"

_DOES_NOT_PROVE = """\
Whoever holds the device issued this, with nobody looking on. The digest in CERTIFICATE.json finds
damage and careless edits; it is no signature, and who rewrites the file can compute it anew. Run
`xladev certify --verify CERTIFICATE.json --sample 50` on the device to see for yourself. The cases
are finite: passing them does not prove that every program is right. Nothing here is about speed."""


def statement_text(certificate: Certificate) -> str:
    """The page."""
    return printable("\n".join(_lines(certificate)) + "\n")


def _lines(c: Certificate) -> Iterator[str]:
    yield from (c.statement, "", f"# {c.backend.platform}: level {c.level}, {c.level_name}", "")
    yield from ("| | |", "|---|---|")
    yield from (f"| {name} | {value} |" for name, value in _rows(c))
    yield from ("", "## Cases", "", "| status | cases |", "|---|--:|")
    yield from (f"| {status} | {count} |" for status, count in c.counts.items() if count)
    yield from _unsupported(c)
    yield from ("", "## Where the programs ran", "")
    yield from _programs(c.coverage)
    yield from _cut(c)
    yield from ("", "## What the backend declares about itself", "")
    yield from _declarations(c)
    yield from ("", "## What this does not prove", "", _DOES_NOT_PROVE)


def _rows(c: Certificate) -> Iterator[tuple[str, str]]:
    b, level = c.backend, level_of(c.level)
    yield "platform", f"{b.platform}, kind {b.kind}, contract {b.contract}"
    yield "device", f"{b.device_count} x {b.device} ({b.target or 'no target'})"
    yield "plugin", b.distribution + (", installed from a working tree" if b.editable else "")
    yield "files", f"{b.files}, sha256 {b.files_sha256}" if b.files else "none found"
    yield "functions", _functions(c)
    yield "driver", b.driver or "says no version"
    yield "versions", ", ".join(f"{name} {version}" for name, version in b.versions.items())
    yield "issued", f"{c.date}, by whoever ran `xladev certify`"
    yield "suite", f"version {c.suite_version}, sha256 {c.suite_sha256}"
    yield "seed", f"{c.seed}; tolerances times {c.tighten:g}"
    if c.level == 1:
        return
    yield "on the device", str(c.coverage)
    yield (
        "the level asks for",
        f"{100 * level.least_programs:g}% of programs, {100 * level.least_work:g}% of work",
    )


def _functions(c: Certificate) -> str:
    """Which of the contract's functions are the backend's own; a level is about results alone."""
    own = TIERS[c.backend.tier - 1]
    said = f"of tier {own.number}, {own.name}"
    if own.number < c.level:
        said += "; what the tiers above are about was done by the SDK's defaults"
    return said


def _programs(found: Coverage) -> Iterator[str]:
    """How the cases with a right result become the coverage: their sum is all of them."""
    in_part = found.programs - found.programs_on_device
    rows = {
        "checks of the contract itself: no programs": found.checks,
        "programs simplified to nothing that is computed (a constant, an argument)": found.idle,
        "programs that ran on the device alone": found.programs_on_device,
        "programs that ran on the host, or in part": in_part,
    }
    good = found.checks + found.idle + found.programs
    yield f"Of the {good} cases with a right result (pass, fallback, waived) there are"
    yield from ("", "| cases | |", "|--:|---|")
    yield from (f"| {count} | {what} |" for what, count in rows.items())
    yield ""
    yield (
        f"The last two rows are the {found.programs} programs of the coverage, of which "
        f"{found.programs_on_device} ran on the device alone. The first two show nothing of what "
        "it computes, and count for neither side."
    )


def _unsupported(c: Certificate) -> Iterator[str]:
    """Cases that want more devices than there are; nothing where there are enough."""
    cases = [case for case, status in c.results.items() if status == CaseStatus.UNSUPPORTED.value]
    if not cases:
        return
    yield from ("", "## Not asked for at this level", "")
    yield (
        "The cases called unsupported want more devices than there are "
        f"({c.backend.device_count}). The suite says so, not the backend. Level 6 asks for them; "
        "for this level they count for neither side:"
    )
    yield ""
    yield from (f"- `{case}`" for case in cases)


def _cut(c: Certificate) -> Iterator[str]:
    """Cases that were run smaller; nothing where the device has room for all."""
    if not c.cut:
        return
    yield from ("", "## Cut to the device's memory", "")
    yield "These cases were run, and judged, at a smaller size:"
    yield ""
    yield from (f"- `{case}`: {text}" for case, text in c.cut.items())


def _declarations(c: Certificate) -> Iterator[str]:
    entries = [(kind, entry) for kind, listed in c.declarations.items() for entry in listed]
    if not entries:
        yield "Nothing: no waivers, no expected failures, nothing that it calls unsupported."
    for kind, entry in entries:
        factor = f", {entry['tolerance']:g} times the tolerance" if "tolerance" in entry else ""
        yield f"- {kind.replace('_', ' ')} `{entry['id']}`{factor}: {entry['reason']}"
