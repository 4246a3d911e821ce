"""Names of devices, and whom passes ask about an instruction that names one."""

from tests.unit.compiler.subset_backend import Subset, SubsetCompiler
from xladev.compiler.description import DeviceDescription
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import CompileTarget
from xladev.compiler.placement.devices import PlacedTarget, PlacementDevices, wanted_devices
from xladev.hlo.text import parse_module

TEXT = """HloModule m
ENTRY e { x = f32[4] parameter(0)
  a = f32[4] sine(x), frontend_attributes={xladev_device="b:1"}
  ROOT r = f32[4] sine(a) }"""


def target(name: str, *refused: str) -> CompileTarget:
    compiler = SubsetCompiler(Subset(lambda i: i.opcode not in refused))
    return CompileTarget(name, compiler, DeviceDescription())


def test_each_name_is_looked_up_once() -> None:
    asked: list[str] = []

    def find(name: str) -> CompileTarget | None:
        asked.append(name)
        return None if name == "gone" else target("one")

    devices = PlacementDevices(find)
    assert devices.spellings(["ONE:0", "one", "gone", "ONE:0"]) == (("ONE:0", "one"),)
    assert devices.find("gone") is None and asked == ["ONE:0", "gone", "one"]
    assert list(devices.found) == ["one"]
    assert PlacementDevices(None).find("one") is None


def test_names_of_modules_rules_and_options() -> None:
    options = CompileOptions(placement=(("*", "c"),), devices=("d",))
    assert wanted_devices(parse_module(TEXT), options) == {"b:1", "c", "d"}


def test_passes_ask_the_device_that_is_named() -> None:
    a, b = target("a", "sine"), target("b:1")
    asked = PlacedTarget.of(a, [a, b])
    first, second = parse_module(TEXT).entry.instructions[1:]
    assert asked.supports(first) and not asked.supports(second)
    assert PlacedTarget.of(a, [a]) is a
