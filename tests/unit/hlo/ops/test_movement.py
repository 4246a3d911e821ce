"""Opcodes that move elements by static rules."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from tests.tools.rejections import assert_rejected, of, result_of
from tests.tools.single_op import run
from xladev.hlo.attributes import PadDim, SliceDim
from xladev.hlo.bounded import Bounded
from xladev.hlo.builder import HloBuilder
from xladev.hlo.evaluator import HloEvaluator


def test_broadcast_places_dimensions() -> None:
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    got = run("broadcast", x, dimensions=(0, 2), shape=of("s32[2,4,3]"))
    np.testing.assert_array_equal(got, np.repeat(x[:, None, :], 4, 1))
    turned = run("broadcast", x, dimensions=(2, 0), shape=of("s32[3,4,2]"))
    np.testing.assert_array_equal(turned, np.repeat(x.T[:, None, :], 4, 1))
    assert run("broadcast", np.float32(7), shape=of("f32[2,2]")).tolist() == [[7, 7], [7, 7]]
    assert run("broadcast", np.float32([]), dimensions=(0,), shape=of("f32[0,2]")).shape == (0, 2)


def test_reshape_transpose_reverse_slice_concatenate() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_array_equal(run("reshape", x, shape=of("f32[4,6]")), x.reshape(4, 6))
    np.testing.assert_array_equal(run("transpose", x, dimensions=(2, 0, 1)), x.transpose(2, 0, 1))
    np.testing.assert_array_equal(run("reverse", x, dimensions=(0, 2)), x[::-1, :, ::-1])
    window = (SliceDim(0, 2), SliceDim(1, 3), SliceDim(0, 4, 3))
    np.testing.assert_array_equal(run("slice", x, slice=window), x[0:2, 1:3, 0:4:3])
    np.testing.assert_array_equal(
        run("concatenate", x, x[:, :1], dimensions=(1,)), np.concatenate([x, x[:, :1]], 1)
    )


def test_pad_in_every_way() -> None:
    for size, low, high, interior in itertools.product(
        range(4), range(-3, 3), range(-3, 3), range(3)
    ):
        extent = low + high + max(0, (size - 1) * (interior + 1) + 1)
        if extent < 0:
            continue
        x, want = np.arange(size, dtype=np.float32), [9.0] * extent
        for i in range(size):
            at = low + i * (interior + 1)
            if 0 <= at < extent:
                want[at] = float(x[i])
        got = run("pad", x, np.float32(9), padding=(PadDim(low, high, interior),))
        assert got.tolist() == want, (size, low, high, interior)


@pytest.mark.parametrize("name", ["s4", "u8", "s64", "f16", "bf16", "f8e4m3fn", "c64"])
def test_iota(name: str) -> None:
    got = run("iota", iota_dimension=1, shape=of(f"{name}[2,5]"))
    assert [complex(v) for v in got[1]] == [0, 1, 2, 3, 4]
    assert got.shape == (2, 5)


def test_iota_wraps_and_rounds() -> None:
    assert int(run("iota", iota_dimension=0, shape=of("u8[300]"))[299]) == 43
    many = run("iota", iota_dimension=0, shape=of("bf16[260]"))
    assert many[257] == ml_dtypes.bfloat16(256)


def test_reshape_keeps_live_elements() -> None:
    b = HloBuilder("dynamic")
    x = b.parameter(of("f32[<=4,6]"))
    b.op("reshape", x, shape=of("f32[<=4,2,3]"))
    full = np.arange(24, dtype=np.float32).reshape(4, 6)
    got = HloEvaluator().run(b.module(), Bounded(full, (3,)))
    assert got.sizes == (3,)
    np.testing.assert_array_equal(got.array[:3], full[:3].reshape(3, 2, 3))


def test_reshape_merges_and_splits_dynamic_dimensions() -> None:
    b = HloBuilder("dynamic")
    x = b.parameter(of("f32[<=4,3,<=5,1]"))
    b.op("reshape", x, shape=of("f32[<=12,1,<=5]"))
    got = HloEvaluator().run(b.module(), np.ones((2, 3, 4, 1), np.float32))
    assert got.sizes == (6, 4)


def test_broadcast_rules() -> None:
    assert result_of("broadcast", "f32[<=2]", to="f32[3,<=2]", dimensions=(1,)) == "f32[3,<=2]"
    assert_rejected("broadcast_c1", "broadcast", "token", to="f32[2]")
    assert_rejected("broadcast_shape", "broadcast", "f32[]", to="token")
    assert_rejected("broadcast_c2", "broadcast", "f32[2]", to="f32[2]")
    assert_rejected("broadcast_c3", "broadcast", "f32[2]", to="f32[2]", dimensions=(1,))
    assert_rejected("broadcast_c3", "broadcast", "f32[2,2]", to="f32[2,2]", dimensions=(0, 0))
    assert_rejected("broadcast_c4", "broadcast", "f32[1]", to="f32[2]", dimensions=(0,))
    assert_rejected("broadcast_c5", "broadcast", "f32[<=2]", to="f32[2]", dimensions=(0,))


def test_reshape_transpose_reverse_rules() -> None:
    assert_rejected("reshape_c1", "reshape", "token", to="f32[2]")
    assert_rejected("reshape_c2", "reshape", "f32[2]", to="f32[3]")
    assert_rejected("reshape_c3", "reshape", "f32[2]", to="f32[<=2]")
    assert result_of("transpose", "f32[2,<=3]", dimensions=(1, 0)) == "f32[<=3,2]"
    assert_rejected("transpose_c1", "transpose", "token", dimensions=())
    assert_rejected("transpose_c2", "transpose", "f32[2,3]", dimensions=(0, 0))
    assert_rejected("reverse_c1", "reverse", "token", dimensions=())
    assert_rejected("reverse_c2", "reverse", "f32[2]", dimensions=(1,))


def test_slice_rules() -> None:
    assert result_of("slice", "f32[<=9]", slice=(SliceDim(1, 8, 3),)) == "f32[<=3]"
    assert result_of("slice", "f32[<=9]", slice=(SliceDim(1, 2),)) == "f32[1]"
    assert_rejected("slice_c1", "slice", "token", slice=())
    assert_rejected("slice_c2", "slice", "f32[2]", slice=())
    for part in (SliceDim(-1, 2), SliceDim(0, 3), SliceDim(2, 1)):
        assert_rejected("slice_c3", "slice", "f32[2]", slice=(part,))
    assert_rejected("slice_c4", "slice", "f32[2]", slice=(SliceDim(0, 2, 0),))


def test_pad_rules() -> None:
    one = (PadDim(1, 1),)
    assert result_of("pad", "f32[<=2]", "f32[]", padding=one) == "f32[<=4]"
    assert_rejected("pad_c1", "pad", "f32[2]", "token", padding=one)
    assert_rejected("pad_c2", "pad", "f32[2]", "f32[1]", padding=one)
    assert_rejected("pad_c3", "pad", "f32[2]", "f64[]", padding=one)
    assert_rejected("pad_c4", "pad", "f32[2]", "f32[]", padding=())
    assert_rejected("pad_c5", "pad", "f32[2]", "f32[]", padding=(PadDim(0, 0, -1),))
    assert_rejected("pad_c6", "pad", "f32[2]", "f32[]", padding=(PadDim(-2, -1),))


def test_concatenate_and_iota_rules() -> None:
    assert result_of("concatenate", "f32[<=2,3]", "f32[4,3]", dimensions=(0,)) == "f32[<=6,3]"
    assert_rejected("concatenate_c1", "concatenate", "f32[2]", "token", dimensions=(0,))
    assert_rejected("concatenate_c2", "concatenate", "f32[2]", dimensions=(1,))
    assert_rejected("concatenate_c2", "concatenate", "f32[2]", dimensions=())
    assert_rejected("concatenate_c2", "concatenate", "f32[2]", dimensions=(0, 0))
    assert_rejected("concatenate_c3", "concatenate", "f32[2]", "f16[2]", dimensions=(0,))
    assert_rejected("concatenate_c4", "concatenate", "f32[2,3]", "f32[2,4]", dimensions=(0,))
    assert_rejected("concatenate_c4", "concatenate", "f32[2,3]", "f32[2]", dimensions=(1,))
    assert_rejected("iota_c1", "iota", to="f32[2]", iota_dimension=1)
    assert_rejected("iota_c2", "iota", to="pred[2]", iota_dimension=0)


def test_iota_without_elements_takes_no_memory() -> None:
    assert run("iota", iota_dimension=0, shape=of("f32[1000000000000000,0]")).size == 0
