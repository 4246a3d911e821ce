"""Rates are kept for a kind of device, and nothing stands in the way of a compilation."""

from pathlib import Path

import pytest

from tests.unit.compiler.subset_backend import Subset, SubsetCompiler
from xladev.compiler.cache.store import Store
from xladev.compiler.description import DeviceDescription
from xladev.compiler.partition.assignment import CompileTarget
from xladev.compiler.placement.kept_rates import keep_rates, kept_rates
from xladev.compiler.placement.rates import DeviceRates

RATES = DeviceRates(1e-12, 1e-10, 1e-9, 1e-11, 4e-11)


def target(name: str, kind: str = "chip") -> CompileTarget:
    description = DeviceDescription(name=kind, target="t")
    return CompileTarget(name, SubsetCompiler(Subset(lambda i: True)), description)


def test_all_devices_of_a_kind_have_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLADEV_CACHE", str(tmp_path))
    assert kept_rates(target("a")) is None
    assert keep_rates(target("a"), RATES, Store(tmp_path))
    assert kept_rates(target("a")) == kept_rates(target("a:1")) == RATES
    assert kept_rates(target("b")) is kept_rates(target("a", "other chip")) is None


def test_what_cannot_be_read_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLADEV_CACHE", str(tmp_path))
    keep_rates(target("a"), RATES, Store(tmp_path))
    monkeypatch.setattr(DeviceRates, "to_json", lambda self: "{}")
    keep_rates(target("a"), RATES, Store(tmp_path))
    assert kept_rates(target("a")) is None
    monkeypatch.setenv("XLADEV_CACHE", "off")
    assert kept_rates(target("a")) is None
