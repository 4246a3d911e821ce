"""Memory for native code: at aligned addresses, in place where it can be."""

import numpy as np
import pytest

from xladev.platforms.cpu.aligned import address_of, aligned, empty, freeze, in_place
from xladev.platforms.cpu.payload import ALIGNMENT


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 100_000])
def test_new_memory_and_copies_are_aligned(nbytes: int) -> None:
    data = bytes(range(256)) * 400
    for made in (empty(nbytes), aligned(data[:nbytes])):
        assert made.nbytes == nbytes and address_of(made) % ALIGNMENT == 0
    assert made.tobytes() == data[:nbytes]


def test_aligned_bytes_are_used_in_place_and_others_copied() -> None:
    memory = empty(200)
    memory[:] = np.arange(200, dtype=np.uint8)
    freeze(memory)
    assert address_of(in_place(memory.data)) == address_of(memory)
    moved = in_place(memory[1:].data)
    assert address_of(moved) % ALIGNMENT == 0
    assert moved.tobytes() == memory[1:].tobytes()
    assert in_place(b"").nbytes == 0


def test_frozen_memory_cannot_be_written() -> None:
    memory = empty(8)
    freeze(memory)
    with pytest.raises(ValueError, match="read-only"):
        memory[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        memory[2:4].view(np.uint16)[:] = 1
