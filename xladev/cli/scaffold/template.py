"""The files of a new project, read from the installed xladev as package data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from xladev.cli.scaffold.names import Names
from xladev.cli.scaffold.rename import renamed, renamed_source
from xladev.errors import FormatError

_PLACES = {
    "ci.yml": ".github/workflows/ci.yml",
    "gitignore": ".gitignore",
    "project.toml": "pyproject.toml",
}
"""Files that are stored under a name that no tool of this repository obeys, and where they go."""


@dataclass(frozen=True, slots=True)
class ProjectForm:
    """One kind of project.

    Attributes:
        platform: folder under xladev/platforms/ that becomes the package.
        project: folder beside this file, whose files are around the package.
    """

    platform: str
    project: str


MINIMAL = ProjectForm("template_memory", "minimal")
FULL = ProjectForm("template_npu", "full")


def project_files(form: ProjectForm, names: Names) -> dict[str, str]:
    """Text by path, relative to the new project and in order.

    Raises:
        FormatError: the installation lacks its package data.
    """
    found: dict[str, str] = {}
    for folder in ("common", form.project):
        for path, text in _texts(files("xladev").joinpath("cli", "scaffold", "project", folder)):
            found[_PLACES.get(path, renamed(path, names))] = _content(path, text, names)
    for path, text in _texts(files("xladev").joinpath("platforms", form.platform)):
        found[f"{names.package}/{renamed(path, names)}"] = _content(path, text, names)
    found.setdefault(f"{names.package}/__init__.py", _init(names))
    return dict(sorted(found.items()))


def _content(path: str, text: str, names: Names) -> str:
    return (renamed_source if path.endswith(".py") else renamed)(text, names)


def _init(names: Names) -> str:
    return f'"""{names.platform}, a backend of {names.vendor} for xladev."""\n'


def _texts(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, str]]:
    if not folder.is_dir():
        raise FormatError(
            f"{folder} is not here", why="it is part of xladev", hint="install xladev anew"
        )
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if entry.name == "__pycache__":
            continue
        if entry.is_dir():
            yield from _texts(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, entry.read_text("utf-8")
