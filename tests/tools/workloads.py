"""The GPU workloads at small sizes: modules without expected results, in ../shared/bench."""

import tarfile
from functools import cache
from pathlib import Path

from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module

_SUFFIX = ".hlo.txt"


@cache
def workload_texts(archive: Path) -> dict[str, str]:
    """HLO text by name; empty where the archive is not there."""
    if not archive.is_file():
        return {}
    with tarfile.open(archive) as stored:
        members = [m for m in stored.getmembers() if m.name.endswith(_SUFFIX)]
        files = {Path(m.name).name.removesuffix(_SUFFIX): stored.extractfile(m) for m in members}
        return {name: file.read().decode() for name, file in sorted(files.items()) if file}


def workload(archive: Path, name: str) -> HloModule:
    """One of them."""
    return parse_module(workload_texts(archive)[name])
