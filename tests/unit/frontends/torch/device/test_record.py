"""What is recorded of an operator depends on all that its result depends on."""

import pytest

torch = pytest.importorskip("torch")


def test_the_default_type_is_that_of_the_moment(npu: str) -> None:
    whole = torch.arange(1, 5, device=npu)
    assert (whole / whole).dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert (whole / whole).dtype is torch.float64
        assert torch.ones(2, device=npu).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert (whole / whole).dtype is torch.float32


def test_what_the_host_refuses_has_not_run_there(npu: str) -> None:
    import xladev.torch

    x = torch.ones(2, 3, device=npu)
    with pytest.raises(IndexError):
        x.flip(5)
    assert not xladev.torch.report().host
    x.nonzero()
    assert len(xladev.torch.report().host) == 1
