"""The machine in words: processor, processors and memory, Python, date, commit."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from pathlib import Path


def machine() -> str:
    """One line."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    today = datetime.datetime.now(tz=datetime.UTC).date()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{_processor()}, {os.cpu_count()} processors, {memory:.0f} GiB, "
        f"Python {platform.python_version()}, {today}, commit {commit or 'unknown'}"
    )


def _processor() -> str:
    """Name, and the widest vectors that it has."""
    info = Path("/proc/cpuinfo")
    facts = dict[str, str]()
    for line in info.read_text().splitlines() if info.exists() else ():
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    name = facts.get("model name") or platform.processor() or platform.machine()
    flags = facts.get("flags", "").split()
    widest = next((f for f in ("avx512f", "avx2", "avx") if f in flags), "")
    if not widest:
        return name
    return f"{name} (family {facts['cpu family']}, model {facts['model']}, {widest})"
