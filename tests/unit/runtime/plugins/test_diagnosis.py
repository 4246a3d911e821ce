"""What `xladev doctor` is told."""

import json
from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest

from tests.unit.runtime.null_device import Compiler3, Driver, Executor4, Platform1, null_spec
from xladev.compiler.description import DeviceDescription
from xladev.runtime.hookspecs import CONTRACT_VERSION, ENTRY_POINT_GROUP, PlatformSpec
from xladev.runtime.plugins.diagnosis import diagnose
from xladev.runtime.registry import Registry


def sample(name):
    return EntryPoint(name, f"tests.unit.runtime.plugin_samples:{name}", ENTRY_POINT_GROUP)


def make(*entries, setting=""):
    return Registry(find=lambda: map(sample, entries), environment={"XLADEV_PLUGINS": setting})


def test_every_plugin_is_found_loaded_failed_or_left_out():
    report = diagnose(make("good", "other", "raises", setting="-other"))
    states = {p.name: p.state for p in report.plugins}
    assert states == {"good": "loaded", "other": "left out", "raises": "failed"}
    raises = report.plugins[-1]
    assert "no licence" in raises.error
    assert "in raising" in raises.traceback
    assert not report.is_healthy


class Sharing(Compiler3):
    """Describes a device that other libraries know."""

    def describe(self, target=None):
        return DeviceDescription(dlpack_device_type=12)


def test_platforms_with_devices_tier_and_default():
    found = make()
    spec = null_spec(Driver(device_count=2), tier=5, name="npu")
    found.register(replace(spec, compiler=Sharing))
    found.register(null_spec(Driver(), tier=1, name="store", priority=50))
    report = diagnose(found)
    npu, store = report.platforms
    assert (npu.name, npu.tier, npu.is_default) == ("npu", "Integrated", True)
    assert [d.name for d in npu.devices] == ["npu:0", "npu:1"]
    assert (store.tier, store.is_default) == ("Memory", False)
    assert report.is_healthy
    assert report.contract == CONTRACT_VERSION
    assert report.versions["numpy"] != "not installed"


def test_no_tier_is_named_without_what_makes_it():
    found = make()
    found.register(null_spec(Driver(), tier=5, name="npu"))
    found.register(null_spec(Driver(device_count=0), tier=5, name="absent"))
    tiers = {p.name: p.tier for p in diagnose(found).platforms}
    assert tiers == {"npu": "Asynchronous", "absent": ""}


class Versioned(Platform1):
    executor_class = Executor4

    def version(self):
        self.driver.enter("version")
        return "1.0"


@pytest.mark.parametrize(
    "function", ["visible_device_count", "create_executor", "create_stream", "version"]
)
def test_failing_platforms_are_reported_with_traceback(function):
    driver = Driver()
    driver.fail(function, *[ValueError("no driver")] * 9)
    found = make()
    found.register(PlatformSpec("npu", lambda: Versioned(driver)))
    (npu,) = diagnose(found).platforms
    assert function in npu.failures[0].function
    assert "no driver" in npu.failures[0].error
    assert "null_device.py" in npu.failures[0].traceback
    assert "run `xladev doctor` for the traceback" in npu.failures[0].error
    assert not diagnose(found).is_healthy


def test_a_count_that_is_none_is_a_failure():
    found = make()
    found.register(null_spec(Driver(device_count=-1), name="npu"))
    found.register(null_spec(Driver(), name="store"))
    report = diagnose(found)
    (npu,) = (p for p in report.platforms if p.name == "npu")
    assert "returned -1" in npu.failures[0].error
    assert not report.is_healthy


def test_clashes_are_reported():
    report = diagnose(make("good", "good_again"))
    assert report.clashes == {"good": ("good", "good_again")}
    assert report.platforms == ()


def test_the_report_is_plain_data():
    report = diagnose(make("good", "raises"))
    assert json.loads(json.dumps(report.to_json()))["plugins"][0]["name"] == "good"
