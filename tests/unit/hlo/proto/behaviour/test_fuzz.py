"""Damaged protos: an XladevError or a module, never anything else, in bounded time.

XLADEV_FUZZ_COUNT asks for more mutations than the few thousand of an ordinary run.
"""

import os
import random
import time
from collections.abc import Callable

import pytest

from tests.unit.hlo.proto.corpus import frozen
from xladev.errors import XladevError
from xladev.hlo.proto import read_module, write_module

COUNT = int(os.environ.get("XLADEV_FUZZ_COUNT", "4000"))
SLOWEST_S = 5.0
SEEDS = frozen()


def survives(data: bytes) -> bool:
    """True if the bytes still are a module; which then must be writable, or refused cleanly."""
    start = time.process_time()
    try:
        module = read_module(data)
        again = write_module(module)
    except XladevError as failure:
        assert str(failure)
        return False
    finally:
        assert time.process_time() - start < SLOWEST_S
    assert read_module(again) == module, data.hex()
    return True


@pytest.mark.parametrize("name", ["dot", "custom-call window", "scatter", "all-reduce mesh"])
def test_truncated_at_every_byte(name: str) -> None:
    data = SEEDS[name]
    for end in range(len(data)):
        survives(data[:end])


def flip_bit(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def set_byte(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] = rng.choice((0, 1, 127, 128, 255))


def delete(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    del data[at : at + rng.randrange(1, 9)]


def repeat(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    data[at:at] = data[at : at + rng.randrange(1, 40)]


def insert_huge(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    data[at:at] = b"\xff" * rng.randrange(1, 10) + b"\x01"


MUTATIONS: tuple[Callable[[bytearray, random.Random], None], ...] = (
    flip_bit, flip_bit, set_byte, delete, repeat, insert_huge,
)  # fmt: skip


def test_mutations(seed: int) -> None:
    rng = random.Random(seed)
    names = sorted(SEEDS)
    survived = 0
    for _ in range(COUNT):
        data = bytearray(SEEDS[rng.choice(names)])
        for _ in range(rng.choice((1, 1, 1, 2, 5))):
            rng.choice(MUTATIONS)(data, rng)
        survived += survives(bytes(data))
    assert survived, "mutations that keep a module valid test the writer too"
