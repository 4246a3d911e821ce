"""Entry points of a plugin under `packaging/`, for child processes alone: nothing is installed."""

import tomllib
from pathlib import Path


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
