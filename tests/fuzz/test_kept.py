"""No file that xladev keeps is read with a byte changed, cut off, or as a file of another name."""

import random
from itertools import permutations

import pytest

from tests.fuzz.kept import Kept, flipped, kept_files, serialized

FLIPS, CUTS = 60, 10
HEAD = 60
"""Magic, version, lengths and checksum are in these bytes; each of their bits is flipped."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Kept]:
    return kept_files(tmp_path_factory.mktemp("kept"))


def _check(file: Kept, draw: random.Random) -> None:
    data = file.data
    assert file.read(data)
    for at in range(min(HEAD, len(data))):
        assert not any(file.read(flipped(data, at, 1 << bit)) for bit in range(8)), (file.name, at)
    for at in (draw.randrange(len(data)) for _ in range(FLIPS)):
        assert not file.read(flipped(data, at, draw.randrange(1, 256))), (file.name, at)
    for at in (0, len(data) - 1, *(draw.randrange(len(data)) for _ in range(CUTS))):
        assert not file.read(data[:at]), (file.name, at)
    assert not file.read(data + b"\0"), file.name
    assert file.read(data), file.name


def test_damaged_files_are_not_read(files: list[Kept], seed: int) -> None:
    draw = random.Random(seed)
    for file in files:
        _check(file, draw)


def test_files_do_not_stand_for_each_other(files: list[Kept]) -> None:
    for one, other in permutations(files, 2):
        assert not one.read(other.data), (one.name, other.name)


def test_damaged_programs_of_jaxs_cache_are_not_read(seed: int) -> None:
    pytest.importorskip("jax")
    _check(serialized(), random.Random(seed))
