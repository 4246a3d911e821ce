"""One pass over columns, of every radix, against its definition in f64."""

from __future__ import annotations

import ctypes
from itertools import product

import numpy as np
import pytest

from xladev.codegen.llvm import FLOAT, I64, PTR, VOID, ModuleBuilder, Parameter
from xladev.platforms.cpu.codegen.fourier.codelets import LONGEST_CODELET
from xladev.platforms.cpu.codegen.fourier.kinds import FourierKind
from xladev.platforms.cpu.codegen.fourier.passes import PassArguments, PassForm, call_pass
from xladev.platforms.cpu.codegen.fourier.places import Form
from xladev.platforms.cpu.codegen.fourier.roots import step_table
from xladev.platforms.cpu.engine import LoadedObject, compile_text, target_traits

POINTERS = 6


def compiled(form: PassForm, lanes: int) -> LoadedObject:
    """A function with the arguments of a pass."""
    module = ModuleBuilder("m", target_traits())
    parameters = [
        Parameter(PTR if n < POINTERS else I64, name)
        for n, name in enumerate(PassArguments._fields)
    ]
    b = module.function("f", VOID, parameters)
    call_pass(b, FourierKind(FLOAT, lanes), form, PassArguments(*b.arguments))
    b.ret()
    return LoadedObject("m", compile_text("m", str(module), 2), ("f",))


def held(form: Form, values: np.ndarray) -> tuple[np.ndarray, int, int]:
    """Numbers in a form: memory, address of the imaginary parts, bytes of a number."""
    parts = np.stack([values.real, values.imag], axis=-1 if form is Form.PAIRS else 0)
    memory = np.ascontiguousarray(parts.astype(np.float32))
    return memory, memory.ctypes.data + memory.nbytes // 2, 4 * form.parts


def value(form: Form, memory: np.ndarray) -> np.ndarray:
    """The opposite."""
    parts = np.moveaxis(memory, -1, 0) if form is Form.PAIRS else memory
    return parts[0] + 1j * parts[1].astype(complex)


def check(
    rng: np.random.Generator, form: PassForm, lanes: int, count: int, width: int, rows: int = 2
) -> None:
    """Rows of ``[radix, count, width]`` become rows of ``[count, radix, width]``."""
    radix = form.radix
    shape = (rows, radix, count, width)
    x = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    source, source_imaginary, step = held(form.source, x)
    result, result_imaginary, to = held(form.result, np.zeros((rows, count, radix, width)))
    factors = np.array([0.5, -0.5, 2, -3], np.float32)
    table = np.frombuffer(step_table(radix, count, 4), np.float32)
    numbers = (
        width, count, width * step, radix * width * to, 8 * (radix - 1), count * width * step,
        width * to, rows, radix * count * width * step, radix * count * width * to,
    )  # fmt: skip
    addresses = (
        source.ctypes.data, source_imaginary, result.ctypes.data, result_imaginary,
        table.ctypes.data, factors.ctypes.data,
    )  # fmt: skip
    kinds = [ctypes.c_void_p] * POINTERS + [ctypes.c_int64] * len(numbers)
    code = compiled(form, lanes)
    ctypes.CFUNCTYPE(None, *kinds)(code.address("f"))(*addresses, *numbers)
    if form.source is Form.PAIRS:
        x = 0.5 * x.conj()
    wanted = np.moveaxis(np.fft.fft(x, axis=1), 1, 2)
    if form.has_roots:
        turns = np.outer(np.arange(count), np.arange(radix)) / (radix * count)
        wanted = wanted * np.exp(-2j * np.pi * turns)[None, :, :, None]
    if form.result is Form.PAIRS:
        wanted = 2 * wanted.real - 3j * wanted.imag
    np.testing.assert_allclose(value(form.result, result), wanted, atol=2e-6 * radix)


@pytest.mark.parametrize("radix", range(2, LONGEST_CODELET + 1))
def test_every_radix(radix: int, seed: int) -> None:
    check(np.random.default_rng(seed), PassForm(radix, Form.PLANES, Form.PLANES, True), 8, 3, 8)


@pytest.mark.parametrize(("source", "result"), list(product(Form, Form)))
def test_pairs_are_scaled_and_planes_are_not(source: Form, result: Form, seed: int) -> None:
    check(np.random.default_rng(seed), PassForm(4, source, result, True), 4, 2, 8)
    check(np.random.default_rng(seed), PassForm(3, source, result, False), 4, 2, 5)


@pytest.mark.parametrize("width", [16, 17, 31, 33, 40])
def test_the_last_vector_overlaps_the_one_before(width: int, seed: int) -> None:
    check(np.random.default_rng(seed), PassForm(2, Form.PAIRS, Form.PAIRS, False), 16, 1, width)


@pytest.mark.parametrize("lanes", [1, 2])
def test_short_vectors(lanes: int, seed: int) -> None:
    check(np.random.default_rng(seed), PassForm(5, Form.PAIRS, Form.PLANES, True), lanes, 3, 3)
