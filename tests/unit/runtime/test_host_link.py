"""The link to the host: measured once for a kind of device, and kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import xladev
from tests.simulated.chip import Chip
from tests.simulated.machine import machine
from xladev.compiler.cache.store import Store
from xladev.compiler.description import HOST_LINK, DeviceDescription, Link, MemorySpace
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import CompileTarget
from xladev.errors import DeviceError
from xladev.runtime import host_link
from xladev.runtime.device import Device
from xladev.runtime.host_link import measure_host_link, with_host_link
from xladev.runtime.registry import using_registry

LINK = Link(1.2e10, 8e-6)
NPU = Chip("npu", products=4e12, vector=2e11, bandwidth=2e11, link=LINK)


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_link, "_of_process", {})


class Asked:
    """A machine with one device, and how often somebody opened it."""

    def __init__(self) -> None:
        self.registry, self.clock = machine(NPU)
        self.opened = 0
        found = self.registry.platform("npu").compile_target(None)
        self.target = replace(found, description=replace(found.description, links={}))

    def find(self, name: str) -> Device:
        self.opened += 1
        return self.registry.devices(name)[0]

    def linked(self, store: Store | None = None, **changes: object) -> CompileTarget:
        description = replace(self.target.description, **changes)  # type: ignore[arg-type]
        with using_registry(self.registry):
            target = replace(self.target, description=description)
            return with_host_link(target, self.find, store, self.clock)


@pytest.fixture
def asked() -> Iterator[Asked]:
    yield Asked()


def is_measured(target: CompileTarget) -> bool:
    link = target.description.links.get(HOST_LINK)
    return link is not None and link.bandwidth == pytest.approx(LINK.bandwidth, rel=0.02)


def test_what_is_measured() -> None:
    registry, clock = machine(NPU)
    found = measure_host_link(registry.devices("npu")[0], clock)
    assert found.bandwidth == pytest.approx(LINK.bandwidth, rel=0.02)
    assert found.latency_s == pytest.approx(LINK.latency_s, rel=0.02)


def test_once_in_a_process(asked: Asked) -> None:
    assert is_measured(asked.linked()) and is_measured(asked.linked())
    assert asked.opened == 1
    assert not asked.target.description.links


def test_once_for_a_cache(asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    first = asked.linked(store)
    monkeypatch.setattr(host_link, "_of_process", {})
    assert asked.linked(store) == first
    assert asked.opened == 1


@pytest.mark.parametrize("entry", [b"", b"[1]", b"[0, 0]", b'["x", 1]', b"{}"])
def test_an_entry_that_is_no_link_is_measured_again(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: bytes
) -> None:
    monkeypatch.setattr(Store, "read", lambda *_: entry)
    assert is_measured(asked.linked(Store(tmp_path)))


@pytest.mark.parametrize(
    "known", [{"links": {HOST_LINK: Link(1e9)}}, {"transfer_bandwidth": 1e9}], ids=["link", "rate"]
)
def test_what_a_vendor_states_stands(asked: Asked, known: dict[str, object]) -> None:
    assert asked.linked(**known).description == replace(asked.target.description, **known)
    assert asked.opened == 0


def test_memory_of_the_host_has_no_link(asked: Asked) -> None:
    described = DeviceDescription(memory_spaces=(MemorySpace(host_addressable=True),))
    target = replace(asked.target, description=described)
    assert with_host_link(target, asked.find, None) is target


def test_a_device_that_cannot_be_opened_goes_by_what_is_assumed(asked: Asked) -> None:
    def broken(name: str) -> Device:
        raise DeviceError(f"no {name}")

    assert with_host_link(asked.target, broken, None) is asked.target


PROGRAM = b"HloModule m\nENTRY e { x = f32[64,64] parameter(0)  ROOT y = f32[64,64] tanh(x) }"


@pytest.mark.parametrize(
    ("devices", "count"), [((), 0), (("cpu", "template_npu"), 1)], ids=["not asked", "asked"]
)
def test_where_estimates_decide(
    monkeypatch: pytest.MonkeyPatch, devices: tuple[str, ...], count: int
) -> None:
    monkeypatch.setenv("XLADEV_CACHE", "off")
    whole: Callable[..., Link] = measure_host_link
    measured: list[str] = []

    def noted(device: Device, clock: Callable[[], float]) -> Link:
        measured.append(device.name)
        return whole(device, clock)

    monkeypatch.setattr(host_link, "measure_host_link", noted)
    x = np.ones((64, 64), np.float32)
    for _ in range(2):
        program = xladev.compile(PROGRAM, "template_npu", CompileOptions(devices=devices))
        np.testing.assert_allclose(np.asarray(program(x)), np.tanh(x), rtol=1e-5)
    assert len(measured) == count
