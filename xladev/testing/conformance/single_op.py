"""The list of single-opcode cases whose share on the device is a figure of the report.

`single_op.txt` is among the files of the suite. Its first line is ``single-op VERSION``; each
other line is the id of a case of one opcode in one of the types that every accelerator has.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xladev.errors import FormatError
from xladev.testing.conformance.case import AnyCase
from xladev.testing.conformance.status import CaseResult, CaseStatus

FILE = "single_op.txt"
TYPES = ("f32", "bf16", "s32", "s8", "pred")
_HEAD = re.compile(r"single-op (\d+(?:\.\d+)*)")
_ID = re.compile(r"[a-z0-9_]+::\S+")


@dataclass(frozen=True, slots=True)
class SingleOpList:
    """The list.

    Attributes:
        version: raised by hand when the list asks for something else.
        cases: ids.
        sha256: of the file.
    """

    version: str
    cases: frozenset[str]
    sha256: str


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """How many cases of the list ran on the device alone, of those that were run.

    Attributes:
        listed: the list.
        run: cases of it that were run.
        on_device: of these, with the right result and nothing on the host.
    """

    listed: SingleOpList
    run: int
    on_device: int

    @property
    def share(self) -> float:
        """From 0 to 1; 0 if none was run."""
        return self.on_device / self.run if self.run else 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain data for the report."""
        return {
            "version": self.listed.version,
            "sha256": self.listed.sha256,
            "cases": len(self.listed.cases),
            "run": self.run,
            "on_device": self.on_device,
            "share": round(self.share, 4),
        }


def share_text(data: Mapping[str, Any]) -> str:
    """What `DeviceShare.to_json` says, in words."""
    return (
        f"of those in {', '.join(TYPES)}, {data['on_device']} of {data['run']} "
        f"({100 * data['share']:.1f}%; list {data['version']}: {data['cases']} cases, "
        f"{data['sha256'][:12]})"
    )


def read_single_op(folder: Path) -> SingleOpList:
    """The list of the suite in a folder.

    Raises:
        FormatError: no such file, or a line that is not of the list.
    """
    path, hint = folder / FILE, "it comes with the suite: install xladev anew"
    try:
        content = path.read_bytes()
        head, *lines = content.decode().splitlines()
    except (OSError, ValueError) as e:
        raise FormatError(f"cannot read {path}", why=str(e), hint=hint) from e
    version = _HEAD.fullmatch(head)
    bad = [line for line in lines if not _ID.fullmatch(line)]
    if version is None or bad:
        raise FormatError(
            f"{path} is no list of cases", why=f"a line is {(bad or [head])[0]!r}", hint=hint
        )
    return SingleOpList(version[1], frozenset(lines), hashlib.sha256(content).hexdigest())


def list_text(version: str, cases: Mapping[str, AnyCase]) -> str:
    """The file's text, from all cases of the suite by id."""
    chosen = sorted(i for i, case in cases.items() if case.opcode and case.dtype in TYPES)
    return "\n".join([f"single-op {version}", *chosen]) + "\n"


def share_of(results: Iterable[CaseResult], listed: SingleOpList) -> DeviceShare:
    """The share that a run shows."""
    found: Sequence[CaseResult] = [r for r in results if r.id in listed.cases]
    return DeviceShare(listed, len(found), sum(r.status is CaseStatus.PASS for r in found))
