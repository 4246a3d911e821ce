"""`xladev graph`: draws a program, its kernels, or in what two programs differ."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from xladev.cli.convert import write_output
from xladev.cli.inputs import add_options, given_options
from xladev.cli.output import progress
from xladev.client import load
from xladev.errors import UsageError
from xladev.hlo.dot import module_to_dot
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.passes.registry import parse_passes
from xladev.profiling.graph.html import html_page
from xladev.profiling.graph.model import graph_data
from xladev.profiling.graph.svg import png_picture, svg_picture
from xladev.runtime.registry import current_registry
from xladev.testing.debug.forms import forms_of
from xladev.testing.debug.structure import differences

_PICTURES: Mapping[str, Callable[[HloModule], bytes]] = MappingProxyType(
    {
        "dot": lambda module: module_to_dot(module).encode(),
        "svg": lambda module: svg_picture(graph_data(module)).encode(),
        "png": lambda module: png_picture(graph_data(module)),
    }
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("file", type=Path, help="HLO text or serialized HloModuleProto")
    parser.add_argument("other", type=Path, nargs="?", help="another program, beside it (html)")
    parser.add_argument("--passes", help="show it after these passes beside it (html)")
    parser.add_argument("--platform", help="show the kernels that this platform is given")
    parser.add_argument("--format", choices=("html", *_PICTURES), help="default: by the output")
    parser.add_argument("-o", "--output", type=Path, help="default: FILE.html, or by --format")
    add_options(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    form = _form(arguments)
    output = arguments.output or Path(f"{arguments.file.stem}.{form}")
    with progress(f"drawing {arguments.file.name}"):
        first, second = _programs(arguments)
        if form == "html":
            data = _page(first, second, arguments)
        elif second is not None:
            raise UsageError(f"a {form} shows one program", hint="--format html shows two")
        else:
            data = _PICTURES[form](first)
    write_output(output, data)
    print(f"{output}: {len(data):,} bytes")
    return 0


def _form(arguments: argparse.Namespace) -> str:
    """The format that is asked for, or that the name of the output says."""
    if arguments.format is not None:
        return str(arguments.format)
    ending = arguments.output.suffix[1:] if arguments.output else "html"
    return ending if ending in _PICTURES else "html"


def _programs(arguments: argparse.Namespace) -> tuple[HloModule, HloModule | None]:
    if arguments.other is not None and arguments.passes is not None:
        raise UsageError("a second program and --passes were given", why="the page shows two")
    modules = [load(path) for path in (arguments.file, arguments.other) if path is not None]
    if arguments.passes is not None:
        changed = modules[0]
        for each in parse_passes(arguments.passes):
            changed = each.run(changed)
        modules.append(changed)
    if arguments.platform is not None:
        modules = [_kernels(module, arguments) for module in modules]
    return modules[0], modules[1] if len(modules) > 1 else None


def _kernels(module: HloModule, arguments: argparse.Namespace) -> HloModule:
    """The program as the platform's compiler is given it."""
    platform = current_registry().platform(arguments.platform)
    options = given_options(arguments)
    target = platform.compile_target(options.target)
    return forms_of(module, target, options)[-1].module


def _page(first: HloModule, second: HloModule | None, arguments: argparse.Namespace) -> bytes:
    if second is None:
        return html_page([graph_data(first)], first.name).encode()
    marks = _marks(first, second)
    names = (arguments.file.name, arguments.other.name if arguments.other else arguments.passes)
    programs = [
        graph_data(module, marks=marks) | {"title": name}
        for module, name in zip((first, second), names, strict=True)
    ]
    return html_page(programs, f"{names[0]} and {names[1]}").encode()


def _marks(first: HloModule, second: HloModule) -> dict[HloInstruction, str]:
    marks: dict[HloInstruction, Any] = {}
    for difference in differences(first, second):
        marks |= dict.fromkeys(difference.removed, "removed")
        marks |= dict.fromkeys(difference.added, "added")
        for pair in difference.rewired:
            marks |= dict.fromkeys(pair, "rewired")
    return marks
