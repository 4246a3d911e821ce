"""`xladev cost --mesh`: what a step would take on devices that are not there."""

from __future__ import annotations

import argparse
from typing import Any

from xladev.cli.inputs import given_options
from xladev.cli.network import given_network
from xladev.cli.output import print_json, print_line, print_table
from xladev.compiler.cost import InstructionCost, ProgramCost, roofline
from xladev.compiler.description import DeviceDescription
from xladev.distributed import process_index
from xladev.hlo.ir import HloModule
from xladev.profiling.mesh.local_step import LocalStep, slowest
from xladev.profiling.mesh.network import Hosts, Network
from xladev.profiling.mesh.prediction import MeshPrediction, predict
from xladev.runtime.distributed.job import current_job
from xladev.testing.random_inputs import random_arguments

_HEAD = ("COLLECTIVE", "OPCODE", "ITERATIONS", "BYTES", "TIME")


def show_mesh(
    module: HloModule,
    plain: HloModule,
    cost: ProgramCost,
    device: DeviceDescription | None,
    arguments: argparse.Namespace,
) -> int:
    """Predicts a step and prints it; the exit code.

    Args:
        module: the program.
        plain: that of one device, before kernels were formed.
        cost: of its kernels.
        device: which computes; None: nobody knows how fast.
        arguments: of the command line.
    """
    network = given_network(arguments, arguments.mesh)
    prediction = predict(plain, network)
    compute_s = (
        _measured_s(module, plain, arguments, network.hosts)
        if arguments.measure
        else _compute_s(cost, device)
    )
    report = _report(plain, prediction, network, compute_s)
    if process_index():  # they measure at the same time
        return 0
    if arguments.json:
        print_json(report)
    else:
        _print(report, arguments.top)
    return 0


def _measured_s(
    module: HloModule, plain: HloModule, arguments: argparse.Namespace, hosts: Hosts | None
) -> float:
    """What a device's process takes without messages, while its neighbours do the same.

    They wait for each other, if it is known what telling that takes.
    """
    platform, options, given = arguments.platform, given_options(arguments), random_arguments(plain)
    job = current_job()
    if job is None:
        return LocalStep(module, platform, options, given).seconds()
    everybody, beside = (
        job.transport.channel(key, range(job.count)) for key in (b"measured step", b"in step")
    )
    step = LocalStep(module, platform, options, given, beside=None if hosts is None else beside)
    slowest(everybody, "begin", 0.0)
    taken = slowest(everybody, "end", step.seconds())
    told = 0.0 if hosts is None else step.meetings * hosts.times.meeting_s(job.count)
    return max(0.0, taken - told)


def _compute_s(cost: ProgramCost, device: DeviceDescription | None) -> float | None:
    """The least time of all kernels but the collectives."""
    if device is None:
        return None
    return sum(_seconds(each, device) for each in cost.instructions)


def _seconds(each: InstructionCost, device: DeviceDescription) -> float:
    return 0.0 if each.instruction.op.category == "collective" else roofline(each, device).seconds


def _report(
    module: HloModule, prediction: MeshPrediction, network: Network, compute_s: float | None
) -> dict[str, Any]:
    loads = network.link_nbytes
    exchange = prediction.exchange_s
    return {
        "module": module.name,
        "mesh": list(network.sizes),
        "topology": network.topology,
        "link": {
            "bytes_per_s": network.rates.bandwidth, "latency_s": network.rates.latency_s
        },
        "collectives": [
            {
                "name": c.name, "opcode": c.opcode, "iterations": c.iterations,
                "bytes": c.nbytes, "seconds": c.seconds,
            }
            for c in prediction.collectives
        ],
        "exchange_s": exchange,
        "compute_s": compute_s,
        "step_s": None if compute_s is None else compute_s + exchange,
        "links_used": len(loads),
        "most_link_bytes": max(loads.values(), default=0),
        "mean_link_bytes": sum(loads.values()) / len(loads) if loads else 0.0,
        "memory_bytes": prediction.memory_nbytes,
    }  # fmt: skip


def _print(report: dict[str, Any], top: int) -> None:
    rows = sorted(report["collectives"], key=lambda row: -row["seconds"])[:top]
    if rows:
        print_table([_HEAD, *(tuple(_cells(row)) for row in rows)])
    mesh = "x".join(map(str, report["mesh"]))
    most = f"at most {report['most_link_bytes']:,} bytes over a link"
    print_line(
        f"{report['module']} on {mesh} ({report['topology']}): exchange "
        f"{_micros(report['exchange_s'])}, {most}, "
        f"{report['mean_link_bytes']:,.0f} over each of {report['links_used']:,} used"
    )
    print(f"memory of a device: at most {report['memory_bytes']:,} bytes, nothing fused")
    if report["step_s"] is None:
        print("--platform says how long a device computes")
    else:
        print(f"step: {_micros(report['step_s'])}, of which {_micros(report['compute_s'])} compute")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["name"], row["opcode"], str(row["iterations"]), f"{row['bytes']:,}",
        _micros(row["seconds"]),
    )  # fmt: skip


def _micros(seconds: float) -> str:
    return f"{1e6 * seconds:,.2f} us"
