"""Views that tensors of the device refuse or give as torch's CPU does."""

import pytest

torch = pytest.importorskip("torch")


def test_elements_of_another_width_have_strides_of_their_own(npu: str) -> None:
    host = torch.arange(96, dtype=torch.int16).reshape(2, 3, 16)
    for of in (lambda x: x, lambda x: x.permute(1, 0, 2), lambda x: x[1:, :, 8:]):
        for to in (torch.int8, torch.int32, torch.float64):
            expected, found = of(host).view(to), of(host.to(npu)).view(to)
            assert found.stride() == expected.stride()
            assert found.storage_offset() == expected.storage_offset()
            assert torch.equal(found.cpu().view(torch.uint8), expected.view(torch.uint8))
    assert not xladev_report()


def test_elements_of_another_width_are_written_through(npu: str) -> None:
    base = torch.zeros(4, device=npu)
    base.view(torch.int32)[1] = 0x3F800000
    assert base.tolist() == [0, 1, 0, 0]


def test_elements_that_do_not_fit_are_refused(npu: str) -> None:
    wide = torch.zeros(4, 4, 3, dtype=torch.int16, device=npu)
    with pytest.raises(RuntimeError, match=r"self\.size\(-1\) must be divisible by 2"):
        wide.view(torch.int32)
    with pytest.raises(RuntimeError, match=r"self\.storage_offset\(\) must be divisible by 2"):
        wide[:, :, 1:].view(torch.int32)
    columns = torch.zeros(4, 4, device=npu).T
    with pytest.raises(RuntimeError, match=r"self\.stride\(-1\) must be 1"):
        columns.view(torch.int16)


def xladev_report() -> object:
    import xladev.torch

    return xladev.torch.report().host
