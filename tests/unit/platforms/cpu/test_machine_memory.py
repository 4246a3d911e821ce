"""The memory that a process may have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from xladev.platforms.cpu import machine_memory
from xladev.platforms.cpu.machine_memory import machine_memory_nbytes

ALL = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(machine_memory, "_CONTROL_GROUPS", tmp_path)
    monkeypatch.setattr(machine_memory, "_OWN_GROUPS", tmp_path / "own")
    return tmp_path


def limit(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_all_of_the_machine(groups: Path) -> None:
    assert machine_memory_nbytes() == ALL
    (groups / "own").write_text("0::/\n")
    limit(groups, "memory.max", "max\n")
    assert machine_memory_nbytes() == ALL


@pytest.mark.parametrize("place", ["", "a", "a/b"])
def test_the_limit_of_a_group_or_of_one_around_it(groups: Path, place: str) -> None:
    (groups / "own").write_text("1:cpu:/\n0::/a/b\n")
    limit(groups / "a/b", "memory.max", "max\n")
    limit(groups / place, "memory.max", "4096000\n")
    assert machine_memory_nbytes() == 4096000


def test_the_first_version(groups: Path) -> None:
    (groups / "own").write_text("4:cpu,cpuacct:/x\n3:memory:/a\n")
    limit(groups / "memory/a", "memory.limit_in_bytes", "8192000\n")
    assert machine_memory_nbytes() == 8192000


def test_more_than_there_is(groups: Path) -> None:
    (groups / "own").write_text("3:memory:/\n")
    limit(groups / "memory", "memory.limit_in_bytes", str(1 << 63))
    assert machine_memory_nbytes() == ALL
