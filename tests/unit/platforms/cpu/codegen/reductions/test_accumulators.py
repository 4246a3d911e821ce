"""Sums of many floats keep their digits: parts are summed on their own first."""

import numpy as np
import pytest

from xladev.client import compile as compile_for

SUM = """HloModule sum
add {{ x = {t}[] parameter(0)
  y = {t}[] parameter(1)
  ROOT s = {t}[] add(x, y) }}
ENTRY e {{ p = {t}[{dims}] parameter(0)
  zero = {t}[] constant(0)
  ROOT r = {t}[{result}] reduce(p, zero), dimensions={{{over}}}, to_apply=add }}"""


@pytest.mark.parametrize(
    ("sizes", "over", "result"),
    [
        ((1 << 20,), (0,), ()),
        ((1000, 1500), (0, 1), ()),
        ((3, 4099), (1,), (3,)),
        ((4099, 3), (0,), (3,)),
        ((5, 1025, 2), (0, 1), (2,)),
        ((1025,), (0,), ()),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_long_sum_is_close(
    sizes: tuple[int, ...], over: tuple[int, ...], result: tuple[int, ...], dtype: type
) -> None:
    name = {np.float32: "f32", np.float64: "f64"}[dtype]
    text = SUM.format(
        t=name, **{k: ",".join(map(str, v)) for k, v in
                   (("dims", sizes), ("result", result), ("over", over))},
    )  # fmt: skip
    x = np.random.default_rng(5).uniform(3.1, 3.2, sizes).astype(dtype)
    got = np.asarray(compile_for(text.encode(), "cpu")(x), np.longdouble)
    want = x.astype(np.longdouble).sum(axis=over)
    assert np.abs(got / want - 1).max() < 16 * np.finfo(dtype).eps


def test_a_sum_of_nothing_is_where_it_starts() -> None:
    text = SUM.format(t="f32", dims="0,5000", result="", over="0,1")
    text = text.replace("constant(0)", "constant(-0)")
    found = np.asarray(compile_for(text.encode(), "cpu")(np.zeros((0, 5000), np.float32)))
    assert found == 0
    assert np.signbit(found)
