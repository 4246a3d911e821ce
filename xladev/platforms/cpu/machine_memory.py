"""How much memory a process may have: the machine's, or what its control group allows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")


def machine_memory_nbytes() -> int:
    """Bytes of memory that this process may have; 0 if the system does not say.

    A container sees all of its machine's memory, and is ended where it takes more than the limit of
    its control group (`man 7 cgroups`; both versions).
    """
    try:
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 0
    return min([found, *_limits()])


def _limits() -> Iterator[int]:
    """Of the control groups that this process is in, and of those around them."""
    with suppress(OSError):
        for line in _OWN_GROUPS.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                top, name = _CONTROL_GROUPS, "memory.max"
            elif "memory" in controllers.split(","):
                top, name = _CONTROL_GROUPS / "memory", "memory.limit_in_bytes"
            else:
                continue
            group = top / path.strip("/")
            for folder in (group, *group.parents):
                with suppress(OSError, ValueError):  # "max": none
                    yield int((folder / name).read_text())
                if folder == top:
                    break
