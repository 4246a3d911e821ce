"""`xladev graph`: draws a program, its kernels, or in what two programs differ."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from xladev.cli.convert import write_output
from xladev.cli.inputs import add_options, given_options
from xladev.cli.output import progress
from xladev.cli.programs import PROGRAM_HELP, load_program
from xladev.client import find_device, host_targets
from xladev.compiler.partition.partition import cut
from xladev.compiler.pass_table import SDK_PASSES
from xladev.compiler.placement.placer import Placer
from xladev.compiler.prepare import prepare
from xladev.errors import UsageError
from xladev.hlo.dot import module_to_dot
from xladev.hlo.ir import HloModule
from xladev.passes.pipeline import Instrumentation, instrumented
from xladev.passes.registry import parse_passes
from xladev.profiling.graph.colours import kernels_of, with_times
from xladev.profiling.graph.html import html_page
from xladev.profiling.graph.marks import difference_marks
from xladev.profiling.graph.model import Colouring, graph_data
from xladev.profiling.graph.shades import COLOURS
from xladev.profiling.graph.svg import png_picture, svg_picture
from xladev.profiling.timeline.file import read_trace
from xladev.runtime.device_name import parse_device_name
from xladev.runtime.registry import current_registry
from xladev.testing.debug.assembly import Split
from xladev.testing.debug.forms import forms_of
from xladev.testing.debug.placement import placements


@dataclass(frozen=True, slots=True)
class _Shown:
    """One program of the picture."""

    module: HloModule
    known: Colouring = field(default_factory=Colouring)

    @property
    def data(self) -> dict[str, Any]:
        return graph_data(self.module, self.known)


_Picture = Callable[[_Shown, str, bool], bytes]
"""Args: what is shown, what it is coloured by, and whether the entry alone."""


def _svg(shown: _Shown, colour: str, entry_only: bool) -> bytes:
    return svg_picture(shown.data, colour, entry_only=entry_only).encode()


def _png(shown: _Shown, colour: str, entry_only: bool) -> bytes:
    return png_picture(shown.data, colour, entry_only=entry_only)


def _dot(shown: _Shown, _colour: str, _entry_only: bool) -> bytes:
    return module_to_dot(shown.module).encode()


_PICTURES: Mapping[str, _Picture] = MappingProxyType({"dot": _dot, "svg": _svg, "png": _png})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("file", type=Path, help=PROGRAM_HELP)
    parser.add_argument("other", type=Path, nargs="?", help="another program, beside it (html)")
    parser.add_argument("--passes", help="show it after these passes beside it (html)")
    parser.add_argument("--platform", help="show the kernels that this platform is given")
    parser.add_argument(
        "--unfused", action="store_true", help="with --platform: its instructions, before that"
    )
    parser.add_argument("--trace", type=Path, help="colour by the times of this trace")
    parser.add_argument("--colour", choices=COLOURS, help="what to colour by at first")
    parser.add_argument(
        "--entry", action="store_true", help="svg, png: without the computations that it calls"
    )
    parser.add_argument("--format", choices=("html", *_PICTURES), help="default: by the output")
    parser.add_argument("-o", "--output", type=Path, help="default: FILE.html, or by --format")
    add_options(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    form = _form(arguments)
    output = arguments.output or Path(f"{arguments.file.stem}.{form}")
    with progress(f"drawing {arguments.file.name}"):
        shown = [_coloured(each, arguments) for each in _programs(arguments)]
        if form == "html":
            data = _page(shown, arguments)
        elif len(shown) > 1:
            raise UsageError(f"a {form} shows one program", hint="--format html shows two")
        else:
            colour = arguments.colour or _first_colour(shown[0])
            data = _PICTURES[form](shown[0], colour, arguments.entry)
    write_output(output, data)
    print(f"{output}: {len(data):,} bytes")
    return 0


def _form(arguments: argparse.Namespace) -> str:
    """The format that is asked for, or that the name of the output says."""
    if arguments.format is not None:
        return str(arguments.format)
    ending = arguments.output.suffix[1:] if arguments.output else "html"
    return ending if ending in _PICTURES else "html"


def _programs(arguments: argparse.Namespace) -> list[_Shown]:
    if arguments.other is not None and arguments.passes is not None:
        raise UsageError("a second program and --passes were given", why="the page shows two")
    if arguments.unfused and arguments.platform is None:
        raise UsageError("--unfused without --platform", hint="--platform says whose kernels")
    modules = [load_program(path) for path in (arguments.file, arguments.other) if path is not None]
    if arguments.passes is not None:
        changed = modules[0]
        for each in parse_passes(arguments.passes, SDK_PASSES):
            changed = each.run(changed)
        modules.append(changed)
    if arguments.platform is None:
        return [_Shown(module) for module in modules]
    return [_on_platform(module, arguments) for module in modules]


def _on_platform(module: HloModule, arguments: argparse.Namespace) -> _Shown:
    """The program as the platform's compiler is given it, or before its kernels are formed."""
    registry = current_registry()
    platform, options = registry.platform(arguments.platform), given_options(arguments)
    ordinal = parse_device_name(arguments.platform).ordinal
    target = replace(platform.compile_target(options.target), ordinal=ordinal or 0)
    hosts = partial(host_targets, registry, platform)
    forms = forms_of(module, target, options, hosts)
    with instrumented(Instrumentation()):
        placer = Placer(target, hosts, partial(find_device, registry, platform, target), options)
        ready = prepare(placer.constrained(module), placer.asked(), options)
        assignment = placer.assign(ready)
    places = placements(Split(ready, assignment, cut(ready, assignment)))
    devices = {p.instruction.name: p.device for p in places}
    last = forms[-1].module
    fusions = kernels_of(last)
    if arguments.unfused:
        plain = next(form.module for form in reversed(forms) if not form.has_kernels)
        return _Shown(plain, Colouring(devices=devices, fusions=fusions))
    # a kernel runs where what it computes does
    devices |= {fusions[name]: device for name, device in devices.items() if name in fusions}
    return _Shown(last, Colouring(devices=devices))


def _coloured(shown: _Shown, arguments: argparse.Namespace) -> _Shown:
    """With the times of a trace, if there is one."""
    if arguments.trace is None:
        return shown
    known = with_times(shown.known, read_trace(arguments.trace), shown.module)
    return replace(shown, known=known)


def _first_colour(shown: _Shown) -> str:
    return "time" if shown.known.times else "opcode"


def _page(shown: list[_Shown], arguments: argparse.Namespace) -> bytes:
    colour = arguments.colour or ""
    if len(shown) == 1:
        return html_page([shown[0].data], shown[0].module.name, colour).encode()
    marks = difference_marks(*(each.module for each in shown))
    names = (arguments.file.name, arguments.other.name if arguments.other else arguments.passes)
    programs = [
        graph_data(each.module, replace(each.known, marks=marks)) | {"title": name}
        for each, name in zip(shown, names, strict=True)
    ]
    return html_page(programs, f"{names[0]} and {names[1]}", colour).encode()
