"""Linear algebra, transforms, normalisation and random bits."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.shape import array, tuple_of
from xladev.testing.conformance.case import Case
from xladev.testing.conformance.cells import Node, Template, cells, combine

Dims = tuple[int, ...]


def cholesky(dims: Dims, lower: bool = True) -> Template:
    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        return b.op("cholesky", b.parameter(array(dtype, dims)), lower=lower)

    return template


def solve(
    batch: Dims, size: int, columns: int, *, left: bool = True, lower: bool = True, **attrs: Any
) -> Template:
    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        other = (size, columns) if left else (columns, size)
        a = b.parameter(array(dtype, (*batch, size, size)))
        x = b.parameter(array(dtype, (*batch, *other)))
        return b.op("triangular-solve", a, x, left_side=left, lower=lower,
                    **{"transpose_a": "NO_TRANSPOSE", **attrs})  # fmt: skip

    return template


def fft(kind: str, dims: Dims, length: Dims) -> Template:
    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        return b.op("fft", b.parameter(array(dtype, dims)), fft_type=kind, fft_length=length)

    return template


MATRICES: dict[str, Dims] = {
    "one": (1, 1), "two": (2, 2), "odd": (7, 7), "tile": (16, 16), "beyond": (33, 33),
    "batch": (3, 5, 5), "batches": (2, 3, 4, 4), "empty": (0, 0), "empty-batch": (0, 3, 3),
}  # fmt: skip
TRANSPOSES = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
LENGTHS = (
    1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 31, 60, 64, 97, 121, 128, 169, 243, 997,
    1000, 1009, 1024,
)  # fmt: skip


def factors() -> Iterator[Case]:
    for name, dims in MATRICES.items():
        for lower in (True, False):
            made = cholesky(dims, lower)
            side = "lower" if lower else "upper"
            yield from cells("cholesky", made, types=(dt.F32, dt.F64), suffix=f"-{side}-{name}")


def solutions() -> Iterator[Case]:
    for left in (True, False):
        for lower in (True, False):
            for transpose in TRANSPOSES:
                for unit in (False, True):
                    made = solve((), 7, 3, left=left, lower=lower, transpose_a=transpose,
                                 unit_diagonal=unit)  # fmt: skip
                    name = "-".join((
                        "left" if left else "right", "lower" if lower else "upper",
                        transpose.lower(), "unit" if unit else "full",
                    ))  # fmt: skip
                    yield from cells("triangular-solve", made, types=(dt.F32, dt.C64),
                                     suffix=f"-{name}")  # fmt: skip
    for name, batch, size, columns in (
        ("batch", (3,), 5, 4), ("beyond-tile", (), 33, 17), ("one", (), 1, 1),
        ("vector", (2,), 9, 1),
        ("empty", (), 0, 3), ("no-columns", (), 4, 0),
    ):  # fmt: skip
        made = solve(batch, size, columns)
        yield from cells("triangular-solve", made, types=(dt.F32,), suffix=f"-{name}")


def transforms() -> Iterator[Case]:
    for length in LENGTHS:
        yield from cells("fft", fft("FFT", (3, length), (length,)), types=(dt.C64,),
                         suffix=f"-{length}")  # fmt: skip
    for length in (1, 2, 5, 8, 17, 64):
        yield from cells("fft", fft("IFFT", (3, length), (length,)), types=(dt.C64, dt.C128),
                         suffix=f"-inverse-{length}")  # fmt: skip
        yield from cells("fft", fft("RFFT", (3, length), (length,)), types=(dt.F32, dt.F64),
                         suffix=f"-real-{length}")  # fmt: skip
        half = (3, length // 2 + 1)
        yield from cells("fft", fft("IRFFT", half, (length,)), types=(dt.C64,),
                         suffix=f"-inverse-real-{length}")  # fmt: skip
    for name, dims in (("2d", (5, 8)), ("3d", (3, 4, 6)), ("2d-batch", (2, 3, 4, 5))):
        lengths = dims[-3:] if name == "3d" else dims[-2:]
        for kind in ("FFT", "IFFT"):
            yield from cells("fft", fft(kind, dims, lengths), types=(dt.C64,),
                             suffix=f"-{kind.lower()}-{name}")  # fmt: skip
        yield from cells("fft", fft("RFFT", dims, lengths), types=(dt.F32,),
                         suffix=f"-rfft-{name}")  # fmt: skip


def more_transforms() -> Iterator[Case]:
    """Real ones of more dimensions, columns that fill no vector, long and empty ones."""
    for name, dims, lengths in (
        ("2d", (5, 8), (5, 8)), ("2d-odd", (8, 9), (8, 9)), ("2d-batch", (2, 3, 4, 5), (4, 5)),
        ("3d", (3, 4, 6), (3, 4, 6)), ("2d-wide", (12, 70), (12, 70)),
        ("2d-primes", (17, 38), (17, 38)),
    ):  # fmt: skip
        half = (*dims[:-1], dims[-1] // 2 + 1)
        yield from cells("fft", fft("IRFFT", half, lengths), types=(dt.C64, dt.C128),
                         suffix=f"-irfft-{name}")  # fmt: skip
        yield from cells("fft", fft("FFT", dims, lengths), types=(dt.C128,),
                         suffix=f"-wide-{name}")  # fmt: skip
        yield from cells("fft", fft("RFFT", dims, lengths), types=(dt.F64,),
                         suffix=f"-wide-rfft-{name}")  # fmt: skip
    shapes: tuple[tuple[str, Dims, tuple[PrimitiveType, ...]], ...] = (
        ("FFT", (32768,), (dt.C64,)), ("RFFT", (65536,), (dt.F32,)), ("FFT", (0, 4), (dt.C64,)),
        ("RFFT", (0, 4), (dt.F32,)), ("IFFT", (40, 3, 2), (dt.C64,)),
    )  # fmt: skip
    for kind, shape, types in shapes:
        name = "x".join(map(str, shape))
        made = fft(kind, shape, shape[-1:])
        yield from cells("fft", made, types=types, suffix=f"-{kind.lower()}-{name}")


def norm(kind: str, dims: Dims, feature: int, epsilon: float = 0.01) -> Template:
    """Variances are made positive first."""

    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        attrs: dict[str, Any] = {"epsilon": epsilon, "feature_index": feature}
        vector = array(dtype, (dims[feature],))
        x = b.parameter(array(dtype, dims))
        if kind == "training":
            scale, offset = b.parameter(vector), b.parameter(vector)
            return b.op("batch-norm-training", x, scale, offset, **attrs)
        scale, second, variance = (b.parameter(vector) for _ in range(3))
        positive = b.op("add", b.op("abs", variance), _quarter(b, vector))
        if kind == "inference":
            mean = b.parameter(vector)
            return b.op("batch-norm-inference", x, scale, second, mean, positive, **attrs)
        gradient = b.parameter(array(dtype, dims))
        return b.op("batch-norm-grad", x, scale, second, positive, gradient, **attrs)

    return template


def _quarter(b: HloBuilder, shape: Any) -> Node:
    return b.op(
        "broadcast",
        b.constant(np.asarray(0.25).astype(shape.element_type.np)),
        shape=shape,
        dimensions=(),
    )


NORMS: dict[str, tuple[Dims, int, float]] = {
    "last": ((9, 5), 1, 0.01), "first": ((4, 33), 0, 0.5), "middle": ((3, 5, 7), 1, 0.001),
    "nhwc": ((2, 5, 5, 8), 3, 0.01), "nchw": ((2, 8, 5, 5), 1, 0.01), "one": ((5, 1), 1, 0.1),
}  # fmt: skip


def norms() -> Iterator[Case]:
    for kind in ("training", "inference", "grad"):
        yield from cells(f"batch-norm-{kind}", norm(kind, (9, 5), 1))
        for name, (dims, feature, epsilon) in NORMS.items():
            made = norm(kind, dims, feature, epsilon)
            yield from cells(f"batch-norm-{kind}", made, types=(dt.F32,), suffix=f"-{name}")


def bits(algorithm: str, words: int, dims: Dims) -> Template:
    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        state = b.parameter(array(dt.U64, (words,)))
        shape = tuple_of(array(dt.U64, (words,)), array(dtype, dims))
        return b.op("rng-bit-generator", state, shape=shape, algorithm=algorithm)

    return template


def within(distribution: str, low: float, high: float, dims: Dims) -> Template:
    """Whether all numbers are where they should: none is determined."""

    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        first, second = (b.constant(np.asarray(x).astype(dtype.np)) for x in (low, high))
        made = b.op("rng", first, second, shape=array(dtype, dims), distribution=distribution)
        if distribution == "rng_normal":
            good = b.op("is-finite", made)
        else:
            sides = ((first, "GE"), (second, "LE" if dtype.is_float else "LT"))
            checks = [
                b.op("compare", made, b.op("broadcast", s, shape=made.shape, dimensions=()),
                     direction=d)
                for s, d in sides
            ]  # fmt: skip
            good = b.op("and", *checks)
        start = b.constant(True, dt.PRED)
        every = tuple(range(len(dims)))
        return b.op("reduce", good, start, dimensions=every, to_apply=combine("and", dt.PRED))

    return template


def state_twice(b: HloBuilder) -> Node:
    """The second state is the first one and the delta."""
    first, second = (
        b.op("rng-get-and-update-state", shape=array(dt.U64, (2,)), delta=d) for d in (5, 1)
    )
    return b.op("compare", first, second, direction="NE")


RANDOM = (
    *cells("rng-bit-generator", bits("rng_three_fry", 2, (33, 5)), suffix="-three_fry"),
    *cells("rng-bit-generator", bits("rng_philox", 3, (33, 5)), suffix="-philox"),
    *cells("rng-bit-generator", bits("rng_philox", 2, (9,)), suffix="-philox-2", types=(dt.U32,)),
    *(
        c
        for n, dims in (("scalar", ()), ("odd", (7,)), ("empty", (0,)), ("rank4", (2, 3, 4, 5)))
        for a, w in (("rng_three_fry", 2), ("rng_philox", 3))
        for c in cells("rng-bit-generator", bits(a, w, dims), types=(dt.U32, dt.U64),
                       suffix=f"-{a[4:]}-{n}")
    ),
    *cells("rng", within("rng_uniform", 0, 1, (9, 17)), suffix="-uniform"),
    *cells("rng", within("rng_normal", 0, 1, (9, 17)), suffix="-normal"),
    *cells("rng", within("rng_uniform", -2, 3, (130,)), suffix="-uniform-signed",
           types=(dt.F32, dt.F64, dt.BF16, dt.S32)),
    Case("rng-get-and-update-state", state_twice, "rng-get-and-update-state", "u64"),
)  # fmt: skip

CASES = (
    *cells("cholesky", cholesky((5, 5))),
    *factors(),
    *cells("triangular-solve", solve((), 5, 3)),
    *solutions(),
    *cells("fft", fft("FFT", (3, 12), (12,)), suffix="-forward"),
    *transforms(),
    *more_transforms(),
    *norms(),
    *RANDOM,
)
