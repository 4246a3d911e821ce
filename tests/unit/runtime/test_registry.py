"""The registry: selection, names, duplicates, platforms that fail when asked."""

from importlib.metadata import EntryPoint, PathDistribution

import numpy as np
import pytest

from tests.unit.runtime.null_device import (
    HOST_DESCRIPTION,
    Compiler2,
    Driver,
    Executor1,
    Platform1,
    null_spec,
)
from xladev.errors import DeviceError, PluginError
from xladev.runtime.array import put
from xladev.runtime.hookspecs import ENTRY_POINT_GROUP, PlatformSpec
from xladev.runtime.platform import MAX_DEVICES
from xladev.runtime.registry import Registry, current_registry, using_registry

SAMPLES = "tests.unit.runtime.plugin_samples"
LOADED = "tests.unit.runtime.raises_when_loaded"


def registry(*specs, entries=()):
    samples = [
        EntryPoint(f"{i}_{e}", f"{SAMPLES}:{e}", ENTRY_POINT_GROUP) for i, e in enumerate(entries)
    ]
    made = Registry(find=lambda: samples, environment={})
    for spec in specs:
        made.register(spec)
    return made


def spec(name, driver=None, **fields):
    return null_spec(driver or Driver(), name=name, **fields)


def names(platforms):
    return [p.name for p in platforms]


# Selection


def test_highest_priority_with_a_device_wins_and_ties_go_by_name():
    found = registry(
        spec("cpu", priority=50),
        spec("absent", Driver(device_count=0), priority=900),
        spec("b", priority=500),
        spec("a", priority=500),
    )
    assert names(found.platforms()) == ["absent", "a", "b", "cpu"]
    assert found.platform().name == "a"
    assert found.device().name == "a:0"


def test_no_device_is_no_error_until_one_is_asked_for():
    found = registry(spec("absent", Driver(device_count=0)))
    assert found.devices() == ()
    assert found.devices("absent") == ()
    with pytest.raises(DeviceError, match="no platform has a visible device"):
        found.platform()
    with pytest.raises(DeviceError, match=r"no device absent:0"):
        found.device("absent")


def test_an_empty_registry_says_so():
    with pytest.raises(DeviceError, match="no plugin is installed"):
        registry().platform("cpu")


def test_questions_about_platforms_open_no_driver():
    driver = Driver()
    found = registry(spec("a", driver))
    found.platforms()
    found.platform("a")
    found.platform("a").describe()
    assert driver.calls == []


# Names


def test_names_kinds_and_long_names():
    found = registry(
        spec("slow", kind="npu", priority=100),
        spec("fast", Driver(device_count=2), kind="npu", priority=500),
        spec("npu2", kind="other", priority=900),
    )
    assert found.device("NPU:1").name == "fast:1"
    assert found.device("slow").name == "slow:0"
    assert found.device("npu2:0").kind == "other"
    assert found.device("/job:localhost/replica:0/task:0/device:NPU:0").name == "fast:0"
    assert [d.name for d in found.devices("npu")] == ["fast:0", "fast:1"]
    with pytest.raises(DeviceError, match="no device fast:2"):
        found.device("npu:2")
    with pytest.raises(DeviceError, match="no platform or kind is called 'tpu'") as info:
        found.device("tpu")
    assert "npu2, fast, slow" in info.value.why


@pytest.mark.parametrize("name", ["gpu", "tpu", "xpu", "npu", "gpu:0"])
def test_another_kind_is_no_misspelling(name):
    found = registry(spec("cpu", kind="cpu"), spec("interpreter", kind="cpu"))
    with pytest.raises(DeviceError) as info:
        found.device(name)
    assert "did you mean" not in info.value.hint


@pytest.mark.parametrize(("name", "meant"), [("cpi", "cpu"), ("intepreter", "interpreter")])
def test_a_misspelling_is_told(name, meant):
    found = registry(spec("cpu", kind="cpu"), spec("interpreter", kind="cpu"))
    with pytest.raises(DeviceError) as info:
        found.device(name)
    assert f"did you mean {meant!r}?" in info.value.hint


def test_a_numbered_name_means_that_device_or_none():
    found = registry(spec("fast", Driver(device_count=2), kind="npu"))
    assert [d.name for d in found.devices("npu:1")] == ["fast:1"]
    for ask in (found.device, found.devices):
        with pytest.raises(DeviceError, match=r"no device fast:7(.|\n)*XLADEV_FAST_DEVICES"):
            ask("npu:7")


def test_a_kind_prefers_a_platform_with_a_device():
    found = registry(
        spec("absent", Driver(device_count=0), kind="npu", priority=900),
        spec("present", kind="npu", priority=100),
    )
    assert found.device("npu").name == "present:0"


def test_the_device_is_opened_once():
    driver = Driver(device_count=2)
    found = registry(spec("a", driver))
    assert found.device("a:1") is found.device("a:1")
    assert driver.calls.count("create_executor") == 1
    assert driver.calls.count("visible_device_count") == 1


# Duplicates


def test_registering_a_name_twice_is_an_error():
    found = registry(spec("a"))
    with pytest.raises(PluginError, match="'a' is claimed 2 times"):
        found.register(spec("a"))
    found.unregister("a")
    found.register(spec("a"))


def test_plugins_that_claim_one_name_get_neither_and_break_no_other():
    found = registry(entries=["good", "good_again", "other"])
    assert names(found.platforms()) == ["other"]
    assert found.clashes() == {"good": ("0_good", "1_good_again")}
    with pytest.raises(PluginError, match="'good' is claimed 2 times") as info:
        found.platform("good")
    assert "'0_good', '1_good_again'" in info.value.why


def test_a_third_claimant_is_named_too():
    found = registry(entries=["good", "good_again", "good"])
    assert found.clashes() == {"good": ("0_good", "1_good_again", "2_good")}


def test_claimants_of_one_entry_points_name_are_told_apart_by_distribution(tmp_path):
    entries = []
    for name in ("north", "south"):
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        line = f"npu = {SAMPLES}:good"
        (folder / "entry_points.txt").write_text(f"[{ENTRY_POINT_GROUP}]\n{line}\n")
        entries += PathDistribution(folder).entry_points
    found = Registry(lambda: entries, {})
    assert found.clashes() == {"good": ("npu of distribution north", "npu of distribution south")}
    with pytest.raises(PluginError, match="'good' is claimed 2 times") as info:
        found.platform("good")
    assert info.value.hint == "uninstall all but one"  # XLADEV_PLUGINS=-npu leaves out both


SHIPPED_CPU = EntryPoint("cpu", "xladev.platforms.cpu.plugin", ENTRY_POINT_GROUP)


@pytest.mark.parametrize("name", ["a_thief", "z_thief"])  # loaded before the shipped one and after
@pytest.mark.parametrize("sample", ["claims_cpu", "registers_cpu"])
def test_the_cpu_stays_usable_whoever_claims_its_name(name, sample, caplog):
    thief = EntryPoint(name, f"{SAMPLES}:{sample}", ENTRY_POINT_GROUP)
    found = Registry(lambda: [SHIPPED_CPU, thief], {})
    with using_registry(found):
        assert found.platform("cpu").source == "cpu"
        assert found.device("cpu:0").description.kind == "cpu"
    assert found.clashes() == {}
    with pytest.raises(PluginError, match="'cpu' is claimed 2 times"):
        found.register(spec("cpu"))


def test_a_second_entry_point_of_the_shipped_plugin_changes_nothing():
    again = EntryPoint("again", SHIPPED_CPU.value, ENTRY_POINT_GROUP)
    found = Registry(lambda: [SHIPPED_CPU, again], {})
    assert found.platform("cpu").source == "again"
    assert found.clashes() == {}


def test_a_name_of_an_installed_plugin_cannot_be_registered_before_it_is_loaded():
    found = registry(entries=["good"])
    with pytest.raises(PluginError, match="'good' is claimed 2 times"):
        found.register(spec("good"))
    assert found.platform("good").source == "0_good"


def test_plugins_are_loaded_after_an_import_that_ctrl_c_ended():
    entries = [EntryPoint("slow", f"{LOADED}:KeyboardInterrupt", ENTRY_POINT_GROUP)]
    found = Registry(lambda: entries, {})
    with pytest.raises(KeyboardInterrupt):
        found.platforms()
    entries[:] = [EntryPoint("good", f"{SAMPLES}:good", ENTRY_POINT_GROUP)]
    assert names(found.platforms()) == ["good"]


def test_misbehaving_plugins_leave_the_registry_usable():
    found = registry(entries=["raises", "exits", "returns_text", "old_major", "no_hook", "good"])
    assert found.device().name == "good:0"
    assert sum(p.error is not None for p in found.plugins()) == 5


def test_a_foreign_contract_is_refused_in_process_too():
    with pytest.raises(PluginError, match=r"speaks contract 3\.1"):
        registry(spec("a", api=(3, 1)))


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "Upper"},
        {"name": ""},
        {"name": 3},
        {"kind": "a b"},
        {"priority": "high"},
        {"priority": True},
        {"api": "1.0"},
        {"api": (1,)},
        {"factory": None},
        {"compiler": 5},
    ],
    ids=str,
)
def test_bad_specs_are_refused_when_made(fields):
    with pytest.raises(PluginError, match="bad PlatformSpec"):
        PlatformSpec(**{"name": "a", "factory": Driver} | fields)


# Platforms that fail when asked

FAULTS = ["factory", "visible_device_count", "create_executor"]


def faulty(function, value=None, error=None):
    """A platform whose function raises, or returns `value`."""
    driver = Driver()

    def fail(*args):
        if error is not None:
            raise error
        return value

    class Faulty(Platform1):
        executor_class = Executor1

    setattr(Faulty, function, fail)
    factory = fail if function == "factory" else lambda: Faulty(driver)
    return PlatformSpec("faulty", factory, priority=900)


@pytest.mark.parametrize(
    "error",
    [ValueError("driver bug"), SystemExit(1), GeneratorExit(), MemoryError(), RecursionError()],
    ids=repr,
)
@pytest.mark.parametrize("function", FAULTS)
def test_a_raising_platform_breaks_no_other(function, error, caplog):
    found = registry(faulty(function, error=error), spec("cpu", priority=50))
    assert [d.name for d in found.devices()] == ["cpu:0"]
    assert "faulty" in caplog.text
    with pytest.raises(Exception, match="faulty") as info:
        found.device("faulty")
    assert type(info.value) is PluginError
    assert function in str(info.value)
    (failure, *_) = found.platform("faulty").failures
    assert function in failure.function
    assert type(error).__name__ in failure.traceback


@pytest.mark.parametrize(
    ("function", "value"),
    [
        ("factory", "text"),
        ("factory", None),
        ("visible_device_count", "2"),
        ("visible_device_count", -1),
        ("visible_device_count", None),
        ("visible_device_count", True),
        ("visible_device_count", 1.0),
        ("visible_device_count", 10**9),
        ("visible_device_count", 0xFFFFFFFF),
        pytest.param("visible_device_count", 10**5000, id="endless"),
        pytest.param("visible_device_count", -(10**5000), id="endless-below-0"),
        ("create_executor", 5),
    ],
)
def test_wrong_types_are_named(function, value):
    found = registry(faulty(function, value), spec("cpu", priority=50))
    assert [d.name for d in found.devices()] == ["cpu:0"]
    with pytest.raises(PluginError, match=f"'faulty' returned .* from .*{function}"):
        found.device("faulty")


def test_a_count_that_no_driver_can_mean_says_how_many_there_may_be():
    found = registry(faulty("visible_device_count", 10**9), spec("cpu", priority=50))
    with pytest.raises(PluginError, match="returned 1000000000") as info:
        found.devices("faulty")
    assert "from 0 to 4096" in info.value.why
    assert found.device().name == "cpu:0"


def test_as_many_devices_as_the_contract_allows_are_opened():
    found = registry(spec("many", Driver(device_count=MAX_DEVICES)))
    assert len(found.devices()) == MAX_DEVICES


def test_a_platform_that_provides_more_devices_than_there_may_be_is_named():
    class Generous(Platform1):
        executor_class = Executor1

        def provide_devices(self, count):
            return 10**9

    found = registry(PlatformSpec("generous", lambda: Generous(Driver())))
    with pytest.raises(PluginError, match="returned 1000000000 from Platform.provide_devices"):
        found.platform("generous").provide_devices(2)


def test_a_platform_that_cannot_count_is_not_the_default(caplog):
    found = registry(
        faulty("visible_device_count", error=ValueError("no driver")), spec("cpu", priority=50)
    )
    assert found.platform().name == "cpu"
    assert found.platform().name == "cpu"
    assert caplog.text.count("is not used") == 1


def test_a_raising_compiler_factory_is_named():
    def broken():
        raise ImportError("llvm")

    found = registry(PlatformSpec("a", Driver, compiler=broken))
    with pytest.raises(PluginError, match="raised ImportError"):
        found.platform("a").describe()


@pytest.mark.parametrize("function", ["create_stream", "allocate"])
def test_wrong_types_of_an_executor_are_named(function):
    class Odd(Executor1):
        pass

    setattr(Odd, function, lambda *args, **kwargs: "odd")

    class OddPlatform(Platform1):
        executor_class = Odd

    device = registry(PlatformSpec("odd", lambda: OddPlatform(Driver()))).device("odd")
    use = {"allocate": lambda: put(device, np.ones(3)), "create_stream": lambda: device.stream}
    with pytest.raises(PluginError, match=f"'odd:0' returned str from Executor.{function}"):
        use[function]()


def test_a_plugin_may_ask_for_devices_while_it_is_loaded():
    found = registry(entries=["asks_for_devices", "good"])
    with using_registry(found):
        assert names(found.platforms()) == ["good", "eager"]


# Host partitions


def host_spec(name, **fields):
    compiler = fields.pop("compiler", lambda: Described())
    return PlatformSpec(name, lambda: Platform1(Driver()), compiler=compiler, **fields)


class Described(Compiler2):
    def describe(self, target=None):
        return HOST_DESCRIPTION


def test_host_partitions_run_on_the_best_host_platform():
    found = registry(
        spec("npu", priority=500),
        host_spec("memory_only", priority=400, compiler=None),
        host_spec("cpu", priority=50),
        host_spec("interpreter", priority=10),
    )
    assert found.host_platform().name == "cpu"
    assert found.host_platform(exclude="cpu").name == "interpreter"
    assert registry(spec("npu")).host_platform() is None


def test_the_process_registry_can_be_exchanged():
    mine = registry(spec("a"))
    before = current_registry()
    with using_registry(mine):
        assert current_registry() is mine
    assert current_registry() is before
