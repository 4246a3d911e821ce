"""Vendors' platforms as installed distributions."""

from pathlib import Path

SOURCES = Path(__file__).parent / "vendor"


def installed(name: str, folder: Path) -> Path:
    """Fills `folder` as installing `vendor/NAME.py` as a platform would."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[xladev.platforms]\n{name} = {name}\n")
    (folder / f"{name}.py").write_text((SOURCES / f"{name}.py").read_text())
    return folder
