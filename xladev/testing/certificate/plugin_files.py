"""The files of a plugin, and one SHA-256 over them: what a certificate is of, beside a version.

The files are those that the plugin's distribution installed, by its RECORD. An installation from a
working tree records none; there, and where a package came without a distribution, they are the
files of the plugin's package. Left out is what an installer or Python writes: ``*.dist-info``,
compiled ``*.pyc``, scripts. A library that is elsewhere, such as a driver of the system, is none
of the plugin's files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution
from importlib.util import find_spec
from pathlib import Path, PurePath

from xladev.errors import counted
from xladev.runtime.plugins.loading import installed_plugins


@dataclass(frozen=True, slots=True)
class PluginFiles:
    """What was hashed, and what came of it.

    Attributes:
        of: in words: how many files, of what; empty if there is no such plugin.
        sha256: over names and contents, in order of names; empty without files.
    """

    of: str = ""
    sha256: str = ""


def plugin_files(entry_point: str) -> PluginFiles:
    """The files of an installed plugin, none of whose code is run; empty if there is no such."""
    entry = next((e for e in installed_plugins() if e.name == entry_point), None)
    if entry is None:
        return PluginFiles()
    package = entry.module.partition(".")[0]
    if entry.dist is not None:
        found = _recorded(entry.dist)
        if any(_is_of(name, package) for name in found):
            return _hashed(found, f"the distribution {entry.dist.name}")
    return _hashed(_packaged(package), f"the package {package}")


def _is_of(name: str, package: str) -> bool:
    return name.startswith(f"{package}/") or PurePath(name).stem == package


def _recorded(distribution: Distribution) -> dict[str, Path]:
    """What the distribution installed, by name below the folder of packages."""
    files = [(file.as_posix(), file) for file in distribution.files or ()]
    return {
        name: Path(str(distribution.locate_file(file))) for name, file in files if _is_kept(name)
    }


def _packaged(package: str) -> dict[str, Path]:
    """The files of a package or module, by name below the folder that it is in."""
    spec = find_spec(package)
    if spec is None:
        return {}
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    files: Iterable[Path] = (f for folder in folders for f in folder.rglob("*") if f.is_file())
    found = {f"{package}/{f.relative_to(_home(f, folders)).as_posix()}": f for f in files}
    if not folders and spec.origin:
        found = {Path(spec.origin).name: Path(spec.origin)}
    return {name: file for name, file in found.items() if _is_kept(name)}


def _home(file: Path, folders: list[Path]) -> Path:
    return next(folder for folder in folders if file.is_relative_to(folder))


def _is_kept(name: str) -> bool:
    parts = PurePath(name).parts
    written = name.endswith((".pyc", ".pth")) or "__pycache__" in parts
    return not written and parts[0] != ".." and not parts[0].endswith(".dist-info")


def _hashed(files: Mapping[str, Path], of: str) -> PluginFiles:
    if not files:
        return PluginFiles()
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        digest.update(f"{name}\0{_sha256(path)}\n".encode())
    return PluginFiles(f"{counted(len(files), 'file')} of {of}", digest.hexdigest())


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return "unreadable"
