"""What the Python interface gives: the same bytes each time, named values, checked names."""

import numpy as np
import pytest

import xladev
import xladev.aot
from xladev.errors import UnsupportedError, UsageError
from xladev.hlo.ir import HloModule

TEXT = """
HloModule weighted

ENTRY e {
  x.1 = (f32[2], (s8[3])) parameter(0)
  w.2 = f32[2,1000] parameter(1)
  first = f32[2] get-tuple-element(x.1), index=0
  wide = f32[2,1000] broadcast(first), dimensions={0}
  product = f32[2,1000] multiply(wide, w.2)
  inner = (s8[3]) get-tuple-element(x.1), index=1
  bytes = s8[3] get-tuple-element(inner), index=0
  ROOT r = (f32[2,1000], (s8[3], s8[3])) tuple(product, pair)
}
""".replace("  ROOT", "  pair = (s8[3], s8[3]) tuple(bytes, bytes)\n  ROOT")
TARGET = "x86_64-linux-gnu"


def module() -> HloModule:
    return xladev.parse(TEXT)


def test_parts_of_tuples_have_names_of_their_own() -> None:
    interface = xladev.aot.compile(module(), "p", target=TARGET).interface
    assert [(a.name, a.nbytes) for a in interface.arguments] == [
        ("x_0", 8), ("x_1_0", 3), ("w", 8000),
    ]  # fmt: skip
    assert [r.name for r in interface.results] == ["0", "1_0", "1_1"]
    assert interface.arguments[1].source == "parameter x.1{1,0}"
    assert interface.module == "weighted"


def test_the_same_program_gives_the_same_files() -> None:
    first = xladev.aot.compile(module(), "p", target=TARGET)
    assert first.files == xladev.aot.compile(module(), "p", target=TARGET).files


def test_bound_weights_are_read_only_data() -> None:
    weights = np.random.default_rng(0).standard_normal((2, 1000)).astype(np.float32)
    selection = xladev.aot.Selection(
        fetches=(xladev.aot.Fetch("product"),),
        bindings=(xladev.aot.Binding("w.2", weights),),
    )
    bundle = xladev.aot.compile(module(), "p", target=TARGET, selection=selection)
    assert [a.name for a in bundle.interface.arguments] == ["x_0", "x_1_0"]
    assert bundle.interface.results[0].name == "product"
    at = bundle.code.index(weights.tobytes())
    assert _flags_of_section_at(bundle.code, at) & 1 == 0  # SHF_WRITE


def _flags_of_section_at(elf: bytes, at: int) -> int:
    def number(offset: int, nbytes: int) -> int:
        return int.from_bytes(elf[offset : offset + nbytes], "little")

    start, size, count = number(40, 8), number(58, 2), number(60, 2)
    headers = [start + size * n for n in range(count)]
    (flags,) = (
        number(h + 8, 8)
        for h in headers
        if number(h + 4, 4) == 1 and number(h + 24, 8) <= at < number(h + 24, 8) + number(h + 32, 8)
    )
    return flags


def test_tokens_are_no_arrays() -> None:
    text = "ENTRY e { x = f32[] parameter(0)  t = token[] after-all()  ROOT r = tuple(x, t) }"
    text = text.replace("ROOT r =", "ROOT r = (f32[], token[])")
    with pytest.raises(UnsupportedError, match="token"):
        xladev.aot.compile(xladev.parse(text), "p", target=TARGET)


def test_two_values_of_one_name_are_refused() -> None:
    feeds = (xladev.aot.Feed("w.2", "same"), xladev.aot.Feed("x.1", "same_0"))
    interface = xladev.aot.compile(
        module(), "p", target=TARGET, selection=xladev.aot.Selection(feeds=feeds[:1])
    ).interface
    assert [a.name for a in interface.arguments] == ["same", "x_0", "x_1_0"]
    twice = (xladev.aot.Feed("w.2", "same_0"), xladev.aot.Feed("x.1", "same"))
    with pytest.raises(UsageError, match="two values are named"):
        xladev.aot.compile(
            module(), "p", target=TARGET, selection=xladev.aot.Selection(feeds=twice)
        )


def test_a_program_without_results_is_refused() -> None:
    module = xladev.parse("HloModule m\nENTRY e { a = f32[4] parameter(0) ROOT r = () tuple() }")
    with pytest.raises(UnsupportedError, match="computes nothing"):
        xladev.aot.compile(module, "nothing")


@pytest.mark.parametrize(
    "root", ["ROOT r = f32[4] copy(a)", "ROOT r = f32[] constant(1)", "ROOT r = (f32[4]) tuple(a)"]
)
def test_programs_that_compute_nothing_have_a_kernel_that_copies(root: str) -> None:
    module = xladev.parse(f"HloModule m\nENTRY e {{ a = f32[4] parameter(0) {root} }}")
    made = xladev.aot.compile(module, "nothing")
    assert [r.shape.nbytes for r in made.interface.results] == [4 if "constant" in root else 16]
