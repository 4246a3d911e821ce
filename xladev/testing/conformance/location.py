"""Where the suite's files are, and whether a command line names them.

Imported at the start of every pytest run of an environment with xladev: standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

PACKAGE = "xladev.conformance"
_XLADEV = Path(__file__).resolve().parents[2]
_CHECKOUT = _XLADEV.parent / "tests" / "conformance"
_INSTALLED = _XLADEV / "conformance"


def suite_folder() -> Path:
    """The folder of case files: `tests/conformance` of a checkout, else the installed package."""
    return _CHECKOUT if _CHECKOUT.is_dir() else _INSTALLED


def is_case_file(path: Path) -> bool:
    """True for a file that holds cases."""
    return path.parent == suite_folder() and path.suffix == ".py" and path.name[0] not in "_."


def names_suite(arguments: Sequence[str], folder: Path) -> bool:
    """True if an argument of pytest names the suite or a file of it.

    Args:
        arguments: of the command line, as given.
        folder: the folder that relative paths start from.
    """
    return any(_named(argument, folder) is not None for argument in arguments)


def suite_paths(arguments: Sequence[str], folder: Path) -> list[str]:
    """The arguments with names of the package and its modules as paths; others as they are."""
    paths: list[str] = []
    for argument in arguments:
        named = _named(argument, folder)
        _, colons, rest = argument.partition("::")
        paths.append(argument if named is None else f"{named}{colons}{rest}")
    return paths


def _named(argument: str, folder: Path) -> Path | None:
    """The suite's folder or file that one argument names; None for anything else."""
    name = argument.partition("::")[0]
    if not name or name.startswith("-"):
        return None
    if name == PACKAGE or name.startswith(f"{PACKAGE}."):
        parts = name.removeprefix(PACKAGE).strip(".")
        return suite_folder() / f"{parts}.py" if parts else suite_folder()
    path = (folder / name).resolve()
    inside = path == suite_folder() or path.parent == suite_folder()
    return path if inside else None
