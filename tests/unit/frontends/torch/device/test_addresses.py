"""`data_ptr` and `is_set_to` tell which tensors of the device share memory."""

import itertools

import pytest

torch = pytest.importorskip("torch")


def test_views_lie_within_their_base(npu: str) -> None:
    base = torch.ones(4, 4, device=npu)
    row = base[1:]
    assert row.data_ptr() - base.data_ptr() == 16
    assert base.untyped_storage().data_ptr() == base.data_ptr() == base.T.data_ptr()
    before = base.data_ptr()
    base.add_(1)
    assert base.data_ptr() == before


def test_others_lie_apart(npu: str) -> None:
    many = [torch.ones(3000, device=npu) for _ in range(5)]
    starts = sorted(each.data_ptr() for each in many)
    assert all(b - a >= 12_000 for a, b in itertools.pairwise(starts))
    assert many[0].data_ptr() % 64 == 0
    assert torch.empty(0, device=npu).data_ptr() == 0


def test_tied_weights_have_one_address(npu: str) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    model.to(npu)
    places = [each.untyped_storage().data_ptr() for each in model.state_dict().values()]
    assert len(places) == 4
    assert len(set(places)) == 3


def test_is_set_to(npu: str) -> None:
    base = torch.ones(4, 4, device=npu)
    assert base.is_set_to(base.view(4, 4))
    assert not base.is_set_to(base.clone())
    assert not base.is_set_to(base.T)
    assert not base.is_set_to(base[1:])


def test_the_host_is_as_before(npu: str) -> None:
    host = torch.ones(4)
    assert host[1:].data_ptr() == host.untyped_storage().data_ptr() + 4
    assert host.is_set_to(host.view(4))
