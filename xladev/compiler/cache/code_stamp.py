"""What tells one state of some code from another, where its version does not.

Installed packages change with their versions. Code that is worked on changes without: what it made
before an edit must not be taken for what it makes now.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

_INSTALLED = frozenset({"site-packages", "dist-packages"})
_SUFFIXES = (".py", ".ll", ".so", ".c")


def code_stamp(module_name: str) -> str:
    """Changes whenever the code around a module does.

    Args:
        module_name: of a loaded module, such as ``mynpu.compiler``.

    Returns:
        For an installed package, a digest of the module's own file's size and time; for code
        elsewhere, one of those of all files of its package.
    """
    file = getattr(sys.modules.get(module_name), "__file__", None)
    if not file:
        return ""
    return _stamp(Path(file), module_name)


@cache
def _stamp(path: Path, module_name: str) -> str:
    if _INSTALLED.intersection(path.parts):
        return _digest([path])
    depth = module_name.count(".") + (path.name == "__init__.py")
    return _folder_stamp(path.parents[depth - 1]) if depth else _digest([path])


@cache
def _folder_stamp(folder: Path) -> str:
    files = [
        f"{where}{os.sep}{name}"
        for where, _, names in os.walk(folder)
        for name in names
        if name.endswith(_SUFFIXES)
    ]
    return _digest(sorted(files))


def _digest(paths: Sequence[str | Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        try:
            found = os.stat(path)
        except OSError:  # pragma: no cover (gone since it was listed)
            continue
        digest.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]
