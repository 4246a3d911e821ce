"""Random windows of integers, rewritten: the evaluator gives the same, to the bit."""

from __future__ import annotations

import numpy as np

from tests.unit.passes.checks import assert_same_values
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.passes.reduce_window_rewriter import ReduceWindowRewriter

NEUTRAL = {"add": 0, "multiply": 1, "maximum": 0, "minimum": 255, "and": 255, "or": 0, "xor": 0}


def _dimension(rng: np.random.Generator, n: int) -> dict[str, str]:
    """A window over n elements: all before or after each, or any other."""
    if rng.random() < 0.3:
        pads = [f"{n - 1}_0", f"0_{n - 1}", f"{n}_-1", f"-1_{n}"]
        pad, size = pads[rng.integers(4 if n > 1 else 2)], n
        return {"size": str(size), "stride": "1", "pad": pad, "lhs_dilate": "1", "rhs_dilate": "1"}
    base, step, stride = (int(rng.choice((1, 1, 1, 2, 3))) for _ in range(3))
    low, high = (int(x) for x in rng.integers(0, 6, 2))
    places = low + (n - 1) * base + 1 + high
    size = int(rng.integers(1, (places - 1) // step + 2))
    return {"size": str(size), "stride": str(stride), "pad": f"{low}_{high}",
            "lhs_dilate": str(base), "rhs_dilate": str(step)}  # fmt: skip


def random_window(rng: np.random.Generator) -> str:
    """A module of one reduce-window of u8."""
    opcode, dims, left = str(rng.choice(list(NEUTRAL))), [], 3000
    for _ in range(rng.integers(1, 4)):
        dims.append(int(rng.integers(1, max(2, min(400, left)))))
        left = max(1, left // dims[-1])
    init = NEUTRAL[opcode] if rng.random() < 0.7 else rng.integers(0, 5)
    parts = [_dimension(rng, n) for n in dims]
    window = " ".join(f"{key}={'x'.join(p[key] for p in parts)}" for key in parts[0])
    return f"""HloModule m
    f {{ a = u8[] parameter(0)  b = u8[] parameter(1)  ROOT c = u8[] {opcode}(a, b) }}
    ENTRY e {{ x = u8[{",".join(map(str, dims))}] parameter(0)  z = u8[] constant({init})
      ROOT r = reduce-window(x, z), window={{{window}}}, to_apply=f }}"""


def test_random_windows_keep_their_values(seed: int) -> None:
    rng, rewritten = np.random.default_rng(seed), 0
    for number in range(20):
        source = random_window(rng)
        before = parse_module(source)
        after = ReduceWindowRewriter().run(before)
        if after is before:
            continue
        rewritten += 1
        verify(after)
        assert ReduceWindowRewriter().run(after) is after, source
        assert_same_values(before, after, seed + number)
    assert rewritten > 5
