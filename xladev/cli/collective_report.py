"""What `xladev explain` says of collectives: devices, axes, bytes, links, times."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from xladev.cli.network import given_network
from xladev.cli.output import print_line
from xladev.errors import counted
from xladev.hlo.custom_calls.manual import module_meshes
from xladev.hlo.devices import MeshAxes
from xladev.hlo.ir import HloModule
from xladev.profiling.mesh.collective_ways import collective_ways
from xladev.profiling.mesh.network import Network

_MOST_GROUPS = 4


def collective_rows(
    module: HloModule, given: HloModule, arguments: argparse.Namespace
) -> list[dict[str, Any]]:
    """The collectives of the program of one device, as plain data.

    Args:
        module: that program, before kernels were formed.
        given: the program as it was read, which may name a mesh.
        arguments: of the command line: the network.

    Raises:
        XladevError: the program does not fit the mesh of the command line.
    """
    count = module.header.replica_count * module.header.num_partitions
    if arguments.mesh is None and count == 1:
        return []
    meshes = [*module_meshes(given).values()]
    named = (mesh.axes for mesh in meshes if mesh.size == count)
    sizes = [str(size) for _, size in next(named, ())] or [str(count)]
    network = given_network(arguments, arguments.mesh or "x".join(sizes))
    if arguments.mesh is not None:
        meshes.append(MeshAxes(tuple((str(n), s) for n, s in enumerate(network.sizes))))
    return [
        asdict(way) | {"links": dict(way.links), "over": _over(way.crosses_machines, network)}
        for way in collective_ways(module, network, meshes)
    ]


def _over(crosses_machines: bool, network: Network) -> str:
    if network.hosts is None:
        return "links"
    name = network.hosts.times.transport
    return f"{name}, between machines" if crosses_machines else f"{name}, within a machine"


def print_collectives(rows: Sequence[Mapping[str, Any]]) -> None:
    """The rows as text."""
    for row in rows:
        times = "" if row["iterations"] == 1 else f", {row['iterations']} times"
        print_line(f"{row['name']}: {row['opcode']} {row['shape']}{times}")
        print_line(f"  among {_devices(row)}")
        links = ", ".join(
            f"{n} along dimension {d}" if d else f"{n} straight" for d, n in row["links"].items()
        )
        print_line(
            f"  each sends at most {counted(row['device_nbytes'], 'byte')} over {row['over']} "
            f"({links or 'none'}): {row['seconds'] * 1e6:,.2f} us"
        )


def _devices(row: Mapping[str, Any]) -> str:
    groups = row["groups"]
    shown = " ".join("{" + ",".join(map(str, g)) + "}" for g in groups[:_MOST_GROUPS])
    more = f" and {len(groups) - _MOST_GROUPS} more" if len(groups) > _MOST_GROUPS else ""
    axes = " and ".join(f'"{axis}"' for axis in row["axes"])
    return f"devices along {axes}: {shown}{more}" if axes else f"devices {shown}{more}"
