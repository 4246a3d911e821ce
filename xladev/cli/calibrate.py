"""`xladev calibrate`: measures what devices need for kinds of work, and what messages take."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from xladev.cli.output import check_least, print_json, print_table, progress
from xladev.cli.processes import join_launched, spawn
from xladev.client import devices
from xladev.compiler.cache.store import VARIABLE, store_of_environment
from xladev.compiler.cache.whole_file import write_whole
from xladev.compiler.placement.kept_rates import keep_rates
from xladev.compiler.placement.rates import DeviceRates
from xladev.errors import FileError, UsageError
from xladev.profiling.calibration import measure_rates
from xladev.profiling.mesh.round_measurement import measure_rounds
from xladev.profiling.mesh.round_times import TransportTimes
from xladev.runtime.distributed.environment import MPI, SOCKETS, is_started_by_launcher
from xladev.runtime.distributed.job import current_job
from xladev.runtime.distributed.mpi import MpiTransport
from xladev.runtime.registry import current_registry

_HEAD = (
    "DEVICE", "PRODUCTS", "OTHERS", "FUNCTIONS", "MEMORY", "OUT OF ORDER", "LAUNCH", "START",
    "LINK",
)  # fmt: skip
_ROUNDS_HEAD = ("PROCESSES", "BYTES", "ROUND", "ONE MORE MESSAGE")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("devices", nargs="*", metavar="DEVICE", help="such as cpu or npu:0")
    parser.add_argument(
        "--rounds",
        type=Path,
        metavar="PATH",
        help="write what messages between processes of this machine take, for `xladev cost`",
    )
    parser.add_argument(
        "--processes", type=int, default=4, metavar="N", help="that exchange them; default 4"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if bool(arguments.devices) == bool(arguments.rounds):
        raise UsageError(
            "calibrate measures devices, or rounds of messages",
            hint="name devices, such as cpu, or say --rounds PATH",
        )
    return _measure_rounds(arguments) if arguments.rounds else _measure_devices(arguments)


def _measure_rounds(arguments: argparse.Namespace) -> int:
    """Starts processes, if mpiexec did not; process 0 writes the file."""
    check_least("--processes", arguments.processes, 2)
    if not is_started_by_launcher() and (code := spawn(arguments.processes)) is not None:
        return code
    join_launched()
    job = current_job()
    if job is None or job.count < 2:
        raise UsageError("rounds are measured between processes", hint="start two at least")
    times = measure_rounds(job, MPI if isinstance(job.transport, MpiTransport) else SOCKETS)
    if job.index == 0:
        write_whole(arguments.rounds, times.to_json().encode())
        if arguments.json:
            print_json(json.loads(times.to_json()))
        else:
            print_table([_ROUNDS_HEAD, *_round_rows(times)])
    return 0


def _round_rows(times: TransportTimes) -> Iterator[tuple[str, ...]]:
    for row in times.rounds:
        for nbytes, *seconds in zip(row.sizes, row.first_s, row.further_s, strict=True):
            micros = (f"{1e6 * s:,.1f} us" for s in seconds)
            yield (str(row.processes), f"{nbytes:,}", *micros)


def _measure_devices(arguments: argparse.Namespace) -> int:
    store = store_of_environment()
    if store is None:
        raise FileError(
            "there is no cache to keep rates in",
            why=f"{VARIABLE} turns it off, or this user has no home",
            hint=f"set {VARIABLE} to a folder",
        )
    rows: dict[str, DeviceRates] = {}
    for name in arguments.devices:
        device = devices(name)[0]
        with progress(f"measuring {device.name}"):
            rows[device.name] = rates = measure_rates(device)
        target = current_registry().platform(device.platform).compile_target(None)
        if not keep_rates(target, rates, store):
            raise FileError(
                "rates cannot be kept",
                where=str(store.folder),
                why="the cache could not be written to",
                hint=f"make room, or set {VARIABLE} to another folder",
            )
    if arguments.json:
        print_json({name: json.loads(rates.to_json()) for name, rates in rows.items()})
    else:
        print_table([_HEAD, *(_cells(name, rates) for name, rates in rows.items())])
    return 0


def _cells(name: str, rates: DeviceRates) -> tuple[str, ...]:
    per_second = (rates.product_s, rates.vector_s, rates.function_s)
    memory = (rates.byte_s, rates.rearranged_byte_s)
    link = rates.link
    return (
        name,
        *(f"{1e-9 / seconds:,.3g} G/s" for seconds in per_second),
        *(f"{1e-9 / seconds:,.3g} GB/s" for seconds in memory),
        f"{rates.launch_s * 1e6:,.3g} us",
        f"{rates.start_s * 1e6:,.3g} us",
        "" if link is None else f"{link.bandwidth / 1e9:,.3g} GB/s, {link.latency_s * 1e6:,.3g} us",
    )
