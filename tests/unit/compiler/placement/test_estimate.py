"""Times by hand."""

import pytest

from tests.unit.compiler.subset_backend import Subset, SubsetCompiler
from xladev.compiler.description import DeviceDescription, Link, MemorySpace
from xladev.compiler.partition.assignment import CompileTarget
from xladev.compiler.placement.estimate import UNKNOWN_LINK, Estimate
from xladev.errors import ArgumentError
from xladev.hlo.text import parse_module

TEXT = """HloModule m
ENTRY e { x = f32[100,100] parameter(0)
  ROOT r = f32[100,100] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""


def device(name: str, links: dict[str, Link] | None = None, **fields: object) -> CompileTarget:
    space = MemorySpace(bandwidth=fields.pop("bandwidth", 1e9),  # type: ignore[arg-type]
                        host_addressable=bool(fields.pop("host", False)))  # fmt: skip
    description = DeviceDescription(memory_spaces=(space,), links=links or {}, **fields)  # type: ignore[arg-type]
    return CompileTarget(name, SubsetCompiler(Subset(lambda i: True)), description)


@pytest.mark.parametrize(("peak", "bandwidth", "seconds"), [(1e9, 1e12, 2e-3), (1e12, 8e7, 1e-3)])
def test_work_is_what_takes_longer(peak: float, bandwidth: float, seconds: float) -> None:
    estimate = Estimate([device("a", peak_flops={"f32": peak}, bandwidth=bandwidth)])
    root = parse_module(TEXT).entry.root
    assert estimate.work(root, 0) / 1e12 == pytest.approx(seconds)


def test_ways_of_transfers() -> None:
    devices = [
        device("host", host=True),
        device("a", {"host": Link(1e9, 1e-5)}),
        device("a:1", {"host": Link(1e9, 1e-5), "a": Link(1e10, 1e-6)}),
        device("b"),
        device("c", transfer_bandwidth=2e9),
    ]
    estimate = Estimate(devices)

    def seconds(a: int, b: int) -> float:
        return estimate.transfer(10**6, a, b) / 1e12

    assert seconds(1, 1) == 0
    assert seconds(0, 1) == seconds(1, 0) == pytest.approx(1e-5 + 1e-3)
    assert seconds(1, 2) == seconds(2, 1) == pytest.approx(1e-6 + 1e-4)
    assert seconds(0, 3) == pytest.approx(UNKNOWN_LINK.seconds(10**6))
    assert seconds(1, 3) == pytest.approx(1e-5 + 1e-3 + UNKNOWN_LINK.seconds(10**6))
    assert seconds(0, 4) == pytest.approx(UNKNOWN_LINK.latency_s + 5e-4)


@pytest.mark.parametrize(("bandwidth", "latency"), [(0, 0), (-1, 0), (1e9, -1e-6)])
def test_links_that_are_none(bandwidth: float, latency: float) -> None:
    with pytest.raises(ArgumentError, match="a link of"):
        Link(bandwidth, latency)
