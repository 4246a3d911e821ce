"""`xladev explain --sharding`: where each value of a partitioned program lies, and what moves."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from xladev.cli.output import print_line
from xladev.errors import UsageError, counted
from xladev.hlo.ir import HloModule
from xladev.hlo.verifier import verify
from xladev.passes.sharding.cut_values import partition_count
from xladev.passes.spmd.program import partition


def sharding_report(module: HloModule, partitions: int) -> dict[str, Any]:
    """What the partitioner does with a module, as plain data.

    Args:
        module: whose values are whole arrays.
        partitions: how many there are, if more than the module says.

    Raises:
        UsageError: there is one partition, which holds everything.
    """
    verify(module)
    count = partition_count(module, max(partitions, module.header.num_partitions))
    if count == 1:
        raise UsageError(
            f"{module.name} is for one partition, which holds everything",
            hint="say how many there are: --option num_partitions=8",
        )
    report = partition(module, count).report
    return {
        "module": module.name,
        "partitions": count,
        "values": [asdict(value) for value in report.values],
        "moves": [asdict(move) for move in report.moves],
    }


def print_shardings(report: dict[str, Any]) -> None:
    """The report as text: values in program order, then moves, those of most bytes first."""
    for value in report["values"]:
        pairs = zip(value["shapes"], value["shardings"], strict=True)
        lies = ", ".join(f"{shape} {text}" for shape, text in pairs)
        print_line(f"{value['name']}: {value['opcode']} {lies}")
    moves = sorted(report["moves"], key=lambda move: -move["nbytes"])
    for move in moves:
        steps = ", ".join(move["steps"]) or "nothing"
        print_line(f"{move['name']} {move['shape']}: {steps}, {counted(move['nbytes'], 'byte')}")
        print_line(f"  from {move['source']} to {move['target']}: {move['why']}")
    total = sum(move["nbytes"] for move in moves)
    sending = sum(move["nbytes"] > 0 for move in moves)
    print_line(
        f"{report['module']}: over {report['partitions']} partitions, "
        f"{counted(sending, 'move')} between devices, {counted(total, 'byte')} received by each"
    )
