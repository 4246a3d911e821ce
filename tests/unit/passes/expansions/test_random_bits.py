"""rng-bit-generator as integer arithmetic gives the same bits."""

import numpy as np
import pytest

from tests.unit.passes.expansions.single import assert_exact

STATES = {"rng_three_fry": (2,), "rng_philox": (2, 3), "rng_default": (2, 3)}


@pytest.mark.parametrize("dims", ["", "1", "5", "4,3", "3,5", "2,3,7"])
@pytest.mark.parametrize("element_type", ["u8", "u16", "u32", "u64", "s32", "f32"])
@pytest.mark.parametrize("algorithm", STATES)
def test_bits_are_the_definitions(algorithm: str, element_type: str, dims: str) -> None:
    for size in STATES[algorithm]:
        text = (
            f"r = (u64[{size}], {element_type}[{dims}]) rng-bit-generator(u64[{size}] x), "
            f"algorithm={algorithm}"
        )
        assert_exact(text, 0, np.arange(size, dtype=np.uint64) * 12345 + 7)
        assert_exact(text, 0, np.full(size, 2**64 - 3, np.uint64))
