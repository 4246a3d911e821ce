"""Random arguments stay legal for what the program does with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xladev.errors import ArgumentError
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.text import parse_module
from xladev.testing.random_inputs import random_arguments


def arguments(body: str, seed: int = 0) -> list[Any]:
    return random_arguments(parse_module(f"HloModule m\n{body}"), seed)


@pytest.mark.parametrize("opcode", ["sqrt", "log", "rsqrt", "acosh", "acos", "atanh"])
def test_domains_of_functions(opcode: str) -> None:
    text = f"""HloModule m
f {{ p = f32[100] parameter(0)
  ROOT r = f32[100] {opcode}(p) }}
ENTRY e {{ x = f32[10,10] parameter(0)
  t = f32[10,10] transpose(x), dimensions={{1,0}}
  v = f32[100] reshape(t)
  ROOT c = f32[100] call(v), to_apply=f }}"""
    module = parse_module(text)
    assert np.isfinite(HloEvaluator().run(module, *random_arguments(module))).all()


def test_indices_stay_in_range() -> None:
    x, i, j = arguments("""
ENTRY e { x = f32[20,5] parameter(0)
  i = s32[] parameter(1)
  j = s64[6] parameter(2)
  zero = s32[] constant(0)
  a = f32[4,5] dynamic-slice(x, i, zero), dynamic_slice_sizes={4,5}
  g = f32[6,5] gather(x, j), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1,5}
  ROOT t = (f32[4,5], f32[6,5]) tuple(a, g) }""")
    assert x.shape == (20, 5)
    assert 0 <= i <= 16
    assert j.min() >= 0
    assert j.max() <= 19


def test_matrices_to_factor_are_positive_definite() -> None:
    (a,) = arguments("""
ENTRY e { a = f32[3,4,4] parameter(0)
  ROOT c = f32[3,4,4] cholesky(a), lower=true }""")
    assert np.linalg.eigvalsh(a).min() > 0


def test_a_seed_fixes_the_numbers() -> None:
    body = """ENTRY e { x = (f32[3], pred[4], c64[2], u8[5], f8e4m3fn[3]) parameter(0)
  ROOT r = f32[3] get-tuple-element(x), index=0 }"""
    (first,), (again,), (other,) = arguments(body, 1), arguments(body, 1), arguments(body, 2)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])
    assert [a.dtype.name for a in first] == [
        "float32",
        "bool",
        "complex64",
        "uint8",
        "float8_e4m3fn",
    ]


@pytest.mark.parametrize("size", [2**50, 2**60, f"0,{2**60}"])
def test_what_does_not_fit_memory_is_refused(size: object) -> None:
    module = parse_module(f"ENTRY e {{ ROOT p = f32[{size}] parameter(0) }}")
    with pytest.raises(ArgumentError, match="take too much memory"):
        random_arguments(module)
