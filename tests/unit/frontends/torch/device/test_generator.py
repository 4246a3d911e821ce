"""Generators of the device: seeds of their own, states, and torch's usual checks."""

import copy
import pickle

import pytest

torch = pytest.importorskip("torch")
from torch import nn

import xladev.torch

pytestmark = pytest.mark.usefixtures("npu")


def test_a_generator_draws_on_the_device() -> None:
    generator = torch.Generator(device="npu").manual_seed(3)
    assert isinstance(generator, torch.Generator)
    assert (generator.device, generator.initial_seed()) == (torch.device("npu:0"), 3)
    first = torch.rand(4, device="npu", generator=generator)
    second = torch.rand(4, device="npu", generator=generator)
    assert not torch.equal(first, second)
    state = generator.get_state()
    third = torch.randn(4, device="npu", generator=generator)
    for each in (generator.set_state(state), generator.set_state(state).clone_state()):
        assert torch.equal(third, torch.randn(4, device="npu", generator=each))
    assert torch.equal(first, torch.rand(4, device="npu", generator=generator.manual_seed(3)))
    torch.randint(3, 9, (2,), device="npu", generator=generator)
    assert not [name for name, _ in xladev.torch.report().host if "rand" in name]


def test_one_program_serves_all_generators() -> None:
    counts = xladev.torch.report()
    for seed in range(4):
        generator = torch.Generator("npu").manual_seed(seed)
        x = nn.init.normal_(torch.empty(5, device="npu"), generator=generator).cpu()
        assert x.unique().numel() == 5
    assert counts.compiled <= 1


def test_the_device_s_own_numbers_do_not_follow_another_generator() -> None:
    torch.npu.manual_seed(1)
    wanted = torch.rand(3, device="npu")
    torch.npu.manual_seed(1)
    torch.rand(3, device="npu", generator=torch.Generator("npu"))
    assert torch.equal(wanted, torch.rand(3, device="npu"))


def test_a_copy_goes_on_from_the_same_state() -> None:
    generator = torch.Generator("npu").manual_seed(5)
    for made in (pickle.loads(pickle.dumps(generator)), copy.deepcopy(generator)):
        assert made.device == generator.device
        one = torch.rand(2, device="npu", generator=made)
        generator.manual_seed(5)
        assert torch.equal(one, torch.rand(2, device="npu", generator=generator))
        generator.manual_seed(5)


def test_generators_of_the_host_are_what_they_were() -> None:
    generator = torch.Generator()
    assert type(generator) is torch._C.Generator and generator.device.type == "cpu"
    assert isinstance(torch.default_generator, torch.Generator)
    with pytest.raises(RuntimeError, match="npu:1 was asked for"):
        torch.Generator("npu:1")
