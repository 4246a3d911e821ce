"""`xladev calibrate`: rates are measured, shown and kept, and placement asks for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xladev.cli import calibrate
from xladev.cli.main import main
from xladev.compiler.placement.kept_rates import kept_rates
from xladev.compiler.placement.rates import DeviceRates
from xladev.profiling.mesh.round_times import RoundTimes, TransportTimes, read_times
from xladev.profiling.mesh.silent_transport import SilentTransport
from xladev.runtime.distributed.job import Job
from xladev.runtime.registry import current_registry

RATES = DeviceRates(1e-11, 1e-10, 1e-9, 1e-10, 2e-10, launch_s=3e-6)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """A cache of its own, and rates at once; which devices were measured."""
    asked: list[str] = []

    def measure(device: object) -> DeviceRates:
        asked.append(str(getattr(device, "name", "")))
        return RATES

    monkeypatch.setattr("xladev.cli.calibrate.measure_rates", measure)
    monkeypatch.setenv("XLADEV_CACHE", str(tmp_path))
    return asked


def test_rates_are_kept(measured: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "cpu", "npu:0"]) == 0
    assert measured == ["cpu:0", "template_npu:0"]
    shown = capsys.readouterr().out
    assert "100 G/s" in shown and "3 us" in shown
    target = current_registry().platform("cpu").compile_target(None)
    assert kept_rates(target) == RATES
    assert main(["calibrate", "cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cpu:0"]["product_s"] == 1e-11


def test_without_a_cache(
    measured: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XLADEV_CACHE", "off")
    assert main(["calibrate", "cpu"]) == 2
    assert "no cache to keep rates in" in capsys.readouterr().err
    assert measured == []


def test_a_device_that_is_not_there(
    measured: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", "moon"]) == 2
    assert "moon" in capsys.readouterr().err


def test_rounds_are_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    times = TransportTimes("SocketTransport", 2, (RoundTimes(2, (8,), (1e-3,), (2e-3,)),))
    monkeypatch.setattr(calibrate, "spawn", lambda _: None)
    monkeypatch.setattr(calibrate, "join_launched", lambda: None)
    monkeypatch.setattr(calibrate, "measure_rounds", lambda *_: times)
    monkeypatch.setattr(calibrate, "current_job", lambda: Job(SilentTransport(2, lambda _: 0)))
    path = tmp_path / "rounds.json"
    assert main(["calibrate", "--rounds", str(path), "--processes", "2"]) == 0
    assert "1,000.0 us" in capsys.readouterr().out
    assert read_times(path) == times


def test_devices_or_rounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for given in ([], ["cpu", "--rounds", str(tmp_path / "r")]):
        assert main(["calibrate", *given]) != 0
        assert "devices, or rounds of messages" in capsys.readouterr().err
    assert main(["calibrate", "--rounds", str(tmp_path / "r"), "--processes", "1"]) != 0
