"""Where steps go, and when several streams are worth it."""

from dataclasses import replace

import pytest

from xladev.compiler.description import DeviceDescription, MemorySpace
from xladev.compiler.kernel_compiler import spread_of
from xladev.compiler.options import CompileOptions
from xladev.compiler.streams.stream_choice import LEAST_STEP_S, StepCost, StreamSpread
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
BESIDE = StreamSpread(4, is_forced=False, device=GPU)
FORCED = StreamSpread(4, is_forced=True, device=GPU)
CHAINS = [(), (), (0,), (1,), (2,), (3,), (4, 5)]
"""Two chains of three steps, and one that needs both."""


def costs(seconds, count=7, share=0.1):
    return [StepCost(seconds, share)] * count


def test_chains_have_a_stream_each():
    assert FORCED.choice(CHAINS, costs(1e-6), is_recorded=False).streams[:6] == (0, 1, 0, 1, 0, 1)


def test_steps_that_need_each_other_stay_where_they_are():
    assert FORCED.choice([(), (0,), (1,)], costs(1, 3), is_recorded=False).streams == (0, 0, 0)


def test_large_independent_steps_go_apart():
    assert any(BESIDE.choice(CHAINS, costs(1e-3), is_recorded=False).streams)


def test_what_ends_before_the_next_is_launched_gains_nothing():
    assert not any(BESIDE.choice(CHAINS * 1, costs(2e-6), is_recorded=False).streams)
    many = [(), ()] + [(n,) for n in range(38)]
    assert not any(BESIDE.choice(many, costs(2e-6, 40), is_recorded=False).streams)
    assert any(BESIDE.choice(many, costs(2e-6, 40), is_recorded=True).streams)


def test_small_programs_keep_one_stream():
    assert not any(BESIDE.choice(CHAINS, costs(2e-6), is_recorded=True).streams)


def test_steps_that_fill_the_device_gain_nothing():
    assert not any(BESIDE.choice(CHAINS, costs(1e-3, share=1.0), is_recorded=True).streams)


def test_a_choice_says_how_many_streams_and_why():
    def why(spread, seconds, share=0.1):
        return spread.choice(CHAINS, costs(seconds, share=share), is_recorded=True).why

    gains = "streams: 2, because they are estimated to save 2,998.0 us of 7,000.0 us"
    assert why(BESIDE, 1e-3) == gains
    assert why(BESIDE, 2e-6) == (
        "streams: 1, because 4 are estimated to save 4.0 us of 14.0 us, and 10.0 us are wanted"
    )
    assert why(BESIDE, 1e-3, share=1.0) == (
        "streams: 1, because 4 are estimated to save 0.0 us of 7,000.0 us, and 350.0 us are wanted"
        ": the steps fill the device for 7,000.0 us"
    )
    assert why(FORCED, 2e-6) == "streams: 2, because the option `streams` says so"


def test_nothing_is_said_where_no_steps_are_independent():
    for spread in (BESIDE, FORCED):
        assert not spread.choice([(), (0,), (1,)], costs(1, 3), is_recorded=False).why


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


def test_queues_with_processors_of_their_own_share_memory_only():
    module = parse_module("""
ENTRY e {
  x = f32[256,256] parameter(0)
  d = f32[256,256] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  y = f32[65536,256] parameter(1)
  t = f32[256,65536] transpose(y), dimensions={1,0}
  ROOT r = (f32[256,256], f32[256,65536]) tuple(d, t)
}""")
    _, product, _, moved, _ = module.entry.instructions
    device = replace(GPU, cores=2, compute_streams=2, peak_flops={"f32": 1e9})
    shared = StreamSpread(2, is_forced=False, device=device)
    apart = StreamSpread(2, is_forced=False, device=replace(device, streams_share_cores=False))
    for spread, instruction, gains in (
        (shared, product, False),
        (apart, product, True),
        (apart, moved, False),
    ):
        steps = [spread.cost_of(instruction)] * len(CHAINS)
        assert any(spread.choice(CHAINS, steps, is_recorded=True).streams) is gains


def test_the_option_forces_streams_on_devices_that_have_them():
    one = DeviceDescription("npu")
    assert spread_of(CompileOptions(streams=3), one) is None
    assert spread_of(CompileOptions(streams=1), GPU) is None
    assert spread_of(CompileOptions(), GPU) == BESIDE
    assert spread_of(CompileOptions(streams=3), GPU) == StreamSpread(3, True, GPU)


def test_numbers_of_streams_are_checked():
    for count in (0, 65):
        with pytest.raises(OptionError, match="streams"):
            CompileOptions(streams=count)
    with pytest.raises(ArgumentError, match="compute streams"):
        DeviceDescription(compute_streams=0)
