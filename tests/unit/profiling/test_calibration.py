"""Measured rates are those of the device: of one whose time is computed, exactly."""

from __future__ import annotations

import pytest

import xladev
from tests.simulated.chip import Chip
from tests.simulated.machine import machine
from xladev.compiler.description import Link
from xladev.compiler.placement.rates import DeviceRates
from xladev.profiling.calibration import measure_rates
from xladev.runtime.registry import using_registry

NPU = Chip("npu", products=4e12, vector=2e11, bandwidth=2e11, link=Link(1.2e10, 8e-6))


def measured(chip: Chip) -> DeviceRates:
    registry, clock = machine(chip)
    with using_registry(registry):
        return measure_rates(registry.devices(chip.name)[0], clock)


def test_rates_of_a_device() -> None:
    found = measured(NPU)
    assert found.product_s == pytest.approx(1 / 4e12, rel=0.02)
    assert found.vector_s == pytest.approx(1 / 2e11, rel=0.02)
    assert found.function_s == pytest.approx(6 / 2e11, rel=0.02)
    assert found.byte_s == pytest.approx(1 / 1.6e11, rel=0.02)
    assert found.rearranged_byte_s == pytest.approx(1 / 0.6e11, rel=0.02)
    assert found.launch_s == pytest.approx(4e-6, rel=0.02)
    assert found.start_s == pytest.approx(2e-6, rel=0.2)
    assert found.product_start_s == pytest.approx(1e6 / 4e12, rel=0.02)
    assert found.link is not None
    assert found.link.bandwidth == pytest.approx(1.2e10, rel=0.02)
    assert found.link.latency_s == pytest.approx(8e-6, rel=0.02)


def test_the_host_waits_for_each_kernel() -> None:
    host = Chip("host", products=5e10, vector=1e10, bandwidth=2e10, start_s=1e-6, launch_s=3e-6)
    found = measured(host)
    assert found.launch_s + found.start_s == pytest.approx(4e-6, rel=0.02)
    assert found.link is None


def test_what_is_refused_goes_by_what_is_like_it() -> None:
    refused = frozenset({"dot", "tanh", "transpose"})
    found = measured(Chip("npu", products=4e12, vector=2e11, bandwidth=2e11,
                          link=Link(1.2e10, 8e-6), refused=refused))  # fmt: skip
    assert found.product_s == found.function_s == found.vector_s
    assert found.rearranged_byte_s == found.byte_s


def test_a_real_device() -> None:
    found = measure_rates(xladev.devices("cpu")[0])
    assert 0 < found.product_s < 1e-7 and 0 < found.byte_s < 1e-7
