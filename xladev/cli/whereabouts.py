"""What `xladev explain` prints of where instructions run, and of what is copied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from xladev.cli.output import print_line
from xladev.compiler.partition.assignment import EVALUATOR, SDK
from xladev.testing.debug.placement import CopiedValue, InstructionPlacement

SHOWN = 20
"""Rows of a list, unless all are asked for."""
_WHERE = {SDK: "by the SDK", EVALUATOR: "on the SDK's evaluator"}


def placement_rows(places: Sequence[InstructionPlacement]) -> list[dict[str, Any]]:
    """Plain data of each instruction."""
    return [
        {
            "name": p.instruction.name,
            "opcode": p.instruction.opcode,
            "computation": p.computation.name,
            "device": p.device,
            "why": p.why,
        }
        for p in places
    ]


def copy_rows(copies: Sequence[CopiedValue]) -> list[dict[str, Any]]:
    """Plain data of each copy."""
    kinds = {True: "transfer", False: "copy"}
    return [
        {"name": c.name, "kind": kinds[c.between], "why": c.why, "platform": c.platform}
        for c in copies
    ]


def print_places(rows: Sequence[dict[str, Any]], target: str, *, all_of_them: bool) -> None:
    """How many run where; those elsewhere than on the target, or all, one by one."""
    counts = Counter(row["device"] for row in rows)
    shares = (f"{count} {_where(device)}" for device, count in counts.most_common())
    print(f"where: {', '.join(shares) or 'nothing is computed'}")
    wanted = [row for row in rows if all_of_them or _is_told(row, target)]
    for row in _shown(wanted, all_of_them):
        why = row["why"] or f"{target} takes it"
        print_line(f"  {row['name']} ({row['opcode']}) {_where(row['device'])}: {why}")
    _print_rest(wanted, all_of_them)


def print_copies(rows: Sequence[dict[str, Any]], *, all_of_them: bool) -> None:
    """Each copy with its reason."""
    if not rows:
        print("copies: none")
        return
    counts = Counter(row["kind"] for row in rows)
    print(
        f"copies: {counts['transfer']} to another platform or layout, "
        f"{counts['copy']} within one memory"
    )
    for row in _shown(rows, all_of_them):
        print_line(f"  {row['name']}: {row['why']}")
    _print_rest(rows, all_of_them)


def _where(device: str) -> str:
    return _WHERE.get(device, f"on {device}")


def _is_told(row: dict[str, Any], target: str) -> bool:
    """True for what is elsewhere, or asked for; not for what goes along with another."""
    return not row["why"].startswith("with ") and (row["device"] != target or bool(row["why"]))


def _shown(rows: Sequence[dict[str, Any]], all_of_them: bool) -> Sequence[dict[str, Any]]:
    return rows if all_of_them else rows[:SHOWN]


def _print_rest(rows: Sequence[dict[str, Any]], all_of_them: bool) -> None:
    if len(rows) > SHOWN and not all_of_them:
        print(f"  and {len(rows) - SHOWN} more: --all, or --json")
