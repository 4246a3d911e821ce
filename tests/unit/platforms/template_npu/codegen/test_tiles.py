"""Tiles: boxes cover a space once, and pieces of a loop nest cover its iterations once."""

import random

import numpy as np

from xladev.platforms.template_npu.codegen.tiles import box_sizes, boxes, pieces
from xladev.platforms.template_npu.device import isa


def test_boxes_cover_everything_once(seed):
    draw = random.Random(seed)
    for _ in range(100):
        extents = tuple(draw.randrange(1, 8) for _ in range(draw.randrange(4)))
        limit = draw.randrange(1, 60)
        sizes = box_sizes(extents, limit)
        assert np.prod(sizes, dtype=int) <= limit
        seen = np.zeros(extents, int)
        for box in boxes(extents, sizes):
            parts = zip(box.origin, box.sizes, strict=True)
            seen[tuple(slice(at, at + n) for at, n in parts)] += 1
        assert np.all(seen == 1)


def test_pieces_touch_the_same_addresses_within_the_limits(seed):
    draw = random.Random(seed)
    for _ in range(300):
        counts = tuple(draw.choice((1, 2, 3, 7, 1025, 2500)[: 6 if d == 0 else 4])
                       for d in range(draw.randrange(1, 7)))[::-1]  # fmt: skip
        strides = tuple(draw.randrange(-9, 9) for _ in counts)
        want = sum(s * g for s, g in zip(strides, np.indices(counts), strict=True))
        got = []
        for loops, ((start, steps),) in pieces(counts, (strides,), isa.MAX_LANES):
            assert len(loops) == len(steps) == isa.LOOP_COUNT
            assert loops[-1] <= isa.MAX_LANES
            grid = np.indices(loops)
            got.append(np.ravel(start + sum(s * g for s, g in zip(steps, grid, strict=True))))
        assert np.array_equal(np.sort(np.concatenate(got)), np.sort(np.ravel(want)))
