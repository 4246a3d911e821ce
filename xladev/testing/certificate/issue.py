"""Issues a certificate: runs the suite, weighs the results, writes the files or says why not."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from xladev.errors import FormatError
from xladev.testing.certificate.advice import next_steps
from xladev.testing.certificate.certificate import FORMAT, Certificate, statement
from xladev.testing.certificate.installation import Backend, inspect_apart, refuse_bent
from xladev.testing.certificate.levels import CertificateLevel, level_of
from xladev.testing.certificate.must_pass import MustPass, read_must_pass
from xladev.testing.certificate.statement import STATEMENT, statement_text
from xladev.testing.certificate.suite_run import Request, SuiteRun, check_jobs, run_suite
from xladev.testing.certificate.verdict import coverage, cut_of, level_reached, objections
from xladev.testing.conformance.location import suite_folder
from xladev.testing.conformance.status import CaseStatus

CERTIFICATE = "CERTIFICATE.json"
_HINT = "name another folder with --out"


@dataclass(frozen=True, slots=True)
class IssueOutcome:
    """What became of it.

    Attributes:
        level: that was asked for.
        certificate: None if the level is not reached.
        objections: what stands against the level.
        reached: the highest level that is; None if not even the first.
        next_steps: what the level above the reached one asks for.
    """

    level: CertificateLevel
    certificate: Certificate | None
    objections: tuple[str, ...]
    reached: CertificateLevel | None
    next_steps: tuple[str, ...] = ()


def issue(
    name: str,
    level: int | None,
    folder: Path,
    *,
    seed: int = 0,
    tighten: float = 1.0,
    waivers: Path | None = None,
    quiet: bool = False,
    jobs: int = 1,
) -> IssueOutcome:
    """Certifies a backend.

    Args:
        name: platform, kind or device name.
        level: wanted; None means the tier that the backend's classes show.
        folder: of CERTIFICATE.json, STATEMENT.md and the suite's report.
        seed: of the inputs.
        tighten: factor on tolerances, at most 1.
        waivers: file of what the backend declares about itself.
        quiet: True for no output of the suite.
        jobs: processes that share the cases; the certificate is the same at any number.

    Raises:
        XladevError: no such platform or level, an environment that bends the outcome, or a suite
            that could not be run.
    """
    refuse_bent()
    check_jobs(jobs)
    backend = inspect_apart(name)
    wanted = level_of(backend.tier if level is None else level)
    must_pass = read_must_pass(suite_folder())
    _clear(folder)
    request = Request(
        backend.platform, folder, seed, tighten, waivers, wanted.number, quiet=quiet, jobs=jobs
    )
    run = run_suite(request)
    found = coverage(list(run.results.values()))
    against = tuple(objections(wanted, run.results, must_pass, found))
    reached = level_reached(run.results, must_pass, found)
    steps = tuple(next_steps(backend, reached, wanted, run.results, found))
    if against:
        return IssueOutcome(wanted, None, against, reached, steps)
    certificate = _certificate(wanted, backend, must_pass, run, request)
    _write(folder, certificate)
    return IssueOutcome(wanted, certificate, (), wanted, steps)


def _certificate(
    level: CertificateLevel, backend: Backend, must_pass: MustPass, run: SuiteRun, request: Request
) -> Certificate:
    results = {case: result.status.value for case, result in sorted(run.results.items())}
    found = coverage(list(run.results.values()))
    # Through JSON, so that what is written is equal to what is read back.
    declarations = json.loads(json.dumps(run.declarations))
    return Certificate(
        format=FORMAT,
        statement=statement(level, backend.platform, found),
        level=level.number,
        level_name=level.name,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        backend=backend,
        suite_version=must_pass.version,
        suite_sha256=must_pass.sha256,
        seed=request.seed,
        tighten=request.tighten,
        declarations=declarations,
        counts={s.value: sum(r == s.value for r in results.values()) for s in CaseStatus},
        coverage=found,
        results=results,
        cut=cut_of(run.results),
        report_sha256=hashlib.sha256(run.report.read_bytes()).hexdigest(),
    )


def _clear(folder: Path) -> None:
    """Makes the folder and removes an older certificate: no file must outlive what it says."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (CERTIFICATE, STATEMENT):
            (folder / name).unlink(missing_ok=True)
    except OSError as e:
        raise FormatError(f"cannot write certificates into {folder}", why=str(e), hint=_HINT) from e


def _write(folder: Path, certificate: Certificate) -> None:
    texts = {CERTIFICATE: certificate.to_json(), STATEMENT: statement_text(certificate)}
    try:
        for name, text in texts.items():
            (folder / name).write_text(text, "utf-8")
    except OSError as e:
        raise FormatError(
            f"cannot write a certificate into {folder}", why=str(e), hint=_HINT
        ) from e
