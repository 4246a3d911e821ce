"""Random numbers in place take the whole range of a type, as torch's documentation says."""

import pytest

torch = pytest.importorskip("torch")

LAST = {
    torch.uint8: 255, torch.int8: 127, torch.int16: 2**15 - 1, torch.int32: 2**31 - 1,
    torch.int64: 2**63 - 1, torch.float16: 2**11, torch.bfloat16: 2**8, torch.float32: 2**24,
    torch.float64: 2**53,
}  # fmt: skip


@pytest.mark.parametrize("dtype", LAST)
def test_whole_numbers_up_to_the_last(npu: str, dtype: "torch.dtype") -> None:
    for low, first in ((0, 0), (-1, -1)):
        if low < 0 and dtype is torch.uint8:
            continue
        x = torch.empty(4000, dtype=dtype, device=npu)
        found = (x.random_() if low == 0 else x.random_(low, None)).cpu().double()
        last = LAST[dtype]
        assert found.min() >= first
        assert found.max() <= float(last)
        assert found.max() > 0.97 * last
        assert abs(found.mean() / last - 0.5) < 0.03


def test_signed_numbers_over_the_whole_range(npu: str) -> None:
    x = torch.empty(4000, dtype=torch.int64, device=npu).random_(-(2**63), None).cpu().double()
    assert x.min() < -0.97 * 2**63
    assert x.max() > 0.97 * 2**63
    import xladev.torch

    assert not xladev.torch.report().host


def test_bounds_that_a_type_has_not_are_refused(npu: str) -> None:
    cases = [
        (torch.uint8, -1, 3, "from is out of bounds"),
        (torch.uint8, 0, 258, "to - 1 is out of bounds"),
        (torch.float16, 0, 70_000, "to - 1 is out of bounds"),
        (torch.int32, 3, 3, "expects 'from' to be less than 'to'"),
    ]
    for dtype, low, high, message in cases:
        with pytest.raises(RuntimeError, match=message):
            torch.empty(3, dtype=dtype, device=npu).random_(low, high)
    torch.empty(3, dtype=torch.uint8, device=npu).random_(255, 256)
