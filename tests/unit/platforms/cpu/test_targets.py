"""Targets: what people write for one machine is one machine; what nobody knows is refused."""

import pytest

from xladev.codegen.llvm.portable import ROUNDINGS
from xladev.errors import OptionError
from xladev.platforms.cpu.targets import target_names, target_of, x86_missing


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("x86_64-linux-gnu", "x86_64-unknown-linux-gnu"),
        ("x86_64-pc-linux-gnu", "x86_64-unknown-linux-gnu"),
        ("x86-64-linux-gnu", "x86_64-unknown-linux-gnu"),
        ("amd64-linux", "x86_64-unknown-linux-gnu"),
        ("x86_64-linux-musl", "x86_64-unknown-linux-musl"),
        ("x86_64-linux-gnu:x86-64", "x86_64-unknown-linux-gnu"),
        ("x86_64-linux-gnu:x86-64-v3", "x86_64-unknown-linux-gnu:x86-64-v3"),
        ("aarch64-linux-gnu", "aarch64-unknown-linux-gnu"),
        ("arm64-linux-gnu", "aarch64-unknown-linux-gnu"),
        ("aarch64-linux-android", "aarch64-unknown-linux-android"),
        ("aarch64-linux-android21", "aarch64-unknown-linux-android"),
        ("armv7-unknown-linux-gnueabihf", "armv7-unknown-linux-gnueabihf"),
        ("arm-linux-gnueabihf", "armv7-unknown-linux-gnueabihf"),
        ("armv7-linux-gnueabihf:vfpv4", "armv7-unknown-linux-gnueabihf:vfpv4"),
        ("riscv64-linux-gnu", "riscv64-unknown-linux-gnu"),
        ("wasm32", "wasm32-unknown-unknown"),
        ("wasm32-unknown-unknown:+simd128", "wasm32-unknown-unknown:simd128"),
    ],
)
def test_spellings_of_one_machine_are_one(text: str, name: str) -> None:
    target = target_of(text)
    assert target.name == name
    assert target_of(target.name) == target
    assert not target.is_host


def test_every_name_names_itself() -> None:
    assert [target_of(name).name for name in target_names()] == list(target_names())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sparc-linux-gnu", "unknown architecture 'sparc'"),
        ("", "unknown architecture ''"),
        ("x86_64-windows-msvc", "unknown system 'windows-msvc'"),
        ("x86_64", "unknown system ''"),
        ("arm-linux-gnueabi", "unknown system 'linux-gnueabi'"),
        ("x86_64-linux-gnu:haswell", "unknown processor level 'haswell'"),
        ("x86_64-linux-gnu:", "unknown processor level ''"),
        ("wasm32:x86-64-v3", "unknown processor level 'x86-64-v3'"),
    ],
)
def test_unknown_targets_are_refused_with_what_there_is(text: str, why: str) -> None:
    with pytest.raises(OptionError, match="cannot compile for target") as caught:
        target_of(text)
    assert why in (caught.value.why or "")
    assert "there are" in (caught.value.why or "")


def test_near_misses_are_told() -> None:
    with pytest.raises(OptionError) as caught:
        target_of("aarch46-linux-gnu")
    assert caught.value.hint == "did you mean 'aarch64'?"


def test_traits_follow_the_level() -> None:
    least, third = target_of("x86_64-linux-gnu"), target_of("x86_64-linux-gnu:x86-64-v3")
    assert least.traits.missing == {"fma", *ROUNDINGS}
    assert (least.traits.vector_nbytes, third.traits.vector_nbytes) == (16, 32)
    assert third.traits.has_fma and third.traits.has_half_conversion
    assert target_of("wasm32").traits.pointer_nbytes == 4
    assert target_of("aarch64-linux-gnu").traits.pointer_nbytes == 8


def test_x86_lacks_what_its_features_do_not_name() -> None:
    assert x86_missing(["+fma", "+sse4.1"]) == set()
    assert x86_missing(["-fma", "+sse4.1"]) == {"fma"}
    assert x86_missing([]) == {"fma", *ROUNDINGS}
