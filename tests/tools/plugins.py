"""Plugins under `packaging/`, without installing them: for this process, or for child processes."""

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xladev.runtime.registry import Registry, installed_plugins, using_registry


@contextmanager
def emulated_cuda() -> Iterator[str]:
    """The platform ``cuda_emu`` in this process's registry, installed or not; gives its name."""
    from xladev.platforms.cuda.plugin import xladev_platforms  # not in xladev's own wheel

    found = [e for e in installed_plugins() if e.name != "cuda"]
    registry = Registry(lambda: found)
    for spec in xladev_platforms():
        registry.register(spec)
    try:
        with using_registry(registry):
            yield "cuda_emu"
    finally:
        registry.close()


def with_entry_points(packaging: Path, folder: Path) -> Path:
    """A folder for PYTHONPATH in which a plugin's metadata is found; its sources are xladev's own.

    Args:
        packaging: the folder of the plugin's pyproject.toml.
        folder: made here.
    """
    project = tomllib.loads((packaging / "pyproject.toml").read_text("utf-8"))["project"]
    name, version = project["name"], project["version"]
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups = (
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in points.items())
        for group, points in project["entry-points"].items()
    )
    (info / "entry_points.txt").write_text("\n".join(groups))
    return folder
