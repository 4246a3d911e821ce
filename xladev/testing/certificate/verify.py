"""Verifies a certificate: against itself, against the suite here, and by running a sample."""

from __future__ import annotations

import hashlib
import json
import random
import tempfile
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from xladev.errors import FormatError, UsageError
from xladev.testing.certificate.certificate import Certificate, read_certificate
from xladev.testing.certificate.installation import refuse_bent
from xladev.testing.certificate.levels import LEVELS, level_of
from xladev.testing.certificate.must_pass import read_must_pass
from xladev.testing.certificate.plugin_files import plugin_files
from xladev.testing.certificate.statement import STATEMENT, statement_text
from xladev.testing.certificate.suite_run import REPORT, Request, read_report, run_suite
from xladev.testing.certificate.verdict import coverage, cut_of
from xladev.testing.conformance.location import suite_folder

_PASSED = frozenset(("pass", "fallback", "waived"))


@dataclass(frozen=True, slots=True)
class Sampled:
    """One case that was run again.

    Attributes:
        case: its id.
        certified: status in the certificate.
        found: status now.
    """

    case: str
    certified: str
    found: str

    @property
    def holds(self) -> bool:
        """True if the case is as good as certified; a fallback that is none any more is better."""
        return self.found in (self.certified, "pass")


def verify_file(path: Path) -> Certificate:
    """Checks a certificate without running anything.

    Raises:
        FormatError: it is malformed, altered or contradicts itself; it is of another suite; its
            results do not give its level; or the report or the statement beside it is another's.
    """
    certificate = read_certificate(path)
    must_pass = read_must_pass(suite_folder())
    if certificate.suite_sha256 != must_pass.sha256:
        raise FormatError(
            "the certificate is of another suite",
            where=str(path),
            why=f"it is of suite {certificate.suite_version} ({certificate.suite_sha256[:12]}), "
            f"here is suite {must_pass.version} ({must_pass.sha256[:12]})",
            hint=f"install xladev {certificate.backend.versions.get('xladev', '')} to verify it",
        )
    short = [
        case
        for case in must_pass.of_level(certificate.level)
        if not _is_good(certificate, case, must_pass.levels[case])
    ]
    level, found = level_of(certificate.level), certificate.coverage
    below = found.share_of_programs < level.least_programs or found.share_of_work < level.least_work
    if short or below:
        why = f"{len(short)} cases did not pass, such as {short[0]}" if short else str(found)
        raise FormatError(
            f"the certificate's results do not give level {certificate.level}",
            where=str(path),
            why=why,
            hint="it is worth a lower level at best: xladev certify NAME says which",
        )
    _check_report(path.parent / REPORT, certificate)
    _check_statement(path.parent / STATEMENT, certificate)
    return certificate


def _is_good(certificate: Certificate, case: str, level: int) -> bool:
    """True if it passed, or was unsupported without a declaration: too few devices, see verdict."""
    status = certificate.results.get(case)
    declared = [entry["id"] for entry in certificate.declarations.get("unsupported", ())]
    undeclared = not any(fnmatchcase(case, pattern) for pattern in declared)
    few_devices = status == "unsupported" and undeclared and level < LEVELS[-1].number
    return status in _PASSED or few_devices


def _check_report(report: Path, certificate: Certificate) -> None:
    """The report is needed by nobody, but one that is beside the certificate must be its own."""
    if not report.is_file():
        return
    found = certificate.coverage
    if hashlib.sha256(report.read_bytes()).hexdigest() != certificate.report_sha256:
        raise _not_its_own(report, "report", "its SHA-256 is another")
    try:
        run = read_report(report)
    except (ValueError, KeyError, TypeError) as e:
        raise _not_its_own(report, "report", f"it cannot be read: {e}") from e
    results = {case: result.status.value for case, result in run.results.items()}
    if results != certificate.results or coverage(list(run.results.values())) != found:
        raise _not_its_own(report, "report", "its cases give other results or another coverage")
    if cut_of(run.results) != certificate.cut:
        raise _not_its_own(report, "report", "it says of other cases that they were cut")


def _check_statement(path: Path, certificate: Certificate) -> None:
    """The statement follows from the certificate, to the letter."""
    if not path.is_file():
        return
    if path.read_text("utf-8", errors="replace") != statement_text(certificate):
        raise _not_its_own(path, "statement", "its text is not what the certificate gives")


def _not_its_own(path: Path, kind: str, why: str) -> FormatError:
    return FormatError(
        f"{path.name} is not the {kind} of the certificate beside it",
        where=str(path),
        why=why,
        hint=f"put the {kind} of the same run there, or none",
    )


def compare_installed(certificate: Certificate) -> str:
    """In words, whether the plugin that is installed here is the certified one, file by file.

    No more than a note: a certificate is verified anywhere, and another plugin does not belie it.
    """
    backend = certificate.backend
    here = plugin_files(backend.plugin)
    if not backend.files_sha256:
        return f"the certificate knows no files of the plugin {backend.plugin}"
    if not here.sha256:
        return f"the plugin {backend.plugin} is not installed here: its files were not compared"
    if here.sha256 == backend.files_sha256:
        return f"the plugin installed here is the certified one: {here.of} agree"
    return (
        f"NOTE: the plugin {backend.plugin} installed here is not the certified one: "
        f"{here.of} have sha256 {here.sha256[:12]}; certified were {backend.files} "
        f"with {backend.files_sha256[:12]}"
    )


def run_sample(certificate: Certificate, count: int, seed: int) -> tuple[Sampled, ...]:
    """Runs some of the certified cases again, here and now.

    Args:
        certificate: verified.
        count: cases; all of them if there are fewer.
        seed: of the choice; the inputs are those of the certificate.

    Raises:
        UsageError: a count below 1, or variables that bend the outcome.
        XladevError: the suite could not be run.
    """
    if count < 1:
        raise UsageError(f"a sample of {count} cases", why="at least 1")
    refuse_bent()
    cases = sorted(certificate.results)
    chosen = sorted(random.Random(seed).sample(cases, min(count, len(cases))))
    with tempfile.TemporaryDirectory() as scratch:
        declared = Path(scratch) / "declarations.toml"
        declared.write_text(declarations_text(certificate), "utf-8")
        request = Request(
            certificate.backend.platform, Path(scratch), certificate.seed, certificate.tighten,
            declared, cases=tuple(chosen), quiet=True,
        )  # fmt: skip
        found = run_suite(request).results
    return tuple(
        Sampled(case, certificate.results[case], found[case].status.value if case in found else "-")
        for case in chosen
    )


def declarations_text(certificate: Certificate) -> str:
    """The declarations of a certificate as the file that they were read from."""
    lines: list[str] = []
    for kind, entries in certificate.declarations.items():
        for entry in entries:
            lines.append(f"[[{kind}]]")
            lines += [f"{key} = {_toml_value(value)}" for key, value in entry.items()]
    return "\n".join(lines) + "\n"


def _toml_value(value: object) -> str:
    # A JSON string is a TOML string; Python spells infinity as TOML does.
    return repr(float(value)) if isinstance(value, int | float) else json.dumps(value)
