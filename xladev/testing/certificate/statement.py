"""STATEMENT.md: the certificate for people."""

from __future__ import annotations

from collections.abc import Iterator

from xladev.testing.certificate.certificate import Certificate
from xladev.testing.certificate.levels import level_of

STATEMENT = "STATEMENT.md"

_DOES_NOT_PROVE = """\
Whoever holds the device issued this, with nobody looking on. The digest in CERTIFICATE.json finds
damage and careless edits; it is no signature, and who rewrites the file can compute it anew. Run
`xladev certify --verify CERTIFICATE.json --sample 50` on the device to see for yourself. The cases
are finite: passing them does not prove that every program is right. Nothing here is about speed."""


def statement_text(certificate: Certificate) -> str:
    """The page."""
    return "\n".join(_lines(certificate)) + "\n"


def _lines(c: Certificate) -> Iterator[str]:
    yield from (c.statement, "", f"# {c.backend.platform}: level {c.level}, {c.level_name}", "")
    yield from ("| | |", "|---|---|")
    yield from (f"| {name} | {value} |" for name, value in _rows(c))
    yield from ("", "## Cases", "", "| status | cases |", "|---|--:|")
    yield from (f"| {status} | {count} |" for status, count in c.counts.items() if count)
    yield from ("", "## What the backend declares about itself", "")
    yield from _declarations(c)
    yield from ("", "## What this does not prove", "", _DOES_NOT_PROVE)


def _rows(c: Certificate) -> Iterator[tuple[str, str]]:
    b, level = c.backend, level_of(c.level)
    yield "platform", f"{b.platform}, kind {b.kind}, contract {b.contract}"
    yield "device", f"{b.device_count} x {b.device} ({b.target or 'no target'})"
    yield "plugin", b.distribution + (", installed from a working tree" if b.editable else "")
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


def _declarations(c: Certificate) -> Iterator[str]:
    entries = [(kind, entry) for kind, listed in c.declarations.items() for entry in listed]
    if not entries:
        yield "Nothing: no waivers, no expected failures, nothing called unsupported."
    for kind, entry in entries:
        factor = f", {entry['tolerance']:g} times the tolerance" if "tolerance" in entry else ""
        yield f"- {kind.replace('_', ' ')} `{entry['id']}`{factor}: {entry['reason']}"
