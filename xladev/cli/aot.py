"""`xladev aot`: a program as an object file with a C interface, for any processor."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from xladev.aot.build import Bundle, compile, machine_target
from xladev.aot.config import Config, read_config
from xladev.aot.header import type_text
from xladev.aot.names import program_name
from xladev.aot.selection import Feed, Fetch, Selection, parse_binding, parse_named
from xladev.cli import saved_models
from xladev.cli.inputs import add_options
from xladev.cli.output import print_line, print_table, progress
from xladev.cli.programs import PROGRAM_HELP, load_program
from xladev.compiler.options import CompileOptions
from xladev.errors import UsageError
from xladev.hlo.ir import HloModule


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("file", type=Path, nargs="?", help=PROGRAM_HELP)
    saved_models.add_arguments(parser)
    parser.add_argument("--name", help="what names in C begin with; default: of the file")
    parser.add_argument(
        "-o",
        "--output",
        "--out",
        dest="out",
        type=Path,
        help="folder to write to; default: the name",
    )
    parser.add_argument(
        "--target", metavar="TRIPLE", help="such as aarch64-linux-gnu; default: this machine's"
    )
    parser.add_argument(
        "--cpu", metavar="LEVEL", help="least processor to run on; default: the triple's least"
    )
    parser.add_argument(
        "--feed", action="append", default=[], metavar="[NAME=]WHAT",
        help="an argument: number of a parameter, or name of any instruction",
    )  # fmt: skip
    parser.add_argument(
        "--fetch", action="append", default=[], metavar="[NAME=]WHAT",
        help="a result: index, or name of any instruction; the rest is pruned",
    )  # fmt: skip
    parser.add_argument(
        "--constant", action="append", default=[], metavar="WHAT=VALUE",
        help="fix a value: a number, a JSON list, FILE.npy or FILE.npz:NAME",
    )  # fmt: skip
    parser.add_argument("--config", type=Path, help="TOML file with these options")
    parser.add_argument(
        "--apart", action="store_true", help="no result takes the place of an argument"
    )
    parser.add_argument(
        "--threads", type=int, metavar="MOST", help="share each run; default: the calling thread"
    )
    parser.add_argument("--platform", help="whose compiler makes the code; default: cpu")
    add_options(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    config = Config() if arguments.config is None else read_config(arguments.config)
    source = _source(arguments)
    name = arguments.name or config.name or program_name(source.stem)
    module, selection = _program(arguments, config.selection + _selection(arguments))
    with progress(f"compiling {source.name}"):
        bundle = _compiled(arguments, config, name, module, selection)
    paths = bundle.write(arguments.out or Path(name))
    _report(bundle)
    for path in paths:
        print(f"{path}: {path.stat().st_size:,} bytes")
    return 0


def _source(arguments: argparse.Namespace) -> Path:
    """The file, or the folder of the SavedModel.

    Raises:
        UsageError: both or neither are given.
    """
    given = [path for path in (arguments.file, arguments.saved_model) if path is not None]
    if len(given) != 1:
        raise UsageError(
            "xladev aot takes a FILE, or --saved-model DIR",
            why="both were given" if given else "neither was given",
        )
    path: Path = given[0]
    return path.resolve() if path.is_dir() else path


def _program(arguments: argparse.Namespace, chosen: Selection) -> tuple[HloModule, Selection]:
    """What is compiled, and what of it."""
    if arguments.saved_model is None:
        return load_program(arguments.file), chosen
    model = saved_models.load_saved_model(
        arguments.saved_model, arguments.signature, arguments.shape, arguments.tensorflow_python
    )
    return model.module, model.selection(chosen)


def _compiled(
    arguments: argparse.Namespace, config: Config, name: str, module: HloModule, chosen: Selection
) -> Bundle:
    in_place = config.in_place is not False and not arguments.apart
    options = CompileOptions.from_environment().with_options(config.options)
    return compile(
        module,
        name,
        target=_target(arguments, config),
        selection=chosen,
        in_place=in_place,
        platform=arguments.platform or config.platform or "cpu",
        options=_with_threads(options.with_options(arguments.option), arguments.threads),
    )


def _with_threads(options: CompileOptions, threads: int | None) -> CompileOptions:
    return options if threads is None else replace(options, threads=threads)


def _target(arguments: argparse.Namespace, config: Config) -> str:
    """Triple and level; the level of the file goes with the triple of the file."""
    triple = arguments.target or config.target or machine_target()
    level = arguments.cpu or (None if arguments.target else config.cpu)
    if level is not None and ":" in triple:
        raise UsageError(
            f"--cpu {level} and --target {triple}", why="the target names a level of its own"
        )
    return triple if level is None else f"{triple}:{level}"


def _selection(arguments: argparse.Namespace) -> Selection:
    return Selection(
        tuple(Feed(*parse_named(text, "--feed")) for text in arguments.feed),
        tuple(Fetch(*parse_named(text, "--fetch")) for text in arguments.fetch),
        tuple(map(parse_binding, arguments.constant)),
    )


def _report(bundle: Bundle) -> None:
    interface = bundle.interface
    print_line(f"{interface.name}: {interface.module} for {interface.target}")
    table = [("", "NAME", "TYPE", "BYTES", "IN HLO")]
    for kind, values in (("argument", interface.arguments), ("result", interface.results)):
        table += [(kind, v.name, type_text(v), f"{v.nbytes:,}", v.source) for v in values]
    print_table(table)
    print(f"memory {interface.memory_nbytes:,} bytes, scratch {interface.scratch_nbytes:,} of it")
