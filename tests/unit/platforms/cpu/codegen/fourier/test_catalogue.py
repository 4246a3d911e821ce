"""What comes compiled is what common transforms call."""

from __future__ import annotations

import pytest

from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import ModuleBuilder, TargetTraits
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.fourier.catalogue import call_all_transforms
from xladev.platforms.cpu.codegen.table import emit_kernel

TRAITS = TargetTraits(vector_nbytes=64)


def called(text: str) -> set[str]:
    module = ModuleBuilder("m", TRAITS)
    emit_kernel(module, KernelSpec("kernel", parse_module(text).entry))
    return set(module.microkernels())


@pytest.mark.parametrize("t", ["c64", "c128"])
@pytest.mark.parametrize(
    "of", ["[2]", "[16]", "[1024]", "[360]", "[997]", "[65536]", "[1048576]", "[64,256]",
           "[512,512]", "[1024,1000]"],
)  # fmt: skip
def test_common_transforms_come_compiled(of: str, t: str) -> None:
    module = ModuleBuilder("m", TRAITS)
    call_all_transforms(module)
    length = of[1:-1]
    text = f"""HloModule m
    ENTRY e {{ x = {t}{of} parameter(0)
      ROOT r = {t}{of} fft(x), fft_type=IFFT, fft_length={{{length}}} }}"""
    assert called(text) <= set(module.microkernels())


def test_real_transforms_come_compiled() -> None:
    module = ModuleBuilder("m", TRAITS)
    call_all_transforms(module)
    forward = """HloModule m
    ENTRY e { x = f32[512,512] parameter(0)
      ROOT r = c64[512,257] fft(x), fft_type=RFFT, fft_length={512,512} }"""
    backward = """HloModule m
    ENTRY e { x = c64[512,257] parameter(0)
      ROOT r = f32[512,512] fft(x), fft_type=IRFFT, fft_length={512,512} }"""
    assert called(forward) | called(backward) <= set(module.microkernels())


def test_real_transforms_of_odd_length_come_compiled() -> None:
    module = ModuleBuilder("m", TRAITS)
    call_all_transforms(module)
    text = """HloModule m
    ENTRY e { x = f32[256,997] parameter(0)
      ROOT r = c64[256,499] fft(x), fft_type=RFFT, fft_length={997} }"""
    assert called(text) <= set(module.microkernels())
