"""What became of a case: its status, what was seen, and how to see it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import Enum
from typing import Any

from xladev.errors import one_line


class CaseStatus(Enum):
    """The verdict on one case."""

    PASS = "pass"  # right, and all of it ran on the device
    FALLBACK = "fallback"  # right, but some of it ran on the host: no device coverage
    UNSUPPORTED = "unsupported"  # refused, as the backend declares with a reason
    EXPECTED_FAILURE = "expected-failure"  # wrong, as the backend admits in writing
    WAIVED = "waived"  # wrong by the suite's tolerance, right by a written waiver's
    FAIL = "fail"  # wrong, refused without a declaration, crashed or hung
    ERROR = "error"  # the suite could not judge: a fault of the suite, not of the backend

    @property
    def is_good(self) -> bool:
        """False if the run must not succeed."""
        return self not in (CaseStatus.FAIL, CaseStatus.ERROR)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a result differs from what is wanted.

    Attributes:
        result: number of the result.
        run: number of the run of the program.
        bad: elements that are off by more than is allowed.
        size: elements in all.
        first: index of the first one.
        got: what the backend gave there.
        want: what is right.
        allowed: how far it might be off.
        pattern: what the wrong elements have in common.
        shape: of the result, such as ``f32[2,3]``.
    """

    result: int
    run: int
    bad: int
    size: int
    first: tuple[int, ...]
    got: str
    want: str
    allowed: float
    pattern: str
    shape: str = ""

    def __str__(self) -> str:
        pattern = f" ({self.pattern})" if self.pattern else ""
        shape = f", {self.shape}," if self.shape else ""
        return (
            f"result {self.result}{shape} of run {self.run}: "
            f"{self.bad} of {self.size} differ{pattern}, first at {list(self.first)}: "
            f"got {self.got}, want {self.want} within {self.allowed:.3g}"
        )


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case's outcome.

    Attributes:
        id: file and name of the case, such as ``elementwise_unary::abs-f32``.
        status: the verdict.
        opcode: row of the matrix.
        dtype: column of the matrix.
        tier: of the contract.
        tags: of the case.
        detail: why, in words; empty if it passed.
        difference: the first result that is wrong; None if none was compared and found so.
        seconds: how long the backend took, compilation included.
        device_instructions: instructions that ran on the backend.
        host_instructions: instructions that ran elsewhere.
        device_work: floating-point operations of instructions that ran on the backend.
        host_work: floating-point operations of the others.
        fallbacks: what ran on the host, with reasons.
        reproduce: command that shows the failure; empty if nothing was saved.
        program: types of its parameters and of its result; told of failures only.
        cut: what was run smaller, and why: the device has too little memory; empty if nothing was.
        is_check: True for a check of the contract itself, which is no program.
        declared: True if the contract itself says why it is unsupported, such as a device count.
    """

    id: str
    status: CaseStatus
    opcode: str = ""
    dtype: str = ""
    tier: int = 2
    tags: tuple[str, ...] = ()
    detail: str = ""
    difference: Difference | None = None
    seconds: float = 0.0
    device_instructions: int = 0
    host_instructions: int = 0
    device_work: int = 0
    host_work: int = 0
    fallbacks: tuple[str, ...] = ()
    reproduce: str = ""
    declared: bool = False
    program: str = ""
    is_check: bool = False
    cut: str = ""

    @property
    def file(self) -> str:
        """The family: name of the file without its suffix."""
        return self.id.partition("::")[0]

    @property
    def headline(self) -> str:
        """`detail` in one line, behind the types of the program where they are told."""
        detail = one_line(self.detail)
        return f"{self.program}: {detail}" if self.program else detail

    def to_json(self) -> dict[str, Any]:
        """Plain data that `from_json` reads; defaults left out."""
        data = asdict(self) | {"status": self.status.value}
        defaults = {f.name: f.default for f in fields(self)}
        return {k: v for k, v in data.items() if v != defaults[k]}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> CaseResult:
        """The result that `to_json` wrote."""
        known = dict(data)
        known["status"] = CaseStatus(known["status"])
        for key in ("tags", "fallbacks"):
            known[key] = tuple(known.get(key, ()))
        found = known.get("difference")
        if found is not None:
            known["difference"] = Difference(**{**found, "first": tuple(found["first"])})
        return CaseResult(**known)
