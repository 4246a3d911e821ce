"""Where steps go, and when several streams are worth it."""

import pytest

from xladev.compiler.description import DeviceDescription, MemorySpace
from xladev.compiler.kernel_compiler import spread_of
from xladev.compiler.options import CompileOptions
from xladev.compiler.stream_choice import LEAST_STEP_S, Spread, StepCost
from xladev.errors import ArgumentError, OptionError
from xladev.hlo.text import parse_module

GPU = DeviceDescription(
    "gpu",
    cores=100,
    memory_spaces=(MemorySpace(bandwidth=1e12),),
    launch_overhead_s=4e-6,
    compute_streams=4,
    replays_launches=True,
)
BESIDE = Spread(4, is_forced=False, device=GPU)
FORCED = Spread(4, is_forced=True, device=GPU)
CHAINS = [(), (), (0,), (1,), (2,), (3,), (4, 5)]
"""Two chains of three steps, and one that needs both."""


def costs(seconds, count=7, share=0.1):
    return [StepCost(seconds, share)] * count


def test_chains_have_a_stream_each():
    assert FORCED.streams(CHAINS, costs(1e-6), is_recorded=False)[:6] == (0, 1, 0, 1, 0, 1)


def test_steps_that_need_each_other_stay_where_they_are():
    assert FORCED.streams([(), (0,), (1,)], costs(1, 3), is_recorded=False) == (0, 0, 0)


def test_large_independent_steps_go_apart():
    assert any(BESIDE.streams(CHAINS, costs(1e-3), is_recorded=False))


def test_what_ends_before_the_next_is_launched_gains_nothing():
    assert not any(BESIDE.streams(CHAINS * 1, costs(2e-6), is_recorded=False))
    many = [(), ()] + [(n,) for n in range(38)]
    assert not any(BESIDE.streams(many, costs(2e-6, 40), is_recorded=False))
    assert any(BESIDE.streams(many, costs(2e-6, 40), is_recorded=True))


def test_small_programs_keep_one_stream():
    assert not any(BESIDE.streams(CHAINS, costs(2e-6), is_recorded=True))


def test_steps_that_fill_the_device_gain_nothing():
    assert not any(BESIDE.streams(CHAINS, costs(1e-3, share=1.0), is_recorded=True))


def test_costs_are_bytes_or_operations_and_never_nothing():
    module = parse_module("""
ENTRY e {
  x = f32[1024,1024] parameter(0)
  s = f32[] parameter(1)
  n = f32[1024,1024] negate(x)
  ROOT m = f32[] negate(s)
}""")
    _, _, large, small = module.entry.instructions
    assert BESIDE.cost_of(large).seconds == pytest.approx(8 * 2**20 / 1e12)
    assert BESIDE.cost_of(large).share == 1.0
    assert BESIDE.cost_of(small).seconds == LEAST_STEP_S
    assert BESIDE.cost_of_copy(2**20).seconds == pytest.approx(2 * 2**20 / 1e12)


def test_the_option_forces_streams_on_devices_that_have_them():
    one = DeviceDescription("npu")
    assert spread_of(CompileOptions(streams=3), one) is None
    assert spread_of(CompileOptions(streams=1), GPU) is None
    assert spread_of(CompileOptions(), GPU) == BESIDE
    assert spread_of(CompileOptions(streams=3), GPU) == Spread(3, True, GPU)


def test_numbers_of_streams_are_checked():
    for count in (0, 65):
        with pytest.raises(OptionError, match="streams"):
            CompileOptions(streams=count)
    with pytest.raises(ArgumentError, match="compute streams"):
        DeviceDescription(compute_streams=0)
