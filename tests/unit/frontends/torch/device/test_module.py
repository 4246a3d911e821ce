"""The module ``torch.npu``."""

import pytest

torch = pytest.importorskip("torch")

import xladev.torch

pytestmark = pytest.mark.usefixtures("npu")


def test_the_device_is_told() -> None:
    assert torch.npu.is_available() and torch.npu.is_initialized()
    assert (torch.npu.device_count(), torch.npu.current_device()) == (1, 0)
    assert torch.npu.get_device_name(0) == "cpu:0"
    assert torch.npu.get_device_properties().host_addressable
    torch.npu.set_device(0)
    torch.npu.set_device("npu:0")
    with torch.npu.device(0):
        assert torch.ones(1, device="npu").item() == 1
    with pytest.raises(xladev.XladevError, match="npu:1 was asked for"):
        torch.npu.set_device(1)
    with pytest.raises(xladev.XladevError, match="npu:1 was asked for"):
        torch.npu.device(1)


def test_memory_is_counted_and_given_back() -> None:
    torch.npu.synchronize()
    before = torch.npu.memory_allocated()
    kept = torch.ones(1000, device="npu")
    torch.npu.synchronize()
    stats = torch.npu.memory_stats()
    assert stats["allocated_bytes.all.current"] >= before + 4000
    assert torch.npu.max_memory_allocated() >= torch.npu.memory_allocated() >= before + 4000
    assert torch.npu.memory_reserved() >= 4000 and torch.npu.max_memory_reserved() >= 4000
    assert str(torch.npu.memory_allocated()) in torch.npu.memory_summary()
    del kept
    torch.npu.empty_cache()
    assert torch.npu.memory_allocated() == before


def test_states_of_random_numbers() -> None:
    torch.npu.manual_seed_all(3)
    assert torch.npu.initial_seed() == 3
    states = torch.npu.get_rng_state_all()
    first = torch.rand(3, device="npu")
    torch.npu.set_rng_state_all(states)
    assert torch.equal(first, torch.rand(3, device="npu"))
    with torch.random.fork_rng(devices=[0], device_type="npu"):
        inside = torch.rand(3, device="npu")
    assert torch.equal(inside, torch.rand(3, device="npu"))
    torch.npu.seed()
    assert torch.npu.initial_seed() != 3
