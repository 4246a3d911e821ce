"""Descriptions of devices: fields of another type are refused where they are written."""

import pytest

from tests.unit.runtime.null_device import Compiler2, Driver, Platform1, null_spec
from xladev.compiler.description import DeviceDescription, MemorySpace
from xladev.errors import ArgumentError
from xladev.runtime.hookspecs import PlatformSpec
from xladev.runtime.registry import Registry


@pytest.mark.parametrize(
    "fields",
    [
        {"name": b"device"},
        {"nbytes": 16e9},
        {"nbytes": "16 GiB"},
        {"nbytes": True},
        {"nbytes": 0},
        {"nbytes": -1},
        {"bandwidth": "fast"},
        {"host_addressable": "yes"},
        {"alignment": 64.0},
        {"alignment": 48},
        {"wrap_alignment": None},
    ],
    ids=str,
)
def test_odd_memory_is_refused(fields: dict) -> None:
    with pytest.raises(ArgumentError, match=r"memory .*(\w+ is|has|alignment)"):
        MemorySpace(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": None},
        {"kind": 3},
        {"target": b"sm_90"},
        {"dtypes": ["f32"]},
        {"dtypes": frozenset({"f31"})},
        {"memory_spaces": ()},
        {"memory_spaces": [MemorySpace()]},
        {"memory_spaces": ("device",)},
        {"cores": "all"},
        {"compute_streams": 0},
        {"dlpack_device_type": "cuda"},
    ],
    ids=str,
)
def test_odd_descriptions_are_refused(fields: dict) -> None:
    with pytest.raises(ArgumentError):
        DeviceDescription(**fields)


def test_the_error_names_field_and_type() -> None:
    with pytest.raises(ArgumentError, match="memory 'dram': nbytes is 16000000000.0") as caught:
        MemorySpace("dram", 16e9)
    assert caught.value.why == "nbytes has to be of type int or None"


class Odd(Compiler2):
    def describe(self, target: str | None = None) -> DeviceDescription:
        return DeviceDescription(memory_spaces=(5,))


def test_an_odd_description_breaks_no_other_platform() -> None:
    """Every platform is asked whether it may run what others refuse."""
    registry = Registry(find=lambda: ())
    registry.register(PlatformSpec("odd", lambda: Platform1(Driver()), compiler=Odd))
    registry.register(null_spec(Driver(), name="good", priority=50))
    assert registry.host_platform() is None
    assert registry.device("good").name == "good:0"
