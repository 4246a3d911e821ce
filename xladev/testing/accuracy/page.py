"""What was measured of functions, as lines and as a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xladev.testing.accuracy.measure import Worst
from xladev.testing.accuracy.truth import PROMISES, Promise

_HEAD = """# Accuracy of functions

<!-- Written by `python -m xladev.testing.accuracy`; how: see that command. -->

The largest error of each function on platform `{platform}` in units in the last place (ulp) of the
true result, which is computed in more precision by other code: NumPy's f64 and the C library's
`erf` for f32, x86's long double for f64. Functions of one f32 are computed at the inputs that the
table counts, 2^32 being all; those of two at pairs of special values and at seeded ones, half of
them drawn by their bits. "bf16, f16" counts the inputs of 65,536 (for two operands: pairs of a
number with itself) at which the result is not f32's, rounded. An error of 0.500 at no place means
that all results are the nearest ones.

| function | f32 inputs | error | promised | at | f64 inputs | error | promised | bf16, f16 |
|---|--:|--:|--:|---|--:|--:|--:|--:|
"""


@dataclass(frozen=True, slots=True)
class MeasuredFunction:
    """What was measured of one function.

    Attributes:
        single: in f32.
        wide: in f64; None where there is no truth to hold it against.
        bf16: inputs whose result is not f32's, rounded.
        f16: likewise.
    """

    single: Worst
    wide: Worst | None
    bf16: int
    f16: int

    @staticmethod
    def of(row: Mapping[str, Any]) -> MeasuredFunction:
        """Out of its JSON."""
        wide = row["wide"]
        return MeasuredFunction(
            _worst(row["single"]), None if wide is None else _worst(wide), row["bf16"], row["f16"]
        )

    def is_kept(self, promise: Promise) -> bool:
        """Whether all errors are within what is promised."""
        wide = self.wide is None or self.wide.ulps <= promise.wide_ulps
        return self.single.ulps <= promise.ulps and wide and self.bf16 == self.f16 == 0

    def line(self, promise: Promise) -> str:
        """For a terminal."""
        wide = "" if self.wide is None else f"; f64 {self.wide.ulps:.3f} of {promise.wide_ulps:g}"
        return (
            f"{promise.opcode}: {self.single.ulps:.3f} ulp of {promise.ulps:g} at "
            f"{_place(self.single)}, {self.single.inputs:,} inputs{wide}; wrongly rounded: "
            f"{self.bf16} in bf16, {self.f16} in f16{'' if self.is_kept(promise) else '; BROKEN'}"
        )

    def row(self, promise: Promise) -> str:
        """For the page."""
        wide = ("", "", "") if self.wide is None else (
            f"{self.wide.inputs:,}", f"{self.wide.ulps:.3f}", f"{promise.wide_ulps:g}",
        )  # fmt: skip
        cells = (
            f"`{promise.opcode}`", f"{self.single.inputs:,}", f"{self.single.ulps:.3f}",
            f"{promise.ulps:g}", _place(self.single), *wide, f"{self.bf16}, {self.f16}",
        )  # fmt: skip
        return f"| {' | '.join(cells)} |"


def page(platform: str, known: Mapping[str, MeasuredFunction]) -> str:
    """The page of all functions that were measured."""
    rows = [known[p.opcode].row(p) for p in PROMISES if p.opcode in known]
    return _HEAD.format(platform=platform) + "\n".join(rows) + "\n"


def _worst(row: Mapping[str, Any]) -> Worst:
    return Worst(row["inputs"], row["ulps"], tuple(row["at"]), row["got"])


def _place(worst: Worst) -> str:
    return ", ".join(f"{x:.9g}" for x in worst.at) or "none"
