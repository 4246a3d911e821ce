"""`xladev calibrate`: measures what devices need for kinds of work, for placement."""

from __future__ import annotations

import argparse
import json

from xladev.cli.output import print_json, print_table, progress
from xladev.client import devices
from xladev.compiler.cache.store import VARIABLE, store_of_environment
from xladev.compiler.placement.kept_rates import keep_rates
from xladev.compiler.placement.rates import DeviceRates
from xladev.errors import FileError
from xladev.profiling.calibration import measure_rates
from xladev.runtime.registry import current_registry

_HEAD = (
    "DEVICE", "PRODUCTS", "OTHERS", "FUNCTIONS", "MEMORY", "OUT OF ORDER", "LAUNCH", "START",
    "LINK",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("devices", nargs="+", metavar="DEVICE", help="such as cpu or npu:0")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
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
