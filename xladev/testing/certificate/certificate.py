"""The certificate: what it says, as JSON with a digest, and how it is read back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from xladev.errors import FormatError
from xladev.testing.certificate.installation import Backend
from xladev.testing.certificate.levels import LEVELS, CertificateLevel
from xladev.testing.certificate.verdict import Coverage
from xladev.testing.conformance.status import CaseStatus

FORMAT = 3
"""Version of CERTIFICATE.json."""
_MOST_BYTES = 64 << 20
_HINT = "take the file as it was issued, or issue one: xladev certify NAME"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A level that a backend reached, and everything that it depends on.

    Attributes:
        format: version of the file.
        statement: the one sentence that may be quoted.
        level: number of the level.
        level_name: its name.
        date: when it was issued, UTC, ISO 8601.
        backend: what was certified.
        suite_version: of the must-pass list.
        suite_sha256: over the suite's files.
        seed: of all inputs.
        tighten: factor on the suite's tolerances, at most 1.
        declarations: what the backend declared about itself, waivers among it.
        counts: cases by status.
        coverage: of the run; meaningless at level 1.
        results: status by case.
        cut: what was run smaller, and why, by case: the device has too little memory for it.
        report_sha256: of the conformance.json that was written with it.
    """

    format: int
    statement: str
    level: int
    level_name: str
    date: str
    backend: Backend
    suite_version: str
    suite_sha256: str
    seed: int
    tighten: float
    declarations: Mapping[str, Any]
    counts: Mapping[str, int]
    coverage: Coverage
    results: Mapping[str, str]
    cut: Mapping[str, str]
    report_sha256: str

    def to_json(self) -> str:
        """The file's text; its last field is a digest of all others."""
        data = asdict(self)
        return json.dumps(data | {"sha256": digest(data)}, indent=1) + "\n"


def statement(level: CertificateLevel, name: str, found: Coverage) -> str:
    """The sentence on the first line; from level 2 it states device coverage."""
    head = f"{name} reaches level {level.number}, {level.name}, of the xladev conformance suite"
    if level.number == 1:
        computed = found.programs_on_device or found.work_on_device
        about = "this level asks for no computation" if computed else "nothing was computed"
        return f"{head}: its memory holds what programs put there; {about} on the device."
    return f"{head}: {found}."


def digest(data: Mapping[str, Any]) -> str:
    """SHA-256 of the fields but ``sha256``, as JSON with sorted keys and no spaces."""
    kept = {key: value for key, value in data.items() if key != "sha256"}
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read_certificate(path: Path) -> Certificate:
    """The certificate in a file.

    Raises:
        FormatError: no such file, no certificate, another format version, a digest that is not
            its fields', or fields that contradict each other.
    """
    data = _read(path)
    _check_fields(path, data)
    if data["sha256"] != digest(data):
        raise _bad(path, "its fields were altered", "the digest over them is another")
    try:
        values = {key: data[key] for key in _TYPES}
        values["backend"] = Backend(**data["backend"])
        values["coverage"] = Coverage(**data["coverage"])
    except TypeError as e:
        raise _bad(path, "its fields are not a certificate's", str(e)) from e
    found = Certificate(**values)
    _check_agreement(path, found)
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise _bad(path, "it is too large", f"{path.stat().st_size} bytes")
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as e:
        raise FormatError(f"cannot read a certificate from {path}", why=str(e), hint=_HINT) from e
    if not isinstance(data, dict):
        raise _bad(path, "it is no JSON object", type(data).__name__)
    return data


_TYPES: Mapping[str, tuple[type, ...]] = {
    "format": (int,), "statement": (str,), "level": (int,), "level_name": (str,), "date": (str,),
    "backend": (dict,), "suite_version": (str,), "suite_sha256": (str,), "seed": (int,),
    "tighten": (int, float), "declarations": (dict,), "counts": (dict,), "coverage": (dict,),
    "results": (dict,), "cut": (dict,), "report_sha256": (str,),
}  # fmt: skip


def _check_fields(path: Path, data: Mapping[str, Any]) -> None:
    if data.get("format") != FORMAT:
        why = f"it is of format {data.get('format')!r}, this xladev reads {FORMAT}"
        raise _bad(path, "it cannot be read", why)
    missing = [key for key in (*_TYPES, "sha256") if key not in data]
    if missing or set(data) - {*_TYPES, "sha256"}:
        odd = missing or sorted(set(data) - {*_TYPES, "sha256"})
        raise _bad(path, "its fields are not a certificate's", f"see {', '.join(map(str, odd))}")
    wrong = [key for key, types in _TYPES.items() if type(data[key]) not in types]
    numbers = data["coverage"].values() if not wrong else ()
    texts = data["cut"].values() if not wrong else ()
    if wrong or any(type(n) is not int or n < 0 for n in numbers):
        raise _bad(path, "a field is of another type", ", ".join(wrong) or "coverage")
    if any(type(text) is not str for text in texts):
        raise _bad(path, "a field is of another type", "cut")


def _check_agreement(path: Path, found: Certificate) -> None:
    """Raises unless the fields say one thing: what is quoted must follow from what was counted."""
    statuses = {status.value for status in CaseStatus}
    counted = {s: sum(r == s for r in found.results.values()) for s in statuses}
    level = next((x for x in LEVELS if x.number == found.level), None)
    if level is None or level.name != found.level_name:
        raise _bad(path, "there is no such level", f"{found.level} {found.level_name!r}")
    if not set(found.results.values()) <= statuses or dict(found.counts) != counted:
        raise _bad(path, "its counts are not those of its results", "both are in the file")
    if not set(found.cut) <= set(found.results) or not all(found.cut.values()):
        raise _bad(path, "it says of cases that they were cut, and not that they ran", "`cut`")
    good = sum(counted[s.value] for s in (CaseStatus.PASS, CaseStatus.FALLBACK, CaseStatus.WAIVED))
    covered = found.coverage.checks + found.coverage.idle + found.coverage.programs
    if covered != good or found.coverage.programs_on_device > found.coverage.programs:
        why = f"{covered} cases in it, {good} with a right result"
        raise _bad(path, "its coverage is not that of its results", why)
    if found.statement != statement(level, found.backend.platform, found.coverage):
        raise _bad(path, "its statement is not what its fields say", found.statement)


def _bad(path: Path, what: str, why: str) -> FormatError:
    return FormatError(f"no valid certificate: {what}", where=str(path), why=why, hint=_HINT)
