"""Eigenvalues and singular values, and the condensed forms on the way to them.

Iterations never begin on what is not finite: such matrices give NaN and an info of
`one_matrix.NOT_FINITE`, as in the evaluator. LAPACK would complain on standard error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xladev.codegen.llvm import Value
from xladev.platforms.cpu.codegen.lapack.movement import PARTS, call_unpack_vectors
from xladev.platforms.cpu.codegen.lapack.one_matrix import NOT_FINITE, OneMatrix
from xladev.platforms.cpu.codegen.lapack.options import Options
from xladev.platforms.cpu.codegen.lapack.scaling import call_find_scale, call_scale
from xladev.platforms.cpu.lapack.workspace import ARRAY, QUERY, SIZE

_Arrays = Sequence[tuple[Value, int]]
"""Addresses, and how many elements or real numbers are there."""


def _if_finite(
    m: OneMatrix,
    condition: Value,
    then: Callable[[], None],
    info: Value,
    elements: _Arrays,
    reals: _Arrays,
) -> None:
    """Runs ``then``, or fills results with NaN."""

    def otherwise() -> Sequence[Value]:
        for place, count in elements:
            m.fill_nan(place, count)
        for place, count in reals:
            m.fill_nan(place, count, real=True)
        m.store_info(info, NOT_FINITE)
        return ()

    def run() -> Sequence[Value]:
        then()
        return ()

    m.b.branch(condition, run, otherwise)


# Hermitian matrices


def emit_syevd(m: OneMatrix, o: Options) -> None:
    """Eigenvectors, eigenvalues, info."""
    vectors, values, info = m.results
    _eigen(m, o, vectors, values, info)


def emit_eigh(m: OneMatrix, o: Options) -> None:
    """As `emit_syevd`, without info."""
    vectors, values = m.results
    _eigen(m, o, vectors, values, m.integers(1))


def _eigen(m: OneMatrix, o: Options, vectors: Value, values: Value, info: Value) -> None:
    (a,), n, uplo = m.operands, o.columns, o.uplo
    routine = "heevd" if m.is_complex else "syevd"
    reals = (SIZE, QUERY) if m.is_complex else ()
    lengths = m.sizes(
        routine, "V", uplo, n, ARRAY, n, ARRAY, SIZE, QUERY, *reals, SIZE, QUERY, ARRAY
    )
    rooms = (m.elements, *((m.reals,) if m.is_complex else ()), m.integers)
    works = [x for room, length in zip(rooms, lengths, strict=True) for x in (room(length), length)]
    matrix = m.elements(n * n)

    def run() -> None:
        m.transpose(matrix, a, n, n)
        m.call(routine, "V", uplo, n, matrix, n, values, *works, info)
        m.transpose(vectors, matrix, n, n)

    finite = m.finite(a, n, n, o.uplo)
    _if_finite(m, finite, run, info, [(vectors, n * n)], [(values, n)])


def emit_sytrd(m: OneMatrix, o: Options) -> None:
    """The packed matrix, diagonal, off-diagonal, tau, info."""
    (a,), (packed, diagonal, off, taus, info) = m.operands, m.results
    n = o.columns
    routine = "hetrd" if m.is_complex else "sytrd"
    (length,) = m.sizes(
        routine, o.uplo, n, ARRAY, n, ARRAY, ARRAY, ARRAY, SIZE, QUERY, ARRAY
    )  # fmt: skip
    work = m.elements(length)
    matrix = m.transposed(a, n, n)
    m.call(routine, o.uplo, n, matrix, n, diagonal, off, taus, work, length, info)
    m.transpose(packed, matrix, n, n)


# Singular values


def emit_gesdd(m: OneMatrix, o: Options) -> None:
    """The operand, singular values, U, V*, info."""
    _singular(m, o, "gesdd", (o.mode,))


def emit_gesvd(m: OneMatrix, o: Options) -> None:
    """As `emit_gesdd`, by iterations alone."""
    _singular(m, o, "gesvd", (o.mode, o.mode))


def _singular(m: OneMatrix, o: Options, routine: str, modes: tuple[str, ...]) -> None:
    (a,), (kept, s, u, vt, info) = m.operands, m.results
    rows, columns, count = o.rows, o.columns, min(o.rows, o.columns)
    has_vectors = o.mode != "N"
    height, width = (rows, o.sizes[3] // columns) if has_vectors else (1, 1)
    works = _singular_works(m, o, routine, modes, (height, width))
    matrix = m.elements(rows * columns)
    left, right = (m.elements(o.sizes[n] if has_vectors else 1) for n in (2, 3))

    def run() -> None:
        m.transpose(matrix, a, rows, columns)
        vectors = left, height, right, width
        m.call(routine, *modes, rows, columns, matrix, rows, s, *vectors, *works, info)
        if has_vectors:
            m.transpose(u, left, o.sizes[2] // rows, rows)
            m.transpose(vt, right, columns, width)

    results = ((u, o.sizes[2]), (vt, o.sizes[3]))
    finite = m.finite(a, rows, columns)
    _if_finite(m, finite, run, info, results if has_vectors else (), [(s, count)])
    m.copy(kept, a, rows * columns)
    for place, size in () if has_vectors else results:
        m.clear(place, size * m.nbytes)


def _singular_works(
    m: OneMatrix, o: Options, routine: str, modes: tuple[str, ...], leading: tuple[int, int]
) -> list[Value | int]:
    """Workspaces, as the routine takes them before its info."""
    rows, columns, (height, width) = o.rows, o.columns, leading
    works: list[Value | int] = []
    tail = [ARRAY] * (1 + (routine == "gesdd") + m.is_complex)
    (length,) = m.sizes(
        routine, *modes, rows, columns, ARRAY, rows, ARRAY, ARRAY, height, ARRAY, width, SIZE,
        QUERY, *tail,
    )  # fmt: skip
    works += [m.elements(length), length]
    if m.is_complex:
        works.append(m.reals(_real_length(o, routine, rows, columns)))
    if routine == "gesdd":
        works.append(m.integers(8 * min(rows, columns)))
    return works


def _real_length(o: Options, routine: str, rows: int, columns: int) -> int:
    """Length of rwork, as LAPACK's documentation has it; gesdd does not say it when asked."""
    small, large = sorted((rows, columns))
    if routine == "gesvd":
        return 5 * small
    if o.mode == "N":
        return 7 * small
    return small * max(5 * small + 7, 2 * large + 2 * small + 1)


# General matrices


def emit_geev(m: OneMatrix, o: Options) -> None:
    """Eigenvalues (of real matrices: parts), left and right eigenvectors, info.

    Matrices of huge or tiny elements are scaled here: OpenBLAS (of SciPy 1.17.1) scales them too,
    as LAPACK does, but then leaves eigenvalues as they are.
    """
    emit = _complex_geev if m.is_complex else _real_geev
    emit(m, o)


def _scaled(m: OneMatrix, matrix: Value, count: int) -> Callable[[Value, int], None]:
    """Scales a matrix; what is returned scales some of its eigenvalues, or parts of them, back."""
    element, parts, factors = PARTS[m.letter], 2 if m.is_complex else 1, m.reals(2)
    call_find_scale(m.b, element, matrix, count * parts, factors)
    call_scale(m.b, element, matrix, count * parts, factors, 0)
    return lambda values, n: call_scale(m.b, element, values, n * parts, factors, 1)


def _real_geev(m: OneMatrix, o: Options) -> None:
    (a,), n = m.operands, o.columns
    real, imag, *vectors, info = m.results
    wanted = o.left, o.right
    (length,) = m.sizes(
        "geev", *wanted, n, ARRAY, n, ARRAY, ARRAY, ARRAY, n, ARRAY, n, SIZE, QUERY, ARRAY
    )
    work = m.elements(length)
    found = [m.elements(n * n if each == "V" else 1) for each in wanted]
    matrix = m.elements(n * n)

    def run() -> None:
        m.transpose(matrix, a, n, n)
        left, right = found
        scale_back = _scaled(m, matrix, n * n)
        m.call("geev", *wanted, n, matrix, n, real, imag, left, n, right, n, work, length, info)
        scale_back(real, n)
        scale_back(imag, n)
        for each, place, result in zip(wanted, found, vectors, strict=True):
            if each == "V":
                call_unpack_vectors(m.b, PARTS[m.letter], result, place, imag, n)

    given = [v for v, each in zip(vectors, wanted, strict=True) if each == "V"]
    _if_finite(m, m.finite(a, n, n), run, info, [(v, 2 * n * n) for v in given],
               [(real, n), (imag, n)])  # fmt: skip
    for each, result in zip(wanted, vectors, strict=True):
        if each != "V":
            m.clear(result, 2 * n * n * m.nbytes)


def _complex_geev(m: OneMatrix, o: Options) -> None:
    (a,), n = m.operands, o.columns
    values, *vectors, info = m.results
    wanted = o.left, o.right
    (length,) = m.sizes(
        "geev", *wanted, n, ARRAY, n, ARRAY, ARRAY, n, ARRAY, n, SIZE, QUERY, ARRAY, ARRAY
    )
    work, reals = m.elements(length), m.reals(2 * n)
    found = [m.elements(n * n if each == "V" else 1) for each in wanted]
    matrix = m.elements(n * n)

    def run() -> None:
        m.transpose(matrix, a, n, n)
        left, right = found
        scale_back = _scaled(m, matrix, n * n)
        m.call("geev", *wanted, n, matrix, n, values, left, n, right, n, work, length, reals, info)
        scale_back(values, n)
        for each, place, result in zip(wanted, found, vectors, strict=True):
            if each == "V":
                m.transpose(result, place, n, n)

    given = [v for v, each in zip(vectors, wanted, strict=True) if each == "V"]
    filled = [(values, n), *((v, n * n) for v in given)]
    _if_finite(m, m.finite(a, n, n), run, info, filled, [])
    for each, result in zip(wanted, vectors, strict=True):
        if each != "V":
            m.clear(result, n * n * m.nbytes)


def emit_gees(m: OneMatrix, o: Options) -> None:
    """T, Q, eigenvalues (of real matrices: parts), how many were chosen (none), info."""
    (a,), n = m.operands, o.columns
    t, q, *values, chosen, info = m.results
    tail = (ARRAY, ARRAY, ARRAY) if m.is_complex else (ARRAY, ARRAY)
    (length,) = m.sizes(
        "gees", "V", "N", ARRAY, n, ARRAY, n, ARRAY, *[ARRAY for _ in values], ARRAY, n,
        SIZE, QUERY, *tail,
    )  # fmt: skip
    work = [m.elements(length), length, *((m.reals(n),) if m.is_complex else ())]
    unused = m.integers(n)
    vectors, matrix = m.elements(n * n), m.elements(n * n)

    def run() -> None:
        m.transpose(matrix, a, n, n)
        m.call("gees", "V", "N", unused, n, matrix, n, chosen, *values, vectors, n, *work, unused,
               info)  # fmt: skip
        m.transpose(t, matrix, n, n)
        m.transpose(q, vectors, n, n)

    whole = [(t, n * n), (q, n * n), *((v, n) for v in values)]
    _if_finite(m, m.finite(a, n, n), run, info, whole, [])
    m.store_info(chosen, 0)


def emit_gehrd(m: OneMatrix, o: Options) -> None:
    """The packed matrix, tau, info."""
    (a,), (packed, taus, info) = m.operands, m.results
    n, low, high = o.columns, o.low, o.high
    (length,) = m.sizes("gehrd", n, low, high, ARRAY, n, ARRAY, SIZE, QUERY, ARRAY)
    work = m.elements(length)
    matrix = m.transposed(a, n, n)
    m.call("gehrd", n, low, high, matrix, n, taus, work, length, info)
    m.transpose(packed, matrix, n, n)
