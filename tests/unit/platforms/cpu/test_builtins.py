"""The functions that compilers' libraries have elsewhere, against Python's exact integers."""

import ctypes
import random
import struct
from typing import Any

import numpy as np
import pytest

from xladev.platforms.cpu.builtins import builtin_text
from xladev.platforms.cpu.engine import LoadedObject, compile_text, target_traits
from xladev.platforms.cpu.targets import target_of

ARM, WASM = target_of("armv7-linux-gnueabihf"), target_of("wasm32")
EDGES = [0, 1, 2, 3, 7, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**53 - 1, 2**53 + 1,
         2**54 + 3, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**24 + 1, (2**24 + 1) << 20]  # fmt: skip
_loaded: list[LoadedObject] = []


def numbers(bits: int, count: int = 400) -> list[int]:
    """Edges of a width, and random numbers of all lengths."""
    draw = random.Random(5)
    found = [e & (2**bits - 1) for e in EDGES]
    return found + [draw.getrandbits(draw.randint(1, bits)) for _ in range(count)]


def signed(x: int, bits: int) -> int:
    return x - (1 << bits) if x >> (bits - 1) else x


def function(symbol: str, target: Any, wrapper: str = "") -> int:
    """Address of a builtin compiled for this machine, under its calling convention."""
    text = builtin_text(symbol, target)
    assert text is not None
    name = "wrapper" if wrapper else symbol
    text = f'target triple = "{target_traits().triple}"\n' + text.replace(" arm_aapcscc", "")
    code = LoadedObject("builtin", compile_text("builtin", text + wrapper, 1), (name,))
    _loaded.append(code)
    return code.address(name)


def divided(symbol: str, bits: int, n: int, d: int) -> tuple[int, int]:
    kind = f"i{bits}"
    wrapper = f"""
define void @wrapper({kind} %n, {kind} %d, ptr %out) {{
  %both = call {{ {kind}, {kind} }} @{symbol}({kind} %n, {kind} %d)
  store {{ {kind}, {kind} }} %both, ptr %out
  ret void
}}
"""
    key = (symbol, bits)
    if key not in _divisions:
        _divisions[key] = function(symbol, ARM, wrapper)
    number: Any = ctypes.c_uint64 if bits == 64 else ctypes.c_uint32
    out = (number * 2)()
    ctypes.CFUNCTYPE(None, number, number, ctypes.c_void_p)(_divisions[key])(n, d, out)
    return out[0], out[1]


_divisions: dict[tuple[str, int], int] = {}


@pytest.mark.parametrize(("symbol", "bits"), [("__aeabi_uldivmod", 64), ("__aeabi_uidivmod", 32)])
def test_unsigned_division(symbol: str, bits: int) -> None:
    values = numbers(bits, 60)
    for n in values:
        for d in values:
            if d:
                assert divided(symbol, bits, n, d) == divmod(n, d)


@pytest.mark.parametrize(("symbol", "bits"), [("__aeabi_ldivmod", 64), ("__aeabi_idivmod", 32)])
def test_signed_division_truncates(symbol: str, bits: int) -> None:
    values, mask = numbers(bits, 60), 2**bits - 1
    for n in values:
        for d in values:
            if not d:
                continue
            a, b = signed(n, bits), signed(d, bits)
            quotient = abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)
            got = divided(symbol, bits, n, d)
            assert got == (quotient & mask, (a - quotient * b) & mask)


@pytest.mark.parametrize(
    ("symbol", "is_signed", "kind"),
    [
        ("__aeabi_l2d", True, np.float64), ("__aeabi_ul2d", False, np.float64),
        ("__aeabi_l2f", True, np.float32), ("__aeabi_ul2f", False, np.float32),
    ],
)  # fmt: skip
def test_integers_become_floats_rounded_once(symbol: str, is_signed: bool, kind: Any) -> None:
    result: Any = ctypes.c_double if kind is np.float64 else ctypes.c_float
    convert = ctypes.CFUNCTYPE(result, ctypes.c_uint64)(function(symbol, ARM))
    for n in numbers(64, 4000):
        value = np.int64(signed(n, 64)) if is_signed else np.uint64(n)
        assert convert(n) == kind(value), n


@pytest.mark.parametrize(
    ("symbol", "is_signed", "is_double"),
    [
        ("__aeabi_d2lz", True, True), ("__aeabi_d2ulz", False, True),
        ("__aeabi_f2lz", True, False), ("__aeabi_f2ulz", False, False),
    ],
)  # fmt: skip
def test_floats_become_integers(symbol: str, is_signed: bool, is_double: bool) -> None:
    kind: Any = ctypes.c_double if is_double else ctypes.c_float
    convert = ctypes.CFUNCTYPE(ctypes.c_uint64, kind)(function(symbol, ARM))
    draw = random.Random(6)
    for n in numbers(63, 1500):
        x = (n + draw.random()) * (draw.choice((1, -1)) if is_signed else 1)
        x = x if is_double else struct.unpack("f", struct.pack("f", x))[0]
        if -(2**63) <= x < 2**63:
            assert convert(x) == int(x) & (2**64 - 1), x


WIDE = """
define void @wrapper(ptr %a, ptr %b, ptr %out) {{
  %x = load i128, ptr %a, align 8
  %y = load {kind}, ptr %b, align 4
  %r = call i128 @{symbol}(i128 %x, {kind} %y)
  store i128 %r, ptr %out, align 8
  ret void
}}
"""


def wide(symbol: str, kind: str) -> Any:
    """The function of 128-bit numbers as one of Python's."""
    address = function(symbol, WASM, WIDE.format(symbol=symbol, kind=kind))
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_char_p] * 2, ctypes.c_void_p)(address)

    def compute(x: int, y: int) -> int:
        out = ctypes.create_string_buffer(16)
        call(x.to_bytes(16, "little"), y.to_bytes(16, "little"), out)
        return int.from_bytes(out.raw, "little")

    return compute


def test_products_of_128_bits() -> None:
    multiply, values = wide("__multi3", "i128"), numbers(128, 60)
    for x in values:
        for y in values:
            assert multiply(x, y) == x * y % 2**128


def test_shifts_of_128_bits() -> None:
    left, right = wide("__ashlti3", "i32"), wide("__lshrti3", "i32")
    arithmetic = wide("__ashrti3", "i32")
    for x in numbers(128, 60):
        for count in range(128):
            assert left(x, count) == (x << count) % 2**128
            assert right(x, count) == x >> count
            assert arithmetic(x, count) == (signed(x, 128) >> count) % 2**128


def test_processors_that_lack_nothing_have_none() -> None:
    assert builtin_text("__aeabi_l2d", target_of("aarch64-linux-gnu")) is None
    assert builtin_text("cosf", ARM) is None
