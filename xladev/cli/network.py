"""The network that a command is told of: a mesh of devices, links, and machines."""

from __future__ import annotations

import argparse
from pathlib import Path

from xladev.cli.output import check_least
from xladev.profiling.mesh.network import TOPOLOGIES, Hosts, Network, parse_link, parse_mesh
from xladev.profiling.mesh.round_times import read_times


def add_network(parser: argparse.ArgumentParser, mesh_help: str) -> None:
    """The options that `given_network` reads."""
    parser.add_argument("--mesh", metavar="SIZES", help=mesh_help)
    parser.add_argument(
        "--link", default="50GB/s,2us", help="rate and latency of its links; default 50GB/s,2us"
    )
    parser.add_argument(
        "--topology", choices=TOPOLOGIES, default=TOPOLOGIES[0], help="of the mesh; default torus"
    )
    parser.add_argument(
        "--rounds",
        type=Path,
        metavar="PATH",
        help="what messages take of processors, as `xladev calibrate --rounds` wrote it",
    )
    parser.add_argument(
        "--per-host", type=int, default=1, metavar="N", help="devices of one machine; default 1"
    )


def given_network(arguments: argparse.Namespace, mesh: str) -> Network:
    """The network of a command line.

    Args:
        arguments: of the command.
        mesh: sizes, such as ``16x16``.

    Raises:
        XladevError: an option says something else.
    """
    check_least("--per-host", arguments.per_host, 1)
    hosts = None
    if arguments.rounds is not None:
        hosts = Hosts(read_times(arguments.rounds), arguments.per_host)
    return Network(parse_mesh(mesh), parse_link(arguments.link), arguments.topology, hosts)
