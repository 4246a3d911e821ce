"""`xladev new`: writes the project of a new backend, which is installed, tested and run at once."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from xladev.cli.scaffold.names import Names, checked_names
from xladev.cli.scaffold.template import FULL, MINIMAL, project_files
from xladev.compiler.cache.whole_file import write_whole
from xladev.errors import UsageError
from xladev.runtime.registry import Registry, current_registry


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("name", help="of the platform, such as my_npu")
    parser.add_argument("--vendor", default="", help="who makes it; default: NAME")
    parser.add_argument("--kind", default="npu", help="of its devices; default npu")
    parser.add_argument("--minimal", action="store_true", help="tier 1, memory, in seven functions")
    parser.add_argument("--into", type=Path, help="folder of the project; default: NAME")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    vendor = arguments.vendor or arguments.name
    names = checked_names(arguments.name, arguments.kind, vendor, _taken(current_registry()))
    folder = arguments.into or Path(names.platform)
    _check_empty(folder)
    written = project_files(MINIMAL if arguments.minimal else FULL, names)
    write_project(folder, written)
    _print(folder, written, names)
    return 0


def _taken(registry: Registry) -> set[str]:
    return {p.name for p in registry.platforms()} | set(registry.clashes())


def _check_empty(folder: Path) -> None:
    """Raises UsageError if the folder cannot become a project without losing something."""
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(
            f"{folder} is not empty",
            why="nothing that exists is written over",
            hint="name another folder with --into",
        )
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file", hint="name a folder with --into")


def write_project(folder: Path, texts: Mapping[str, str]) -> None:
    """Writes a text into each path under ``folder``.

    Raises:
        FileError: a file or folder cannot be written.
    """
    for path, text in texts.items():
        target = folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise UsageError(f"cannot make the folder {target.parent}", why=str(e)) from e
        write_whole(target, text.encode())


def _print(folder: Path, written: Mapping[str, str], names: Names) -> None:
    print(f"{folder}: {names.platform}, kind {names.kind}, {len(written)} files")
    for path in written:
        print(f"  {path}")
    print("next:")
    print(f"  cd {folder} && pip install -e '.[test]'")
    print("  pytest")
    print(f"  xladev run examples/dense.hlo --platform {names.platform} --stats")
