"""`xladev devices`: the devices of all platforms, the default one marked."""

from __future__ import annotations

import argparse

from xladev.cli.output import print_json, print_table
from xladev.errors import one_line
from xladev.runtime.plugins.diagnosis import diagnose
from xladev.runtime.registry import current_registry


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    found = diagnose(current_registry())
    platforms = found.platforms
    broken = any(d.error for p in platforms for d in p.devices)
    if arguments.json:
        rows = [
            {
                "device": d.name,
                "platform": p.name,
                "kind": p.kind,
                "priority": p.priority,
                "default": p.is_default,
                "description": d.description,
                "target": d.target,
                "error": d.error,
            }
            for p in platforms
            for d in p.devices
        ]
        print_json(rows)
        return int(broken)
    table = [("DEVICE", "KIND", "PRIORITY", "DESCRIPTION", "TARGET")]
    for p in platforms:
        for n, d in enumerate(p.devices):
            mark = " *" if p.is_default and n == 0 else ""
            about = one_line(d.error) if d.error else d.description
            table.append((d.name + mark, p.kind, str(p.priority), about, d.target))
    print_table(table)
    if broken:
        print("`xladev doctor` says where a device failed")
    if len(table) == 1:
        print("no device; `xladev doctor` says why")
        return 1
    print("* used where no platform is named")
    return int(broken)
